"""Simulated faults beside the worst case that ``jgroups-py validate`` computes from the settings.

Each fault has a world of its own: a complete group, some traffic, and one member that crashes, vanishes with its host,
or stands still. The time ends when no survivor has the member in its view; for a take-over, when another member of the
site has met the other site's relay on the bridge.

No member fails in the first ``SETTLED`` seconds of a view: FD_SOCK2 cannot prove a death before neighbours have met
(``detection``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from jgroups_py.config.detection_time import WorstCase, detection, takeover
from jgroups_py.config.settings import build, load_stack
from jgroups_py.errors import JGroupsError
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.testing.sim import LinkSettings, Member, World

KINDS: Final = ("crash", "vanish", "pause")
CASES: Final[Mapping[str, str]] = {"crash": "crash", "vanish": "silent", "pause": "silent"}
"""The computed case of a fault."""
MEMBERS_MAX: Final = 6
SETTLED: Final = 1.0
"""The least seconds between a group's full view and a fault."""
STANDS: Final = 20.0
"""The most seconds between a group's full view and a fault: longer than all timers that do not belong to detection."""
GIVE_UP: Final = 600.0
"""Seconds after which an unnoticed fault counts as never noticed."""
SITES: Final = {"NYC": "ABC", "SFO": "TS"}


@dataclass(frozen=True, slots=True)
class MeasuredFault:
    """One fault, in virtual seconds. ``seconds`` None: no member has noticed it."""

    what: str
    stack: str
    kind: str
    seed: int
    seconds: float | None
    bound: float | None

    @property
    def is_within(self) -> bool:
        return self.seconds is not None and self.bound is not None and self.seconds <= self.bound


def faults(
    what: str, stack: str, kind: str, seeds: Iterable[int], latency: float
) -> Iterable[MeasuredFault]:
    """Simulate one fault for each seed. ``latency``: seconds for one way between two hosts."""
    one = _take_over if what == "take-over" else _detection
    bound = getattr(_bounds(what, stack, latency), CASES[kind])
    for seed in seeds:
        yield MeasuredFault(what, stack, kind, seed, one(stack, kind, seed, latency), bound)


def _bounds(what: str, stack: str, latency: float) -> WorstCase:
    attributes, properties = (
        ({}, {}) if what == "detection" else _of_site("NYC", "127.0.0.1", "", "")
    )
    built = build(load_stack(stack, properties, attributes))
    if what == "detection":
        return detection(built, latency)
    bridge = build(load_stack("relay-bridge-tcp.xml", properties, {}))
    return takeover(built, bridge, latency)


def _detection(stack: str, kind: str, seed: int, latency: float) -> float | None:
    chance = random.Random(f"detection {stack} {kind} {seed}")
    world = World(f"detection {seed}", inside=LinkSettings(latency=latency), check=False)
    names = [f"M{n}" for n in range(chance.randint(2, MEMBERS_MAX))]
    hosts = ",".join(f"{world.host_address('local', name)}[7800]" for name in names)
    members = []
    for name in names:
        properties = {
            "jgroups.bind_addr": world.host_address("local", name),
            "jgroups.tcpping.initial_hosts": hosts,
        }
        members.append(world.start(name, stack, "bounds", properties=properties))
    _stand(world, members, chance)
    victim = chance.choice(members)
    rest = [member for member in members if member is not victim]
    return _time_until(
        world, victim, kind, lambda: all(victim.name not in m.view_names for m in rest)
    )


def _stand(world: World, members: list[Member], chance: random.Random) -> None:
    """Wait until all are one group, and let them send something."""
    complete = partial(_are_one, world, members)
    if not world.run_until(complete, limit=120):
        raise JGroupsError("the simulated members do not become a group with this stack")
    world.run_for(SETTLED + chance.uniform(0, STANDS))
    for member in members:
        for _ in range(chance.choice((0, 0, 1, 5))):
            member.send(bytes(chance.randint(1, 5000)))
    world.run_for(chance.uniform(0, 0.05))


def _are_one(world: World, members: list[Member]) -> bool:
    return world.views_agree(members) and len(members[0].view_names) == len(members)


def _time_until(world: World, victim: Member, kind: str, done: Callable[[], bool]) -> float | None:
    begun = world.now
    {"crash": victim.crash, "vanish": victim.vanish, "pause": victim.pause}[kind]()
    noticed = world.run_until(done, limit=GIVE_UP)
    seconds = world.now - begun
    world.close()
    return seconds if noticed else None


def _of_site(
    site: str, address: str, near: str, bridge: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Attributes and properties of a member of a site."""
    return (
        {"RELAY.sites": ",".join(SITES)},
        {
            "relay.site": site,
            "relay.bridge.bind_addr": address,
            "relay.bridge.hosts": bridge,
            "jgroups.bind_addr": address,
            "jgroups.tcpping.initial_hosts": near,
        },
    )


def _take_over(stack: str, kind: str, seed: int, latency: float) -> float | None:
    chance = random.Random(f"take-over {stack} {kind} {seed}")
    link = LinkSettings(latency=latency)
    world = World(f"take-over {seed}", inside=link, between=link, check=False)
    places = {(s, n): world.host_address(s, n) for s, names in SITES.items() for n in names}
    bridge = ",".join(f"{place}[7950]" for place in places.values())
    groups: dict[str, list[Member]] = {site: [] for site in SITES}
    order = list(places)
    if chance.random() < 0.5:  # the other site's relay leads the bridge
        order.reverse()
    for site, name in order:
        near = ",".join(f"{place}[7800]" for (s, _), place in places.items() if s == site)
        attributes, properties = _of_site(site, places[site, name], near, bridge)
        groups[site].append(
            world.start(name, stack, site, site=site, attributes=attributes, properties=properties)
        )
        world.run_for(1.0)
    if not world.run_until(lambda: all(_met(group) for group in groups.values()), limit=120):
        raise JGroupsError("the simulated sites do not meet with this stack")
    for group in groups.values():
        _stand(world, group, chance)
    victim = next(member for member in groups["NYC"] if _relay(member).status().role == "relay")
    rest = [member for member in groups["NYC"] if member is not victim]
    return _time_until(world, victim, kind, lambda: _met(rest))


def _relay(member: Member) -> Any:
    return member.stack.find(RELAY)


def _met(group: list[Member]) -> bool:
    """Return whether a member of the group relays, with a session to the other site."""
    statuses = [_relay(member).status() for member in group]
    return any(s.role == "relay" and any(s.sessions.values()) for s in statuses)
