"""Following: a node while it follows a live node. It asks for a snapshot if it needs one, and runs the operations
again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import trio

from jgroups_py.livebackup.backup import BackupSide
from jgroups_py.livebackup.errors import Diverged, LiveBackupError
from jgroups_py.livebackup.gathering import GATHER_MANY, Gathering
from jgroups_py.livebackup.home import Held, Home, PutAside
from jgroups_py.livebackup.messages import Confirm, Here, Join, Op, Part, Ready, Whole
from jgroups_py.livebackup.snapshots import RETRY_SECONDS, Arrival, BadSnapshot
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address

_log = logging.getLogger("jgroups_py.livebackup")

CONFIRMS_MAX: Final = 1_000
"""The most numbers in one Confirm."""


class Following:
    """A backup's side of one live node, in one of its terms."""

    def __init__(self, live: Address, term: int, home: Home, arrival: Arrival) -> None:
        """``arrival`` stays the same for the node's whole life, so that no two asks have one number."""
        self.live, self.term = live, term
        self.side: BackupSide | None = None
        """None while a snapshot is awaited."""
        self._ending: BackupSide | None = None
        """The former side while its operations end, because one differed."""
        self._home, self._arrival = home, arrival
        self._counts = home.counts
        self.marked: tuple[str, ...] = ()
        """Objects of operations that were put aside, until they are resynchronised."""
        self._kept: dict[str, int] | None = None
        """Counters of the objects that stay while others are resynchronised. None: all objects are asked for."""
        self._confirms: list[int] = []
        self._gathering = Gathering()
        self._is_gathering = False
        """Is there a task that sends the confirmations after a while?"""
        self._together = False
        """Did the newest operation come in one message with others?"""
        self._ended = False

    # --- a snapshot

    def ask(self) -> None:
        """Begin anew, with a snapshot of the live node."""
        self._home.space.clear()
        self._kept, self.marked = None, ()
        self._ask_since(0)

    def _ask_since(self, since: int) -> None:
        self.side = None
        self._home.counts["snapshots_asked"] += 1
        self._home.become("joining")
        ask = self._arrival.ask + 1
        is_new = self._home.say(Join(self.term, ask, since), self.live)
        self._arrival.begin(ask if is_new else self._arrival.ask, since)

    async def snapshot(self, message: Part | Whole) -> None:
        """Take a part or the end of a snapshot."""
        if self.side is not None or self._ending is not None:
            return
        try:
            if isinstance(message, Part):
                self._arrival.part(message)
                return
            arrived = self._arrival.whole(message)
            if arrived is None:
                return
            if arrived.is_all:
                self._home.space.clear()
                self._kept = None
            for key, _ in arrived.removed:
                await self._home.space.drop(key)
            for key, _, state in arrived.objects:
                await self._load(key, state)
        except BadSnapshot as error:
            self._refuse(error)
            return
        vector = {key: number for key, number, _ in arrived.objects if number}
        self.back_up({**(self._kept or {}), **vector, **dict(arrived.removed)}, message.last)

    async def _load(self, key: str, state: Any) -> None:
        try:
            await self._home.space.load(key, state)
        except Exception as error:  # an unknown kind, or an error of a user's load
            raise BadSnapshot(f"the state of {key} was refused: {said(error):.200}") from error

    def _refuse(self, error: BadSnapshot) -> None:
        """Drop the snapshot. This node asks again after a while."""
        self._home.counts["bad_snapshots"] += 1
        self._home.space.clear()
        self._kept = None
        if (left_out := self._home.lines.admit("snapshot")) is not None:
            _log.error("%s cannot take a snapshot: %s%s", self._home.name, error, left_out)
        self._home.nursery.start_soon(self._ask_later)

    async def _ask_later(self) -> None:
        await trio.sleep(RETRY_SECONDS)
        if not self._ended and self.side is None:
            self.ask()

    # --- operations

    def back_up(self, vector: Mapping[str, int], last: int) -> None:
        """Begin to back up from the objects after the live node's operation ``last``. Operations that came meanwhile
        follow."""
        self._kept, self.marked = None, ()
        self.side = BackupSide(
            self._home.space,
            dict(vector),
            last,
            self._home.nursery,
            readable=self._home.settings.readable,
            on_confirmed=self._confirm,
            on_diverged=self._on_diverged,
        )
        self._home.say(Ready(self.term, last), self.live)
        for op in self._arrival.tail(last):
            self.side.take(op)
        self._home.become("backup")

    def take(self, ops: list[Op]) -> None:
        """Take operations of the live node, which came in one message. Those that come while operations end are dropped: the
        snapshot that is asked for after that contains them."""
        self._together = len(ops) > 1
        for op in ops:
            if self.side is not None:
                self.side.take(op)
            elif self._ending is None and not self._arrival.keep(op):
                self._home.counts["tail_full"] += 1
                self.ask()

    def still_here(self) -> None:
        """Tell the live node, which is still in the new view, that this node follows it."""
        if self.side is not None:
            self._home.say(Here(self.term), self.live)

    def _confirm(self, numbers: list[int], left: int) -> None:
        """Confirm operations soon. ``left``: so many others are under way here."""
        self._counts["operations_confirmed"] += len(numbers)
        self._confirms += numbers
        if len(self._confirms) >= GATHER_MANY:
            self._send_confirms()
            self._gathering.renew()
        elif not self._is_gathering:
            self._is_gathering = True
            self._home.nursery.start_soon(self._gather_confirms)
        elif not left:
            self._gathering.hurry()

    def _unconfirmed(self) -> int:
        """Count the operations that are under way here."""
        return len(self.side.applier.kept) if self.side is not None else 0

    async def _gather_confirms(self) -> None:
        """Send all operations confirmed in one turn of the loop in one message. While others are under way, collect
        them for a millisecond."""
        await trio.lowlevel.checkpoint()
        while self._confirms:
            await self._gathering.rest(
                self._unconfirmed(),
                len(self._confirms),
                gains=self._together,
                until_idle=self.side is not None and not self.side.in_line,
            )
            self._send_confirms()
            await trio.lowlevel.checkpoint()
        self._is_gathering = False

    def _send_confirms(self) -> None:
        numbers, self._confirms = self._confirms, []
        many = len(numbers) >= GATHER_MANY
        if not self._ended:
            for start in range(0, len(numbers), CONFIRMS_MAX):
                part = numbers[start : start + CONFIRMS_MAX]
                self._home.say(Confirm(self.term, part), self.live, at_once=many)

    # --- operations that differ

    def _on_diverged(self, error: LiveBackupError) -> None:
        self._home.counts["diverged"] += 1
        self._home.nursery.start_soon(self._put_aside, error, self.side)

    async def _put_aside(self, error: LiveBackupError, side: BackupSide | None) -> None:
        """Put aside an operation that differs. This operation and later unconfirmed ones may have spoiled their
        objects, so these are taken anew.

        All operations before the oldest unconfirmed one are complete, so the other objects are right.
        """
        if self._ended or side is None or side is not self.side:
            return
        self._ending, self.side = side, None
        self._home.become("joining")
        await side.cancel()
        if self._ended:
            return
        self._ending = None
        if not isinstance(error, Diverged) or not error.objects:
            self._tell(error, ())
            self.ask()
            return
        records = side.applier.unconfirmed()
        keys = [ticket.object for record in records.values() for ticket in record]
        self.marked = tuple(sorted({*error.objects, *keys}))
        self._kept = self._home.space.those_there(side.applier.vector())
        self._tell(error, self.marked)
        self._ask_since(min([error.number, *records]))

    def _tell(self, error: LiveBackupError, marked: tuple[str, ...]) -> None:
        name, number = (error.operation, error.number) if isinstance(error, Diverged) else ("", 0)
        self._home.aside.append(PutAside(name, self.term, number, str(error), marked))
        if (left_out := self._home.lines.admit(("aside", name))) is not None:
            objects = ", ".join(marked[:10]) + (" ..." if len(marked) > 10 else "")
            what = objects or "all objects"
            _log.error("%s takes %s anew: %s%s", self._home.name, what, error, left_out)

    # --- the end

    async def end(self) -> Held:
        """End following and reverse all unconfirmed changes (P13)."""
        self._ended = True
        if self._ending is not None:
            await self._ending.cancel()  # its operations would change objects of the next term
        side, self.side = self.side, None
        held = Held()
        if side is not None:
            failed = side.failed
            given_up = await side.abandon(self._home.settings.abandon_timeout)
            self._home.counts["operations_reversed"] += given_up
            there = self._home.space.those_there(side.applier.vector())
            held = Held(there, not failed and not side.torn, confirmed=side.confirmed)
        self._arrival.clear()
        return held
