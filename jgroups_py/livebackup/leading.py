"""Leading: a node while it is live. It keeps its backups, gives snapshots and starts the operations of timers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256

import trio

from jgroups_py.livebackup.crew import Crew
from jgroups_py.livebackup.errors import BadOperation
from jgroups_py.livebackup.gathering import GATHER_FROM
from jgroups_py.livebackup.home import Held, Home
from jgroups_py.livebackup.live import LiveSide
from jgroups_py.livebackup.messages import Confirm, Here, Join, Lead, Ready, encode
from jgroups_py.livebackup.outgoing import Outgoing
from jgroups_py.livebackup.settings import Every
from jgroups_py.livebackup.snapshots import RETRY_SECONDS, Givings, SnapshotAsk
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

_log = logging.getLogger("jgroups_py.livebackup")


class Leading:
    """A live node in one term."""

    def __init__(
        self,
        term: int,
        vector: Mapping[str, int],
        home: Home,
        out: Outgoing[Address],
        *,
        send: Callable[[bytes, Address], Awaitable[None]],
        timers: Sequence[tuple[str, Every]],
        wall: Callable[[], float],
        chance: Callable[[], int],
        awaited: Iterable[Address] = (),
    ) -> None:
        """``vector``: the objects' counters as the term begins. ``send`` sends a part of a snapshot. ``timers``: each
        with the name of its operation."""
        self._home, self._send, self._timers = home, send, timers
        self._out = out
        self._digest = digest_of(vector)
        self._givings: Givings[Address] = Givings()
        self._scope = trio.CancelScope()
        self._crew = Crew()
        self.side = LiveSide(
            term,
            home.space,
            vector,
            home.settings,
            self._crew.start,
            start_next=self._crew.start_next,
            wall=wall,
            chance=chance,
            out=out,
            awaited=awaited,
        )

    async def stay(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the tasks of the term."""
        try:
            with self._scope:
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(self._crew.stay)
                    for name, timer in self._timers:
                        tasks.start_soon(self._repeat, name, timer)
                    task_status.started()
                    try:
                        await trio.sleep_forever()
                    finally:
                        self.side.end()
        finally:
            self.side.give_up()

    async def _repeat(self, name: str, timer: Every) -> None:
        """Run an operation of a timer again and again (P4)."""
        while True:
            await trio.sleep(timer.seconds)
            try:
                await self.side.run(name, timer.operation, timer.arguments)
            except Exception as error:
                self._home.counts["timer_failures"] += 1
                why = said(error)
                _log.warning("%s: operation %s, started by a timer: %s", self._home.name, name, why)

    # --- the others

    def lead(self, to: Address | None = None, *, anew: bool = False) -> None:
        """Announce that this node is live."""
        self._home.say(Lead(self.side.term, self.side.last, self._digest, anew), to)

    def on_view(self, view: View) -> None:
        """Forget backups that have left."""
        for backup in self.side.confirming.members:
            if backup not in view:
                self.side.pace.backups_changed()
                self.side.answer(self.side.confirming.left(backup))
        self.lead()
        self._home.changed()

    def hear(self, sender: Address, message: Confirm | Here | Join | Ready) -> None:
        """Handle a message of a present or future backup."""
        side = self.side
        match message:
            case Confirm() if message.term == side.term:
                side.answer(side.confirming.confirmed(sender, message.numbers))
                if len(side.confirming) - self._out.operations < GATHER_FROM:
                    self._out.hurry()
            case Ready() if message.term == side.term:
                side.pace.backups_changed()
                side.answer(side.confirming.joined(sender, message.last))
                self._home.changed()
            case Here() if sender not in side.confirming.backups:
                self.lead(sender, anew=True)
            case Join() if self._givings.asked(sender, self._asked(message)):
                self._home.nursery.start_soon(self._give_snapshots, sender)

    # --- snapshots

    def _asked(self, join: Join) -> SnapshotAsk:
        """Return the ask with its ``since``. Operations of another term have other numbers."""
        return SnapshotAsk(join.ask, join.since if join.term == self.side.term else 0)

    async def _give_snapshots(self, to: Address) -> None:
        begins = True
        while begins:
            asked = self._givings.newest(to)
            if not self.side.ended:
                await self._give_snapshot(to, asked)
            begins = self._givings.ended(to, asked)

    async def _give_snapshot(self, to: Address, asked: SnapshotAsk) -> None:
        side = self.side
        side.answer(side.confirming.left(to))
        try:
            parts = await side.snapshot(asked)
        except trio.TooSlowError:
            self._home.counts["snapshots_too_slow"] += 1
            _log.warning(
                "%s: operations run too long for a snapshot, %s has run longest",
                self._home.name,
                side.oldest_running or "none now",
            )
            if not side.ended:
                self.lead(to, anew=True)
            return
        except BadOperation as error:
            self._home.counts["snapshots_failed"] += 1
            if (left_out := self._home.lines.admit("failed")) is not None:
                _log.error("%s cannot give a snapshot: %s%s", self._home.name, error, left_out)
            await trio.sleep(RETRY_SECONDS)
            if not side.ended:
                self.lead(to, anew=True)
            return
        side.confirming.given(to)
        self._home.counts["snapshots_given"] += 1
        for part in parts:
            await self._send(part, to)

    # --- the end

    async def end(self) -> Held:
        """End the term: open calls raise OutcomeUnknown."""
        self.side.end()
        with trio.move_on_after(self._home.settings.abandon_timeout):
            await self.side.quiet()
        complete = self.side.is_quiet
        self._scope.cancel()
        self.side.leave_objects()
        self._home.counts["terms_ended"] += 1
        there = self._home.space.those_there(self.side.counters.vector())
        return Held(there, complete, True, self.side.last)


def digest_of(vector: Mapping[str, int]) -> bytes:
    """Return a digest, equal for equal objects with equal counters."""
    return sha256(encode(sorted(vector.items()))).digest()[:16]
