"""Correlator: finds the call that a reply belongs to, and the members that will not answer. No I/O, no clock, no tasks.

    call_one(dest)       starts a call with a number of that destination's own count, from 1
    call_many(dests)     starts a call with a number of the common count, from GROUP_IDS
    replied(...)         adds a reply to the outcomes of its call and wakes the task that waits
    view_changed(view)   marks members that are gone and have not answered as SUSPECTED
    forget(call)         ends a call that no task waits for; later replies are late

Why two counts: requests to one member with consecutive numbers leave as one run of messages, and so do the
replies. With one count for all, calls to several members in turn would never be consecutive.

Source: JGroups RequestCorrelator, GroupRequest, UnicastRequest.
Differs: there is one count per process, and each reply wakes through a future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from jgroups_py.rpc.limits import RpcCounters, RpcLimits
from jgroups_py.values.address import Address

GROUP_IDS: Final = 1 << 40
"""Numbers of calls to several members start here. No member calls another member that often."""


class OutcomeKind(IntEnum):
    """The kind of result that a call has at one member."""

    VALUE = 0
    ERROR = 1
    SUSPECTED = 2
    LOST = 3
    UNREACHABLE = 4


class CallOutcome(NamedTuple):
    """The result of a call at one member, with ``payload`` and ``type`` of the reply's message if one came."""

    member: Address
    kind: OutcomeKind
    payload: Any = None
    type: int = 0
    size: int = 0


_outcome: Callable[[tuple[Any, ...]], CallOutcome] = partial(tuple.__new__, CallOutcome)
"""Makes an outcome of all its fields, without a call of a function."""


class PendingCall:
    """A call under way. ``waiting`` has the members that have not answered. ``wake`` is called once, when there is
    an outcome. ``woken``: ``replied`` has called it, and counted that."""

    __slots__ = ("id", "outcomes", "waiting", "wake", "woken")

    def __init__(self, id: int, waiting: dict[Address, None]) -> None:
        self.id = id
        self.waiting = waiting
        self.outcomes: deque[CallOutcome] = deque()
        self.wake: Callable[[], None] | None = None
        self.woken = False

    @property
    def done(self) -> bool:
        """True when all outcomes were taken."""
        return not self.waiting and not self.outcomes

    def is_answered(self) -> bool:
        """Return whether there is an outcome to take."""
        return bool(self.outcomes)

    def add(self, outcome: CallOutcome) -> None:
        self.outcomes.append(outcome)
        wake, self.wake = self.wake, None
        if wake is not None:
            wake()


class CalledMember:
    """Calls to one member."""

    __slots__ = ("calls", "next")

    def __init__(self, next: int) -> None:
        self.next = next
        self.calls: dict[int, PendingCall] = {}


