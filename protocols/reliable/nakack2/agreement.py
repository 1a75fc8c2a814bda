"""NAKACK2, survivors agree: takes no more messages of departing senders, and hands none out before the view.

    freeze       No more messages of departing senders are taken. Messages of others are taken and held.
    fetch        All messages up to the goals are to be fetched and handed out.
    go_on        Hand out the present messages up to the goals, and ask for the others.
    thaw         A sender stays after all.
    release      Held messages may be handed out.

This part knows no protocol. It works on the table of senders that it gets, and returns the next steps.

Source: membership/gms/agreement.py has the round itself, values/events.py the events between both; RELAY.md of
the design, "Survivors agree".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto

from jgroups_py.protocols.reliable.nakack2.senders import Sender, Senders
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch

Goals = Mapping[Address, tuple[int, Address]]
"""Sender -> (the number to deliver up to, a member that has it)."""


class RoundStep(Enum):
    """Further steps beside handing out a run."""

    ASK = auto()
    """Ask at once for missing messages."""
    FETCHED = auto()
    """Report that all messages up to the goals have been delivered."""


class Round:
    """See the module's docstring. ``me``: this member."""

    def __init__(self, me: Address, max_window: int) -> None:
        self._me = me
        self._max_window = max_window
        self.held = False
        """True: no messages are delivered until the view comes."""
        self.fetching = False

    def freeze(self, senders: Senders, departed: tuple[Address, ...]) -> dict[Address, Sender]:
        """Freeze ``departed``, hold the others, and return the senders that were frozen now."""
        frozen = {}
        for member in departed:
            sender = senders.freeze(member)
            if sender is None:
                continue
            sender.window.count_early()  # an earlier round may have held messages behind it
            frozen[member] = sender
            sender.goal = 0
            sender.holder = None
            sender.ask_anew()
            sender.window.closed = True
        self.held = True
        for sender in senders.present.values():
            sender.goal = 0
            sender.window.closed = True
        return frozen

    def thaw(self, senders: Senders, member: Address) -> Sender | None:
        """Note that ``member`` stays, and return its sender, whose messages may be delivered. None: it was not
        frozen."""
        sender = senders.thaw(member)
        if sender is not None:
            sender.holder = None
            sender.window.closed = self.held
            sender.ask_anew()
        return sender

    def thawed(self, senders: Senders) -> None:
        """Note that a sender was thawed. Without frozen senders no messages are fetched."""
        if not senders.frozen:
            self.fetching = False

    def end(self, senders: Senders) -> bool:
        """Note that the view has come. Return the result of ``release``."""
        self.fetching = False
        return self.release(senders)

    def release(self, senders: Senders) -> bool:
        """Return whether messages may have been held, which must be delivered now."""
        if not self.held:
            return False
        self.held = False
        for sender in senders.present.values():
            sender.holder = None
            sender.window.closed = False
        return True

    def fetch(self, senders: Senders, goals: Goals, own_seqno: int) -> None:
        """Set the goals. ``own_seqno``: the number of this member's last message."""
        self.fetching = True
        for sender in (*senders.frozen.values(), *senders.present.values()):
            sender.goal = 0
        for member, (goal, holder) in goals.items():
            found = senders.frozen.get(member) or senders.present.get(member)
            if found is senders.own:
                goal = min(goal, own_seqno)  # others may report higher numbers
            if found is not None and found.window.closed:
                found.goal = goal
                found.holder = None if holder == self._me else holder
                found.window.known = max(found.window.known, self._reach(found))

    def _reach(self, sender: Sender) -> int:
        """Return the number up to which ``sender`` can be fetched now. The goal may lie beyond the window."""
        return min(sender.goal, sender.window.delivered + self._max_window)

    def wanted(self, sender: Sender, batch: Batch, first: int) -> Batch | None:
        """Return the part of a run of a frozen sender that is taken. The run begins at or below the goal."""
        reach = self._reach(sender)
        if first > reach:
            return None
        if first + len(batch.payloads) - 1 > reach:
            batch = batch.slice(0, reach + 1 - first)
        return batch

    def go_on(self, senders: Senders, now: float) -> Iterator[Batch | RoundStep]:
        """Yield the runs to hand out up to the goals, and other steps, in order. Carry out each before you take the
        next one: handing out a run may end the round, and then no step follows."""
        held = self.held
        tables = (senders.frozen, senders.present)
        here = [(table, member, sender) for table in tables for member, sender in table.items()]
        for table, member, sender in here:
            window = sender.window
            if window.delivered >= sender.goal or not window.closed:
                continue
            window.split_at(sender.goal)
            window.closed = False
            while (run := window.next(sender.goal)) is not None:
                yield run
                if self.held is not held or table.get(member) is not sender:
                    return
            window.closed = True
            if sender is senders.own:
                continue  # the own message comes back from the transport
            if window.delivered < sender.goal and (
                sender.gaps.deadline is None or not window.has_gap
            ):
                window.known = max(window.known, self._reach(sender))
                sender.gaps.new_at = now
                yield RoundStep.ASK
        everybody = (*senders.frozen.values(), *senders.present.values())
        if self.fetching and all(s.window.delivered >= s.goal for s in everybody):
            self.fetching = False
            yield RoundStep.FETCHED
