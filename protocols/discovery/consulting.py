"""Consulting: base of discoveries whose list is in a directory: a folder, the DNS, Kubernetes, a database.

    TransportReady     the directory is opened first; where it cannot work at all, Failed up
    requests           one at a time, in order; each is made when its turn comes

Limits:  lookup_timeout for each request; REQUESTS_MAX of them wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jgroups_py.config.settings import Seconds
from jgroups_py.protocols.discovery.listed import Listed
from jgroups_py.stack.directories import DirectoryRequest
from jgroups_py.stack.ports import Consult, Consulted, In
from jgroups_py.values.events import Event, Failed, TransportReady

REQUESTS_MAX: Final = 10
"""The most requests that wait for their turn. A protocol has one request of each kind."""

MakeRequest = Callable[[], DirectoryRequest | None]
"""Makes a request when its turn has come; None: it is not needed any more."""
Then = Callable[[Consulted], None]


class Consulting(Listed):
    """See the module's docstring."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Listed.Config):
        lookup_timeout: Seconds = 5.0
        """Seconds in which the directory must answer."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._above(0, "lookup_timeout")

    config: Config

    def start(self) -> None:
        super().start()
        self._requests: deque[tuple[MakeRequest, Then]] = deque()
        self._then: Then | None = None
        """Called with the answer of the request that is under way."""
        self._opened = False
        self._ready: TransportReady | None = None

    # --- for subclasses

    def opening(self) -> DirectoryRequest | None:
        """Return the request that must precede the first look. None: there is none."""
        return None

    @property
    def lookup_time(self) -> float:
        """Return the most seconds for a request."""
        return self.config.lookup_timeout

    @property
    def directory_name(self) -> str:
        """Return the name of the directory for the log, without secrets."""
        raise NotImplementedError

    def consult(self, make: MakeRequest, then: Then) -> None:
        """Have a request carried out after the earlier ones."""
        assert len(self._requests) < REQUESTS_MAX, "a protocol has one request of each kind"
        self._requests.append((make, then))
        self._next()

    # --- requests

    def _next(self) -> None:
        while self._then is None and self._requests:
            make, then = self._requests.popleft()
            request = make()
            if request is not None:
                self._then = then
                self.open_port(Consult(self.new_handle(), request, self.lookup_time))

    def on_input(self, item: In) -> None:
        assert isinstance(item, Consulted) and self._then is not None
        self.forget_port(item.handle)
        then, self._then = self._then, None
        then(item)
        self._next()

    # --- opening

    def event_up(self, event: Event) -> None:
        if isinstance(event, TransportReady) and not self._opened:
            if self._ready is None:
                self.consult(self.opening, self._on_opened)
            self._ready = event  # the event that goes up when the directory is open
            if self._then is None:
                self._go_on()
            return
        super().event_up(event)

    def _on_opened(self, reply: Consulted) -> None:
        if reply.final:
            self.pass_event_up(Failed(f"{self.name}: {reply.problem}"))
            return
        if reply.problem:
            self.failed_lookup(self.directory_name, reply.problem)
        self._go_on()

    def _go_on(self) -> None:
        ready, self._ready = self._ready, None
        self._opened = True
        if ready is not None:
            super().event_up(ready)

    def check(self) -> None:
        super().check()
        assert len(self._requests) < REQUESTS_MAX
