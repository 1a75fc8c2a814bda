"""The owner's side of a buddy group: who holds copies, who shall, and the push to new ones.

Make before break: others are dismissed only when all that are wanted are complete. The push is cut from
the live tree, chunk by chunk, on the stream that carries the log: a copy taken early and sent late would
overwrite what was logged meanwhile.
"""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final

from jgroups_py.buddy.locator import BUDDIES_MAX, Member, checked
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
from jgroups_py.buddy.values import BuddyGroup, Node, Path, weight
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class State(Enum):
    FILLING = "filling"
    COMPLETE = "complete"
    DISMISSED = "dismissed"


FILLING: Final = State.FILLING
COMPLETE: Final = State.COMPLETE
DISMISSED: Final = State.DISMISSED


class Holder:
    """A member that keeps a backup. ``turn``: the number of its assignment. ``todo``: paths still to be pushed; None:
    ``Filled`` was sent. ``seen``: the view in which it said that all is there."""

    __slots__ = ("acked", "seen", "state", "todo", "turn")

    def __init__(self, seq: int, todo: deque[Path], turn: int) -> None:
        self.state = FILLING
        self.acked = seq
        self.turn = turn
        self.seen = 0
        self.todo: deque[Path] | None = todo


WRONG_TOLD_MAX: Final = 3
"""Different mistakes of one answer that are told."""


