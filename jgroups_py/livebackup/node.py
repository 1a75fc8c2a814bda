"""Node: a member of a group of which one is live and the others are backups.

    view       the live node goes on if its view is large enough; without one the members elect one (roles.py)
    Lead       a live node has told itself: a node that has not exactly its state asks for a snapshot
    Op         the backup runs it again (backup.py)
    Confirm    the live node answers clients (live.py)

The task that reads the channel is the only one that changes roles.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.livebackup.backup import BackupSide
from jgroups_py.livebackup.errors import BadOperation, LiveBackupError, NotLive
from jgroups_py.livebackup.kinds import Catalogue, Operation, Space
from jgroups_py.livebackup.live import LiveSide
from jgroups_py.livebackup.messages import (
    BadMessage,
    Confirm,
    Gone,
    Here,
    Join,
    Lead,
    Message,
    Op,
    Part,
    Ready,
    Standing,
    Whole,
    decode,
    encode,
)
from jgroups_py.livebackup.outgoing import Outgoing
from jgroups_py.livebackup.roles import Decision, Election, Stand
from jgroups_py.livebackup.settings import Every, LiveBackupSettings
from jgroups_py.livebackup.snapshots import RETRY_SECONDS, Arrival, BadSnapshot, Givings
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.address import Address
from jgroups_py.values.lost import Excluded
from jgroups_py.values.message import Message as ChannelMessage
from jgroups_py.values.view import View

_log = logging.getLogger("jgroups_py.livebackup")

Role = Literal["joining", "live", "backup", "fenced"]
CONFIRMS_MAX: Final = 1_000
"""Numbers in one Confirm."""


class Node:
    """Made by ``open_livebackup``."""

    def __init__(
        self,
        channel: Channel,
        catalogue: Catalogue,
        settings: LiveBackupSettings,
        timers: Sequence[Every],
        nursery: trio.Nursery,
        *,
        wall: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self._channel = channel
        self._catalogue, self._settings, self._timers = catalogue, settings, tuple(timers)
        self._nursery = nursery
        self._wall, self._random = wall, random.Random(seed)
        self.space = Space(catalogue)
        self.role: Role = "joining"
        self.term = 0
        self.counts: Counter[str] = Counter()
        self._changed = trio.Event()
        self._live: Address | None = None
        self._election: Election[Address] | None = None
        self._complete = False
        self._was_live = False
        self._vector: dict[str, int] = {}
        self._live_side: LiveSide | None = None
        self._live_scope = trio.CancelScope()
        self._backup_side: BackupSide | None = None
        self._arrival = Arrival()
        self._givings: Givings[Address] = Givings()
        self._refusals = LogLimit(trio.current_time, interval=60.0)
        self._confirms: list[int] = []
        self._view: View | None = None
        self._standings: dict[Address, Standing] = {}
        self.out: Outgoing[Address] = Outgoing(self._send, self._on_sent)

    # --- for users

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def live(self) -> Address | None:
        """The live node, if it is known."""
        return self._channel.address if self.role == "live" else self._live

    @property
    def backups(self) -> tuple[Address, ...]:
        """On the live node: the backups that have a snapshot and confirm."""
        return self._live_side.confirming.backups if self._live_side else ()

    async def run(self, operation: Operation, *arguments: Any) -> Any:
        """Run an operation; return its value when the backups have confirmed it.

        The operation runs in a task of the node. A caller that is cancelled does not end it.

        Raises:
            NotLive: this node is not the live one. The operation did not run.
            OutcomeUnknown: this node ceased to be live. The operation may have been done or not.
            BadOperation: it was not given to ``open_livebackup``. It did not run.
            TypeError: an argument is not plain data. The operation did not run.
            Whatever the operation raises, when that is confirmed. Its changes up to there stay.
        """
        name = self._catalogue.names.get(operation)
        if name is None:
            raise BadOperation(f"{operation!r} was not given to open_livebackup")
        if self._live_side is None:
            raise NotLive(f"this node is {self.role}, not live", self.live)
        return await self._live_side.run(name, operation, arguments)

    async def wait_role(self, *roles: Role) -> Role:
        """Wait until this node has one of these roles."""
        while self.role not in roles:
            await self._changed.wait()
        return self.role

    async def wait_backups(self, number: int) -> None:
        """On the live node: wait until at least so many backups confirm."""
        while len(self.backups) < number:
            await self._changed.wait()

    def statistics(self) -> Mapping[str, int | float]:
        """Counters, and how far the slowest backup is behind."""
        found: dict[str, int | float] = dict(self.counts)
        found["term"], found["objects"] = self.term, len(self.space)
        found["waiting_messages"] = self.out.messages
        if self._live_side is not None:
            lag = self._live_side.confirming.lag(trio.current_time())
            found |= {
                "slowed": self._live_side.slowed,
                "lag_operations": lag.operations,
                "lag_bytes": lag.bytes,
                "lag_seconds": lag.seconds,
            }
        if self._backup_side is not None:
            found["unconfirmed"] = len(self._backup_side.applier)
        return found

    # --- what comes

    async def read(self) -> None:
        """The node's own task: views and messages in their order."""
        async for item in self._channel:
            match item:
                case View():
                    await self._on_view(item)
                case ChannelMessage(sender=sender, payload=payload):
                    try:
                        message = decode(payload)
                    except BadMessage:
                        self.counts["bad_messages"] += 1
                        continue
                    await self._on_message(sender, message)
                case Excluded():
                    # Others went on without this member, and it missed what they said.
                    await self._leave_term(complete=False)

    async def _on_message(self, sender: Address, message: Message) -> None:
        side = self._live_side
        match message:
            case Op():
                self._on_op(sender, message)
            case Confirm():
                if side is not None and message.term == self.term:
                    side.answer(side.confirming.confirmed(sender, message.numbers))
            case Lead():
                await self._on_lead(sender, message)
            case Standing():
                await self._on_standing(sender, message)
            case Here():
                if side is not None and sender not in side.confirming.backups:
                    self._lead(sender, anew=True)
            case Gone():
                if sender == self._live and message.term == self.term:
                    await self._stand()
            case Join():
                if side is not None and self._givings.asked(sender, message.ask):
                    self._nursery.start_soon(self._give_snapshots, sender)
            case Part() | Whole():
                if sender == self._live and message.term == self.term and self.role == "joining":
                    self._on_snapshot(message)
            case Ready():
                if side is not None and message.term == self.term:
                    side.answer(side.confirming.joined(sender, message.last))
                    self._tell()

    # --- views, terms and roles

    async def _on_view(self, view: View) -> None:
        self._view = view
        self._election = Election(view.members, self._settings.quorum)
        self._standings = {m: s for m, s in self._standings.items() if m in view}
        if self._live_side is not None:
            if not self._election.possible:
                self._say(Gone(self.term))
                await self._stand()
                return
            for backup in self._live_side.confirming.members:
                if backup not in view:
                    self._live_side.answer(self._live_side.confirming.left(backup))
            self._lead()
            self._tell()
            return
        if self._live is not None and self._live in view:
            if self._backup_side is not None:
                self._say(Here(self.term), self._live)
            return
        await self._stand()
        for sender, said in list(self._standings.items()):  # those that came before the view
            await self._on_standing(sender, said)

    async def _stand(self) -> None:
        """There is no live node that this one knows: say how it stands."""
        assert self._view is not None and self._election is not None
        await self._leave_term(complete=self._complete)
        if not self._election.possible:
            self._set_role("fenced")
        self._say(Standing(self._view.id, self.term, self._complete, self._was_live))

    async def _leave_term(self, *, complete: bool) -> None:
        """The term is over for this node: what is not confirmed is reversed, clients are told that they do not know."""
        self._live = None
        if self._live_side is not None:
            side, self._live_side = self._live_side, None
            side.end()
            with trio.move_on_after(self._settings.abandon_timeout):
                await side.quiet()
            complete = complete and side.is_quiet
            self._live_scope.cancel()
            self._vector = side.counters.vector()
            self._was_live = True
            self.counts["terms_ended"] += 1
        if self._backup_side is not None:
            backup, self._backup_side = self._backup_side, None
            if backup.failed:
                complete = False
            given_up = await backup.abandon(self._settings.abandon_timeout)
            complete = complete and not backup.torn
            self.counts["operations_reversed"] += given_up
            self._vector = backup.applier.vector()
        self._confirms.clear()
        self._arrival.clear()
        self._complete = complete
        self._set_role("joining")

    async def _on_standing(self, sender: Address, said: Standing) -> None:
        self._standings[sender] = said
        if self._live_side is not None:
            self._lead(sender)
        if self._view is None or said.view != self._view.id or self._election is None:
            return
        if self._live_side is not None or self._live is not None:
            return
        stand = Stand(said.term, said.complete, said.was_live)
        decision = self._election.stands(sender, stand)
        if decision is not None and decision.live == self._channel.address:
            await self._begin(decision)

    async def _begin(self, decision: Decision[Address]) -> None:
        """This node is live from now on."""
        if not self._complete:
            self.space.clear()
            self._vector = {}
        if decision.lost:
            self.counts["state_lost"] += 1
            _log.error("%s: the live node is lost and no backup had its state", self._name)
        self.term = decision.term
        self._complete = self._was_live = True
        self._live_scope = trio.CancelScope()
        nursery: trio.Nursery = await self._nursery.start(self._be_live, self._live_scope)
        self._live_side = LiveSide(
            self.term,
            self.space,
            self._vector,
            self._settings,
            nursery,
            wall=self._wall,
            chance=lambda: self._random.getrandbits(62),
            out=self.out,
            awaited=decision.backups,
        )
        self.counts["terms_begun"] += 1
        self._lead()
        self._set_role("live")

    async def _be_live(
        self, scope: trio.CancelScope, task_status: trio.TaskStatus[trio.Nursery]
    ) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for timer in self._timers:
                    nursery.start_soon(self._repeat, timer)
                task_status.started(nursery)
                await trio.sleep_forever()

    async def _repeat(self, timer: Every) -> None:
        """An operation that the live node starts itself (P4)."""
        name = self._catalogue.names[timer.operation]
        while True:
            await trio.sleep(timer.seconds)
            try:
                await self.run(timer.operation, *timer.arguments)
            except Exception as error:
                self.counts["timer_failures"] += 1
                _log.warning("%s: operation %s, started by a timer: %r", self._name, name, error)

    def _lead(self, to: Address | None = None, *, anew: bool = False) -> None:
        side = self._live_side
        assert side is not None
        self._say(Lead(self.term, side.last, digest_of(self._vector), anew), to)

    async def _on_lead(self, sender: Address, lead: Lead) -> None:
        if sender == self._channel.address:
            return
        if self._live_side is not None:
            if not self._is_better(sender, lead, self._channel.address):
                self._lead()  # so that the other one gives way
                return
            self.counts["gave_way"] += 1
            _log.warning(
                "%s gives way to %s: both were live, what only this one did is dropped",
                self._name,
                self._channel.name_of(sender),
            )
            self._say(Gone(self.term))
            await self._leave_term(complete=False)
        elif self._live is not None:
            if sender == self._live and lead.term == self.term:
                if lead.anew:
                    await self._leave_term(complete=False)
                    self._live = sender
                    self._ask()
                return
            if not self._is_better(sender, lead, self._live):
                return
            await self._leave_term(complete=False)
        follows = self._complete and lead.term > self.term and not lead.last
        self._live, self.term, self._was_live = sender, lead.term, False
        if follows and digest_of(self._vector) == lead.digest:
            self._back_up(self._vector, 0)
        else:
            self._ask()

    def _is_better(self, sender: Address, lead: Lead, than: Address) -> bool:
        """Of two live nodes: the newer term, then the earlier one in the view."""
        assert self._view is not None
        members = self._view.members
        if lead.term != self.term or sender not in members or than not in members:
            return lead.term > self.term
        return members.index(sender) < members.index(than)

    # --- backup

    def _ask(self) -> None:
        """Begin anew, with a snapshot of the live node."""
        assert self._live is not None
        self.space.clear()
        self._vector = {}
        self._complete = False
        self.counts["snapshots_asked"] += 1
        self._set_role("joining")
        ask = self._arrival.ask + 1
        is_new = self._say(Join(self.term, ask), self._live)
        self._arrival.begin(ask if is_new else self._arrival.ask)

    def _back_up(self, vector: dict[str, int], last: int) -> None:
        self._backup_side = BackupSide(
            self.space,
            vector,
            last,
            self._nursery,
            on_confirmed=self._confirm,
            on_diverged=self._on_diverged,
        )
        self._complete = True
        self._say(Ready(self.term, last), self._live)
        for op in self._arrival.tail(last):
            self._backup_side.take(op)
        self._set_role("backup")

    def _on_op(self, sender: Address, op: Op) -> None:
        if sender != self._live or op.term != self.term:
            self.counts["operations_of_others"] += 1
        elif self._backup_side is not None:
            self._backup_side.take(op)
        elif self.role == "joining":
            if not self._arrival.keep(op):
                self.counts["tail_full"] += 1
                self._ask()

    def _on_snapshot(self, message: Part | Whole) -> None:
        try:
            if isinstance(message, Part):
                self._arrival.part(message)
                return
            objects = self._arrival.whole(message)
            if objects is None:
                return
            for key, _, state in objects:
                self._load(key, state)
        except BadSnapshot as error:
            self._refuse_snapshot(error)
            return
        self._back_up({key: number for key, number, _ in objects if number}, message.last)

    def _load(self, key: str, state: Any) -> None:
        try:
            self.space.load(key, state)
        except Exception as error:  # an unknown kind, or what a user's load raises
            raise BadSnapshot(f"the state of {key} was refused with {error!r}") from error

    def _refuse_snapshot(self, error: BadSnapshot) -> None:
        """Nothing of it stays. This node asks again after a while."""
        self.counts["bad_snapshots"] += 1
        self.space.clear()
        if (left_out := self._refusals.admit("snapshot")) is not None:
            _log.error("%s cannot take a snapshot: %s%s", self._name, error, left_out)
        self._nursery.start_soon(self._ask_later, self.term)

    async def _ask_later(self, term: int) -> None:
        await trio.sleep(RETRY_SECONDS)
        if self.role == "joining" and self._live is not None and self.term == term:
            self._ask()

    def _confirm(self, numbers: list[int]) -> None:
        self.counts["operations_confirmed"] += len(numbers)
        if not self._confirms:
            self._nursery.start_soon(self._send_confirms)
        self._confirms += numbers

    async def _send_confirms(self) -> None:
        """All that is confirmed in one turn of the loop is one message."""
        await trio.lowlevel.checkpoint()
        numbers, self._confirms = self._confirms, []
        if self._live is not None:
            for start in range(0, len(numbers), CONFIRMS_MAX):
                part = numbers[start : start + CONFIRMS_MAX]
                self._say(Confirm(self.term, part), self._live)

    def _on_diverged(self, error: LiveBackupError) -> None:
        """An operation is put aside: this backup begins anew."""
        self.counts["diverged"] += 1
        _log.error("%s begins anew: %s", self._name, error)
        self._nursery.start_soon(self._begin_anew, self._backup_side)

    async def _begin_anew(self, side: BackupSide | None) -> None:
        if side is None or side is not self._backup_side:
            return
        self._backup_side = None
        self._set_role("joining")
        self._complete = False
        await side.cancel()
        if self._live is not None and self._backup_side is None:
            self._ask()

    # --- snapshots, from the live side

    async def _give_snapshots(self, to: Address) -> None:
        begins = True
        while begins:
            ask = self._givings.newest(to)
            if self._live_side is not None:
                await self._give_snapshot(to, ask, self._live_side)
            begins = self._givings.ended(to, ask)

    async def _give_snapshot(self, to: Address, ask: int, side: LiveSide) -> None:
        left = side.confirming.left(to)
        side.answer(left)
        try:
            parts = await side.snapshot(ask)
        except trio.TooSlowError:
            self.counts["snapshots_too_slow"] += 1
            _log.warning("%s: operations run too long for a snapshot", self._name)
            if side is self._live_side:
                self._lead(to, anew=True)
            return
        self.counts["snapshots_given"] += 1
        for part in parts:
            await self._channel.send(part, to)

    # --- small things

    @property
    def _name(self) -> str:
        return self._channel.name

    def _set_role(self, role: Role) -> None:
        self.role = role
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _say(self, message: Message, to: Address | None = None) -> bool:
        once = None
        if isinstance(message, Lead | Here | Join):  # what a member may make this one repeat
            once = (type(message), message.term, isinstance(message, Lead) and message.anew)
        return self.out.say(encode(message), to, once=once)

    async def _send(self, data: bytes, to: Address | None) -> None:
        await self._channel.send(data, to)

    def _on_sent(self) -> None:
        if self._live_side is not None:
            self._live_side.wake()


def digest_of(vector: Mapping[str, int]) -> bytes:
    return sha256(encode(sorted(vector.items()))).digest()[:16]
