"""Schedules of maps: a setting and steps, drawn from a seed. Played, they end with all faults healed; then all maps must be equal."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.maps.rules import LAST_WRITER, ConflictRule, Maximum, PnCounter, Union
from jgroups_py.testing.check.violation import Violated, violations_in
from jgroups_py.testing.explorer.case_text import read_as, written
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.explorer.maps.world import ExploredHost, MapWorld

PROFILES: Final = ("links", "shared")
"""links: each host has links of its own with the others. shared: links share a medium, which loses a part of what is sent to all."""
RULES: Final[dict[str, ConflictRule]] = {
    rule.name: rule for rule in (LAST_WRITER, Union(), Maximum(), PnCounter())
}
KEYS: Final = 6
FAULTS: Final = ("cut", "connect", "crash", "start", "clock", "twin")
TWIN: Final = 100
"""The twin of a host has its identifier and a file of its own. In steps it is the number of the host and this."""
KIND: Final = "maps"

Step = tuple[str, int, int, int]
"""The kind of step, a host, another host or a key, and a value; see ``_play_step``."""


class MapSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and times of all hosts."""

    seed: int
    hosts: int
    peers_known: bool
    rule: str
    hybrid: bool
    window: int
    max_bandwidth: float
    shared: bool = False
    loss: float = 0.0
    ack_delay: float = 0.0
    connected: bool = True
    max_ahead: float = 3600.0
    tombstone_age: float = 7 * 86_400.0


class MapSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    setting: MapSetting
    steps: tuple[Step, ...]


def draw(seed: int, profile: str) -> MapSchedule:
    """Return the schedule of a seed."""
    chance = random.Random(f"maps:{profile}:{seed}")
    shared = profile == "shared"
    hosts = chance.randint(2, 5)
    peers_known = chance.random() < 0.7
    rule = chance.choice(list(RULES)) if seed % 3 == 0 else LAST_WRITER.name
    tombstone_age = 7 * 86_400.0 if seed % 5 else 5.0
    max_ahead = 3600.0 if seed % 7 else 20.0
    setting = MapSetting(
        seed=seed,
        hosts=hosts,
        peers_known=peers_known,
        rule=rule,
        hybrid=chance.random() < 0.8,
        window=chance.choice([100, 2000, 1 << 20]),
        max_bandwidth=chance.choice([0.0, 0.0, 5000.0]),
        shared=shared,
        loss=chance.choice([0.0, 0.2]) if shared else 0.0,
        ack_delay=chance.choice([0.0, 0.1]),
        connected=chance.random() < 0.5,
        max_ahead=max_ahead if tombstone_age > max_ahead or rule == LAST_WRITER.name else 1.0,
        tombstone_age=tombstone_age,
    )
    steps = [_draw_step(chance, hosts) for _ in range(chance.randint(5, 60))]
    if seed % 11 == 0:
        more = random.Random(f"maps:{profile}:{seed}:twins")
        for _ in range(more.randint(2, 12)):
            steps.insert(more.randint(0, len(steps)), _draw_twin(more, hosts))
    return MapSchedule(KIND, setting, tuple(steps))


def _draw_twin(chance: random.Random, hosts: int) -> Step:
    host, other = chance.randint(1, hosts), chance.randint(1, hosts)
    what = chance.choice(["twin", "twin", "put", "remove", "connect"])
    if what == "twin":
        return what, host, 0, 0
    if what == "connect":
        return what, TWIN + host, other, 0
    return what, TWIN + host, chance.randrange(KEYS), chance.randrange(10**6)


def _draw_step(chance: random.Random, hosts: int) -> Step:
    host, other = chance.randint(1, hosts), chance.randint(1, hosts)
    action = chance.random()
    if action < 0.42:
        return "put", host, chance.randrange(KEYS), chance.randrange(10**6)
    if action < 0.55:
        return "remove", host, chance.randrange(KEYS), 0
    if action < 0.65:
        return "cut", host, other, 0
    if action < 0.78:
        return "connect", host, other, 0
    if action < 0.83:
        return "crash", host, 0, 0
    if action < 0.88:
        return "start", host, 0, 0
    if action < 0.92:
        return "clock", host, 0, chance.choice([-100_000, -1000, 0, 1000, 100_000])
    return "run", 0, 0, chance.choice([20, 100, 1000, 3000])


