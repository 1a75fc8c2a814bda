"""ClientDoor: serves clients of one protocol over TCP, within limits.

A door limits its connections. At the limit a new client replaces the longest idle one, if that was idle for more than
``idle_least``; so silent connections do not keep clients out. A client that does not finish a request, or takes no
answers, is disconnected after a time. While a client's request runs, the door reads no more from it: that is the back
pressure.

A handler's exception ends its own connection only. Refusals are counted by cause, and logged at a limited rate.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from jgroups_py.driver import files
from jgroups_py.stack import raised
from jgroups_py.stack.log_limit import LogLimit

_log = logging.getLogger("jgroups_py.buckets")
_READ: Final = 65_536  # bytes of one read
LEAVING_MAX: Final = 100
"""The most clients without a place that are connected at once for ``drain_timeout``."""

DOOR_CAUSES: Final[Mapping[str, str]] = {
    "too_many": "connections_max clients are connected, and none of them has been idle for long",
    "made_room": "the client idle for longest was disconnected for a new one",
    "idle": "a client sent nothing for idle_timeout",
    "slow_request": "a request did not end within request_timeout",
    "slow_reader": "a client took no answers for send_timeout",
    "no_descriptors": "this process has few descriptors left",
}


@dataclass(frozen=True, kw_only=True)
class DoorLimits:
    """Times are seconds."""

    connections_max: int = 1000
    """The most clients at once."""
    idle_timeout: float = 3600.0
    """A client that sends nothing for this long is disconnected. Pools of clients keep idle connections for long."""
    idle_least: float = 10.0
    """A client that has been idle for this long may lose its place to a new one."""
    request_timeout: float = 30.0
    """The longest time from the first byte of a request to its last one."""
    send_timeout: float = 30.0
    """The longest time for which a client may take nothing of an answer."""
    answer_timeout: float = 30.0
    """The longest time that a store may take for one request (A20)."""
    drain_timeout: float = 2.0
    """A client that is turned away may read the reason for this long, while it still sends."""


class EndOfClient(Exception):
    """Raised to end a connection, for one of the door's causes. An empty cause means that the client
    asked for the end."""

    def __init__(self, cause: str = "") -> None:
        self.cause = cause
        super().__init__(cause)


@dataclass(eq=False)
class Guest:
    """One client and its connection."""

    stream: trio.SocketStream
    host: str
    limits: DoorLimits
    idle_since: float | None = None
    """The time when the client became idle; None while it has a request."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    cause: str = ""
    """The cause for which the door disconnected the client."""
    _begun: float | None = None

    async def receive(self, inside: bool) -> bytes:
        """Return the next bytes, none at the connection's end. ``inside``: a request has begun.

        Raises:
            EndOfClient: no bytes came in time.
        """
        now = trio.current_time()
        if inside:
            self._begun = now if self._begun is None else self._begun
            deadline, cause = self._begun + self.limits.request_timeout, "slow_request"
        else:
            self._begun = None
            self.idle_since = now
            deadline, cause = now + self.limits.idle_timeout, "idle"
        try:
            with trio.CancelScope(deadline=deadline):
                return await self.stream.receive_some(_READ)
            raise EndOfClient(cause)
        finally:
            self.idle_since = None

    def request_ended(self) -> None:
        """Note that a request is complete. The next request has its own time limit."""
        self._begun = None

    async def send(self, data: bytes) -> None:
        """Send an answer in pieces. Each has ``send_timeout``.

        Raises:
            EndOfClient: the client does not read.
        """
        with memoryview(data) as view:
            for start in range(0, len(view), _READ):
                with trio.move_on_after(self.limits.send_timeout) as scope:
                    await self.stream.send_all(view[start : start + _READ])
                if scope.cancelled_caught:
                    raise EndOfClient("slow_reader")

    async def drain(self) -> None:
        """End the answers, and drop what the client still sends. A connection that is closed with unread bytes is reset, and the client
        loses the last answer (RFC 9112, 9.6)."""
        with trio.move_on_after(self.limits.drain_timeout):
            await self.stream.send_eof()
            while await self.stream.receive_some(_READ):
                pass


Handler = Callable[[Guest], Awaitable[None]]


class ClientDoor:
    """``handler`` serves one client and returns or raises EndOfClient. ``full`` is the answer to a client without a
    place."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        limits: DoorLimits,
        causes: Mapping[str, str],
        full: bytes = b"",
    ) -> None:
        self.limits = limits
        self.counters = dict.fromkeys(("total_connections", "failed", *DOOR_CAUSES, *causes), 0)
        self._name = name
        self._handler = handler
        self._causes = {**DOOR_CAUSES, **causes}
        self._full = full
        self._guests: dict[Guest, None] = {}
        self._leaving = 0
        """Clients without a place that read the reason."""
        self._log_limit = LogLimit(trio.current_time)

    def __len__(self) -> int:
        """Count the connected clients."""
        return len(self._guests)

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Let clients in until cancelled."""
        await trio.serve_listeners(self._serve, listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        guest = Guest(stream, _host_of(stream), self.limits)
        self.counters["total_connections"] += 1
        try:
            if files.is_scarce(stream.socket):
                raise EndOfClient("no_descriptors")
            if len(self._guests) >= self.limits.connections_max and not self._make_room():
                await self._refuse(guest)
                return
            self._guests[guest] = None
            with guest.scope:
                await self._handler(guest)
            self._count(guest)  # made_room
        except EndOfClient as end:
            guest.cause = end.cause
            self._count(guest)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone
        except Exception as error:
            self.failed(error)
        finally:
            self._guests.pop(guest, None)
            await trio.aclose_forcefully(stream)

    async def _refuse(self, guest: Guest) -> None:
        """Tell a client that there is no place for it. Clients send a request at once; only LEAVING_MAX of them get the time to read
        the answer to it."""
        self.turn_away("too_many", guest.host)
        await guest.send(self._full)
        if self._leaving < LEAVING_MAX:
            self._leaving += 1
            try:
                await guest.drain()
            finally:
                self._leaving -= 1

    def _count(self, guest: Guest) -> None:
        """Count a disconnected client, before it can notice that it is disconnected."""
        if guest.cause:
            self.turn_away(guest.cause, guest.host)

    def _make_room(self) -> bool:
        """Disconnect the client that has been idle for longest. Return whether there was one."""
        latest = trio.current_time() - self.limits.idle_least
        idle = [
            (guest.idle_since, number, guest)
            for number, guest in enumerate(self._guests)
            if guest.idle_since is not None and guest.idle_since <= latest
        ]
        if not idle:
            return False
        guest = min(idle)[2]
        guest.cause = "made_room"
        del self._guests[guest]
        guest.scope.cancel()
        return True

    def turn_away(self, cause: str, host: str) -> None:
        """Count and log a refusal."""
        self.counters[cause] += 1
        if (left_out := self._log_limit.admit(cause)) is not None:
            _log.warning(
                *("%s turned away: %s (%s), from %s%s", self._name, cause),
                *(self._causes[cause], host, left_out),
            )

    def failed(self, error: Exception) -> None:
        """Count an exception of a handler or a store, and log it with its traceback."""
        self.counters["failed"] += 1
        if (left_out := self._log_limit.admit(type(error).__name__)) is not None:
            _log.error(
                *("%s: a request failed: %s%s", self._name, raised.said(error), left_out),
                exc_info=raised.loggable(error),
            )


def _host_of(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return "a client that is gone"
