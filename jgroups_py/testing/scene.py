"""A test's handles of members, and the explorer's scene and healing for a cluster of the kit."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.check.checkers import PROBLEMS_MAX
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.checks import KitChecker, what_failed
from jgroups_py.testing.explorer.stacks.heal import Healer
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.testing.explorer.stacks.schedule import Load, Schedule
from jgroups_py.testing.sim import Member
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.world import MakeProtocols, Watcher
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, Message
from jgroups_py.values.view import View

FORGET_SECONDS: Final = 600.0
"""Shipped stacks forget the last of a member's addresses after 360 s."""
LOOK_SECONDS: Final = 2.0
"""Seconds between two searches for entries of departed members."""
KEPT_MAX: Final = 100_000
"""The most messages kept for each member; with more, the test should take them (``SimMember.take``)."""


P = TypeVar("P", bound=Protocol)


class SimMember:
    """One member of a SimCluster, as a test sees it.

    ``received``: the messages its application has taken, oldest first. After a restart the cluster has a new
    member of the same name; this object stays unchanged.
    """

    def __init__(self, scene: KitScene, member: Member) -> None:
        self._scene = scene
        self.member = member
        """The simulator's own member, for all other uses."""
        self.received: list[Message] = []

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def site(self) -> str:
        return self.member.site

    @property
    def incarnation(self) -> int:
        """Return 1, plus one for each restart under the name."""
        return self.member.incarnation

    @property
    def address(self) -> UUID:
        return self.member.address

    @property
    def alive(self) -> bool:
        """Does it run, and has it not left? A paused one runs."""
        return self.member.alive

    @property
    def view(self) -> View | None:
        """Return the last view that its application has taken."""
        return self.member.view

    @property
    def view_names(self) -> tuple[str, ...]:
        """Return that view's members by name, coordinator first."""
        return self.member.view_names

    @property
    def views(self) -> list[View]:
        return self.member.views

    @property
    def state(self) -> bytes | None:
        """Return the state it fetched last: the cluster's record of deliveries."""
        return self.member.state

    def take(self) -> list[Message]:
        """Return and forget the messages received since the last call."""
        taken, self.received = self.received, []
        return taken

    def protocol(self, cls: type[P]) -> P:
        """Return its protocol of that class. ``LookupError``: the stack has none."""
        found = self.member.stack.find(cls)
        if found is None:
            raise LookupError(f"{self.name} has no {cls.__name__}")
        return found

    def do(self, action: Callable[[], None]) -> None:
        """Run ``action`` as one step of this member, for calls of a protocol's own methods."""
        if self.alive:
            self.member.act(action)

    def send(self, *payloads: bytes, to: SimMember | None = None, oob: bool = False) -> None:
        """Send a run of messages, to all or to one. A departed member ignores the call. ``oob``: out of band, without
        order."""
        if not self.alive:
            return
        dest = None if to is None else to.member
        checker = self._scene.checker
        made = [checker.tagged_payload(self.member, p, dest, oob) for p in payloads]
        self.member.send(*made, to=dest, flags=int(Flag.OOB) if oob else 0)

    def fetch_state(self, provider: SimMember | None = None) -> None:
        """Ask for the group's state, from ``provider`` or a member picked by the protocol."""
        self._scene.fetch_state(self.member, None if provider is None else provider.member)

    def __repr__(self) -> str:
        return repr(self.member)


class Judge(typing.Protocol):
    """An invariant of a cluster: see ``Invariant`` in cluster.py. ``asks``: is that method overridden?"""

    @property
    def name(self) -> str: ...
    def asks(self, question: str) -> bool: ...
    def on_send(self, member: SimMember, payload: bytes, to: SimMember | None) -> None: ...
    def on_message(self, member: SimMember, message: Message) -> None: ...
    def on_view(self, member: SimMember, view: View) -> None: ...
    def after_step(self, cluster: Any, member: SimMember) -> None: ...
    def at_rest(self, cluster: Any) -> None: ...


class Kit(typing.Protocol):
    """The parts of a cluster that its scene needs."""

    checks: tuple[str, ...]
    tagged: bool
    quick: bool
    attributes: dict[str, str]
    workload: Callable[[SimMember, random.Random], None] | None

    @property
    def invariants(self) -> Sequence[Judge]: ...
    def make_protocols(
        self, attributes: Mapping[str, str] | None, properties: Mapping[str, str] | None
    ) -> Sequence[Protocol]: ...
    def make_handle(self, scene: KitScene, member: Member) -> SimMember: ...