def play(schedule: MapSchedule) -> RunOutcome:
    """Play one run, and judge it."""
    setting = schedule.setting
    world = MapWorld(
        setting.hosts,
        setting.seed,
        peers=frozenset(range(1, setting.hosts + 1) if setting.peers_known else ()),
        rule=RULES[setting.rule],
        hybrid=setting.hybrid,
        window=setting.window,
        max_bandwidth=setting.max_bandwidth,
        shared=setting.shared,
        loss=setting.loss,
        ack_delay=setting.ack_delay,
        max_ahead=setting.max_ahead,
        tombstone_age=setting.tombstone_age,
    )
    outcome = RunOutcome(setting.seed, [])

    def run() -> None:
        if setting.connected:
            world.connect_all()
        for step in schedule.steps:
            if _play_step(world, step):
                outcome.story.append(f"{world.now:8.2f} {' '.join(map(str, step))}")
                outcome.faults += step[0] in FAULTS
        world.loss = 0.0
        for number in [number for number in world.hosts if number > TWIN]:
            world.crash(number)
            del world.hosts[number]
        world.heal()
        judge(list(world.hosts.values()))

    outcome.problems += violations_in(run, lambda: world.now)
    outcome.events, outcome.virtual_s = world.messages + world.multicasts, world.now
    return outcome


def _play_step(world: MapWorld, step: Step) -> bool:
    """Return whether the step could be taken."""
    what, number, other, value = step
    if what == "run":
        world.run(value / 1000)
        return True
    host = world.hosts.get(number)
    if host is None:
        return False
    if what == "twin":
        if TWIN + number in world.hosts:
            world.crash(TWIN + number)
            del world.hosts[TWIN + number]
        else:
            world.hosts[TWIN + number] = ExploredHost(world, number, life=2)
        return True
    if what in ("put", "remove"):
        if host.up:
            write(host, b"k%d" % other, value if what == "put" else None)
        return host.up
    if what in ("cut", "connect"):
        if other == number or other not in world.hosts:
            return False
        (world.cut if what == "cut" else world.connect)(number, other)
    elif what == "crash":
        world.crash(number)
    elif what == "start":
        if host.up:
            return False
        host.start()
    else:
        host.offset = value / 1000
    return True


def write(host: ExploredHost, key: bytes, value: int | None) -> None:
    """Write a value in the form that the host's rule wants; None removes."""
    rule = host.world.rule
    if value is None:
        host.write(key, None)
    elif isinstance(rule, Union):
        host.write(key, b'["%d"]' % (value % 20))
    elif isinstance(rule, Maximum):
        host.write(key, b"%d" % (value % 1000))
    elif isinstance(rule, PnCounter):
        mine = host.table.entry(key)
        host.write(key, rule.add(mine.value if mine else None, host.node, value % 4 - 1))
    else:
        host.write(key, b"%d" % value)


def judge(hosts: list[ExploredHost]) -> None:
    """Raise Violated unless all hosts have the same values and the same changes, and understood each other."""
    first = hosts[0]
    for host in hosts[1:]:
        if host.values() != first.values():
            raise Violated("equal", f"host {host.node} has other values than host {first.node}")
        if host.table.vector() != first.table.vector():
            raise Violated("complete", f"host {host.node} lacks changes, or host {first.node} does")
    for host in hosts:
        if host.replica.counters["garbage"]:
            raise Violated("understood", f"host {host.node} could not read a message")


def parse(text: str, file: str) -> MapSchedule:
    """Read a schedule. Raises ConfigError."""
    schedule = read_as(MapSchedule, text, file, "a schedule of maps")
    if schedule.setting.rule not in RULES:
        raise ConfigError(
            f"rule: one of {', '.join(RULES)}, not {schedule.setting.rule!r}", file=file
        )
    if not 1 <= schedule.setting.hosts <= 127:
        raise ConfigError(f"hosts: 1 to 127, not {schedule.setting.hosts}", file=file)
    return schedule


def dump(schedule: MapSchedule) -> str:
    return written(msgspec.to_builtins(schedule))