def _said(wrong: list[str]) -> str:
    counts = Counter(wrong)
    said = [what if n == 1 else f"{what} ({n} times)" for what, n in counts.items()]
    more = len(said) - WRONG_TOLD_MAX
    return "; ".join(said[:WRONG_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


class Buddies:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.wanted: list[Address] = []
        self.holders: dict[Address, Holder] = {}
        self.before: tuple[Address, ...] = ()
        """Who of them was one when the view came."""
        self._turns = 0
        self.blocked = False
        """What is to be pushed next waits for values from the store."""
        self.pools: dict[Address, Pool] = {}
        """What members announced."""
        self.leaving: dict[Address, bool] = {}
        """True: it is ready to go, nothing is lost."""

    # --- the log's questions

    def receivers(self) -> list[Address]:
        return [m for m, h in self.holders.items() if h.state is not DISMISSED]

    def acked_by_all(self, last: int) -> int:
        """A dismissed holder counts until it has answered: it might still be taken for a buddy."""
        for holder in self.holders.values():
            if holder.acked < last:
                last = holder.acked
        return last

    @property
    def complete(self) -> bool:
        """Have all wanted members everything, and nobody else anything?"""
        for holder in self.holders.values():
            if holder.state is not COMPLETE:
                return False
        return len(self.holders) == len(self.wanted)

    # --- choosing

    def locate(self) -> None:
        """Asks the locator. Only when the membership changes, somebody leaves, or a pool is told."""
        machine = self.machine
        at = machine.members.index(machine.me)
        turned = machine.members[at:] + machine.members[:at]
        machine.count("locator_calls")
        raised = False
        try:
            told = machine.locator.get_buddies([self._told(m) for m in turned])
            answer = list(islice(told, 2 * BUDDIES_MAX))  # it might never end
        except Exception as error:  # a locator of the user's: whatever it raises
            what = f"the locator raised {said(error)}; next in line it is"
            machine.complain("locator_raised", what)
            answer, raised = [], True
        self.wanted, wrong = checked(answer, turned, machine.num_buddies, self.last_first())
        if wrong and not raised:
            machine.complain("locator_corrected", f"the locator named {_said(wrong)}")
        self.arrange()

    def last_first(self) -> list[Address]:
        """Who leaves, in the order in which owners keep them as buddies. It is one order for all owners: else each
        of two leavers might be kept by somebody until the other one is gone."""
        return [m for m in reversed(self.machine.members) if m in self.leaving]

    def _told(self, member: Address) -> Member:
        machine = self.machine
        if member == machine.me:
            config = machine.config
            told = (config.pool, config.zone, config.hosts)
        elif (pool := self.pools.get(member)) is not None:
            told = (pool.pool, pool.zone, pool.hosts)
        else:
            told = ("", "", ())
        return Member(member, *told, leaving=member in self.leaving)

    def arrange(self) -> None:
        """Assigns who is wanted; dismisses the others once all of those are complete. Who is wanted
        again while being dismissed is assigned when it has answered."""
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
        self.machine.send(member, Dismiss(self.machine.group))

    def _assign(self, member: Address) -> None:
        machine = self.machine
        self._turns += 1
        self.holders[member] = Holder(machine.log.seq, deque(machine.own), self._turns)
        group = BuddyGroup(machine.me, tuple(self.wanted), machine.group)
        adopted = groups_of(machine.adopted)
        seq, wrote = machine.log.seq, machine.log.wrote
        machine.send(member, Assign(group, seq, adopted, wrote, self._turns))

    # --- the push

    def push(self) -> bool:
        """Sends the next chunk to one buddy that is being filled; False: nothing to send now."""
        if self.blocked:
            return False
        for member, holder in self.holders.items():
            if holder.state is FILLING and holder.todo is not None:
                self._push(member, holder, holder.todo)
                return True
        return False

    @property
    def pushing(self) -> bool:
        if not self.blocked:
            for holder in self.holders.values():
                if holder.todo is not None:
                    return True
        return False

    def _push(self, member: Address, holder: Holder, todo: deque[Path]) -> None:
        machine = self.machine
        own = machine.own
        nodes: list[tuple[Path, Node]] = []
        room = machine.config.chunk_bytes
        while todo and room > 0 and len(nodes) < machine.config.chunk_nodes:
            path = todo[0]
            node = own.get(path)
            if node is not None and node.passive:
                self._need(todo)
                break
            todo.popleft()
            if node is not None:
                nodes.append((path, machine.log.replica(node)))
                room -= weight(node.value)
        if nodes:
            machine.send(member, Chunk(tuple(nodes)))
        if not todo:
            holder.todo = None
            machine.send(member, Filled())

    def _need(self, todo: deque[Path]) -> None:
        """The next value to be pushed left memory: it is asked for, and what soon comes after it."""
        own = self.machine.own
        self.blocked = True
        soon = islice(todo, self.machine.config.chunk_nodes)
        self.machine.passive.need(p for p in soon if p in own and own[p].passive)

    # --- what comes in

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
        if holder is not None and holder.acked < message.seq <= self.machine.log.seq:
            holder.acked = message.seq

    def on_dismiss_ack(self, src: Address, message: DismissAck) -> None:
        holder = self.holders.get(src)
        if holder is not None and holder.state is DISMISSED:
            del self.holders[src]
            self.arrange()

    def on_pool(self, src: Address, message: Pool) -> None:
        if message.address != src:
            self.machine.count("bad_messages")
        elif self.pools.get(src) != message:
            self.pools[src] = message
            self.locate()

    def on_leaving(self, src: Address, ready: bool) -> None:
        known = src in self.leaving
        self.leaving[src] = ready
        if not known:
            self.locate()

    # --- views

    def drop(self, gone: list[Address]) -> None:
        """They hold nothing any more, or nothing that counts."""
        for member in gone:
            self.holders.pop(member, None)
        self.before = tuple(self.holders)

    def begin_anew(self, lost: list[Address]) -> None:
        """They have nothing; or what was sent to them was not there yet when they said so, and comes before this. Who has it
        all since, must keep it: others were dismissed because of that."""
        for member in lost:
            holder = self.holders.get(member)
            if holder is None or holder.state is DISMISSED:
                continue
            if holder.state is COMPLETE and holder.seen == self.machine.number:
                continue
            if member in self.wanted:
                del self.holders[member]
            else:
                self._dismiss(member, holder)
        self.arrange()

    def announce(self) -> None:
        config = self.machine.config
        if config.pool or config.zone or config.hosts:
            pool = Pool(self.machine.me, config.pool, config.zone, config.hosts)
            self.machine.send_all(pool)
