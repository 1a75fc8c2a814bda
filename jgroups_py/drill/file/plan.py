"""A drill and a seed become a plan: every figure drawn, every time known.

Each varying value is drawn from its own stream, ``Random(f"{seed}:{where}")``, so that a new range in a drill does not
change the other draws. Roles (``NYC.relay``) stay roles until the event fires (``resolve``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jgroups_py.config.file import shipped_stacks
from jgroups_py.drill.file.model import (
    Drill,
    DrillEvent,
    DrillTraffic,
    Expectation,
    FilePlace,
    NetworkFaults,
    Override,
    Selector,
)
from jgroups_py.drill.file.sealing import keys_of
from jgroups_py.drill.file.values import DrawnValue, seconds_text
from jgroups_py.errors import ConfigError

START_SECONDS_MAX = 30.0
"""The longest time on an idle machine until every site has its full view and every relay is on the bridge."""


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """Faults injected into a network: seconds, and fractions of packets; all 0: nothing. ``latency`` None: the
    simulator's default."""

    latency: float | None = None
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0

    @property
    def nothing(self) -> bool:
        return not (self.latency or self.jitter or self.loss or self.duplicate or self.reorder)


@dataclass(frozen=True, slots=True)
class SitePlan:
    name: str
    members: tuple[str, ...]
    stack: str
    """Path of the stack file; as written if no such file was found."""
    overrides: tuple[Override, ...]
    """Later ones win."""
    cache: str = ""
    """Path of the cache file, or the name of a shipped one; empty without caches."""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BridgePlan:
    stack: str
    figures: FaultFigures
    overrides: tuple[Override, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """One member's traffic: ``rate`` messages a second of ``size`` bytes, or requests as ``asks`` says."""

    site: str
    member: str
    rate: float
    size: int
    start: float
    stop: float
    asks: Any = None


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    at: float
    fault: str
    targets: tuple[Selector, ...]
    """The targets in the order of the file; ``resolve`` shuffles them."""
    groups: tuple[tuple[Selector, ...], ...]
    gap: float
    shuffled: bool
    duration: float | None
    how: str
    place: FilePlace
    stream: str
    """Name of the random stream of this event: ``random.Random(stream)``."""
    during: str = ""
    """See ``DrillEvent``."""

    @property
    def end(self) -> float:
        return self.at + self.gap * max(0, len(self.targets) - 1) + (self.duration or 0.0)

    def __str__(self) -> str:
        named = [", ".join(map(str, group)) for group in self.groups] or [
            ", ".join(map(str, self.targets))
        ]
        text = f"{self.fault} {' | '.join(named)}"
        return text if self.duration is None else f"{text} for {seconds_text(self.duration)}"


@dataclass(frozen=True, slots=True)
class DrillPlan:
    name: str
    file: str
    seed: int
    primary: str | None
    sites: tuple[SitePlan, ...]
    bridge: BridgePlan
    network: FaultFigures
    loads: tuple[Load, ...]
    events: tuple[PlannedEvent, ...]
    """The events by time."""
    end: float
    """The time of the verdict: ``settle`` after the last event and the last traffic."""
    settle: float
    """The seconds between the last event or traffic and the verdict. A real drill takes more on a busy machine."""
    grace: float
    expect: tuple[Expectation, ...]
    workload: str = "messages"
    primary_only: bool = False
    """Messages of sites that do not relay are not counted as lost."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The settings of the workload, by name."""
    seal: str = field(default="", repr=False)
    """The keys of SEAL for all stacks. Empty: stacks stay as their files say."""

    def site(self, name: str) -> SitePlan:
        return next(site for site in self.sites if site.name == name)

    @property
    def members(self) -> list[tuple[str, str]]:
        """Return (site, name) of all members, in the order of joining."""
        return [(site.name, name) for site in self.sites for name in site.members]


@dataclass(frozen=True, slots=True)
class Setting:
    """``--set [SITE:|bridge:]PROTOCOL.attribute=value``; ``scope`` None: every site."""

    scope: str | None
    override: Override
    text: str


def parse_setting(text: str) -> Setting:
    """Read a setting. Raises ``ConfigError``."""
    target, equals, value = text.partition("=")
    scope, colon, name = target.rpartition(":")
    protocol, dot, attribute = name.rpartition(".")
    if not (equals and dot and protocol and attribute and value) or (colon and not scope):
        raise ConfigError(f"{text!r} is not [SITE:|bridge:]PROTOCOL.attribute=value", where="--set")
    override = Override(protocol, attribute, value, FilePlace("--set", 1, 1))
    return Setting(scope or None, override, text)


def find_stack(drill_file: str, name: str, place: FilePlace) -> str:
    """Find the stack file: relative to the drill file, then among the shipped stacks."""
    import jgroups_py.stacks

    shipped = Path(jgroups_py.stacks.__file__).parent
    for candidate in (Path(drill_file).parent / name, shipped / name):
        if candidate.is_file():
            return str(candidate)
    if name in shipped_stacks():
        return name  # the package is in an archive: only the name works
    raise ConfigError(
        f"stack file {name!r} is neither beside the drill nor among the shipped stacks",
        file=place.file,
        line=place.line,
        column=place.column,
    )


def find_cache(drill_file: str, name: str) -> str:
    """Find the cache file beside the drill; else return the name, perhaps of a shipped one."""
    beside = Path(drill_file).parent / name
    return str(beside) if beside.is_file() else name


def build(
    drill: Drill,
    seed: int | None = None,
    settings: Sequence[Setting] = (),
    *,
    seal: bool = False,
) -> DrillPlan:
    """Draw all varying values. Raises ``ConfigError`` for an impossible drill.

    ``seal``: all stacks have SEAL, the bridge's, too."""
    seed = drill.seed if seed is None else seed
    draw = _Draws(seed)
    for setting in settings:
        scopes = [None, "bridge", *(site.name for site in drill.sites)]
        if setting.scope not in scopes:
            known = ", ".join(scope for scope in scopes if scope)
            raise ConfigError(f"{setting.text!r}: no site {setting.scope!r} (known: {known})")
    events = tuple(
        sorted(
            (_event(event, f"timeline[{i}]", draw, seed) for i, event in enumerate(drill.timeline)),
            key=lambda event: event.at,
        )
    )
    _check_who_is_there(drill, events)
    last_event = max((event.end for event in events), default=0.0)
    loads = [
        load
        for i, line in enumerate(drill.traffic)
        for load in _loads(line, f"traffic[{i}]", draw, last_event)
    ]
    last = max([last_event, *(load.stop for load in loads)], default=0.0)
    settle = draw(drill.settle, "settle")

    def settings_for(*scopes: str | None) -> tuple[Override, ...]:
        return tuple(s.override for scope in scopes for s in settings if s.scope == scope)

    return DrillPlan(
        name=drill.name,
        file=drill.file,
        seed=seed,
        primary=_primary(drill, settings_for(None)),
        sites=tuple(
            SitePlan(
                site.name,
                site.members,
                find_stack(drill.file, site.stack, site.place),
                drill.overrides + site.overrides + settings_for(None, site.name),
                find_cache(drill.file, site.cache) if site.cache else "",
                site.properties,
            )
            for site in drill.sites
        ),
        bridge=BridgePlan(
            find_stack(drill.file, drill.bridge.stack, drill.bridge.place),
            _figures(drill.bridge.network, "bridge", draw),
            drill.bridge.overrides + settings_for("bridge"),
        ),
        network=_figures(drill.network, "network", draw),
        loads=tuple(loads),
        events=events,
        end=last + settle,
        settle=settle,
        grace=draw(drill.grace, "grace"),
        expect=drill.expect,
        workload=drill.workload,
        primary_only=drill.primary_only,
        settings=drill.settings,
        seal=keys_of(seed) if seal else "",
    )


def _primary(drill: Drill, settings: Sequence[Override]) -> str | None:
    """Return ``primary``, or the value of ``set: {RELAY.primary: ...}`` or ``--set RELAY.primary=...``."""
    primary = drill.primary
    sites = [site.name for site in drill.sites]
    for override in (*drill.overrides, *settings):
        if (override.protocol, override.attribute) != ("RELAY", "primary"):
            continue
        if override.value not in (*sites, "all"):
            place = override.place
            raise ConfigError(
                f"no site {override.value!r} (known: {', '.join(sites)}, all)",
                file=place.file,
                line=place.line,
                column=place.column,
                where="RELAY.primary",
            )
        primary = None if override.value == "all" else override.value
    return primary


def unrelayed_senders(plan: DrillPlan) -> list[str]:
    """Return the sites that, by the plan, send or write while they do not relay."""
    if plan.primary is None or len(plan.sites) == 1:
        return []
    reigns = [(plan.primary, 0.0, plan.end)]
    for event in plan.events:
        if event.fault == "promote" and event.targets[0].site != reigns[-1][0]:
            site, start, _ = reigns[-1]
            # Around a promotion no site is blamed: the news takes a moment.
            reigns[-1] = (site, start, event.at + plan.grace)
            reigns.append((event.targets[0].site, event.at, plan.end))
    found: dict[str, None] = {}
    for load in plan.loads:
        writes = load.asks is None or load.asks.read_ratio < 1
        failures = (
            event.at
            for event in plan.events
            if event.fault == "fail_site" and any(t.site == load.site for t in event.targets)
        )
        stop = min(load.stop, min(failures, default=load.stop))
        if load.rate <= 0 or not writes or stop <= load.start:
            continue
        if not any(
            site == load.site and a <= load.start and stop <= b + 1e-9 for site, a, b in reigns
        ):
            found[load.site] = None
    return list(found)


class _Draws:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, span: DrawnValue, where: str) -> float:
        if span.fixed:
            return span.low
        return random.Random(f"{self._seed}:{where}").uniform(span.low, span.high)


