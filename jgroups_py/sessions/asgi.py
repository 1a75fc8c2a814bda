"""AsgiSessions: sessions for an ASGI application, in a tree cache.

The head of the answer waits for the save, as with ``WsgiSessions``. Servers on asyncio (uvicorn) have a cache of
``jgroups_py.aio``. Servers on trio (hypercorn can be one) have a cache of the async API.

Source: ASGI 3.0, HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from jgroups_py.cache import TreeCache
from jgroups_py.errors import JGroupsError
from jgroups_py.sessions.cookies import with_cookie
from jgroups_py.sessions.failures import HEADERS, failure
from jgroups_py.sessions.settings import SESSION, SessionSettings
from jgroups_py.sessions.store import Loaded, SessionGone, SessionStore

_log = logging.getLogger("jgroups_py.sessions")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Elsewhere(Protocol):
    """A cache in another loop, such as ``jgroups_py.aio.TreeCache``."""

    async def run(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> Any:
        """Run ``await function(cache, *args)`` in the cache's loop."""


class AsgiSessions:
    """An ASGI application around another application; ``route`` as for ``WsgiSessions``."""

    def __init__(
        self,
        application: Application,
        cache: TreeCache | Elsewhere,
        settings: SessionSettings | None = None,
        *,
        route: str = "",
        store: SessionStore | None = None,
    ) -> None:
        self.store = store or SessionStore(settings, route=route)
        self._application = application
        self._cache = cache
        self._failed = {"failed_loads": 0, "failed_saves": 0, "failed_late_saves": 0}

    def statistics(self) -> Mapping[str, int]:
        """Return the counters by name."""
        return {**self.store.statistics(), **self._failed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        header = "; ".join(
            value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"
        )
        try:
            loaded: Loaded = await self._run(self.store.load, header)
        except (JGroupsError, TimeoutError) as error:
            self._count("failed_loads", error)
            await _answer(send, error)
            return
        scope[SESSION] = loaded.session
        head: Message | None = None
        sent = failed = False

        async def send_later(message: Message) -> None:
            nonlocal head, sent, failed
            if failed:
                return
            if message["type"] == "http.response.start":
                head = message
                return
            if head is not None and message["type"] == "http.response.body" and not sent:
                try:
                    cookie = await self._run(self.store.save, loaded)
                except (JGroupsError, TimeoutError) as error:
                    failed = True
                    self._count("failed_saves", error)
                    await _answer(send, error)
                    return
                sent = True
                await send({**head, "headers": _with_cookie(head.get("headers", ()), cookie)})
            await send(message)

        await self._application(scope, receive, send_later)
        if sent:
            try:
                await self._run(self.store.save, loaded)
            except (JGroupsError, TimeoutError) as error:
                self._count("failed_late_saves", error)

    async def _run(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        if isinstance(self._cache, TreeCache):
            return await function(self._cache, *args)
        return await self._cache.run(function, *args)

    def _count(self, what: str, error: Exception) -> None:
        self._failed[what] += 1
        if not isinstance(error, SessionGone):
            _log.warning("a session could not be read or saved: %s", error)


def _with_cookie(headers: Any, cookie: str) -> list[tuple[bytes, bytes]]:
    given = [(bytes(name).decode("latin-1"), bytes(v).decode("latin-1")) for name, v in headers]
    return _encoded(with_cookie(given, cookie))


def _encoded(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), v.encode("latin-1")) for name, v in headers]


async def _answer(send: Send, error: Exception) -> None:
    code, said = failure(error)
    await send(
        {"type": "http.response.start", "status": code.value, "headers": _encoded([*HEADERS])}
    )
    await send({"type": "http.response.body", "body": said})
