"""BuddyReplication: calls of a cache become calls of the buddy machine.

The body of a call runs inside the machine, in the step in which this member owns all nodes of the call. The change has
then taken effect and is on its way to the buddies. If the body ran later, others could take the nodes in between.
``claim`` returns after that step, ``commit`` when all holders have the change.

    put      A node that is owned here is written at once. Else there is one claim: with gravitation the node and all
             below it come here; without, NotOwner is raised if somebody has it. ``new=True``: there is no claim.
    get      A node that is here is read. Else, with gravitation, the node and all below it come here. A node that no member has is a
             miss. A subtree (``children``) is searched for if nothing of it is here.
    batch    There is one claim for all its paths, and one entry in the log: holders apply all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any, Literal, cast

import msgspec
import trio

from jgroups_py.buddy.call import BuddyCall as MachineCall
from jgroups_py.buddy.call import NotBegun, Values
from jgroups_py.buddy.call import OwnedElsewhere as NotOurs
from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.outputs import BuddyOutcome, Completed, DroppedValue
from jgroups_py.buddy.values import OwnedNode as Entry
from jgroups_py.buddy.values import Path, Wanted
from jgroups_py.cache.buddy_manager import BuddyManager
from jgroups_py.cache.buddy_settings import buddy_config, locator_of
from jgroups_py.cache.call import CacheCall, compute
from jgroups_py.cache.changes import NodeChange, RemoveTree
from jgroups_py.cache.fqn import BACKUP_ROOT, ROOT, Fqn
from jgroups_py.cache.holding import PlaceOfMember, holding
from jgroups_py.cache.keeping import RoomKeeping
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.nested import turns_around
from jgroups_py.cache.node import EMPTY, Node
from jgroups_py.cache.owned_tree import OwnedTree, shown
from jgroups_py.cache.passive import PassiveNodes
from jgroups_py.cache.replication import MemberReplication
from jgroups_py.cache.settings import CacheSettings
from jgroups_py.cache.sizes import refuse_larger, size_of_node
from jgroups_py.cache.turns import Turn
from jgroups_py.errors import (
    CacheClosed,
    CacheError,
    ChannelClosed,
    NotOwner,
    ReplicationError,
)
from jgroups_py.values.address import Address

Mode = Literal["take", "create"]
Having = tuple[Address, tuple[Address, ...]]
"""The owner of a node, and the members that keep its backups."""


class _Ticket(msgspec.Struct, eq=False):
    """A call at the machine. ``completed``: its end as reported by the machine. ``task``: the task that waits for it,
    at most until ``due``. ``abandon``: cancel the call when it is late."""

    id: int
    call: CacheCall | None
    """None: the call has no body."""
    raised: BaseException | None = None
    """The exception that the body raised. Nothing changed."""
    completed: Completed | None = None
    task: trio.lowlevel.Task | None = None
    due: float = 0.0
    abandon: bool = False
    late: bool = False
    alone: bool = False
    """No other call was under way when it began."""

    def is_completed(self) -> bool:
        return self.completed is not None

    def wake(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class NotComputed(Exception):
    """The body of a call has raised something that is no Exception."""


class BuddyReplication(MemberReplication):
    """``settings`` have buddies. ``hosts``: all addresses of this host."""

    keeps_copies = True
    runs_bodies = True
    allows_local_writes = False

    def __init__(self, settings: CacheSettings, hosts: Sequence[str] = ()) -> None:
        super().__init__()
        buddies = settings.buddies
        assert buddies is not None
        self._sync = settings.cache_mode == "REPL_SYNC"
        self._timeout = settings.sync_repl_timeout
        self._remove_on_find = buddies.data_gravitation_remove_on_find
        self.container: OwnedTree = OwnedTree()
        self.keeping = RoomKeeping(lambda: self.manager.look())
        self.manager = BuddyManager(
            buddy_config(buddies, hosts),
            locator_of(buddies, settings.source),
            source=settings.source,
            changed=self._mirror,
            told=self._told,
            ended_by=self._end,
            discarded=self._drop,
            needed=lambda paths: self.passive.need(paths),
            keeping=self.keeping.keeps,
        )
        self.container.backups = self.manager.backups
        self.passive = PassiveNodes(self.manager, self.container.mine, lambda: self.tree)
        self.container.outside = self.passive
        self._tickets: dict[int, _Ticket] = {}
        self._waiting: dict[_Ticket, None] = {}
        """Tickets in the order in which they are due."""
        self._in_one_step = 0
        """Calls that were acknowledged in the step that made them, since other tasks could run."""
        self._ids = count(1)
        self._has_given_up = False
        self._written: dict[Path, Node | None] = {}
        """The nodes that calls here have changed in this step of the machine."""

    def passive_paths(self) -> Sequence[Path]:
        return list(self.passive.paths)

    def holding(self) -> PlaceOfMember:
        manager = self.manager
        return holding(manager.machine, manager.touched.moves, manager.channel.name_of)

    def follow_owners(self, journal: Journal) -> Callable[[], None]:
        return self.manager.machine.follow(journal)

    def statistics(self) -> Mapping[str, int]:
        nodes, size = self.container.backup_size()
        return {
            **self.manager.statistics(),
            "backup_nodes": nodes,
            "backup_bytes": size,
            "passive_nodes": len(self.passive.paths),
            "activation_failures": self.passive.failures,
            "kept": self.keeping.kept,
            "kept_too_long": self.keeping.too_long,
        }

    # --- for calls

    async def come_up(self, turn: Turn) -> None:
        """Keep the nodes that the turn reads until it has written."""
        self.keeping.begin(turn)

    def step_back(self, turn: Turn) -> None:
        self.keeping.end(turn)

    async def claim(self, call: CacheCall, missing: Sequence[Scope], *, search: bool) -> None:
        if self.passive.paths:
            for scope in call.scopes:
                self.passive.check(scope.path)
        if call.writes:
            wanted = self._wanted(call.scopes, search)
        else:
            wanted = tuple(
                (tuple(scope.path), True)
                for scope in missing
                if search and self._lacks(scope, call)
            )
        if not wanted:
            return
        self._require_tasks()
        ticket = _Ticket(next(self._ids), call)
        self._tickets[ticket.id] = ticket
        mode: Mode = "take" if search else "create"
        call.ticket = ticket
        machine_call = MachineCall(
            ticket.id, wanted, lambda _: self._compute(call), mode=mode, new=call.options.new
        )
        ticket.alone = self._waits(call) and not self._waiting
        self.manager.submit(machine_call, alone=ticket.alone)
        if not call.computed and ticket.completed is None:
            turns = turns_around() if call.turn is None else [call.turn]
            with self.keeping.paused(turns):
                await self._computed(ticket, call)
        if not call.computed:
            assert ticket.completed is not None
            raise ticket.raised or _problem(ticket.completed)

    async def _computed(self, ticket: _Ticket, call: CacheCall) -> None:
        """Wait until the body has run or the call has ended."""
        while not call.computed and ticket.completed is None:
            if not await self._wait(ticket, abandon=True):
                raise ReplicationError(
                    f"{self._why()} within {self._timeout:g} s; nothing was changed", definite=True
                )

    async def commit(self, call: CacheCall) -> None:
        ticket = call.ticket
        assert ticket is not None and call.computed
        if not self._waits(call):
            return
        if ticket.completed is None and ticket.alone:
            await self._look_for_end(ticket)
        if ticket.completed is None and not await self._wait(ticket, abandon=False):
            raise ReplicationError(
                f"changed here, not acknowledged by all buddies within {self._timeout:g} s"
            )
        assert ticket.completed is not None
        if ticket.completed.outcome is not BuddyOutcome.DONE:
            raise _problem(ticket.completed)

    def _waits(self, call: CacheCall) -> bool:
        """Does the call wait until all buddies have its changes?"""
        return self._sync if call.options.sync is None else call.options.sync

    async def owners(self, path: Fqn, *, deep: bool) -> Mapping[Path, Having]:
        """Return, for each node at a path (``deep``: and below), its owner and its backup members. Nothing moves.

        Raises:
            ReplicationError: not all members have answered.
        """
        return await self._look(((tuple(path), deep),))

    async def owned(self, paths: Sequence[Path]) -> Collection[Path]:
        """Return the paths that have an owner. Errors as ``owners``."""
        return (await self._look(tuple([(path, False) for path in paths]))).keys()

    async def _look(self, wanted: tuple[Wanted, ...]) -> Mapping[Path, Having]:
        self._require_tasks()
        ticket = _Ticket(next(self._ids), None)
        self._tickets[ticket.id] = ticket
        self.manager.submit(MachineCall(ticket.id, wanted, mode="look"))
        while ticket.completed is None:
            if not await self._wait(ticket, abandon=True):
                raise ReplicationError(
                    f"not everybody has answered within {self._timeout:g} s", definite=True
                )
        if ticket.completed.outcome is not BuddyOutcome.DONE:
            raise _problem(ticket.completed)
        return cast(Mapping[Path, Having], ticket.completed.result)

    def _why(self) -> str:
        if self.manager.machine.minority:
            return "this side of a partition is the smaller one, and was not joined to the other"
        return "not everybody has answered"

    def _wanted(self, scopes: Sequence[Scope], search: bool) -> tuple[Wanted, ...]:
        """Return the nodes that a write claims. With gravitation the claim covers all below a missing node (B22)."""
        entries, wanted = self.manager.entries, []
        for scope in scopes:
            path = tuple(scope.path)
            wanted.append((path, scope.deep or (search and path not in entries)))
        return tuple(wanted)

    def _lacks(self, scope: Scope, call: CacheCall) -> bool:
        """Should the cluster be asked? It is not asked for the root or for a node that was removed here."""
        path = scope.path
        if path.is_within(BACKUP_ROOT):
            return False
        if call.options.gravitation:  # the caller asked for it
            return True
        if scope.deep:
            here = call.stored_names or self.container.within(path)
            return path != ROOT and not here
        entry = self.manager.entries.get(path)
        return entry is None or entry.to is not None

    async def _look_for_end(self, ticket: _Ticket) -> None:
        """Look for the acknowledgements in this step, so that no task has to be woken by them (answer_watch.py). Other tasks run
        after every ``DriverLimits.watched_max`` calls that ended so: they may want to call, too."""
        driver = self.manager.channel.driver
        if not driver.watch(ticket.is_completed):
            return
        self._in_one_step += 1
        if self._in_one_step < driver.limits.watched_max:
            return
        ticket.due = trio.current_time() + self._timeout
        self._waiting[ticket] = None  # calls that begin meanwhile are bundled
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._in_one_step = 0
            del self._waiting[ticket]

    async def _wait(self, ticket: _Ticket, *, abandon: bool) -> bool:
        """Wait until the machine reports on the ticket. False: the time is over. ``abandon``: at a time-out or a
        cancellation, cancel the call in the same step, so that it cannot run later."""

        def abort(_: Any) -> trio.lowlevel.Abort:
            ticket.task = None
            if abandon:
                self.manager.cancel(ticket.id)
            return trio.lowlevel.Abort.SUCCEEDED

        ticket.task = trio.lowlevel.current_task()
        ticket.due, ticket.abandon = trio.current_time() + self._timeout, abandon
        self._waiting[ticket] = None
        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            del self._waiting[ticket]
            self._in_one_step = 0
        return not ticket.late

    async def end_waits(self) -> None:
        """End waits that are too long. One timer serves all: the time-out is the same, so the oldest ticket is due
        first."""
        while True:
            oldest = next(iter(self._waiting), None)
            now = trio.current_time()
            if oldest is None:
                await trio.sleep(self._timeout)  # newer tickets are due later
            elif oldest.due > now:
                await trio.sleep_until(oldest.due)
            else:
                for ticket in [t for t in self._waiting if t.due <= now and t.task is not None]:
                    ticket.late = True
                    if ticket.abandon:
                        self.manager.cancel(ticket.id)
                    ticket.wake()
                await trio.lowlevel.checkpoint()

    # --- in a step of the machine

    def _compute(self, call: CacheCall) -> Values:
        """Run the body: this member owns every existing node of the call."""
        self._require_tasks()  # the caller was told that nothing was changed
        self._mirror()
        try:
            compute(call, self.container)
            if (most := self.manager.size_max) is not None:
                for change in call.changes:
                    if change.after is not None:
                        refuse_larger(change.path, size_of_node(change.path, change.after), most)
        except BaseException as error:
            call.ticket.raised, call.computed = error, False
            if isinstance(error, Exception):
                raise
            raise NotComputed from error  # the step may be another task's, and only the caller gets the error
        entries, stable = self.manager.entries, self.manager.machine.log.stable
        new: dict[Path, Any] = {}
        for change in call.changes:
            path = tuple(change.path)
            self._written[path] = change.after
            new[path] = None if change.after is None else change.after.attributes
        # An unacknowledged call has already made this change. This call must wait for it, too.
        for modification in call.modifications:
            below = tuple(modification.path)
            if isinstance(modification, RemoveTree):
                again = [p for p in entries if p[: len(below)] == below]
            else:
                again = [below]
            for p in again:
                if p not in new and p in entries and not stable(p):
                    new[p] = None if entries[p].removed else entries[p].value
        self._tickets[call.ticket.id].wake()
        return new

    def _mirror(self) -> None:
        """Change the tree as the machine's nodes have changed, and notify listeners."""
        if not self.manager.touched.nodes:
            self._written.clear()
            return
        entries, tree = self.manager.entries, self.tree
        touched = self.manager.touched.take()
        written: list[NodeChange] = []
        moved: list[NodeChange] = []
        arrived: list[NodeChange] = []
        for path, was in touched.items():
            fqn = Fqn.of_checked(path)
            entry = entries.get(path)
            before, after = self.container.owned(fqn), shown(entry, self._written.get(path))
            if path in self.passive.paths:
                if entry is not None and entry.passive:
                    continue
                self.passive.gone(path)
                before = EMPTY  # the node existed, but not in memory
            if before is after is None:
                continue
            change = NodeChange(fqn, before, after)
            if path in self._written:
                written.append(change)
            elif before != after:
                (arrived if self._arrived(path, was) else moved).append(change)
        self._written.clear()
        if written:
            tree.apply(tuple(written), local=True)
        if arrived:
            tree.arrived(tuple(arrived))
        if moved:
            tree.moved(tuple(moved), remove=self._remove_on_find)

    def _drop(self, dropped: DroppedValue) -> None:
        node = None if dropped.value is None else Node(dropped.value)
        self.discarded.add(Fqn(dropped.path), dropped.member, node)

    def _arrived(self, path: Path, was: Entry | None) -> bool:
        """Return True if another site wrote the node, False if another member handed it over."""
        entry = self.manager.entries.get(path)
        if entry is None or not entry.came or entry.giver is not None:
            return False
        if was is None or was.to is not None:
            return path not in self.manager.machine.ownership.adopted_from
        return was.stamp != entry.stamp

    def _told(self, completed: Completed) -> None:
        ticket = self._tickets.pop(completed.call, None)
        if ticket is not None:
            ticket.completed = completed
            ticket.call = None  # breaks a reference cycle
            ticket.wake()

    def give_up(self) -> None:
        """End all waits, and let no call begin: this member hears of no acknowledgement any more."""
        self._has_given_up = True
        self._end(ChannelClosed("the cache is closed"))

    def _require_tasks(self) -> None:
        """Raise CacheClosed after ``give_up``. A call may have waited for a lock until then."""
        if self._has_given_up:
            raise CacheClosed("the cache is closed")

    def _end(self, error: Exception) -> None:
        """End all waits: the channel has ended and no acknowledgement will come."""
        for ticket in list(self._tickets.values()):
            computed = ticket.call is not None and ticket.call.computed
            outcome = BuddyOutcome.UNKNOWN if computed else BuddyOutcome.FAILED
            self._told(Completed(ticket.id, outcome, None, error))


def _problem(completed: Completed) -> Exception:
    """Return the error for a call that was not done."""
    error = completed.error
    match error:
        case CacheError():
            return error
        case NotOurs():
            paths = ", ".join(str(Fqn(path)) for path in error.args[0][:3])
            return NotOwner(f"owned by another member, and gravitation is not allowed: {paths}")
        case NotBegun():
            return ReplicationError(f"{error}; nothing was changed", definite=True)
    definite = completed.outcome is BuddyOutcome.FAILED
    said = "nothing was changed" if definite else "it may have happened"
    return ReplicationError(f"{error or 'not done'}; {said}", definite=definite)