class KitScene(Scene):
    """A scene of ``cluster``'s stack, application and checks."""

    def __init__(self, cluster: Kit, schedule: Schedule, trace: Watcher | None = None) -> None:
        super().__init__(schedule, trace)
        self.cluster = cluster
        self.handles: dict[Member, SimMember] = {}
        self.by_host: dict[Host, SimMember] = {}
        self.checker: KitChecker = KitChecker(cluster.checks, cluster.tagged)
        self._randoms: dict[str, random.Random] = {}
        self._judges = cluster.invariants
        self._step_judges = [j for j in self._judges if j.asks("after_step")]
        if any(j.asks("on_send") for j in self._judges):
            self.checker.on_send = self._on_send
        if self._step_judges:
            self.world.after_each_step.append(self._after_step)

    def stack(self) -> str | MakeProtocols:
        return self.cluster.make_protocols

    def start(self, name: str) -> Member:
        member = super().start(name)
        member.on_batch = self._on_batch
        member.on_view = self._on_view
        self.handle(member)
        return member

    def handle(self, member: Member) -> SimMember:
        """Return the handle that a test holds of ``member``."""
        found = self.handles.get(member)
        if found is None:
            found = self.handles[member] = self.cluster.make_handle(self, member)
            self.by_host[member.host] = found
        return found

    def act(self, member: Member, load: Load) -> None:
        workload = self.cluster.workload
        if workload is None:
            super().act(member, load)
            return
        rng = self._randoms.get(member.name)
        if rng is None:
            seed = f"{self.schedule.seed}/workload/{member.name}"
            rng = self._randoms[member.name] = random.Random(seed)
        for _ in range(load.count):
            workload(self.handle(member), rng)

    # --- judging

    def judge(self, judge: Judge, question: Callable[..., None], *args: Any) -> None:
        """Call an invariant. A failed assertion becomes a problem under its name."""
        try:
            question(*args)
        except AssertionError as error:
            self.complain(judge.name, what_failed(error))

    def complain(self, check: str, detail: str) -> None:
        if len(self.checker.problems) < PROBLEMS_MAX:
            self.checker.problems.append(Violation(check, detail, self.world.now))

    def at_rest(self) -> None:
        for judge in self._judges:
            self.judge(judge, judge.at_rest, self.cluster)

    def _after_step(self, host: Host) -> None:
        handle = self.by_host.get(host)
        if handle is not None:  # otherwise the member is being started
            for judge in self._step_judges:
                self.judge(judge, judge.after_step, self.cluster, handle)

    def _on_send(self, member: Member, payload: bytes, to: Member | None) -> None:
        dest = None if to is None else self.handle(to)
        for judge in self._judges:
            self.judge(judge, judge.on_send, self.handle(member), payload, dest)

    def _on_batch(self, member: Member, batch: Batch) -> None:
        self.checker.take_batch(member, batch)
        handle = self.handle(member)
        assert batch.src is not None
        for payload in batch.payloads:
            if len(handle.received) >= KEPT_MAX:
                self.complain("kept", f"{member.name} has {KEPT_MAX} messages that no test takes")
                return
            message = Message(batch.src, self.checker.bare(payload), batch.dest, batch.flags)
            handle.received.append(message)
            for judge in self._judges:
                self.judge(judge, judge.on_message, handle, message)

    def _on_view(self, member: Member, view: View) -> None:
        self.checker.take_view(member, view)
        for judge in self._judges:
            self.judge(judge, judge.on_view, self.handle(member), view)


class NoHealer(Healer):
    """The run ends with its faults."""

    def run(self) -> None:
        pass


class KitHealer(Healer):
    """Heals, runs the wanted checks, and calls the invariants when all is at rest."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        assert isinstance(scene, KitScene)
        self.kit = scene
        self.wanted = scene.cluster.checks
        self._next_look = 0.0
        self._found: str | None = None

    def run(self) -> None:
        super().run()
        if not self.kit.checker.problems:
            self.kit.at_rest()

    def say(self, check: str, detail: str) -> None:
        if check in self.wanted:
            super().say(check, detail)

    # --- stages that are left out

    def _messages(self) -> bool:
        return super()._messages() if self.kit.checker.tagged else True

    def _again(self) -> bool:
        return super()._again() if self.kit.checker.tagged else True

    @property
    def _lossy(self) -> bool:
        settings = {**self.kit.cluster.attributes, **self.kit.schedule.attributes}
        return "RELAY.max_age" in settings or "RELAY.overflow" in settings

    def _credits(self) -> bool:
        wanted = "credits" in self.wanted and self.kit.checker.tagged
        return super()._credits() if wanted else True

    def _forgets(self) -> bool:
        if "leftovers" not in self.wanted:
            return True
        slow = 0.0 if self.kit.cluster.quick else FORGET_SECONDS
        within = max(self.spec.within, slow)
        self.spec = msgspec.structs.replace(self.spec, within=within)
        return super()._forgets()

    def _leftover(self) -> str | None:
        """Search the tables, seldom: a search costs more than the run in between."""
        if self.world.now >= self._next_look:
            self._next_look = self.world.now + LOOK_SECONDS
            self._found = super()._leftover()
        return self._found
