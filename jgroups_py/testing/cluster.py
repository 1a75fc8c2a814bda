"""A simulated cluster for tests: members of any stack, faults, checks; the same for the same seed.

    with SimCluster("ABC", ["sim.xml", MINE], seed=7) as cluster:
        cluster["A"].send(b"hello")
        cluster.cut("A", "BC", seconds=3)
        cluster.run_for(5)
        assert [m.payload for m in cluster["C"].received] == [b"hello"]
        cluster.settle()                                            it sends messages of its own

Time is virtual and all members run in this thread. Everything random comes from ``seed``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.check.bounds import Bounds
from jgroups_py.testing.check.deaths import Deaths
from jgroups_py.testing.check.violation import violation_of
from jgroups_py.testing.checks import CHECKS, checked
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.explorer.stacks import faults
from jgroups_py.testing.explorer.stacks.draw_stack import QUICK
from jgroups_py.testing.explorer.stacks.play import play
from jgroups_py.testing.explorer.stacks.schedule import After, Healing, Link, Schedule, Site, Step
from jgroups_py.testing.parts import Part, Parts
from jgroups_py.testing.scene import KitHealer, KitScene, NoHealer, SimMember
from jgroups_py.testing.sim import Member, World
from jgroups_py.testing.violated import PropertyViolated
from jgroups_py.values.message import Message
from jgroups_py.values.view import View

START_SECONDS: Final = 60.0
"""Virtual seconds in which members that start together must have one view."""
FOREVER: Final = 1e6
"""Virtual seconds: longer than any test runs."""
_NOTHING: Final = After(protocol="", what="")
QUICKLY: Final = {
    **QUICK,
    "FD_ALL3.timeout": "4s",
    "FD_ALL3.interval": "1s",
    "STABLE.desired_avg_gossip": "1s",
    "SHARED_LOOPBACK.logical_addr_cache_expiration": "10s",
    "UDP.logical_addr_cache_expiration": "10s",
    "TCP.logical_addr_cache_expiration": "10s",
}
"""The settings of ``quick``."""
ROLES: Final = ("all", "any", "asker", "dead", "last", "relay", "sender", "standby", "trigger")
"""The roles in schedules; no member may have such a name."""


Who = str | SimMember
Group = str | SimMember | Iterable[str | SimMember]
"""A member, its name, or several of either. A text that is no member's name means one name per letter."""
Workload = Callable[[SimMember, random.Random], None]


class Invariant:
    """An invariant of your own. Override the methods you need, and ``assert`` in them.

    A failed assertion ends the run as a violation of a check with the class' name. Each run has new members and needs a
    new object: make it in the function that makes the cluster. It may keep state.
    """

    @property
    def name(self) -> str:
        """The name of its violations."""
        return type(self).__name__

    def asks(self, question: str) -> bool:
        """Is that method overridden?"""
        return getattr(type(self), question) is not getattr(Invariant, question)

    def on_send(self, member: SimMember, payload: bytes, to: SimMember | None) -> None:
        """``member`` is about to send ``payload`` to ``to`` (None: to all members)."""

    def on_message(self, member: SimMember, message: Message) -> None:
        """The application of ``member`` takes ``message``. It may send."""

    def on_view(self, member: SimMember, view: View) -> None:
        """The application of ``member`` takes ``view``. It may send."""

    def after_step(self, cluster: SimCluster, member: SimMember) -> None:
        """``member`` has handled a packet or a timer. Called very often."""

    def at_rest(self, cluster: SimCluster) -> None:
        """Called at the end: faults have ended, all members have one view and all messages, and all queues are empty.
        Without the check ``healing``: the time for that is over."""


class Always(Invariant):
    """An invariant from a function that is called after every step and asserts."""

    def __init__(self, check: Callable[[SimCluster], None]) -> None:
        self.check = check

    @property
    def name(self) -> str:
        return getattr(self.check, "__name__", type(self.check).__name__)

    def after_step(self, cluster: SimCluster, member: SimMember) -> None:
        self.check(cluster)


