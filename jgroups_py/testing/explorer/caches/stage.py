"""Members of a group with a cache each, on a network in memory, under a clock that jumps.

Caches, channels and protocols are the real ones. Packets, time and the order in which tasks run come from the
seed. Callers live in the process of their member: when it is killed they stop where they are, and go on
at the next incarnation with the step after.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    EvictionConfig,
    Fqn,
    LoaderConfig,
    RegionConfig,
    Row,
    Store,
    StoreConfig,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.cache.buddy_manager import BuddyManager
from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.cache.full_replication import FullReplication
from jgroups_py.cache.node import Node
from jgroups_py.drill.file.plan import FaultFigures
from jgroups_py.drill.run.faulty_network import FaultyDriver, FaultyNetwork, MemberNetwork
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import Expelled, JoinError, StateTransferError
from jgroups_py.sessions import SessionSettings, SessionStore
from jgroups_py.stack.machine import Machine
from jgroups_py.testing.explorer.caches.callers import (
    CallHistory,
    NodeCaller,
    SessionCaller,
    Visitors,
)
from jgroups_py.testing.explorer.caches.places import Journey, MemberPlace, Places
from jgroups_py.testing.explorer.caches.schedule import CacheFault, CacheSchedule, Caller, Do
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

START_SECONDS: Final = 60.0
"""Virtual time in which all members must be in one view, with buddies."""
END_SECONDS: Final = 120.0
"""Virtual time in which all callers must be done, and all must be at rest, after the faults."""
LOOK_SECONDS: Final = 0.02
"""The seconds between two checks for a state."""
REOPEN_SECONDS: Final = 0.5
"""The seconds after which an application that was expelled opens its cache again."""
TIMEOUT: Final = 4.0
"""The time limit of locks and of waits for other members. Detection takes less."""
STACK: Final = """<config xmlns="urn:org:jgroups">
    <SHARED_LOOPBACK/>
    <SHARED_LOOPBACK_PING/>
    <MERGE3 min_interval="0.5s" max_interval="1s"/>
    <FD_SOCK2/>
    <FD_ALL3 timeout="1.5s" interval="0.5s"/>
    <VERIFY_SUSPECT2 timeout="0.3s"/>
    <BARRIER/>
    <pbcast.NAKACK2 xmit_interval="0.1s"/>
    <UNICAST3 xmit_interval="0.1s"/>
    <pbcast.STABLE desired_avg_gossip="5s" max_bytes="1M"/>
    <pbcast.GMS join_timeout="0.3s"/>
    <MFC max_credits="400K" min_threshold="0.4"/>
    <UFC max_credits="400K" min_threshold="0.4"/>
    <FRAG2 frag_size="60K"/>
    <pbcast.STATE_TRANSFER/>
</config>
"""
"""sim.xml, quick to detect and to merge: a run lasts seconds."""


class DiskRows(Store):
    """The rows that a disk keeps when the process is killed. Each call takes ``seconds()``."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.rows: dict[Fqn, Node] = {}
        self._seconds = seconds

    async def open(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def load(self, path: Fqn) -> Node | None:
        await trio.sleep(self._seconds())
        return self.rows.get(path)

    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Node]]:
        await trio.sleep(self._seconds())
        return [(p, node) for p, node in self.rows.items() if p.is_within(path)][:limit]

    async def names(self, path: Fqn) -> Sequence[str]:
        await trio.sleep(self._seconds())
        depth = len(path)
        return sorted({p[depth] for p in self.rows if p.is_within(path) and len(p) > depth})

    async def apply(self, rows: Sequence[Row]) -> None:
        await trio.sleep(self._seconds())
        for path, node in rows:
            if node is None:
                self.rows.pop(path, None)
            else:
                self.rows[path] = node

    async def purge(self) -> None:
        self.rows.clear()


@dataclass(eq=False)
class StageMember:
    """One incarnation."""

    name: str
    incarnation: int
    network: MemberNetwork
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    closing: trio.Event = field(default_factory=trio.Event)
    calls: trio.Nursery | None = None
    """The nursery of its callers."""
    cache: TreeCache | None = None
    journey: Journey | None = None
    gone: bool = False
    """True: the member was killed or expelled, or has left."""
    ended: bool = False
    paused: bool = False
    wants: int = 0
    """Callers that are not done."""
    met: dict[Address, None] = field(default_factory=dict)
    """The members that were in a view of it, with buddies."""

    @property
    def origin(self) -> str:
        return f"{self.name}#{self.incarnation}"


