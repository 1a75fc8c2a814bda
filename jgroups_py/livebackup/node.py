"""LiveBackupNode: a member of a group of which one is live and the others are backups.

    view       the live node goes on if its view is large enough; without one the members elect one (roles.py)
    Lead a live node announces itself: a node without exactly its state asks for a snapshot
    Op         the backup runs it again (following.py, backup.py)
    Confirm    the live node answers clients (leading.py, live.py)

The task that reads the channel is the only one that changes roles.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.errors import ChannelClosed, JGroupsError
from jgroups_py.livebackup.cut import Cut
from jgroups_py.livebackup.errors import BadOperation, NotLive, NotReadable
from jgroups_py.livebackup.following import Following
from jgroups_py.livebackup.home import ASIDE_MAX, Held, Home, PutAside, Role
from jgroups_py.livebackup.kinds import Catalogue, Operation
from jgroups_py.livebackup.leading import Leading, digest_of
from jgroups_py.livebackup.messages import (
    BadMessage,
    Confirm,
    Gone,
    Here,
    Join,
    Lead,
    Message,
    Op,
    Ops,
    Part,
    Ready,
    Standing,
    Whole,
    decode,
    encode,
)
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.outgoing import Crowd, Outgoing
from jgroups_py.livebackup.processes import Workers
from jgroups_py.livebackup.roles import Decision, Election, Stand, prevails
from jgroups_py.livebackup.settings import Every, LiveBackupSettings
from jgroups_py.livebackup.snapshots import Arrival
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.lost import Excluded
from jgroups_py.values.message import Message as ChannelMessage
from jgroups_py.values.view import View

_log = logging.getLogger("jgroups_py.livebackup")

_AT_ONCE: Final = frozenset({Op, Ops, Confirm})
P = ParamSpec("P")
V = TypeVar("V")
LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines about the same subject, for lines that others can cause."""


