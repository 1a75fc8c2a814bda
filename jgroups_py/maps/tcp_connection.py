"""PeerConnection: one TCP connection of a map with a peer: received frames, and bytes to be written."""

from __future__ import annotations

import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from jgroups_py.maps.frames import (
    ALIVE,
    Away,
    BadStream,
    First,
    Greeting,
    MapFrameReader,
    frame,
    opening,
)
from jgroups_py.maps.links import LinkHost
from jgroups_py.maps.tcp_settings import TcpSettings

READ: Final = 65_536
WRITE: Final = 262_144
"""Bytes given to the system at once."""
BROKEN: Final = (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError)


@dataclass(eq=False)
class Dialled:
    """A peer that a host dials. ``problem``: why the last try failed or the last link ended; empty while there is a
    link."""

    map: str
    host: str
    port: int
    node: int = 0
    """The peer's identifier; 0 before it has greeted."""
    run: bytes = field(default=b"", repr=False)
    tries: int = 0
    problem: str = "not dialled yet"
    linked: bool = False
    """Was the last connection a link?"""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope, repr=False)

    @property
    def place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PeerConnection:
    """One connection. It is a Link after both greetings. ``turned_away`` is called with cause and other side when this
    side ends it."""

    def __init__(
        self,
        settings: TcpSettings,
        counters: Counter[str],
        turned_away: Callable[[str, str], None],
        stream: trio.abc.Stream,
        host: str,
        dialled: Dialled | None = None,
    ) -> None:
        self.host = host
        self.dialled = dialled
        """The peer, if this side has dialled."""
        self.peer: Greeting | None = None
        self.owner: LinkHost | None = None
        self.number = 0
        """The number of the link at its owner."""
        self.closing = False
        self.ended = trio.Event()
        self.scope = trio.CancelScope()
        self.stream = stream
        self._settings = settings
        self._counters = counters
        self._turned_away = turned_away
        self._reader = MapFrameReader(settings.frame_max)
        self._queue: deque[bytes] = deque()
        self._unsent = 0
        self._wake = trio.Event()

    # --- Link

    def send(self, data: bytes) -> None:
        if not self.closing:
            self._append(frame(data))

    def close(self) -> None:
        self.owner = None
        self.closing = True
        self._wake.set()

    # --- bytes

    def say_first(self, first: First) -> None:
        self._append(opening(first))

    def turn_away(self, cause: str, reason: str) -> None:
        """End the connection with a reason for the peer."""
        self._turned_away(cause, self.host)
        self.say_first(Away(cause, reason))
        self.close()

    def _append(self, data: bytes) -> None:
        self._queue.append(data)
        self._unsent += len(data)
        self._wake.set()
        if self._unsent > self._settings.unsent_max:
            self._turned_away("not_taken", self.host)
            self.closing = True
            self._queue.clear()
            self.scope.cancel()

    async def write(self) -> None:
        """Send waiting bytes, until the connection is closed and all have left."""
        try:
            while self._queue or not self.closing:
                if self._queue:
                    await self._write_some()
                else:
                    await self._wait()
            # The peer closes next. Its bytes are read until then: closing a socket with unread bytes would lose sent
            # ones.
            linger = trio.current_time() + self._settings.linger
            self.scope.deadline = min(self.scope.deadline, linger)
            stream = self.stream
            if isinstance(stream, trio.SSLStream):
                stream = stream.transport_stream
            if isinstance(stream, trio.abc.HalfCloseableStream):
                await stream.send_eof()
            else:
                self.scope.cancel()
        except BROKEN:
            self.scope.cancel()

    async def _write_some(self) -> None:
        parts = [self._queue.popleft()]
        size = len(parts[0])
        while self._queue and size < WRITE:
            parts.append(self._queue.popleft())
            size += len(parts[-1])
        await self.stream.send_all(parts[0] if len(parts) == 1 else b"".join(parts))
        self._unsent -= size
        self._counters["bytes_sent"] += size

    async def _wait(self) -> None:
        """Wait for something to send. After a long silence send an empty frame."""
        self._wake = trio.Event()
        with trio.move_on_after(self._settings.alive_interval):
            await self._wake.wait()
        if not self._queue and not self.closing and self.peer is not None:
            self._append(ALIVE)

    async def frames(self, within: float, *, renewed: bool = True) -> list[bytes] | None:
        """Return the next frames. None: the stream has ended. ``renewed``: any bytes give another ``within`` seconds.

        Raises:
            BadStream: they are no frames, or did not come in time.
        """
        deadline = trio.current_time() + within
        while True:
            with trio.move_on_at(deadline) as limit:
                try:
                    data = await self.stream.receive_some(READ)
                except BROKEN:
                    return None
                if not data:
                    return None
                self._counters["bytes_received"] += len(data)
                found = self._reader.feed(bytes(data))
                if found:
                    return found
            now = trio.current_time()
            if not limit.cancelled_caught:
                deadline = now + within if renewed else deadline
            elif now > deadline + within / 2:
                # This process stood still, and bytes that came meanwhile are unread.
                deadline = now + within
            else:
                raise BadStream("silent", f"nothing came for {within:g} s")