class SimCluster:
    """A simulated cluster for tests: members of any stack, faults, checks; the same for the same seed. Time is virtual, and
    all members run in this thread. The cluster does not run before ``with``, ``play`` or ``explore``.

    Args:
        members: names. A text is one name per letter; a mapping is sites with their names.
            Names are unique in all sites. Sites are joined if the stack has RELAY.
        stack: a stack file, or parts of one, bottom first: files, classes, objects, import paths.
        seed: of everything random.
        attributes: settings of protocols, ``{"FD_ALL3.timeout": "4s"}``, as on a command line.
        quick: detection (4 s), merging (1 to 3 s), stability (1 s) and forgetting (10 s) are set
            to be quick in files and classes, where ``attributes`` say nothing: tests are shorter.
        inside, between: links within a site, and between sites.
        checks: names of CHECKS that are judged. Default: all.
        invariants: yours, judged besides: Invariants, or functions that are called with the
            cluster after every step. New objects for each cluster.
        workload: a function that an application calls in a schedule instead of sending a few messages, with a member
            that runs and a generator of its own. It acts through the member.
        tagged: False leaves payloads as they are, for protocols that read them; messages are not judged then.

    Raises ``ConfigError`` for arguments that do not fit together.
    """

    def __init__(
        self,
        members: str | Iterable[str] | Mapping[str, Iterable[str]],
        stack: Part | Sequence[Part] = "sim.xml",
        *,
        seed: int = 0,
        attributes: Mapping[str, str] | None = None,
        quick: bool = True,
        inside: Link | None = None,
        between: Link | None = None,
        checks: Iterable[str] = tuple(CHECKS),
        invariants: Iterable[Invariant | Callable[[SimCluster], None]] = (),
        workload: Workload | None = None,
        tagged: bool = True,
    ) -> None:
        self.stack = Parts(stack)
        self.checks = checked(checks)
        self.invariants = tuple(i if isinstance(i, Invariant) else Always(i) for i in invariants)
        self.workload = workload
        self.tagged = tagged
        self.quick = quick
        known = self.stack.unset() if quick else ()
        settings = {k: v for k, v in QUICKLY.items() if k.partition(".")[0] in known}
        self.attributes = settings | dict(attributes or {})
        """Settings of all runs; those of a schedule come before them."""
        self.schedule = Schedule(
            seed=seed,
            profile="kit",
            sites=_sites(members),
            stack=str(self.stack),
            inside=inside or Link(),
            between=between or Link(latency=0.03),
            start_gap=0.0,
            reopen=0.0,
            healing=Healing(),
            least_seconds=0.0,
            least_messages=0,
        )
        # Wrong attributes raise now.
        self.make_protocols({}, {"relay.site": self.schedule.sites[0].name})
        self._scene: KitScene | None = None
        self._closed = False
        self._own: Exception | None = None

    # --- its life

    def __enter__(self) -> Self:
        """Start all members and wait for one view."""
        self.open()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Open the cluster as ``with`` does, without starting members."""
        if self._scene is not None:
            raise ConfigError("a cluster is used once: make a new one")
        scene = self._stage(self.schedule, None)
        for looks in (Bounds(scene.checker), Deaths(scene.checker)):
            scene.world.after_each_step.append(looks.after_step)

    def close(self) -> None:
        """End all members at once. Their received messages stay readable."""
        if self._scene is not None and not self._closed:
            self._closed = True
            self._scene.world.close()

    def play(self, schedule: Schedule | None = None, *, heal: bool = True) -> RunOutcome:
        """Play a schedule in an unused cluster: traffic and faults, then healing (unless ``heal`` is off). Default: no
        faults at all. Violations are in ``RunOutcome.problems``; no exception is raised."""
        if self._scene is not None:
            raise ConfigError("a cluster is used once: make a new one")
        return play(
            schedule or self.schedule, stage=self._stage, healer=KitHealer if heal else NoHealer
        )

    def _stage(self, schedule: Schedule, trace: Any) -> KitScene:
        self._scene = KitScene(self, schedule, trace)
        return self._scene

    def make_protocols(
        self, attributes: Mapping[str, str] | None, properties: Mapping[str, str] | None
    ) -> list[Protocol]:
        """Make one member's protocols, bottom first. Raises ``ConfigError``."""
        return self.stack(self.attributes | dict(attributes or {}), properties)

    def make_handle(self, scene: KitScene, member: Member) -> SimMember:
        """Make a test's handle of a member; for subclasses."""
        return SimMember(scene, member)

    @property
    def scene(self) -> KitScene:
        if self._scene is None:
            raise ConfigError("the cluster is not open: use it in a with statement")
        return self._scene

    @property
    def world(self) -> World:
        """Return the simulator's world: clock, network, hosts."""
        return self.scene.world

    # --- members

    def __getitem__(self, name: str) -> SimMember:
        """Return the newest member of that name. Raises ``KeyError``."""
        site = self.scene.site_of[name]
        return self.scene.handle(self.world.members[f"{site}/{name}"])

    def __iter__(self) -> Iterator[SimMember]:
        """Yield all members ever started, the newest of each name."""
        return iter([self.scene.handle(m) for m in self.scene.cast.newest()])

    @property
    def living(self) -> list[SimMember]:
        """Return the members that run and are not leaving."""
        return [self.scene.handle(m) for m in self.scene.cast.living()]

    @property
    def now(self) -> float:
        """Return the virtual seconds since the cluster was opened."""
        return self.world.now

    def member_of(self, address: object) -> SimMember | None:
        """Return the member with an address (a message's sender). None: there never was such a member."""
        found = self.scene.checker.members.get(address)  # type: ignore[call-overload]
        return None if found is None else self.scene.handle(found)

    def start(self, *names: str, wait: bool = True) -> None:
        """Start or restart members (none named: all that are not running), and wait until all living ones have one
        view. ``ConfigError``: one is running."""
        scene = self.scene
        known = [name for site in self.schedule.sites for name in site.members]
        running = [m.name for m in scene.cast.newest() if m.host.alive and not m.host.vanished]
        for name in names or [n for n in known if n not in running]:
            if name not in known or name in running:
                raise ConfigError(f"{name} is {'running' if name in known else 'not a member'}")
            self._step(lambda name=name: scene.start(name))  # type: ignore[misc]
        if wait:
            self.wait_for_views()

    def wait_for_views(self, limit: float = START_SECONDS) -> None:
        """Wait until the living members have one view of exactly themselves, at each site."""
        if not self.run_until(self._in_views, limit=limit):
            views = "; ".join(f"{m.name} has [{' '.join(m.view_names)}]" for m in self.living)
            self.scene.complain("healing", f"no common view within {limit:g} s: {views}")
            self.check()

    def _in_views(self) -> bool:
        cast = self.scene.cast
        return all(self.world.views_agree(cast.living(s)) for s in cast.sites if cast.living(s))

    # --- time

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass. Raises ``PropertyViolated`` at the first violation."""
        self.run_until(lambda: False, limit=seconds)

    def run_until(self, condition: Callable[[], bool], *, limit: float) -> bool:
        """Run until ``condition`` holds, at most ``limit`` seconds. Return whether it does. Raises
        ``PropertyViolated``."""
        problems = self.scene.checker.problems

        def done() -> bool:
            try:
                return bool(problems) or condition()
            except Exception as error:
                self._own = error  # the error is the test's, not a protocol's
                raise

        self._step(lambda: self.world.run_until(done, limit=limit))
        return condition()

    def check(self) -> None:
        """Raise ``PropertyViolated`` if a property was violated so far."""
        for problem in self.scene.checker.problems[:1]:
            self._raise(problem.check, problem.detail, problem.at)

    def settle(self, within: float = 90.0) -> None:
        """End all faults and judge the recovery, each part within ``within`` seconds: one view, all messages, empty
        buffers (``healing``), ``credits``, ``leftovers``, and ``at_rest`` of the invariants. Gone members stay gone,
        unless a whole site is gone. It sends messages of its own: read ``received`` before. Raises
        ``PropertyViolated``."""
        scene = self.scene
        healer = KitHealer(scene)
        healer.spec = Healing(within=within)
        self._step(healer.run)
        scene.ended, scene.cast.core = False, None

    def _step(self, action: Callable[[], object]) -> None:
        self.check()
        try:
            action()
        except (PropertyViolated, ConfigError):
            raise
        except Exception as error:
            if error is self._own:
                raise
            problem = violation_of(error, self.now)
            self._raise(problem.check, problem.detail, problem.at, error)
        self.check()

    def _raise(
        self, check: str, detail: str, at: float, cause: BaseException | None = None
    ) -> None:
        raise PropertyViolated(
            check,
            detail,
            seed=self.schedule.seed,
            at=at,
            story=self.scene.story,
            replay=f"run the same test with SimCluster(seed={self.schedule.seed})",
        ) from cause

    # --- faults

    def crash(self, *who: Who) -> None:
        """Kill the processes of members: connections are reset."""
        for member in self._find(who):
            self.scene.note("crash", member)
            member.crash()

    def vanish(self, *who: Who) -> None:
        """Silence the hosts of members: no packet and no reset from now on."""
        for member in self._find(who):
            self.scene.note("vanish", member)
            member.vanish()

    def leave(self, *who: Who) -> None:
        """Let members leave; their hosts end when the group knows."""
        for member in self._find(who):
            self.scene.note("leave", member)
            member.leave()

    def restart(self, *who: Who) -> None:
        """Crash running members and start them again under their names. Does not wait."""
        names = [m.name for m in self._find(who)]
        self.crash(*[n for n in names if self[n].member.host.alive])
        self.start(*names, wait=False)

    def pause(self, *who: Who, seconds: float | None = None) -> None:
        """Stop the processes of members, for ``seconds`` or until ``resume``."""
        self._fault("pause", who, seconds)

    def resume(self, *who: Who) -> None:
        for member in self._find(who):
            member.resume()

    def cut(
        self, who: Group, other: Group = (), *, seconds: float | None = None, one_way: bool = False
    ) -> None:
        """Cut ``who`` off from ``other`` (if empty, from all others), for ``seconds`` or until ``heal``. ``one_way``: only
        packets of ``who`` are lost."""
        self._fault("cut", self._group(who), seconds, self._group(other), one_way=one_way)

    def clog(self, who: Group, other: Group = (), *, seconds: float | None = None) -> None:
        """Hold packets from ``who`` to ``other``; they arrive in order afterwards."""
        here, world = self._find(self._group(who)), self.world
        there = self._find(self._group(other)) or self.scene.cast.living()
        self.scene.note("clog links from", *here)
        for source, dest in [(a, b) for a in here for b in there if b not in here]:
            world.clog(source.host, dest.host)
            if seconds is not None:
                world.at(self.now + seconds, world.unclog, source.host, dest.host)

    def reset(self, who: Group, other: Group = (), *, one_way: bool = False) -> None:
        """Break connections between ``who`` and ``other`` (if empty, all others), as a firewall does; no process ends.
        ``one_way``: the others notice when they send."""
        self._fault("reset", self._group(who), 0.0, self._group(other), one_way=one_way)

    def link(
        self, who: Group, other: Group = (), *, settings: Link, seconds: float | None = None
    ) -> None:
        """Change the links between ``who`` and ``other``, both ways."""
        self._fault("link", self._group(who), seconds, self._group(other), link=settings)

    def drift(self, *who: Who, rate: float, seconds: float | None = None) -> None:
        """Let members' clocks run at ``rate`` times the real speed."""
        self._fault("drift", who, seconds, amount=rate)

    def slow(self, *who: Who, rate: float, seconds: float | None = None) -> None:
        """Let members' applications read ``rate`` items a second; 0: none."""
        self._fault("slow", who, seconds, amount=rate)

    def heal(self) -> None:
        """End all cuts, open clogged links, and restore changed ones. Streams go on."""
        network = self.world.network
        self.scene.note("heal")
        network.restore()
        for source, dest in list(network.clogs):
            self.world.unclog(self.world.hosts[source], self.world.hosts[dest])
        self.world.heal()

    def fault(self, step: Step) -> bool:
        """Apply one fault of a schedule now; ``step.at`` and ``step.after`` do not count. False: it found no target."""
        # A step that waits for an event is not replaced if it finds no target.
        return faults.apply(self.scene, msgspec.structs.replace(step, after=_NOTHING))

    def _fault(
        self,
        do: Any,
        who: Iterable[Who],
        seconds: float | None,
        other: Iterable[Who] = (),
        **options: Any,
    ) -> None:
        here, there = (
            tuple(f"{m.site}.{m.name}" for m in self._find(group)) for group in (who, other)
        )
        lasts = FOREVER if seconds is None else seconds
        self.fault(Step(at=0, do=do, who=here, other=there, seconds=lasts, **options))

    def _group(self, who: Group) -> tuple[Who, ...]:
        if isinstance(who, SimMember) or (isinstance(who, str) and who in self.scene.site_of):
            return (who,)
        return tuple(who)

    def _find(self, who: Iterable[Who]) -> list[Member]:
        return [(m if isinstance(m, SimMember) else self[m]).member for m in who]


def _sites(members: Any) -> tuple[Site, ...]:
    given = members if isinstance(members, Mapping) else {"local": members}
    sites = tuple(Site(name=site, members=tuple(names)) for site, names in given.items())
    names = [name for site in sites for name in site.members]
    if not names or any(not site.members for site in sites):
        raise ConfigError("every site needs members")
    if len(set(names)) != len(names):
        raise ConfigError("two members have the same name")
    for name in names:
        if name in ROLES or not name or set(name) & set("./* "):
            raise ConfigError(f"members: {name!r} cannot be a name (a role, or with one of ./* )")
    return sites