class Correlator:
    """See the module's docstring."""

    def __init__(self, limits: RpcLimits, counters: RpcCounters) -> None:
        self._limits = limits
        self._counters = counters
        self._peers: dict[Address, CalledMember] = {}
        self._groups: dict[int, PendingCall] = {}
        self._next_group = GROUP_IDS
        self._floor = (
            1  # the first number for a member that was not called before or that came back
        )
        self.pending = 0
        self.held = 0
        """The bytes of outcomes that were not taken."""

    @property
    def is_full(self) -> bool:
        return self.pending >= self._limits.pending_max

    def call_one(self, dest: Address) -> PendingCall:
        """Start a call to one member, which is in the view."""
        peer = self._peers.get(dest)
        if peer is None:
            peer = self._peers[dest] = CalledMember(self._floor)
        return self.call_next(peer, dest)

    def call_next(self, peer: CalledMember, dest: Address) -> PendingCall:
        """Start a call to ``dest``, which is ``peer``."""
        number = peer.next
        pending = PendingCall(number, {dest: None})
        peer.calls[number] = pending
        peer.next = number + 1
        self.pending += 1
        return pending

    def called(self, dest: Address) -> CalledMember:
        """Return the calls to ``dest``, which was called in this view."""
        return self._peers[dest]

    def call_many(self, dests: Iterable[Address]) -> PendingCall:
        """Start a call to members of the view."""
        pending = PendingCall(self._next_group, dict.fromkeys(dests))
        self._next_group += 1
        if pending.waiting:
            self._groups[pending.id] = pending
            self.pending += 1
        return pending

    def replied(
        self,
        src: Address,
        kind: OutcomeKind,
        first: int,
        payloads: Sequence[Any],
        type: int,
        length: int,
    ) -> int:
        """Take replies with numbers from ``first`` on. ``length``: their bytes together. Return how many tasks were woken."""
        peer = self._peers.get(src)
        calls = {} if peer is None else peer.calls
        size = length // (len(payloads) or 1)
        most = self._limits.replies_max
        woken = 0
        for number, payload in enumerate(payloads, first):
            if number >= GROUP_IDS:
                pending = self._groups.get(number)
                if pending is None or src not in pending.waiting:
                    self._counters.late += 1
                    continue
                self._answered(pending, src)
                if isinstance(payload, memoryview):
                    # It is a view into a packet, which may wait here for long.
                    payload = bytes(payload)
            else:
                pending = calls.pop(number, None)
                if pending is None:
                    self._counters.late += 1
                    continue
                pending.waiting.clear()
                self.pending -= 1
            if self.held and self.held + size > most:
                self._counters.lost += 1
                pending.add(CallOutcome(src, OutcomeKind.LOST))
                continue
            self.held += size
            # As ``PendingCall.add``: in a run of replies, calls of functions take most of the time.
            pending.outcomes.append(_outcome((src, kind, payload, type, size)))
            wake, pending.wake = pending.wake, None
            if wake is not None:
                pending.woken = True
                woken += 1
                wake()
        return woken

    def take(self, pending: PendingCall) -> CallOutcome | None:
        """Return the next outcome of a call, or None if there is none now."""
        return self.next_outcome(pending) if pending.outcomes else None

    def next_outcome(self, pending: PendingCall) -> CallOutcome:
        """Return the next outcome of a call, which has one."""
        outcome = pending.outcomes.popleft()
        self.held -= outcome.size
        return outcome

    def forget(self, pending: PendingCall) -> None:
        """Forget a call that no task waits for."""
        for member in list(pending.waiting):
            self._answered(pending, member)
        while self.take(pending) is not None:
            pass

    def view_changed(self, members: Iterable[Address]) -> None:
        """Note that only ``members`` will answer."""
        present = dict.fromkeys(members)
        for member in [m for m in self._peers if m not in present]:
            peer = self._peers[member]
            for pending in list(peer.calls.values()):
                self._answered(pending, member)
                pending.add(CallOutcome(member, OutcomeKind.SUSPECTED))
            # The member may come back with the same address.
            self._floor = max(self._floor, peer.next)
            del self._peers[member]
        for pending in list(self._groups.values()):
            for member in [m for m in pending.waiting if m not in present]:
                self._answered(pending, member)
                pending.add(CallOutcome(member, OutcomeKind.SUSPECTED))

    def end(self) -> None:
        """End all calls: no reply can come any more."""
        for pending in [
            *[p for peer in self._peers.values() for p in peer.calls.values()],
            *self._groups.values(),
        ]:
            for member in list(pending.waiting):
                self._answered(pending, member)
                pending.add(CallOutcome(member, OutcomeKind.LOST))

    def _answered(self, pending: PendingCall, member: Address) -> None:
        """Stop waiting for ``member``."""
        del pending.waiting[member]
        if pending.waiting:
            return
        self.pending -= 1
        if pending.id >= GROUP_IDS:
            del self._groups[pending.id]
        else:
            del self._peers[member].calls[pending.id]

    def check(self) -> None:
        """Check the invariants."""
        ones = [(m, p) for m, peer in self._peers.items() for p in peer.calls.values()]
        assert self.pending == len(ones) + len(self._groups)
        assert all(list(p.waiting) == [m] for m, p in ones)
        assert all(p.waiting for p in self._groups.values())
