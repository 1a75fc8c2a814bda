"""The course of a drill: its faults and their times, for all kinds of members.

A runner defines how a member ends, sleeps, leaves and comes back, and how time passes. Targets, order and times are
chosen here, equally for the simulator, for caches in virtual time and for real processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, Protocol, TypeVar

import trio

from jgroups_py.drill.file.plan import DrillPlan, PlannedEvent
from jgroups_py.drill.log import Hit
from jgroups_py.drill.run.resolve import DrillError, groups, resolve
from jgroups_py.drill.run.runner import Progress

Sides = list[list[tuple[str, str]]]
"""The sides of a partition, by (site, name)."""


M = TypeVar("M", bound=Hit)


class Course(ABC, Generic[M]):
    looks_after_failures = False
    """Are the other sites examined when a site has failed?"""

    def __init__(self, plan: DrillPlan, progress: Progress) -> None:
        self.plan = plan
        self.progress = progress
        self.notes: list[str] = []
        self._cuts: list[Sides] = []

    # --- defined by a runner

    @property
    @abstractmethod
    def now(self) -> float:
        """Return the seconds since the drill's zero."""

    @abstractmethod
    def _go(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin ``action`` in parallel."""

    @abstractmethod
    async def _wait(self, seconds: float) -> None: ...

    @abstractmethod
    async def _wait_until(self, t: float) -> None: ...

    @abstractmethod
    def _member(self, site: str, name: str) -> M:
        """Return the newest incarnation."""

    @abstractmethod
    def _runs(self, member: M) -> bool:
        """Is it running: neither ended by a fault nor left?"""

    @abstractmethod
    def _is_asleep(self, member: M) -> bool: ...

    @abstractmethod
    def _names(self, member: M) -> tuple[str, ...]:
        """Return the member's view, by name."""

    @abstractmethod
    def _fault(self, event: str, member: M, **detail: Any) -> None:
        """Log an action on a member."""

    @abstractmethod
    def _note(self, event: str, site: str | None = None, **detail: Any) -> None:
        """Log an action on several members."""

    @abstractmethod
    async def _end(self, member: M, how: str, **detail: Any) -> None:
        """Crash a member, or let it vanish."""

    @abstractmethod
    async def _leave(self, member: M) -> None: ...

    @abstractmethod
    def _sleep(self, member: M) -> None: ...

    @abstractmethod
    def _wake_up(self, member: M) -> None:
        """Resume a member. Its process has not ended."""

    @abstractmethod
    async def _restart(self, site: str, name: str) -> None:
        """Start the next incarnation."""

    async def _cut(self, sides: Sides) -> None:
        """Begin a partition."""
        self._cuts.append(sides)
        await self._cuts_changed()

    async def _heal(self, sides: Sides) -> None:
        self._cuts.remove(sides)
        await self._cuts_changed()

    async def _cuts_changed(self) -> None:
        """Apply ``_cuts``: the members that cannot reach each other now."""

    @abstractmethod
    async def _tell_relay(self, relay: M, what: str, site: str) -> None:
        """Tell a relay to ``promote`` its own site or ``bootstrap`` another site."""

    # --- present members

    def _living(self) -> dict[str, list[str]]:
        return {
            site.name: [n for n in site.members if self._runs(self._member(site.name, n))]
            for site in self.plan.sites
        }

    def _views(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {
            site: {name: self._names(self._member(site, name)) for name in names}
            for site, names in self._living().items()
        }

    def _relay(self, site: str) -> M | None:
        """Return the member that leads the site's view."""
        views = self._views()[site]
        leader = next((name for name, view in views.items() if view[:1] == (name,)), None)
        return None if leader is None else self._member(site, leader)

    async def _at(self, t: float, action: Callable[..., Any], *args: Any) -> None:
        await self._wait_until(t)
        await action(*args)

    # --- events

    async def _fire(self, event: PlannedEvent) -> None:
        match event.fault:
            case "partition":
                await self._partition(event)
            case "promote":
                await self._promote(event)
            case "bootstrap":
                await self._bootstrap(event)
            case "fail_site":
                for i, target in enumerate(event.targets):
                    at = event.at + i * event.gap
                    self._go(self._at, at, self._fail_site, event, target.site)
            case _:
                hit = resolve(event, self._living(), self._views(), self._not_there())
                start = self.now
                for i, (site, name) in enumerate(hit):
                    self._go(self._at, start + i * event.gap, self._hit, event, site, name)

    def _not_there(self) -> Mapping[str, list[str]]:
        living = self._living()
        return {
            site.name: [n for n in site.members if n not in living[site.name]]
            for site in self.plan.sites
        }

    async def _hit(self, event: PlannedEvent, site: str, name: str) -> None:
        if event.fault == "restart":
            await self._restart(site, name)
            return
        member = self._member(site, name)
        if not self._runs(member):
            raise DrillError(
                f"{event.place}: {event.fault} {site}.{name}: it is not there any more"
            )
        about = self._about(member)
        self.progress.say(self.now, " ".join([f"{event.fault} {site}.{name}", *about.values()]))
        match event.fault:
            case "crash" | "vanish":
                await self._end(member, event.fault, **about)
            case "leave":
                self._fault("leave", member, **about)
                await self._leave(member)
            case "pause":
                self._fault("pause", member, **about)
                self._sleep(member)
                if event.duration is not None:
                    await self._wait(event.duration)
                    self._resume(member)

    def _about(self, member: M) -> dict[str, str]:
        """Log more about a member that is about to be hit."""
        return {}

    def _resume(self, member: M) -> None:
        if self._is_asleep(member):
            self.progress.say(self.now, f"resume {member.site}.{member.name}")
            self._fault("resume", member)
            self._wake_up(member)

    async def _fail_site(self, event: PlannedEvent, site: str) -> None:
        names = self._living()[site]
        if not names:
            raise DrillError(f"{event.place}: fail_site {site}: nobody is left there")
        self.progress.say(self.now, f"fail_site {site}")
        self._note("fail_site", site, how=event.how)
        for name in names:
            await self._end(self._member(site, name), event.how, by="fail_site")
        if self.looks_after_failures:
            self._go(self._after_failure, site)

    async def _after_failure(self, site: str) -> None:
        """Examine the other sites: at once, and after messages on their way have arrived."""
        await self._look_after(site)
        await self._wait(self.plan.grace)
        await self._look_after(site)

    async def _look_after(self, site: str) -> None:
        """Examine the contents of the other sites."""

    async def _partition(self, event: PlannedEvent) -> None:
        members = {site.name: site.members for site in self.plan.sites}
        sides = groups(event, self._living(), self._views(), members)
        named = [[f"{site}.{name}" for site, name in side] for side in sides]
        self.progress.say(self.now, str(event))
        self._note("partition", groups=named)
        await self._cut(sides)
        if event.duration is not None:
            await self._wait(event.duration)
            self.progress.say(self.now, "heal")
            self._note("heal", groups=named)
            await self._heal(sides)

    async def _promote(self, event: PlannedEvent) -> None:
        site = event.targets[0].site
        relay = self._relay(site)
        if relay is None:
            raise DrillError(f"{event.place}: promote {site}: no relay there")
        self.progress.say(self.now, f"promote {site}")
        self._note("promote", site)
        await self._tell_relay(relay, "promote", site)

    async def _bootstrap(self, event: PlannedEvent) -> None:
        """Let every other living site send all nodes to the given site."""
        site = event.targets[0].site
        relays = [self._relay(other.name) for other in self.plan.sites if other.name != site]
        there = [relay for relay in relays if relay is not None]
        if not there:
            raise DrillError(f"{event.place}: bootstrap {site}: no relay at another site")
        self.progress.say(self.now, f"bootstrap {site}")
        self._note("bootstrap", site)
        for relay in there:
            await self._tell_relay(relay, "bootstrap", site)


class Lasting(Hit, Protocol):
    """A member of a course on trio."""

    gone: bool
    """True: the member ended by a fault or left."""
    paused: bool


L = TypeVar("L", bound=Lasting)


class TrioCourse(Course[L]):
    """A course of members on trio. ``_members``: the newest incarnation of each."""

    def __init__(self, plan: DrillPlan, progress: Progress) -> None:
        super().__init__(plan, progress)
        self._members: dict[tuple[str, str], L] = {}
        self._nursery: trio.Nursery

    @property
    def end(self) -> float:
        """Return the time of the verdict."""
        return self.plan.end

    def _go(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._nursery.start_soon(action, *args)

    async def _wait(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def _wait_until(self, t: float) -> None:
        await trio.sleep(max(0.0, t - self.now))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - a few times a drill, over many members
            await trio.sleep(0.01)

    def _member(self, site: str, name: str) -> L:
        return self._members[site, name]

    def _runs(self, member: L) -> bool:
        return not member.gone

    def _is_asleep(self, member: L) -> bool:
        return member.paused