class LiveBackupNode:
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
        workers: Workers | None = None,
    ) -> None:
        self._channel = channel
        self._catalogue, self._settings = catalogue, settings
        self._timers = [(catalogue.names[timer.operation], timer) for timer in timers]
        self._nursery = nursery
        self._wall, self._random = wall, random.Random(seed)
        self.space = Space(catalogue, workers)
        self.worker_pids: tuple[int, ...] = workers.pids if workers is not None else ()
        """The processes that own objects. The node ends when one of them ends."""
        self.role: Role = "joining"
        self.term = 0
        self.counts: Counter[str] = Counter()
        self.on_view: Callable[[View], None] | None = None
        """Called with each view before this node acts on it."""
        self.out: Outgoing[Address] = Outgoing(
            self._send, self._on_sent, self._send_operations, self._crowd, self._at_once
        )
        channel.take_at_once(self._take_at_once)
        self._changed = trio.Event()
        self._closed = False
        self._home = Home(
            name=channel.name,
            space=self.space,
            settings=settings,
            nursery=nursery,
            counts=self.counts,
            lines=LogLimit(trio.current_time, interval=LOG_INTERVAL),
            say=self._say,
            aside=deque(maxlen=ASIDE_MAX),
            become=self._become,
            changed=self._tell,
        )
        self._leading: Leading | None = None
        self._following: Following | None = None
        self._held = Held()
        """The data between two terms."""
        self._arrival = Arrival()
        self._view: View | None = None
        self._election: Election[Address] | None = None
        self._standings: dict[Address, Standing] = {}

    # --- for users

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def live(self) -> Address | None:
        """Return the live node, if it is known."""
        if self._leading is not None:
            return self._channel.address
        return self._following.live if self._following is not None else None

    @property
    def backups(self) -> tuple[Address, ...]:
        """Return, on the live node, the backups that have a snapshot and confirm."""
        return self._leading.side.confirming.backups if self._leading else ()

    @property
    def put_aside(self) -> tuple[PutAside, ...]:
        """Return, on a backup, the newest operations that acted differently than on the live node."""
        return tuple(self._home.aside)

    @property
    def marked(self) -> tuple[str, ...]:
        """Return, on a backup, objects that are being resynchronised after put-aside operations. Meanwhile this node
        confirms no operations."""
        return self._following.marked if self._following is not None else ()

    async def run(self, operation: Operation, *arguments: Any) -> Any:
        """Run an operation; return its value when the backups have confirmed it.

        The operation runs in a task of the node. A caller that is cancelled does not end it.

        Raises:
            NotLive: this node is not the live one. The operation did not run.
            OutcomeUnknown: this node ceased to be live. The operation may have been done or not.
            BadOperation: the operation was not given to ``open_livebackup``. It did not run.
            TypeError: an argument is not plain data. The operation did not run.
            The operation's own error, when the operation is confirmed. Its changes before the error stay.
        """
        name = self._catalogue.names.get(operation)
        if name is None:
            raise BadOperation(f"{operation!r} was not given to open_livebackup")
        if self._leading is None:
            raise NotLive(f"this node is {self.role}, not live", self.live)
        return await self._leading.side.run(name, operation, arguments)

    def read(
        self, function: Callable[Concatenate[Cut, P], V], *arguments: P.args, **more: P.kwargs
    ) -> V:
        """On a backup: call ``function(cut, ...)``, which reads copies of objects with ``cut.get(Kind, name)``. Return its value.

        The function sees exactly the operations that this backup has confirmed, so none that is half done or may be
        reversed. With ``confirm="all"`` these are all answered operations, and some that are about to be answered.

        Raises:
            NotReadable: this node is no backup, or ``readable`` is not set. On the live node run an operation.
        """
        side = self._following.side if self._following is not None else None
        if side is None or side.copies is None:
            why = f"this node is {self.role}, not backup" if side is None else "readable is not set"
            raise NotReadable(why)
        cut = Cut(self.space, side.copies, self.counts["operations_confirmed"])
        return function(cut, *arguments, **more)

    async def wait_role(self, *roles: Role) -> Role:
        """Wait until this node has one of these roles. ChannelClosed: the node is closed."""
        while self.role not in roles:
            await self._wait_changed()
        return self.role

    async def wait_backups(self, number: int) -> None:
        """Wait, on the live node, until at least ``number`` backups confirm. ChannelClosed: the node is closed."""
        while len(self.backups) < number:
            await self._wait_changed()

    async def _wait_changed(self) -> None:
        if self._closed:
            raise ChannelClosed("the node is closed")
        await self._changed.wait()

    def close(self) -> None:
        """End all waits."""
        self._closed = True
        self._tell()

    def statistics(self) -> Mapping[str, int | float]:
        """Return counters and the lag of the slowest backup."""
        found: dict[str, int | float] = dict(self.counts)
        found["term"], found["objects"] = self.term, len(self.space)
        found["waiting_messages"] = self.out.messages
        if self._leading is not None:
            lag = self._leading.side.lag()
            found |= {
                "slowed": self._leading.side.slowed,
                "held_back": self._leading.side.pace.held,
                "lag_operations": lag.operations,
                "lag_bytes": lag.bytes,
                "lag_seconds": lag.seconds,
            }
        if self._following is not None and self._following.side is not None:
            found["unconfirmed"] = len(self._following.side.applier)
        return found

    # --- incoming

    async def serve(self) -> None:
        """Handle views and messages in their order, in the node's own task."""
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
                case Excluded(view=view):
                    # Others went on without this member, which missed their messages. Without a quorum they had no
                    # live node, and this member's state may be the only one.
                    others = Election(view.members, self._settings.quorum)
                    if self._leading is not None:
                        self._say(Gone(self.term))  # a backup may not have noticed anything
                    await self._leave_term(drop=others.possible)

    def _take_at_once(self, batch: Batch) -> bool:
        """Handle operations and confirmations in the step in which they arrive, while ``serve`` has nothing to do. So no
        task has to be woken for them. ``serve`` handles all other messages."""
        sender = batch.src
        assert sender is not None
        messages: list[Message] = []
        for payload in batch.payloads:
            try:
                messages.append(
                    decode(payload if type(payload) is bytes else batch.bytes_of(payload))
                )
            except BadMessage:
                return False
        if not _AT_ONCE.issuperset(map(type, messages)):
            return False
        for message in messages:
            if type(message) is Ops:
                self._on_operations(sender, message.operations)
            elif type(message) is Op:
                self._on_operations(sender, [message])
            elif self._leading is not None:
                self._leading.hear(sender, cast(Confirm, message))
        return True

    async def _on_message(self, sender: Address, message: Message) -> None:
        match message:
            case Lead():
                await self._on_lead(sender, message)
            case Standing():
                await self._on_standing(sender, message)
            case Ops():
                self._on_operations(sender, message.operations)
            case Op():
                self._on_operations(sender, [message])
            case Part() | Whole() | Gone():
                await self._on_live(sender, message)
            case Confirm() | Here() | Join() | Ready():
                if self._leading is not None:
                    self._leading.hear(sender, message)

    def _on_operations(self, sender: Address, ops: list[Op]) -> None:
        """Handle operations, which only the followed live node may send."""
        following = self._following
        term = self.term if following is not None and sender == following.live else None
        ours = [op for op in ops if op.term == term]
        if following is not None and ours:
            following.take(ours)
        if sender != self._channel.address:
            self.counts["operations_of_others"] += len(ops) - len(ours)

    async def _on_live(self, sender: Address, message: Part | Whole | Gone) -> None:
        """Handle another message that only the followed live node may send."""
        following = self._following
        if following is None or sender != following.live or message.term != self.term:
            return
        match message:
            case Part() | Whole():
                await following.snapshot(message)
            case Gone():
                await self._stand()

    # --- views, terms and roles

    async def _on_view(self, view: View) -> None:
        if self.on_view is not None:
            self.on_view(view)
        self._view = view
        self._election = Election(view.members, self._settings.quorum)
        self._standings = {m: s for m, s in self._standings.items() if m in view}
        if self._leading is not None and self._election.possible:
            self._leading.on_view(view)
        elif self._leading is not None:
            self._say(Gone(self.term))
            await self._stand()
        elif self._following is not None and self._following.live in view:
            self._following.still_here()
        else:
            await self._stand()
            for sender, said in list(self._standings.items()):  # messages that came before the view
                await self._on_standing(sender, said)

    async def _stand(self) -> None:
        """Report this node's standing. It knows no live node."""
        assert self._view is not None and self._election is not None
        await self._leave_term()
        if not self._election.possible:
            self._become("fenced")
        held = self._held
        self._say(Standing(self._view.id, self.term, held.complete, held.was_live, held.confirmed))

    async def _leave_term(self, *, drop: bool = False) -> None:
        """End the term for this node. ``drop``: its state differs from the others'."""
        ending: Leading | Following | None = self._leading or self._following
        self._leading = self._following = None
        if ending is not None:
            self._held = await ending.end()
        if drop:
            self._held = replace(self._held, complete=False)
        self._become("joining")

    async def _on_standing(self, sender: Address, said: Standing) -> None:
        self._standings[sender] = said
        if self._leading is not None:
            self._leading.lead(sender)
        following = self._following
        if following is not None and sender == following.live and said.term >= self.term:
            await self._stand()  # it is not live any more, and its Gone has not come
        if self._view is None or said.view != self._view.id or self._election is None:
            return
        if self._leading is not None or self._following is not None:
            return
        stand = Stand(said.term, said.complete, said.was_live, said.confirmed)
        decision = self._election.stands(sender, stand)
        if decision is not None and decision.live == self._channel.address:
            await self._begin(decision)

    async def _begin(self, decision: Decision[Address]) -> None:
        """Become the live node."""
        if not self._held.complete:
            self.space.clear()
            self._held = Held()
        if decision.lost:
            self.counts["state_lost"] += 1
            _log.error("%s: the live node is lost and no backup had its state", self._home.name)
        self.term = decision.term
        leading = Leading(
            self.term,
            self._held.vector,
            self._home,
            self.out,
            send=self._send,
            timers=self._timers,
            wall=self._wall,
            chance=partial(self._random.getrandbits, 62),
            awaited=decision.backups,
        )
        await self._nursery.start(leading.stay)
        self._leading = leading
        self.counts["terms_begun"] += 1
        leading.lead()
        self._become("live")

    async def _on_lead(self, sender: Address, lead: Lead) -> None:
        if sender == self._channel.address:
            return
        if self._leading is not None:
            if not self._gives_way(self._channel.address, sender, lead):
                self._leading.lead()  # so that the other live node gives way
                return
            self.counts["gave_way"] += 1
            _log.warning(
                "%s gives way to %s: both were live, changes of this one alone are dropped",
                self._home.name,
                self._channel.name_of(sender),
            )
            self._say(Gone(self.term))
            await self._leave_term(drop=True)
        elif self._following is not None:
            is_known = sender == self._following.live and lead.term == self.term
            if is_known and not lead.anew:
                return
            if not is_known and not self._gives_way(self._following.live, sender, lead):
                return
            await self._leave_term(drop=True)
        self._follow(sender, lead)

    def _gives_way(self, live: Address, sender: Address, lead: Lead) -> bool:
        """Return whether a live node in this node's term gives way to the sender of ``lead``."""
        assert self._view is not None
        return prevails(self._view.members, sender, lead.term, live, self.term)

    def _follow(self, live: Address, lead: Lead) -> None:
        held = self._held
        has_all = held.complete and lead.term > self.term and not lead.last
        self.term, self._held = lead.term, Held()
        self._following = Following(live, lead.term, self._home, self._arrival)
        if has_all and digest_of(held.vector) == lead.digest:
            self._following.back_up(held.vector, 0)
        else:
            self._following.ask()

    # --- helpers

    def _become(self, role: Role) -> None:
        self.role = role
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _say(self, message: Message, to: Address | None = None, *, at_once: bool = False) -> bool:
        once = None
        if isinstance(message, Lead | Here | Join):  # a member may repeat these
            once = (type(message), message.term, isinstance(message, Lead) and message.anew)
        return self.out.say(encode(message), to, once=once, at_once=at_once)

    async def _send(self, data: bytes, to: Address | None) -> None:
        await self._channel.send(data, to)

    async def _send_operations(self, data: bytes) -> None:
        await self._channel.send(data, loopback=False)

    def _at_once(self, data: bytes, to: Address | None, to_others: bool) -> bool:
        try:
            return self._channel.send_at_once(data, to, loopback=not to_others)
        except JGroupsError:
            return False  # ``Outgoing.run`` raises it and ends the node

    def _crowd(self) -> Crowd:
        if self._leading is None:
            return Crowd()
        side = self._leading.side
        return Crowd(len(side.confirming), side.locks.in_line)

    def _on_sent(self) -> None:
        if self._leading is not None:
            self._leading.side.wake()