def _figures(network: NetworkFaults, where: str, draw: _Draws) -> FaultFigures:
    def value(span: DrawnValue | None, name: str) -> float:
        return 0.0 if span is None else draw(span, f"{where}.{name}")

    return FaultFigures(
        latency=None if network.latency is None else value(network.latency, "latency"),
        jitter=value(network.jitter, "jitter"),
        loss=value(network.loss, "loss"),
        duplicate=value(network.duplicate, "duplicate"),
        reorder=value(network.reorder, "reorder"),
    )


def _event(event: DrillEvent, where: str, draw: _Draws, seed: int) -> PlannedEvent:
    return PlannedEvent(
        at=draw(event.at, f"{where}.at"),
        fault=event.fault,
        targets=event.targets,
        groups=event.groups,
        gap=draw(event.gap, f"{where}.gap"),
        shuffled=event.shuffled,
        duration=None if event.duration is None else draw(event.duration, f"{where}.for"),
        how=event.how,
        place=event.place,
        stream=f"{seed}:{where}",
        during=event.during,
    )


def _loads(line: DrillTraffic, where: str, draw: _Draws, last_event: float) -> list[Load]:
    start = draw(line.start, f"{where}.start")
    stop = last_event if line.stop is None else draw(line.stop, f"{where}.stop")
    if line.stop is not None and stop < start:
        raise ConfigError(
            f"traffic stops at {seconds_text(stop)}, before it starts",
            file=line.place.file,
            line=line.place.line,
            column=line.place.column,
            where=where,
        )
    asks = line.asks
    if asks is not None:
        parts: dict[str, Any] = {name: draw(span, f"{where}.{name}") for name, span in line.drawn}
        asks = replace(asks, **parts)
    return [
        Load(
            line.site,
            name,
            draw(line.rate, f"{where}.rate"),
            line.size,
            start,
            max(start, stop),
            asks,
        )
        for name in line.members
    ]


