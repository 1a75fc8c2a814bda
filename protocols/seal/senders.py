"""Senders of datagrams, and the packets of each that have come already.

    a sender that is not known     PENDING: its packets are kept, and it is asked for a nonce (a challenge)
    it answers with the nonce      KNOWN: it is alive, and not a recording. Kept packets go in
    it does not answer             forgotten, with its kept packets
    a packet of a known sender     goes in once: its counter is new in the window

An answer names the sender's counter of some seconds ago (Recent). A packet with a lower counter was sent earlier, and
is too old for a member that asks only now. So a recording of an hour ago does not get into a member that has just
started.

Source:  the window as in RFC 4303 (ESP), 3.4.3.
Limits:  ``max_senders`` known ones (the one that was silent longest, for IDLE at least, makes room);
         ``max_pending`` pending ones (the oldest makes room); ``max_held`` packets of each, HELD_BYTES of all.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jgroups_py.protocols.seal.wire import Aead
from jgroups_py.stack.ports import Datagram, Endpoint

IDLE: Final = 60.0
"""Seconds of silence after which another sender may replace a known one. It is more than any freshness, so that its
packets are too old by then to come in again."""
HELD_BYTES: Final = 4_000_000
"""Bytes that are kept of all pending senders together."""
BUCKET: Final = 1.0
"""Seconds of sending that share one mark in Recent."""


class Verdict(StrEnum):
    """The verdict of a window on a counter. All but NEW are causes of ``turn_away``."""

    NEW = "new"
    REPLAYED = "replayed"
    LATE = "late"
    STALE = "stale"


class Window:
    """The arrived counters of one sender: the newest one, and the ``size`` before it. All below ``floor`` are too
    old."""

    __slots__ = ("_floor", "_mask", "_newest", "_seen", "_size")

    def __init__(self, size: int, floor: int) -> None:
        self._size = size
        self._mask = (1 << size) - 1
        self._floor = floor
        self._newest = -1
        self._seen = 0  # bit n: the number newest - n was received

    def take(self, counter: int) -> Verdict:
        """Note that a packet with this counter has come."""
        if counter < self._floor:
            return Verdict.STALE
        ahead = counter - self._newest
        if ahead > 0:
            self._seen = ((self._seen << ahead) | 1) & self._mask if ahead < self._size else 1
            self._newest = counter
            return Verdict.NEW
        if -ahead >= self._size:
            return Verdict.LATE
        bit = 1 << -ahead
        if self._seen & bit:
            return Verdict.REPLAYED
        self._seen |= bit
        return Verdict.NEW


class Recent:
    """The counter of a sender some seconds ago, from marks of one BUCKET each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._marks: deque[tuple[float, int]] = (
            deque()
        )  # (time when a bucket began, its first counter)
        self.next_mark = 0.0

    def sends(self, now: float, counter: int) -> None:
        """Note a sent packet with ``counter``, the first one since ``next_mark``."""
        self._forget(now)
        self._marks.append((now, counter))
        self.next_mark = now + BUCKET

    def floor(self, now: float, next_counter: int) -> int:
        """Return a counter: packets with lower ones were sent at least ``seconds`` ago."""
        self._forget(now)
        return self._marks[0][1] if self._marks else next_counter

    def _forget(self, now: float) -> None:
        while self._marks and self._marks[0][0] + BUCKET <= now - self._seconds:
            self._marks.popleft()


@dataclass(slots=True, eq=False)
class Known:
    """A sender that has proved itself. ``ciphers``: key id and suite -> its cipher."""

    window: Window
    heard_at: float
    ciphers: dict[bytes, Aead] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Held:
    """A packet of a pending sender."""

    counter: int
    item: Datagram


@dataclass(slots=True, eq=False)
class AskedSender:
    """A sender that was asked for ``nonce``. ``places``: the places from which its packets came. ``asked``: the number
    of questions so far."""

    nonce: bytes
    since: float
    places: list[Endpoint] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    asked: int = 0
    ciphers: dict[bytes, Aead] = field(default_factory=dict)


class SealSenders:
    """See the module's docstring."""

    def __init__(self, max_senders: int, max_pending: int, max_held: int, window: int) -> None:
        self.known: dict[bytes, Known] = {}
        self.pending: dict[bytes, AskedSender] = {}  # the oldest first
        self.held_bytes = 0
        self._max_senders = max_senders
        self._max_pending = max_pending
        self._max_held = max_held
        self._window = window

    def suspect(
        self, sender: bytes, nonce: bytes, now: float
    ) -> tuple[AskedSender, AskedSender | None]:
        """Make a sender pending. Return it, and the one that made room for it."""
        gone = None
        if len(self.pending) >= self._max_pending:
            gone = self.give_up(next(iter(self.pending)))
        pending = self.pending[sender] = AskedSender(nonce, now)
        return pending, gone

    def hold(self, pending: AskedSender, counter: int, item: Datagram) -> bool:
        """Keep a packet of a pending sender. Return False if there is no room."""
        size = len(item.data)
        if len(pending.held) >= self._max_held or self.held_bytes + size > HELD_BYTES:
            return False
        pending.held.append(Held(counter, item))
        self.held_bytes += size
        return True

    def give_up(self, sender: bytes) -> AskedSender:
        """Forget a pending sender, and return it."""
        pending = self.pending.pop(sender)
        self.held_bytes -= sum(len(held.item.data) for held in pending.held)
        return pending

    def trust(self, sender: bytes, floor: int, now: float) -> AskedSender | None:
        """Make a pending sender known after its answer, and return its pending state. None: there is no room for it."""
        if len(self.known) >= self._max_senders:
            idle = [who for who, known in self.known.items() if known.heard_at + IDLE < now]
            for who in idle:
                del self.known[who]
            if not idle:
                return None
        pending = self.give_up(sender)
        self.known[sender] = Known(Window(self._window, floor), now, pending.ciphers)
        return pending

    def forget_keys(self, kept: frozenset[bytes]) -> None:
        """Forget the ciphers of keys whose ids are not ``kept``. Senders and their windows stay."""
        tables: list[Known | AskedSender] = [*self.known.values(), *self.pending.values()]
        for entry in tables:
            for key in [key for key in entry.ciphers if key[1:] not in kept]:
                del entry.ciphers[key]

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self.known) <= self._max_senders
        assert len(self.pending) <= self._max_pending
        assert not self.known.keys() & self.pending.keys()
        held = [held for pending in self.pending.values() for held in pending.held]
        assert self.held_bytes == sum(len(one.item.data) for one in held) <= HELD_BYTES
