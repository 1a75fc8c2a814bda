"""NAKACK2, the table of senders, with the knowledge of each sender and its state.

    present      a member of the view, or a sender that a digest named
    frozen       departs in a round of survivors; only messages that the round agrees on are taken
    departed     not in the view; its messages are kept until all members have a view without it
    left         not in the view; only its delivered number is remembered

This part knows no protocol. ``Senders`` alone moves a sender from one state to another.
"""

from __future__ import annotations

from typing import NamedTuple

from jgroups_py.stack.windows import GapClock, ReceiveWindow, RunStore
from jgroups_py.values.address import Address


class Sender:
    """The state of one sender. ``kept``: its messages that are not stable, delivered or not."""

    __slots__ = ("checked", "gaps", "goal", "holder", "kept", "purged", "window")

    def __init__(self, delivered: int, interval: float) -> None:
        self.checked: tuple[object, ...] = ()
        """The state that ``check`` has looked at."""
        self.window = ReceiveWindow(delivered)
        self.kept = RunStore()
        self.purged = delivered
        self.gaps = GapClock(interval)
        self.goal = 0
        """Frozen or held: deliver up to here."""
        self.holder: Address | None = None
        """Frozen or held: the member that has the missing messages up to the goal."""

    @property
    def forgotten(self) -> int:
        """Messages up to here are not kept. A run is kept as a whole while a part of it is not stable."""
        return self.kept.first - 1 if self.kept else self.purged

    def ask_anew(self) -> None:
        """Forget the requests and their times."""
        self.gaps = GapClock(self.gaps.interval)

    def not_before(self, delivered: int) -> int:
        """Return ``delivered``, or the number up to which all messages are stable if that is higher: stable messages cannot be
        delivered again."""
        return max(delivered, self.purged)

    def move_to(self, delivered: int, held: bool) -> None:
        """Go on after ``delivered``. If that is lower than before, this member delivers the messages above it again, if it has
        them."""
        old = self.window
        if delivered < old.delivered:
            window = ReceiveWindow(delivered)
            window.closed = held
            window.known = old.known
            for first, run in self.kept.between(delivered + 1, self.kept.last):
                window.pending.append(first, run)
            old.closed = True
            self.window = window
        else:
            old.move_to(delivered)
        self.ask_anew()

    def close(self) -> None:
        """Note that the sender's member is not in the view, and forget undelivered messages."""
        self.window.closed = True
        self.kept = cut(self.kept, self.window.delivered)
        self.window.forget_pending()

    def check(self, held: bool, present: bool) -> bool:
        """Check the state, unless it is the same as the last time. Return whether it was checked. ``held``: no messages are
        handed out at present."""
        window, kept, gaps = self.window, self.kept, self.gaps
        pending = window.pending
        state = (
            window.delivered,
            window.known,
            window.closed,
            pending.count,
            pending.size,
            len(window.early),
            kept.count,
            kept.size,
            kept.firsts[-1] if kept.firsts else 0,
            self.purged,
            gaps.new_at,
            gaps.again_at,
            present,
        )
        if state == self.checked:
            return False
        window.check()
        kept.check()
        assert self.purged <= window.delivered
        assert window.closed == (held or not present)
        self.checked = state
        return True


class Left(NamedTuple):
    """The memory of a sender that has departed."""

    delivered: int
    passed: frozenset[int]
    """Higher numbers, of out-of-band messages that were already delivered."""
    at: float
    """The time when all else was forgotten."""