class CacheStage:
    """One run; ``history`` and ``places`` are its result."""

    def __init__(self, schedule: CacheSchedule, folder: Path) -> None:
        self.schedule = schedule
        self.history = CallHistory(self._place)
        self.places = Places(trio.current_time)
        self.story: list[str] = []
        self.faults = 0
        self.lost: dict[str, float] = {}
        """Incarnations that were killed or expelled, and when."""
        self.last: list[str] = []
        """Incarnations that are present at the end."""
        self.split_at: float | None = None
        """The first time when two groups of owners and buddies went on side by side, or when a group went on with no
        more living members than buddies."""
        self.problem = ""
        """Problems of the stage: members that never came, or never ended."""
        self._stack = folder / "stack.xml"
        self._stack.write_text(STACK)
        self._random = random.Random(f"{schedule.seed}:caches")
        self._members: dict[str, StageMember] = {}
        self._next = [0] * len(schedule.callers)
        self._visitors = Visitors()
        self._stores: dict[str, DiskRows] = {}
        self._cuts: list[frozenset[str]] = []
        self._zero = 0.0
        self._begun = self._ending = False
        self._nursery: trio.Nursery
        self._network: FaultyNetwork

    # --- the course of it

    async def run(self) -> None:
        self._network = FaultyNetwork(
            random.Random(f"{self.schedule.seed}:network"), lambda _a, _b: self._figures()
        )
        self._network.cut = self._is_cut
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._network.carry)
            if await self._begin():
                for fault in self.schedule.faults:
                    nursery.start_soon(self._at, fault)
                await self._all_done()
                await self._last_look()
            nursery.cancel_scope.cancel()

    async def _begin(self) -> bool:
        for name in self._names:
            await self._start(name)
        if not await self._until(self._at_rest, START_SECONDS):
            self.problem = f"no common view within {START_SECONDS:g} s"
            return False
        if self.schedule.sessions:
            await self._create_sessions()
        self._zero = trio.current_time()
        self._begun = True
        for name in self._names:
            self._start_callers(self._members[name])
        return True

    @property
    def _names(self) -> tuple[str, ...]:
        if self.schedule.back_end == "local":
            return self.schedule.members[:1]
        there = [name for name in self.schedule.members if name not in self.schedule.late]
        return tuple(there) or self.schedule.members

    async def _all_done(self) -> None:
        last = max((fault.at + fault.seconds for fault in self.schedule.faults), default=0.0)
        await trio.sleep_until(self._zero + last + LOOK_SECONDS)
        self._ending = True
        self._cuts.clear()
        self._network.healed()
        for member in list(self._members.values()):
            self._resume(member)
        if not await self._until(lambda: bool(self._here()), START_SECONDS):
            await self._restart(self._names[0])
        if self.schedule.majority:  # the remaining one of two members waits for the other, for good
            for name in self.schedule.members:
                await self._restart(name)
        if not await self._until(self._callers_done, END_SECONDS):
            self.problem = f"not every call had ended {END_SECONDS:g} s after the faults"
        elif not await self._until(self._at_rest, END_SECONDS):
            self.problem = f"not at rest {END_SECONDS:g} s after the faults"

    async def _last_look(self) -> None:
        """Read all paths once more, at each member."""
        here = self._here()
        self.last = [member.origin for member in here]
        if self.problem:
            return
        paths = list(dict.fromkeys(self._paths()))
        for member in here:
            for number, path in enumerate(paths):
                await self._one_last(member, path, number)

    async def _one_last(self, member: StageMember, path: str, number: int) -> None:
        caller = self._caller(member, f"{member.name}/last")
        await caller.do(Do(do="load" if self.schedule.sessions else "node", path=path), number)

    def _paths(self) -> list[str]:
        steps = [step for caller in self.schedule.callers for step in caller.steps]
        return sorted({path for step in steps for path in (step.path, step.other) if path})

    async def _until(self, condition: Callable[[], bool], limit: float) -> bool:
        end = trio.current_time() + limit
        while not condition():
            if trio.current_time() > end:
                return False
            await trio.sleep(LOOK_SECONDS)
        return True

    def _here(self) -> list[StageMember]:
        return [m for m in self._members.values() if not m.gone and m.cache is not None]

    def _at_rest(self) -> bool:
        """Are all that live in one view, and protected?"""
        here = self._here()
        if self.schedule.back_end == "local":
            return bool(here)
        if not here or any(not m.ended and m.gone for m in self._members.values()):
            return False
        if any(m.cache is None and not m.gone for m in self._members.values()):
            return False
        for member in here:
            assert member.cache is not None
            if len(member.cache.members) != len(here) or member.closing.is_set():
                return False
            if self.schedule.back_end == "buddy":
                buddies = member.cache.buddies
                if not buddies.protected or len(buddies.members) != len(here):
                    return False
            elif member.journey is None or member.journey.place.waiting:
                return False
        return True

    def _callers_done(self) -> bool:
        living = {m.name for m in self._here()}
        return all(
            self._next[i] >= len(caller.steps) or caller.member not in living
            for i, caller in enumerate(self.schedule.callers)
        ) and not any(m.wants for m in self._here())

    # --- members

    def _place(self, origin: str) -> MemberPlace:
        if self.schedule.back_end == "buddy":
            return MemberPlace(None, apart=self._is_apart(origin))
        journey = self.places.journeys.get(origin)
        return MemberPlace(None) if journey is None else journey.place

    def _is_apart(self, origin: str) -> bool:
        """Is the member, with owners and buddies, on the smaller side of a split, or did others go on without it?"""
        found = [m for m in self._members.values() if m.cache is not None and not m.gone]
        me = next((m for m in found if m.origin == origin), None)
        if me is None or me.cache is None:
            return False
        manager = me.cache.buddies
        if manager.machine.minority:
            return True
        return any(
            manager.machine.me not in other.cache.buddies.members
            and not other.cache.buddies.machine.minority
            for other in found
            if other is not me and other.cache is not None
        )

    def _look_for_split(self) -> None:
        """Note that two groups go on: the merge may drop writes of each (``discarded``)."""
        if self.split_at is not None or not self._begun:
            return
        living = [
            (m, m.cache.buddies)
            for m in self._members.values()
            if m.cache is not None and not m.gone and not m.closing.is_set()
        ]
        going_on = [(m, b) for m, b in living if not b.machine.minority]
        views = [b.members for _, b in going_on]
        disjoint = any(not set(a) & set(b) for a in views for b in views)
        if disjoint or any(self._began_alone(m, b) for m, b in going_on):
            self.split_at = self.history.now()
            self._say("two groups go on, each by itself")
        elif any(
            self._is_beyond_buddies(m, b, [other.machine.me for _, other in living])
            for m, b in going_on
        ):
            self.split_at = self.history.now()
            self._say("one group goes on without more members than there are buddies")

    def _began_alone(self, member: StageMember, manager: BuddyManager) -> bool:
        """Return whether it found no other member when it started, although others were there. They may have let it in, and wait for it."""
        alone = manager.view.id == 0
        return alone and any(other is not member for other in self._here())

    def _is_beyond_buddies(
        self, member: StageMember, manager: BuddyManager, living: Sequence[Address]
    ) -> bool:
        """Does the member go on without an owner and all its buddies, which live and may not know it yet?"""
        without = [a for a in living if a in member.met and a not in manager.members]
        return len(without) > self.schedule.buddies

    async def _start(self, name: str) -> StageMember:
        former = self._members.get(name)
        number = 1 if former is None else former.incarnation + 1
        stream = f"{self.schedule.seed}:{name}#{number}"

        def prepare(machine: Machine) -> None:
            machine.random.seed(f"{stream}:{len(network.drivers)}")

        network = self._network.of(name, prepare)
        member = StageMember(name, number, network)
        self._members[name] = member
        # A member that is stopped while it joins never reports it.
        with trio.move_on_after(START_SECONDS):
            await self._nursery.start(self._try_to_live, member)
        return member

    async def _try_to_live(
        self, member: StageMember, *, task_status: trio.TaskStatus[None]
    ) -> None:
        await self._live(member, task_status=task_status)
        if member.cache is None:
            task_status.started()

    async def _live(self, member: StageMember, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with member.scope:
                await self._open(member, task_status)
        except (Expelled, StateTransferError, JoinError) as error:
            self._say(f"is told: {type(error).__name__}: {error}", member)
            self._lose(member)
            if not self._ending or not self._here():
                self._nursery.start_soon(self._reopen, member)
        finally:
            member.gone = member.ended = True

    async def _open(self, member: StageMember, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with trio.open_nursery() as member.calls:
                async with open_tree_cache(
                    self._settings(),
                    name=member.origin,
                    transport=member.network,
                    store=self._store(member.name),
                ) as cache:
                    member.cache = cache
                    self._watch(member, cache)
                    task_status.started()
                    await member.closing.wait()
                member.gone = True
        except BaseExceptionGroup as group:
            reraise(group)

    async def _reopen(self, member: StageMember) -> None:
        await trio.sleep(REOPEN_SECONDS)
        if self._members[member.name] is member:
            await self._restart(member.name)

    def _watch(self, member: StageMember, cache: TreeCache) -> None:
        """Follow the views of a member of a cache with full replication."""
        replication = cache._replication
        if isinstance(replication, BuddyReplication):
            manager = replication.manager

            def meets(view: View) -> None:
                member.met.update(dict.fromkeys(view.members))
                self._look_for_split()

            manager.on_view = meets
            meets(manager.view)
        if not isinstance(replication, FullReplication):
            return
        order, places = replication._order, self.places
        member.journey = journey = places.join(member.origin, order.me, order.view, order.members)
        install, begin = order.install, order.begin

        def installs(
            view: int, members: Sequence[bytes], *, ready: bool, anew: bool = False
        ) -> None:
            places.install(journey, view, members, ready=ready)
            install(view, members, ready=ready, anew=anew)

        def begins(applied: Any) -> None:
            places.begin(journey)
            begin(applied)

        order.install, order.begin = installs, begins  # type: ignore[method-assign]

    def _settings(self) -> CacheSettings:
        schedule = self.schedule
        if schedule.back_end == "local":
            return self._local_settings()
        buddies = None
        if schedule.back_end == "buddy":
            buddies = BuddyReplicationConfig(
                buddy_replication_enabled=True,
                buddy_locator_properties={"numBuddies": str(schedule.buddies)},
                auto_data_gravitation=True,
                partition="majority" if schedule.majority else "all",
                buddy_communication_timeout=TIMEOUT,
            )
        return CacheSettings(
            cache_mode="REPL_SYNC",
            cluster_name="histories",
            stack=str(self._stack),
            lock_acquisition_timeout=TIMEOUT,
            sync_repl_timeout=TIMEOUT,
            buddy_replication_config=buddies,
        )

    def _local_settings(self) -> CacheSettings:
        schedule = self.schedule
        if schedule.store == "none":
            return CacheSettings(lock_acquisition_timeout=TIMEOUT)
        passivation = schedule.store == "passivation"
        return CacheSettings(
            lock_acquisition_timeout=TIMEOUT,
            eviction_policy_config=EvictionConfig(
                wake_up_interval=0.1,
                regions=(RegionConfig(name="/_default_", max_nodes=schedule.room),),
            ),
            cache_loader_configuration=LoaderConfig(
                cacheloader=StoreConfig(), passivation=passivation
            ),
        )

    def _store(self, name: str) -> DiskRows | None:
        if self.schedule.back_end != "local" or self.schedule.store == "none":
            return None
        if name not in self._stores:
            chance = random.Random(f"{self.schedule.seed}:store:{name}")
            self._stores[name] = DiskRows(lambda: chance.choice((0.0, 0.001, 0.003)))
        return self._stores[name]

    # --- callers

    def _start_callers(self, member: StageMember) -> None:
        assert member.calls is not None
        for index, caller in enumerate(self.schedule.callers):
            if self.schedule.back_end == "local" or caller.member == member.name:
                member.calls.start_soon(self._call, index, caller, member)

    def _caller(self, member: StageMember, name: str) -> NodeCaller | SessionCaller:
        assert member.cache is not None
        if not self.schedule.sessions:
            return NodeCaller(self.history, name, member.origin, member.cache)
        store = SessionStore(SessionSettings(secure=False), clock=trio.current_time)
        return SessionCaller(self.history, name, member.origin, member.cache, store, self._visitors)

    async def _create_sessions(self) -> None:
        here = self._here()
        for number, path in enumerate(self._paths()):
            member = here[number % len(here)]
            caller = self._caller(member, f"{member.name}/first")
            assert isinstance(caller, SessionCaller)
            await caller.create(path)

    async def _call(self, index: int, plan: Caller, member: StageMember) -> None:
        """Do the steps of a caller for as long as the member lives."""
        member.wants += 1
        caller = self._caller(member, f"{member.name}/{index}")
        try:
            while self._next[index] < len(plan.steps):
                number = self._next[index]
                await trio.sleep(plan.steps[number].wait)
                await self._until(lambda: not member.paused, END_SECONDS)
                if member.closing.is_set() or member.gone:
                    break
                self._next[index] += 1
                await caller.do(plan.steps[number], number)
        finally:
            member.wants -= 1

    # --- faults

    async def _at(self, fault: CacheFault) -> None:
        await trio.sleep_until(self._zero + fault.at)
        if self._ending:
            return
        match fault.do:
            case "start":
                for name in fault.who:
                    await self._restart(name)
            case "cut":
                await self._cut(fault)
            case _:
                for name in fault.who:
                    await self._hit(fault, name)

    async def _hit(self, fault: CacheFault, name: str) -> None:
        member = self._members.get(name)
        if member is None or member.gone or member.cache is None or member.closing.is_set():
            return
        if fault.do == "pause":
            if member.paused or self.schedule.back_end == "local":
                return
            self._say(f"is stopped for {fault.seconds:g} s", member)
            self.faults += 1
            member.paused = True
            for driver in member.network.drivers:
                driver.pause()
            await trio.sleep(fault.seconds)
            self._resume(member)
        elif fault.do == "leave":
            if len(self._here()) > 1:
                self._say("leaves", member)
                self.faults += 1
                member.closing.set()
        elif self.schedule.back_end == "local" or self._others_go_on(member):
            self._say("is killed", member)
            self.faults += 1
            self._lose(member)
            for driver in member.network.drivers:
                driver.kill()
            member.scope.cancel()
            if self.schedule.back_end == "local":
                await self._restart(name)

    def _others_go_on(self, killed: StageMember) -> bool:
        """Return whether the remaining members go on. With ``majority`` they may wait for good: of two members both
        count, and a restarted process is a new member."""
        here = self._here()
        if not self.schedule.majority:
            return len(here) > 1
        stay = [
            m.cache.buddies for m in here if m is not killed and not m.closing.is_set() and m.cache
        ]
        living = [manager.machine.me for manager in stay]
        return any(
            2 * len([a for a in living if a in manager.members]) > len(manager.members)
            for manager in stay
        )

    def _lose(self, member: StageMember) -> None:
        member.gone = True
        self.lost[member.origin] = trio.current_time()

    def _resume(self, member: StageMember) -> None:
        if member.paused:
            member.paused = False
            self._say("goes on", member)
            for driver in member.network.drivers:
                driver.resume()

    async def _cut(self, fault: CacheFault) -> None:
        side = frozenset(fault.who)
        if self.schedule.back_end == "local" or side >= {m.name for m in self._here()}:
            return
        self._say(f"cut for {fault.seconds:g} s: {' '.join(fault.who)}")
        self.faults += 1
        self._cuts.append(side)
        await trio.sleep(fault.seconds)
        if side in self._cuts:
            self._say(f"healed: {' '.join(fault.who)}")
            self._cuts.remove(side)
            self._network.healed()

    async def _restart(self, name: str) -> None:
        """Start a member that does not run. A member that is still leaving is awaited."""
        former = self._members.get(name)
        if former is not None:
            if not former.gone and not former.closing.is_set():
                return
            if not await self._until(lambda: former.ended, END_SECONDS):
                return
            if self._members[name] is not former:
                return
            for driver in former.network.drivers:
                driver.unbind()
        self.faults += 1
        member = await self._start(name)
        self._say("is started", member)
        if member.cache is not None:
            self._start_callers(member)

    def _is_cut(self, src: FaultyDriver, dst: FaultyDriver) -> bool:
        return any((src.who in side) != (dst.who in side) for side in self._cuts)

    def _figures(self) -> FaultFigures:
        link = self.schedule.link
        return FaultFigures(
            latency=link.latency,
            jitter=link.jitter,
            loss=link.loss,
            duplicate=link.duplicate,
            reorder=link.reorder,
        )

    def _say(self, what: str, member: StageMember | None = None) -> None:
        who = f"{member.origin} " if member is not None else ""
        self.story.append(f"{trio.current_time() - self._zero:8.3f} {who}{what}")
