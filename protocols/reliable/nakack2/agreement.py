"""NAKACK2, survivors agree: nothing more of the departed, nothing of anybody before the view.

    Freeze       nothing more is taken of the departed; of the others it is taken and held
    Fetch        have everything up to the goals, hand it out, say Fetched
    Thaw         the departed are there after all
    Release      hand out what is held
    ViewChange   ends the round

Source: gms_agree.py; RELAY.md of the design, "Survivors agree".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jgroups_py.protocols.reliable.nakack2.sender import Sender
from jgroups_py.stack.windows import GapClock, compact
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Fetch, Fetched
from jgroups_py.values.message import Flag

if TYPE_CHECKING:
    from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2

_OOB: Final = int(Flag.OOB)


class Round:
    """See the module's docstring."""

    def __init__(self, nak: NAKACK2) -> None:
        self.nak = nak
        self.frozen: dict[Address, Sender] = {}
        """Of whom nothing more is taken."""
        self.held = False
        """Nothing is handed out until the view comes, of nobody."""
        self.fetching = False

    def freeze(self, departed: tuple[Address, ...]) -> None:
        nak = self.nak
        for member in departed:
            sender = nak.senders.get(member)
            if sender is None or member == nak.local_address:
                continue
            sender.window.count_early()  # what a round before has held behind it
            nak.trace("frozen", sender=member, delivered=sender.window.delivered)
            del nak.senders[member]
            self.frozen[member] = sender
            sender.goal = 0
            sender.holder = None
            sender.gaps = GapClock(nak.config.xmit_interval)
            sender.window.closed = True
        self.held = True
        for member, sender in nak.senders.items():
            sender.goal = 0
            sender.window.closed = True
            if sender.window.has_gap and sender is not nak.own:  # a goal of the round before, say
                nak.repair.saw_gap(member, sender, nak.delay)

    def end(self) -> None:
        """The view is there."""
        self.fetching = False
        self.release()

    def release(self) -> None:
        """Hands out what was held."""
        nak = self.nak
        if not self.held:
            return
        self.held = False
        for sender in nak.senders.values():
            sender.holder = None
            sender.window.closed = False
        nak.machine.soon(self._deliver_held)

    def _deliver_held(self) -> None:
        nak = self.nak
        for member, sender in list(nak.senders.items()):
            if nak.senders.get(member) is sender:
                nak.deliver(sender)
                if sender.window.has_gap and sender is not nak.own:
                    nak.repair.saw_gap(member, sender, nak.delay)

    def fetch(self, event: Fetch) -> None:
        nak = self.nak
        self.fetching = True
        for sender in (*self.frozen.values(), *nak.senders.values()):
            sender.goal = 0
        for member, (goal, holder) in event.goals.items():
            found = self.frozen.get(member) or nak.senders.get(member)
            if found is nak.own:
                goal = min(goal, nak.seqno)  # whatever others say
            if found is not None and found.window.closed:
                found.goal = goal
                found.holder = None if holder == nak.local_address else holder
                found.window.known = max(found.window.known, self._reach(found))
        nak.machine.soon(self.go_on)

    def _reach(self, sender: Sender) -> int:
        """How far it can be fetched now: the goal may lie beyond the window."""
        return min(sender.goal, sender.window.delivered + self.nak.config.max_window)

    def on_fetched(self, sender: Sender, batch: Batch, first: int) -> None:
        """A run of a frozen sender that begins at or below the goal."""
        nak = self.nak
        count = len(batch.payloads)
        reach = self._reach(sender)
        if first > reach:
            nak.window_dropped += count
            return
        if first + count - 1 > reach:
            batch = batch.slice(0, reach + 1 - first)
        pieces = sender.window.add(first, compact(batch))
        if not pieces:
            nak.duplicates += count
            return
        for low, piece in pieces:
            sender.kept.insert(low, piece)
        if batch.flags & _OOB:
            for piece in sender.window.fresh(pieces):
                nak.delivered += len(piece.payloads)
                nak.pass_up(piece)
        self.go_on()

    def go_on(self) -> None:
        """Delivers what has come up to the goals, asks for the rest, says when all is there."""
        nak, held = self.nak, self.held
        here = [(table, m, s) for table in (self.frozen, nak.senders) for m, s in table.items()]
        for table, member, sender in here:
            window = sender.window
            if window.delivered >= sender.goal or not window.closed:
                continue
            window.split_at(sender.goal)
            window.closed = False
            while (run := window.next(sender.goal)) is not None:
                nak.delivered += len(run.payloads)
                nak.pass_up(run)
                if self.held is not held or table.get(member) is not sender:
                    return  # passing it up has ended the round
            window.closed = True
            if sender is nak.own:
                continue  # it comes back from the transport
            if window.delivered < sender.goal and (
                sender.gaps.deadline is None or not window.has_gap
            ):
                window.known = max(window.known, self._reach(sender))
                sender.gaps.new_at = nak.now
                nak.repair.arm_gaps(nak.now)
        everybody = (*self.frozen.values(), *nak.senders.values())
        if self.fetching and all(s.window.delivered >= s.goal for s in everybody):
            self.fetching = False
            nak.trace("fetched", senders=tuple(self.frozen))
            nak.pass_event_up(Fetched())

    def again(self, member: Address, sender: Sender, delivered: int) -> None:
        """A state came that has less of a frozen sender: what was handed out since is, once more. How
        far we are has been told, and stays as it is."""
        nak = self.nak
        if delivered >= sender.window.delivered:
            return
        if delivered < sender.purged:
            nak.trace("cannot_go_back", sender=member, to=delivered, stable=sender.purged)
            delivered = sender.purged
        nak.trace("again", sender=member, after=delivered, to=sender.window.delivered)
        runs = [run for _, run in sender.kept.between(delivered + 1, sender.window.delivered)]

        def deliver() -> None:
            for run in runs:
                nak.pass_up(run)

        nak.machine.soon(deliver)

    def thaw(self, members: tuple[Address, ...]) -> None:
        for member in members:
            self.unfreeze(member)
        if not self.frozen:
            self.fetching = False

    def unfreeze(self, member: Address) -> None:
        nak = self.nak
        sender = self.frozen.pop(member, None)
        if sender is None:
            return
        nak.senders[member] = sender
        sender.holder = None
        window = sender.window
        window.closed = self.held
        sender.gaps = GapClock(nak.config.xmit_interval)

        def deliver() -> None:
            if nak.senders.get(member) is sender:
                nak.deliver(sender)
                if window.has_gap:
                    nak.repair.saw_gap(member, sender, 0.0)

        nak.machine.soon(deliver)