class Senders:
    """See the module's docstring. ``me``: this member; ``interval``: seconds between repeated requests."""

    def __init__(self, me: Address, interval: float, max_departed: int) -> None:
        self._me = me
        self._interval = interval
        self._max_departed = max_departed
        self.own = Sender(0, interval)
        self.present: dict[Address, Sender] = {me: self.own}
        self.frozen: dict[Address, Sender] = {}
        self.departed: dict[Address, Sender] = {}
        self.left: dict[Address, Left] = {}

    # --- looking

    def find(self, member: Address) -> Sender | None:
        """Return the sender, if its messages are here, in any state."""
        return self.present.get(member) or self.frozen.get(member) or self.departed.get(member)

    def active(self, member: Address) -> Sender | None:
        """Return the sender, if it is present or frozen."""
        return self.present.get(member) or self.frozen.get(member)

    def everybody(self) -> list[Sender]:
        """Return all senders whose messages are here."""
        return [*self.present.values(), *self.frozen.values(), *self.departed.values()]

    def names(self, first: tuple[Address, ...]) -> tuple[Address, ...]:
        """Yield ``first``, then all other senders whose messages are here."""
        return tuple(dict.fromkeys([*first, *self.present, *self.frozen, *self.departed]))

    def delivered(self, member: Address) -> int | None:
        """Return the delivered number of ``member``, as far as it is remembered."""
        sender = self.find(member)
        if sender is not None:
            return sender.window.delivered
        left = self.left.get(member)
        return None if left is None else left.delivered

    def gone(self, members: tuple[Address, ...]) -> tuple[Address, ...]:
        """Return the departed members among ``members``, as far as they are remembered."""
        return tuple(m for m in members if m in self.departed or m in self.left)

    # --- changing

    def begin(self, member: Address, delivered: int, held: bool) -> None:
        """Take messages of ``member`` after ``delivered``, and none a second time. ``held``: no messages are delivered at present."""
        if member in self.frozen:
            return
        departed = self.departed.pop(member, None)
        if departed is not None:
            delivered = max(delivered, departed.window.delivered)
        self.left.pop(member, None)
        sender = self.present[member] = Sender(delivered, self._interval)
        sender.window.closed = held
        if departed is not None:
            sender.window.passed = departed.window.passed

    def begin_again(self, member: Address, delivered: int, held: bool) -> None:
        """Begin after a merge: the sender continues with its number at the departure, if that is higher."""
        left = self.left.get(member)
        self.begin(member, delivered if left is None else max(delivered, left.delivered), held)
        if left is not None:  # a remembered sender is not frozen
            self.present[member].window.passed |= left.passed

    def begin_as_told(self, member: Address, delivered: int, held: bool) -> None:
        """Begin after a state. The state may be old, so ``member`` may go on at a lower number than before."""
        self.departed.pop(member, None)
        self.begin(member, delivered, held)

    def freeze(self, member: Address) -> Sender | None:
        """Move a sender from present to frozen. None: ``member`` is not present, or is this member."""
        if member == self._me:
            return None
        sender = self.present.pop(member, None)
        if sender is not None:
            self.frozen[member] = sender
        return sender

    def thaw(self, member: Address) -> Sender | None:
        """Move a sender from frozen to present. None: ``member`` is not frozen."""
        sender = self.frozen.pop(member, None)
        if sender is not None:
            self.present[member] = sender
        return sender

    def close_others(self, members: tuple[Address, ...], now: float) -> int:
        """Let senders that are not in ``members`` depart. Return the number of departed senders that were forgotten,
        because there were too many."""
        dropped = 0
        for member, sender in [*self.present.items(), *self.frozen.items()]:
            if member in members:
                continue
            self.present.pop(member, None)
            self.frozen.pop(member, None)
            if member == self._me:
                continue
            sender.close()
            self.departed[member] = sender
            if len(self.departed) > self._max_departed:
                self._forget(next(iter(self.departed)), now)
                dropped += 1
        self.present[self._me] = self.own
        return dropped

    def forget_departed(self, now: float, remembered: float) -> None:
        """Note that all members have a view without the departed. Their numbers are remembered for ``remembered``
        seconds."""
        for member in list(self.departed):
            self._forget(member, now)
        if self.left:
            since = now - remembered
            self.left = {m: entry for m, entry in self.left.items() if entry.at >= since}

    def _forget(self, member: Address, now: float) -> None:
        window = self.departed.pop(member).window
        self.left[member] = Left(window.delivered, window.passed, now)
        if len(self.left) > self._max_departed:
            del self.left[next(iter(self.left))]

    def check(self, held: bool, seqno: int) -> None:
        """``held``: no messages are handed out at present. ``seqno``: of the last own message."""
        own, present, frozen = self.own, self.present, self.frozen
        assert present[self._me] is own
        assert own.kept.last in (0, seqno)
        assert own.window.known <= seqno
        for member, sender in present.items():
            if sender.check(held, True) and sender is not own and sender.window.has_gap:
                assert sender.gaps.deadline is not None, f"nobody asks {member}"
        for sender in frozen.values():
            sender.check(held, False)
        assert not (present.keys() & frozen.keys())


def cut(store: RunStore, last: int) -> RunStore:
    """Return the part of a store that is not above ``last``."""
    if store.last <= last:
        return store
    cut = RunStore()
    for first, run in store.between(1, last):
        cut.append(first, run)
    return cut
