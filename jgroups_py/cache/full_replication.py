"""FullReplication: every member has every node; all apply the same batches in the same order.

Each batch is proposed to the view's coordinator and applied at its place in the coordinator's stream (total_order.py).
Every member first compares its ``depends``, with the same verdict: a batch that lost a race takes effect nowhere and
fails at its origin. A synchronous call returns when every member of the view has applied the batch, an asynchronous one
when this member has.

A joiner begins with the state of a member. When groups merge, all members take the tree of the largest group.
Among groups of equal size they take that of the first. Other values are counted and listed
(``TreeCache.discarded``).

Differs from JBoss Cache: one order instead of two-phase locking across members; that cannot
         deadlock, and costs one message more for members that are not coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import Changes, Modification, NodeChange, fold
from jgroups_py.cache.fqn import ROOT, Fqn
from jgroups_py.cache.garbage import no_collection
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.replication import MemberReplication
from jgroups_py.cache.sizes import refuse_larger
from jgroups_py.cache.total_order import Ordered, TotalOrder
from jgroups_py.cache.turns import Line, Place, Turn
from jgroups_py.cache.wire import (
    Body,
    body_bytes,
    body_from,
    digest,
    said_bytes,
    said_from,
    state_bytes,
    state_from,
)
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.values import State
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import (
    BatchConflict,
    CacheClosed,
    RemoteProtocolError,
    ReplicationError,
    StateTransferError,
)
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.message import Message
from jgroups_py.values.view import MergeView, View

_log = logging.getLogger("jgroups_py.cache")
LOGGED_MAX = 10
"""The most paths that a merge logs; ``TreeCache.discarded`` has more."""
LARGE = 16_000
"""Bytes of a batch whose nodes would make the garbage collector run."""
ORDER = 100
"""Bytes of a message for its place in the order. The rest is the body of a batch."""
PATIENCE = 1.0
"""Seconds for which the queue ahead may make no progress before a caller proceeds without its turn."""
OUTSTANDING_MAX = 1000
"""The most own proposals that some member has not applied; further calls wait."""


@dataclass
class _Asked:
    """A caller that waits for a proposal: its bytes and, if known, their content. ``sync``: it waits for all members."""

    bytes: bytes
    body: Body | None
    sync: bool
    applied: trio.Event = field(default_factory=trio.Event)
    finished: trio.Event = field(default_factory=trio.Event)
    changes: Changes = ()
    refused: str = ""
    is_given_up: bool = False
    """True when this member ended before it was known what became of the proposal."""

    def give_up(self) -> None:
        """End the waiting."""
        last = self.finished if self.sync and not self.refused else self.applied
        self.is_given_up = not last.is_set()  # else the caller has only not run yet
        self.applied.set()
        self.finished.set()


class FullReplication(MemberReplication):
    """``sync`` and ``timeout`` (seconds) as configured; a call may say otherwise."""

    keeps_copies = True
    allows_local_writes = False

    def __init__(self, *, sync: bool, timeout: float) -> None:
        super().__init__()
        self._sync = sync
        self._timeout = timeout
        self._order: TotalOrder
        self._asked: dict[int, _Asked] = {}
        self._line = Line()
        self._room = trio.CapacityLimiter(OUTSTANDING_MAX)
        self._wake = trio.Event()
        self._has_given_up = False
        self.ready = trio.Event()
        """Set when this member has a view and the state."""
        self._counts = dict.fromkeys(
            (
                "proposed",
                "applied",
                "refused",
                "garbage",
                "merged",
                "discarded_at_merge",
                "turns_asked",
                "turns_passed",
            ),
            0,
        )

    def statistics(self) -> Mapping[str, int]:
        counts = {**self._counts, "line": len(self._line), "line_full": self._line.full}
        return {f"replication_{name}": count for name, count in counts.items()}

    def position(self) -> Mapping[str, int]:
        return {member.hex(): number for member, number in self._order.applied.items()}

    # --- for calls

    async def claim(self, call: CacheCall, missing: Sequence[Scope], *, search: bool) -> None:
        """Claim nothing: every member has all nodes."""

    def promise(self, call: CacheCall) -> None:
        container = self.tree.container
        call.expected = [(scope, digest(container, scope)) for scope in call.depends]

    async def commit(self, call: CacheCall) -> None:
        sync = self._sync if call.options.sync is None else call.options.sync
        turn = call.turn
        number = None if turn is None else turn.number
        body = body_bytes(call.modifications, call.expected, number)
        async with self._room:
            asked = await self._agreed(body, sync, None, turn)
        if asked.refused:
            raise BatchConflict(asked.refused)
        if turn is not None:
            turn.number = 0  # the turn has no place in the line any more
        call.changes = asked.changes

    async def come_up(self, turn: Turn) -> None:
        line = self._line
        if not turn.number:
            if not turn.lost and not line.ahead(None, turn.scopes):
                return  # no other caller is known here: no message
            await self._ask(turn)
        place = (self._order.me, turn.number)
        ahead, since = line.ahead(place, turn.scopes), trio.current_time()
        while ahead:
            with trio.move_on_at(since + PATIENCE) as patience:
                await line.moved.wait()
            before, ahead = ahead, line.ahead(place, turn.scopes)
            if ahead != before:
                since = trio.current_time()
            elif patience.cancelled_caught:
                self._pass(ahead)
                ahead = []

    async def _ask(self, turn: Turn) -> None:
        """Ask for a place in the line, by a batch that must lose its race."""
        self._counts["turns_asked"] += 1
        body = body_bytes((), [(scope, b"") for scope in turn.scopes], 0)
        try:
            async with self._room:
                await self._agreed(body, False, None, turn)
        except ReplicationError as error:
            raise ReplicationError(f"{error}; nothing was changed", definite=True) from error

    def _pass(self, places: Sequence[Place]) -> None:
        """Pass callers that have not moved: they must not keep others waiting."""
        self._counts["turns_passed"] += len(places)
        for place in places:
            self._line.leave(place)

    def step_back(self, turn: Turn) -> None:
        if turn.number:
            self._order.propose(body_bytes((), (), turn.number))
            turn.number = 0
            self._wake.set()

    async def propose(self, modifications: Sequence[Modification]) -> None:
        """Propose a batch that depends on nothing and belongs to no call. ReplicationError: the batch may have taken
        effect."""
        async with self._room:
            body = body_bytes(modifications)
            asked = await self._agreed(body, self._sync, Body(tuple(modifications), ()))
        if asked.refused:
            raise ReplicationError(f"{asked.refused}; nothing was changed", definite=True)

    async def _agreed(
        self, body: bytes, sync: bool, known: Body | None, turn: Turn | None = None
    ) -> _Asked:
        """Propose a batch; return when it is applied here, with ``sync`` everywhere. ``known``: the decoded body.
        ``turn``: gets a place in the line if the batch is refused."""
        if self._has_given_up:  # the call may have waited for a lock until then
            raise CacheClosed("the cache is closed")
        channel = self.channel
        if channel is not None and (most := channel.outbox.size_max) is not None:
            refuse_larger("this call", len(body), most - ORDER)
        number = self._order.propose(body)
        if turn is not None and not turn.number:
            turn.number = number
        self._counts["proposed"] += 1
        asked = self._asked[number] = _Asked(body, known, sync)
        self._wake.set()
        try:
            with trio.fail_after(self._timeout):
                await asked.applied.wait()
                if sync and not asked.refused:
                    await asked.finished.wait()
            if asked.is_given_up:
                raise ReplicationError("the cache was closed before all members had confirmed")
        except trio.TooSlowError:
            step = "applied here, not everywhere" if asked.applied.is_set() else "not ordered"
            raise ReplicationError(f"{step} within {self._timeout:g} s") from None
        finally:
            del self._asked[number]
            if not asked.applied.is_set():
                self._order.give_up(number)
        return asked

    def give_up(self) -> None:
        """End all waits, and let no call begin: this member hears of no proposal any more."""
        self._has_given_up = True
        for asked in self._asked.values():
            asked.give_up()

    # --- the member

    async def state(self) -> AsyncIterator[bytes]:
        """Yield the state for joiners, at this point of the stream."""
        yield state_bytes(self._order.applied, self.tree.container)

    async def run(self, channel: Channel) -> None:
        """Read and send until cancelled. Raises the channel's errors."""
        self.channel = channel
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, channel)
                async for item in channel:
                    match item:
                        case Message(sender, payload):
                            self._receive(sender, payload)
                        case View():
                            await self._install(channel, item)
                        case State(_, payload):
                            self._begin(payload)
                    self._after()
        except BaseExceptionGroup as group:
            reraise(group)

    def connect(self, me: Address) -> None:
        """Set, before ``run``, this member's address."""
        self._order = TotalOrder(bytes(me))

    async def _send(self, channel: Channel) -> None:
        order = self._order
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while order.to_send:
                to, said = order.to_send.pop(0)
                await channel.send(said_bytes(said), None if to is None else UUID(to))

    def _after(self) -> None:
        order = self._order
        while order.to_apply:
            ordered = order.to_apply.pop(0)
            if len(ordered.body) > LARGE:
                with no_collection():
                    self._apply(ordered)
            else:
                self._apply(ordered)
            order.applied_now(ordered)
        for number in self._order.finished:
            if number in self._asked:
                self._asked[number].finished.set()
        self._order.finished.clear()
        if self._order.to_send:
            self._wake.set()

    def _receive(self, sender: Address, payload: bytes) -> None:
        try:
            self._order.receive(bytes(sender), said_from(payload))
        except RemoteProtocolError as error:
            self._counts["garbage"] += 1
            _log.warning("a message of %s is dropped: %s", sender, error)

    def _apply(self, ordered: Ordered) -> None:
        mine = ordered.origin == self._order.me
        asked = self._asked.get(ordered.number) if mine else None
        refused = ""
        body: Body | None = None
        changes: Changes = ()
        container = self.tree.container
        try:
            if asked is not None and asked.body is not None and asked.bytes == ordered.body:
                body = asked.body
            else:
                body = body_from(ordered.body)
        except RemoteProtocolError as error:
            self._counts["garbage"] += 1
            refused = str(error)
        else:
            for scope, expected in body.depends:
                if digest(container, scope) != expected:
                    refused = f"{scope.path} was changed by another member"
                    break
            if body.turn is not None:
                self._stand(body, (ordered.origin, body.turn or ordered.number), bool(refused))
        if refused:
            self._counts["refused"] += bool(body is None or body.modifications)
        else:
            assert body is not None
            changes = fold(body.modifications, container.get, container.within)
            self._counts["applied"] += bool(body.modifications)
        self.tree.apply(changes, local=mine, origin=(ordered.origin.hex(), ordered.number))
        if asked is not None:
            asked.changes, asked.refused = changes, refused
            asked.applied.set()

    def _stand(self, body: Body, place: Place, refused: bool) -> None:
        """Update the line, the same at every member: a loser joins it, a winner leaves it."""
        if refused:
            self._line.join(place, tuple(scope for scope, _ in body.depends))
        else:
            self._line.leave(place)

    # --- views and states

    async def _install(self, channel: Channel, view: View) -> None:
        members = [bytes(member) for member in view]
        me = self._order.me
        self._line.keep(members)
        if isinstance(view, MergeView):
            self._line.clear()
        if isinstance(view, MergeView) and view.subgroups:
            winner = max(view.subgroups, key=len)
            self._counts["merged"] += 1
            there = [m for m in winner.members if m in view.members]
            anew = view.members[0] not in winner.members
            winners = [bytes(m) for m in winner.members]
            first = bytes(there[0]) if there else b""
            if not self._order.keeps(winner.id, winners, first):
                self._order.install(view.id, members, ready=False, anew=anew)
                await self._take_over(channel, [m for m in there if m != UUID(me)])
                self.ready.set()
                return
            self._order.install(view.id, members, ready=True, anew=anew)
        else:
            self._order.install(view.id, members, ready=True)
        self.ready.set()

    async def _take_over(self, channel: Channel, providers: Sequence[Address]) -> None:
        """Take the tree of the winning side instead of ours."""
        problem: StateTransferError | None = None
        for provider in providers:
            try:
                chunks = [c async for c in channel.fetch_state(provider, timeout=self._timeout)]
            except StateTransferError as error:
                problem = error
                continue
            before = self._counts["discarded_at_merge"]
            self._begin(b"".join(chunks), merging=True)
            lost = self._counts["discarded_at_merge"] - before
            if lost:
                _log.warning(
                    "the groups merged: %d nodes of this side were discarded: %s%s",
                    lost,
                    ", ".join(str(d.path) for d in [*self.discarded.listed][-lost:][:LOGGED_MAX]),
                    " ..." if lost > LOGGED_MAX else "",
                )
            return
        raise problem or StateTransferError("nobody of the winning side is left", "nobody")

    def _begin(self, payload: bytes, *, merging: bool = False) -> None:
        try:
            applied, nodes = state_from(payload)
        except RemoteProtocolError as error:
            raise StateTransferError(str(error), "another member", len(payload)) from None
        self._replace(nodes, merging)
        self._order.begin(applied)

    def _replace(self, nodes: Mapping[Fqn, Node], merging: bool) -> None:
        container = self.tree.container
        changes = [
            NodeChange(path, container.get(path), None)
            for path in container.within(ROOT)
            if path not in nodes
        ]
        changes += [
            NodeChange(path, container.get(path), node)
            for path, node in nodes.items()
            if container.get(path) != node
        ]
        if merging:
            for change in changes:
                if change.before is not None:
                    self._counts["discarded_at_merge"] += 1
                    self.discarded.add(change.path, None, change.before)
        self.tree.apply(tuple(changes), local=False)
