"""A schedule: everything that happens in one run, as plain data.

Members are named when the schedule is drawn; who is hit by a fault is said by role and found at run
time (``roles.py``), so that a schedule still makes sense when parts of it are taken away.

All times are seconds. ``Step.at`` counts from the moment everybody has been started.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from jgroups_py.errors import ConfigError

Kind = Literal[
    "crash",
    "vanish",
    "leave",
    "pause",
    "restart",
    "fail_site",
    "cut",
    "link",
    "clog",
    "reset",
    "drift",
    "slow",
    "burst",
    "state",
    "promote",
]
To = Literal["all", "one", "oob"]
Rest = Literal["crash", "vanish", "pause", "cut", "deaf", "mute"]

LENGTH_MAX: Final = 1_000_000
"""Characters of a schedule's file."""
MEMBERS_MAX: Final = 100
STEPS_MAX: Final = 1000
SECONDS_MAX: Final = 100_000.0


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As ``LinkSettings``."""

    latency: float = 0.0005
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_delay: float = 0.005


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``members`` are started in this order; the second and later ones fetch the state if
    ``with_state``."""

    name: str
    members: tuple[str, ...]


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``member`` sends ``count`` messages of ``size`` bytes every ``every`` seconds from ``start`` to
    ``stop``: to everybody, to one member after the other, or out of band."""

    member: str
    start: float
    stop: float
    every: float
    count: int = 1
    size: int = 0
    to: To = "all"


class After(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Not at ``Step.at`` but ``delay`` after ``protocol`` of a member of ``site`` (empty: any) has
    traced ``what`` for the ``nth`` time from then on."""

    protocol: str
    what: str
    site: str = ""
    nth: int = 1
    delay: float = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault. ``who``: roles, see roles.py. What else counts depends on ``do``, see faults.py."""

    at: float
    do: Kind
    who: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    seconds: float = 0.0
    after: After | None = None
    link: Link | None = None
    one_way: bool = False
    amount: float = 0.0
    gap: float = 0.0
    how: str = ""


class Healing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In the end a core is repaired, and everything else is broken for good.

    Per site, ``keep`` (a share) of the living members are the core, beginning with the ``turn``-th.
    ``rest``: what becomes of the others. ``within``: seconds for one view, for all messages, for
    empty buffers, each.
    """

    keep: float = 1.0
    turn: int = 0
    rest: Rest = "crash"
    within: float = 90.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module's docstring.

    ``reopen``: seconds after which an application that was expelled opens a new channel; 0: never.
    ``seconds``: how long the faults last; they go on until there were ``least_faults``.
    ``least_seconds`` and ``least_messages``: what the whole run has at least; the second phase is
    prolonged until then. ``heals`` false: there is no second
    phase, since what failed when the schedule was made smaller did so in the first.
    """

    seed: int
    profile: str
    sites: tuple[Site, ...]
    stack: str
    attributes: dict[str, str] = {}
    bridge_attributes: dict[str, str] = {}
    inside: Link = Link()
    between: Link = Link(latency=0.03)
    start_gap: float = 0.3
    with_state: bool = False
    reopen: float = 1.0
    loads: tuple[Load, ...] = ()
    steps: tuple[Step, ...] = ()
    seconds: float = 40.0
    healing: Healing = Healing()
    heals: bool = True
    least_seconds: float = 60.0
    least_messages: int = 500
    least_faults: int = 0

    @property
    def relays(self) -> bool:
        """Are sites joined by RELAY?"""
        return "relay" in self.stack

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


def from_json(text: str, file: str) -> Schedule:
    """Raises ``ConfigError`` naming ``file`` if ``text`` is not a schedule."""
    if len(text) > LENGTH_MAX:
        raise ConfigError(f"too long for a schedule (at most {LENGTH_MAX} characters)", file=file)
    try:
        schedule = msgspec.json.decode(text, type=Schedule)
    except msgspec.DecodeError as error:
        raise ConfigError(f"not a schedule: {error}", file=file) from None
    problem = _problem(schedule)
    if problem is not None:
        raise ConfigError(problem, file=file)
    return schedule


def load(file: Path) -> Schedule:
    """Raises ``ConfigError``, ``OSError``."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not a schedule: {error}", file=str(file)) from None
    return from_json(text, str(file))


def _problem(schedule: Schedule) -> str | None:
    names = [name for site in schedule.sites for name in site.members]
    if not names or any(not site.members for site in schedule.sites):
        return "every site needs members"
    if len(names) > MEMBERS_MAX:
        return f"at most {MEMBERS_MAX} members, not {len(names)}"
    if len(set(names)) != len(names):
        return "two members have the same name"
    if len(schedule.steps) > STEPS_MAX:
        return f"at most {STEPS_MAX} steps, not {len(schedule.steps)}"
    for load_ in schedule.loads:
        if load_.member not in names:
            return f"loads: nobody is called {load_.member!r}"
        if load_.every <= 0 or load_.count < 1 or load_.size < 0:
            return f"loads: {load_.member}: every > 0, count >= 1 and size >= 0 are needed"
    times = [schedule.seconds, schedule.least_seconds, schedule.healing.within]
    times += [step.at for step in schedule.steps] + [step.seconds for step in schedule.steps]
    if any(not 0 <= t <= SECONDS_MAX for t in times):
        return f"times are 0 to {SECONDS_MAX:.0f} s"
    return None
