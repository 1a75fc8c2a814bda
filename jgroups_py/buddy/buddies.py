"""The owner's side of a buddy group: the present and the wanted holders of copies, and the push to new holders.

Make before break: a holder is dismissed only when all wanted holders are complete. The push reads the live nodes, chunk
by chunk, and uses the stream that carries the log. A copy taken early and sent late would overwrite newer log entries.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.holders import COMPLETE, DISMISSED, FILLING, Holder, Holders
from jgroups_py.buddy.locator import BUDDIES_MAX, BuddyLocator, MemberFacts, checked
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import (
    Assign,
    Chunk,
    Dismiss,
    DismissAck,
    FillAck,
    Filled,
    OpAck,
    Pool,
    groups_of,
)
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.values import BuddyGroup, OwnedNode, Path, weight
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address

WRONG_TOLD_MAX: Final = 3
"""The most different mistakes of one answer that are logged."""


def _said(wrong: list[str]) -> str:
    counts = Counter(wrong)
    said = [what if n == 1 else f"{what} ({n} times)" for what, n in counts.items()]
    more = len(said) - WRONG_TOLD_MAX
    return "; ".join(said[:WRONG_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


class Buddies:
    """``wanted``: the buddies that the locator has chosen. ``holders``: the members that have copies, or get them."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        locator: BuddyLocator,
        holders: Holders,
        log: WriteLog,
        ownership: Ownership,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._locator = locator
        self._log = log
        self._ownership = ownership
        self._out = out
        self.wanted: list[Address] = []
        self.holders = holders
        self.before: tuple[Address, ...] = ()
        """The holders of the previous view that are still members."""
        self._turns = 0
        self.blocked = False
        """The next value to be pushed is not in memory."""
        self.pools: dict[Address, Pool] = {}
        """The announcement of each member."""

    @property
    def group(self) -> BuddyGroup:
        """The group that this member owns."""
        membership = self._membership
        return BuddyGroup(membership.me, tuple(self.wanted), membership.group)

    @property
    def complete(self) -> bool:
        """Do all wanted members have complete copies, and no other member any copy?"""
        for holder in self.holders.values():
            if holder.state is not COMPLETE:
                return False
        return len(self.holders) == len(self.wanted)

    # --- choosing

    def locate(self) -> None:
        """Ask the locator. This is done only when the membership changes, a member is about to leave, or a member
        announces its pool."""
        membership = self._membership
        turned = membership.line
        self._out.count("locator_calls")
        raised = False
        try:
            told = self._locator.get_buddies([self._told(m) for m in turned])
            answer = list(islice(told, 2 * BUDDIES_MAX))  # the answer might never end
        except Exception as error:  # a user's locator may raise anything
            what = f"the locator raised {said(error)}; next in line it is"
            self._out.complain("locator_raised", what)
            answer, raised = [], True
        self.wanted, wrong = checked(answer, turned, membership.num_buddies, self.last_first())
        if wrong and not raised:
            self._out.complain("locator_corrected", f"the locator named {_said(wrong)}")
        self.arrange()

    def last_first(self) -> list[Address]:
        """Return the leaving members, in the order in which owners keep them as buddies. All owners use one order: with
        two orders, two leavers might wait for each other."""
        membership = self._membership
        return [m for m in reversed(membership.members) if m in membership.leaving]

    def _told(self, member: Address) -> MemberFacts:
        if member == self._membership.me:
            config = self._config
            told = (config.pool, config.zone, config.hosts)
        elif (pool := self.pools.get(member)) is not None:
            told = (pool.pool, pool.zone, pool.hosts)
        else:
            told = ("", "", ())
        return MemberFacts(member, *told, leaving=member in self._membership.leaving)

    def arrange(self) -> None:
        """Assign the wanted members. Dismiss the others when all wanted ones are complete. A member that is wanted
        again during its dismissal is assigned after its answer."""
        for member in self.wanted:
            if member not in self.holders:
                self._assign(member)
        if all(self.holders[m].state is COMPLETE for m in self.wanted):
            for member, holder in self.holders.items():
                if member not in self.wanted and holder.state is not DISMISSED:
                    self._dismiss(member, holder)

    def _dismiss(self, member: Address, holder: Holder) -> None:
        holder.state = DISMISSED
        holder.todo = None
        self._out.send(member, Dismiss(self._membership.group))

    def _assign(self, member: Address) -> None:
        self._turns += 1
        seq, wrote = self._log.seq, self._log.wrote
        self.holders[member] = Holder(seq, deque(self._ownership.nodes), self._turns)
        adopted = groups_of(self._ownership.adopted)
        self._out.send(member, Assign(self.group, seq, adopted, wrote, self._turns))

    # --- the push

    def push(self) -> bool:
        """Send the next chunk to one holder that is being filled. False: there is nothing to send now."""
        if self.blocked:
            return False
        for member, holder in self.holders.items():
            if holder.state is FILLING and holder.todo is not None:
                self._push(member, holder, holder.todo)
                return True
        return False

    @property
    def pushing(self) -> bool:
        """Is there something to push?"""
        if not self.blocked:
            for holder in self.holders.values():
                if holder.todo is not None:
                    return True
        return False

    def _push(self, member: Address, holder: Holder, todo: deque[Path]) -> None:
        own = self._ownership.nodes
        nodes: list[tuple[Path, OwnedNode]] = []
        room = self._config.chunk_bytes
        while todo and room > 0 and len(nodes) < self._config.chunk_nodes:
            path = todo[0]
            node = own.get(path)
            if node is not None and node.passive:
                self._need(todo)
                break
            todo.popleft()
            if node is not None:
                nodes.append((path, self._log.replica(node)))
                room -= weight(node.value)
        if nodes:
            self._out.send(member, Chunk(tuple(nodes)))
        if not todo:
            holder.todo = None
            self._out.send(member, Filled())

    def _need(self, todo: deque[Path]) -> None:
        """Ask the store for the next values to be pushed that are not in memory."""
        own = self._ownership.nodes
        self.blocked = True
        soon = islice(todo, self._config.chunk_nodes)
        self._out.event("activate", tuple(p for p in soon if p in own and own[p].passive))

    # --- inputs

    def on_fill_ack(self, src: Address, message: FillAck) -> None:
        holder = self.holders.get(src)
        if holder is None or holder.turn != message.turn:
            return
        if holder.state is FILLING and holder.todo is None:
            holder.state = COMPLETE
            holder.seen = message.view
            self.arrange()

    def on_op_ack(self, src: Address, message: OpAck) -> None:
        holder = self.holders.get(src)
        if holder is not None and holder.acked < message.seq <= self._log.seq:
            holder.acked = message.seq

    def on_dismiss_ack(self, src: Address, message: DismissAck) -> None:
        holder = self.holders.get(src)
        if holder is not None and holder.state is DISMISSED:
            del self.holders[src]
            self.arrange()

    def on_pool(self, src: Address, message: Pool) -> None:
        if message.address != src:
            self._out.count("bad_messages")
        elif self.pools.get(src) != message:
            self.pools[src] = message
            self.locate()

    # --- views

    def new_view(self, members: Iterable[Address], strangers: Iterable[Address]) -> None:
        """Forget holders that left, and those that came from another part of a merged group: their copies do not count."""
        for member in [h for h in self.holders if h not in members or h in strangers]:
            del self.holders[member]
        self.before = tuple(self.holders)

    def begin_anew(self, lost: Iterable[tuple[Address, Address]]) -> None:
        """Fill holders again that have reported no copies. A holder may have reported that before our ``Assign``
        reached it. If it is complete by now it keeps its copies, because other holders were dismissed for it."""
        mine = [holder for owner, holder in lost if owner == self._membership.me]
        if not mine:
            return
        self._out.count("holders_lost", len(mine))
        for member in mine:
            holder = self.holders.get(member)
            if holder is None or holder.state is DISMISSED:
                continue
            if holder.state is COMPLETE and holder.seen == self._membership.number:
                continue
            if member in self.wanted:
                del self.holders[member]
            else:
                self._dismiss(member, holder)
        self.arrange()

    def announce(self) -> None:
        """Send this member's pool, zone and hosts to the others."""
        config = self._config
        if config.pool or config.zone or config.hosts:
            pool = Pool(self._membership.me, config.pool, config.zone, config.hosts)
            self._out.send_all(pool)