class _Site:
    """The present members, by the plan: named faults are certain, roles take one of many."""

    def __init__(self, members: Sequence[str]) -> None:
        self.gone: dict[str, None] = {}  # members that are certainly absent
        self.members = members
        self.hidden = 0  # members that fell by a role, so their names are unknown

    @property
    def there(self) -> int:
        return len(self.members) - len(self.gone) - self.hidden


def _check_who_is_there(drill: Drill, events: Sequence[PlannedEvent]) -> None:
    sites = {site.name: _Site(site.members) for site in drill.sites}
    for event in events:
        needed: dict[str, int] = {}
        for target in event.targets:
            site = sites[target.site]
            if event.fault in ("promote", "bootstrap"):
                continue
            if event.fault == "restart":
                _check_restart(event, target, site)
                continue
            if event.fault == "fail_site":
                if site.there <= 0:
                    raise _impossible(event, f"nobody is left in {target.site}")
                site.gone = dict.fromkeys(site.members)
                site.hidden = 0
                continue
            if target.what in site.gone:
                raise _impossible(event, f"{target} is not there any more")
            needed[target.site] = needed.get(target.site, 0) + 1
            rank = 2 if target.what == "standby" else 1
            if site.there < max(rank, needed[target.site]):
                raise _impossible(event, f"{target}: too few members are left in {target.site}")
        for target in event.targets:
            if event.fault in ("crash", "vanish", "leave"):
                site = sites[target.site]
                if target.is_role:
                    site.hidden += 1
                elif target.what is not None:
                    site.gone[target.what] = None


def _check_restart(event: PlannedEvent, target: Selector, site: _Site) -> None:
    assert target.what is not None  # the loader refuses sites
    if target.is_role and site.gone and not site.hidden:
        site.gone.popitem()  # one of them; otherwise the run reports it
    elif target.what in site.gone:
        del site.gone[target.what]
    elif site.hidden:
        site.hidden -= 1  # the target may be one of those; if not, the run reports it
    else:
        where = "nobody crashed or left" if target.is_role else "it neither crashed nor left"
        raise _impossible(event, f"{target} is there: {where} before")


def _impossible(event: PlannedEvent, problem: str) -> ConfigError:
    place = event.place
    return ConfigError(
        f"at {seconds_text(event.at)} {event.fault}: {problem}",
        file=place.file,
        line=place.line,
        column=place.column,
        where="timeline",
    )
