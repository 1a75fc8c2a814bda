"""WsgiSessions: sessions for a WSGI application, in a tree cache of the blocking API.

    load --> application --> first chunk, or the end of the body --> save --> status and headers out

The answer's head waits for the save. So a visitor who sees the answer finds the session, wherever the next request
goes. Changes after the application's first chunk are saved when the answer ends. A failure then is too late for the
visitor; it is counted and logged.

Source: PEP 3333.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jgroups_py.blocking import TreeCache
from jgroups_py.errors import JGroupsError
from jgroups_py.sessions.cookies import with_cookie
from jgroups_py.sessions.failures import HEADERS, failure
from jgroups_py.sessions.settings import SESSION, SessionSettings
from jgroups_py.sessions.store import Loaded, SessionGone, SessionStore

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger("jgroups_py.sessions")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class WsgiSessions:
    """A WSGI application around another application, for any number of threads.

    Args:
        route: this process' name, which load balancers read in the cookie.
        timeout: seconds for reading or saving a session. After that the visitor gets a 503.
    """

    def __init__(
        self,
        application: WSGIApplication,
        cache: TreeCache,
        settings: SessionSettings | None = None,
        *,
        route: str = "",
        timeout: float = 30.0,
        store: SessionStore | None = None,
    ) -> None:
        self.store = store or SessionStore(settings, route=route)
        self._application = application
        self._cache = cache
        self._timeout = timeout
        self._failed = {"failed_loads": 0, "failed_saves": 0, "failed_late_saves": 0}

    def statistics(self) -> Mapping[str, int]:
        """Return the counters by name."""
        return {**self.store.statistics(), **self._failed}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        cookies = environ.get("HTTP_COOKIE", "")
        try:
            loaded = self._cache.run(self.store.load, cookies, timeout=self._timeout)
        except (JGroupsError, TimeoutError) as error:
            self._failed["failed_loads"] += 1
            _log.warning("a session could not be read: %s", error)
            return _answer(start_response, error)
        environ[SESSION] = loaded.session
        answer = _HeldAnswer(self, loaded, start_response)
        body = self._application(environ, answer.start)
        if isinstance(body, list | tuple):
            # The whole body is here, so a server may count its bytes.
            return body if answer.commit() else answer.instead
        return _AnswerBody(answer, body)

    def save(self, loaded: Loaded) -> str:
        """Save the session for the answer; see ``SessionStore.save``."""
        return self._cache.run(self.store.save, loaded, timeout=self._timeout)

    def count(self, what: str, error: Exception) -> None:
        """Count a failure and return the answer for it."""
        self._failed[what] += 1
        if not isinstance(error, SessionGone):
            _log.warning("a session could not be saved: %s", error)


class _HeldAnswer:
    """The answer to one request. Its head is held until the session is saved."""

    def __init__(
        self, sessions: WsgiSessions, loaded: Loaded, start_response: StartResponse
    ) -> None:
        self._sessions = sessions
        self._loaded = loaded
        self._start_response = start_response
        self._head: tuple[str, list[tuple[str, str]], ExcInfo | None] | None = None
        self._write: Callable[[bytes], object] | None = None
        self.instead: list[bytes] = []
        """The body that is sent when the session could not be saved."""

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /
    ) -> Callable[[bytes], object]:
        if self._write is not None:
            self._start_response(status, headers, exc_info)  # too late: the server must raise
        self._head = (status, headers, exc_info)
        return self.write

    def write(self, data: bytes) -> None:
        """Write a chunk: the old interface, for applications that need it."""
        if self.commit():
            assert self._write is not None
            self._write(data)

    def commit(self) -> bool:
        """Save, then send the head. Return False if ``instead`` must be sent and not the application's body."""
        if self._write is None:
            if self._head is None:
                raise RuntimeError("the application has sent a body before start_response")
            status, headers, exc_info = self._head
            try:
                cookie = self._sessions.save(self._loaded)
            except (JGroupsError, TimeoutError) as error:
                code, said = failure(error)
                self._sessions.count("failed_saves", error)
                self.instead = [said]
                self._write = self._start_response(f"{code.value} {code.phrase}", [*HEADERS])
            else:
                more = (exc_info,) if exc_info else ()
                self._write = self._start_response(status, with_cookie(headers, cookie), *more)
        return not self.instead

    def end(self) -> None:
        """Save the changes since the head was sent, because the body is over."""
        if self._write is None or self.instead:
            return
        try:
            self._sessions.save(self._loaded)
        except (JGroupsError, TimeoutError) as error:
            self._sessions.count("failed_late_saves", error)


class _AnswerBody:
    """The application's body, chunk by chunk."""

    def __init__(self, answer: _HeldAnswer, body: Iterable[bytes]) -> None:
        self._answer = answer
        self._body = body
        self._chunks = self._all()

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def _all(self) -> Iterator[bytes]:
        committed = False
        for chunk in self._body:
            if chunk or committed:
                committed = True
                if not self._answer.commit():
                    break
                yield chunk
        self._answer.commit()
        yield from self._answer.instead

    def close(self) -> None:
        """End the answer. The server calls it whether or not the visitor has read the whole answer."""
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._answer.end()


def _answer(start_response: StartResponse, error: Exception) -> list[bytes]:
    code, said = failure(error)
    start_response(f"{code.value} {code.phrase}", [*HEADERS])
    return [said]
