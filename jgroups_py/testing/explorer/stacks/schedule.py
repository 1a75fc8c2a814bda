"""A schedule: all events of one run, as plain data.

Members are named when the schedule is drawn; the member that a fault hits is named by its role and found at run
time (``roles.py``), so that a schedule still makes sense when parts of it are taken away.

All times are seconds. ``Step.at`` counts from the time at which all members have been started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.case_text import SHOWN_MAX, read_as, written
from jgroups_py.testing.explorer.lab import MEMBERS_MAX, text_of

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

STEPS_MAX: Final = 1000
SECONDS_MAX: Final = 100_000.0
LATENCY_MAX: Final = 60.0
GAP_MAX: Final = 60.0
"""The most seconds between two starts, or between two of several members that are hit."""
MESSAGES_MAX: Final = 1_000_000
"""The most messages of all loads together, and of a burst."""
BYTES_MAX: Final = 100_000_000
"""The most messages that a load sends at once."""
SHARED_MAX: Final = 10
"""The most callers at each member."""
RATES: Final = (0.01, 100.0)
"""The rates of a drifting clock."""

# The values that a file may have; a value that is not among them is named with its place.
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[^/.*]+$")]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
Latency = Annotated[float, Meta(ge=0, le=LATENCY_MAX)]
Gap = Annotated[float, Meta(ge=0, le=GAP_MAX)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=MESSAGES_MAX)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MESSAGES_MAX)]


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attributes are those of ``LinkSettings``."""

    latency: Latency = 0.0005
    jitter: Latency = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    reorder: Share = 0.0
    reorder_delay: Latency = 0.005


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``members`` are started in this order; the second and later ones fetch the state if
    ``with_state``."""

    name: Name
    members: tuple[Name, ...]


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``member`` sends ``count`` messages of ``size`` bytes every ``every`` seconds from ``start`` to ``stop``: to
    all members, to one member after the other, or out of band."""

    member: Name
    start: Seconds
    stop: Seconds
    every: Annotated[float, Meta(gt=0, le=SECONDS_MAX)]
    count: AtLeastOne = 1
    size: Annotated[int, Meta(ge=0, le=BYTES_MAX)] = 0
    to: To = "all"


class After(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Starts a step ``delay`` after the ``nth`` trace of ``what`` by ``protocol`` at a member of ``site`` (empty: any),
    counted from ``Step.at`` on."""

    protocol: Name
    what: Name
    site: str = ""
    nth: AtLeastOne = 1
    delay: Seconds = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, ``at`` seconds after all members were started. ``who``: names or roles of members, for example ``relay``.
    ``do`` decides which other fields count; see ``jgroups_py/testing/explorer/stacks/faults.py``."""

    at: Seconds
    do: Kind
    who: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    seconds: Seconds = 0.0
    after: After | None = None
    link: Link | None = None
    one_way: bool = False
    amount: Annotated[float, Meta(ge=0, le=MESSAGES_MAX)] = 0.0
    gap: Gap = 0.0
    how: str = ""


class Healing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a run: a core is repaired, and all other members are broken for good.

    Per site, ``keep`` (a share) of the living members are the core, beginning with the ``turn``-th.
    ``rest``: the fate of the others. ``within``: seconds for one view, for all messages, for
    empty buffers, each.
    """

    keep: Share = 1.0
    turn: Count = 0
    rest: Rest = "crash"
    within: Seconds = 90.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that happens in one run, as plain data. Times are seconds.

    ``reopen``: seconds after which an application that was expelled opens a new channel; 0: never.
    ``seconds``: the time for faults; they go on until there were ``least_faults``.
    ``least_seconds`` and ``least_messages``: the least length of the whole run; the second phase is prolonged until
    then. ``heals`` false: there is no second phase, because the failure that was made smaller came in the first.
    ``shared``: the number of callers at each member of registers that the site's members share (shared.py).
    ``sealed``: every stack has SEAL, the bridge's, too.
    """

    kind: Literal["stacks"] = "stacks"
    seed: Annotated[int, Meta(ge=0)]
    profile: Annotated[str, Meta(min_length=1)]
    sites: tuple[Site, ...]
    stack: str
    attributes: dict[str, str] = {}
    bridge_attributes: dict[str, str] = {}
    inside: Link = Link()
    between: Link = Link(latency=0.03)
    start_gap: Gap = 0.3
    with_state: bool = False
    reopen: Seconds = 1.0
    loads: tuple[Load, ...] = ()
    steps: tuple[Step, ...] = ()
    seconds: Seconds = 40.0
    healing: Healing = Healing()
    heals: bool = True
    least_seconds: Seconds = 60.0
    least_messages: Count = 500
    least_faults: Annotated[int, Meta(ge=0, le=STEPS_MAX)] = 0
    shared: Annotated[int, Meta(ge=0, le=SHARED_MAX)] = 0
    sealed: bool = False

    @property
    def relays(self) -> bool:
        """Are sites joined by RELAY?"""
        return "relay" in self.stack

    def to_json(self) -> str:
        return written(self)


def from_json(text: str, file: str) -> Schedule:
    """Read a schedule. Raises ``ConfigError`` naming ``file`` if ``text`` is not one."""
    schedule = read_as(Schedule, text, file)
    problem = _problem(schedule)
    if problem is not None:
        raise ConfigError(problem, file=file)
    return schedule


def load(file: Path) -> Schedule:
    """Read a schedule's file. Raises ``ConfigError``, ``OSError``."""
    return from_json(text_of(file), str(file))


def _problem(schedule: Schedule) -> str | None:
    """Return the contradiction between values that are valid by themselves."""
    return next(_problems(schedule), None)


def _problems(schedule: Schedule) -> Iterator[str]:
    yield from _of_members(schedule)
    yield from _of_loads(schedule)
    yield from _of_steps(schedule)


def _of_members(schedule: Schedule) -> Iterator[str]:
    sites = [site.name for site in schedule.sites]
    names = [name for site in schedule.sites for name in site.members]
    if not sites:
        yield "sites: none; there must be one, and every site needs members"
    for at, site in enumerate(schedule.sites):
        if not site.members:
            yield f"sites[{at}]: {site.name!r} has none, but every site needs members"
    if len(names) > MEMBERS_MAX:
        yield f"sites: at most {MEMBERS_MAX} members, not {len(names)}"
    for kind, all_of_them in (("sites", sites), ("members", names)):
        for twice in [name for name, count in Counter(all_of_them).items() if count > 1]:
            yield f"sites: two {kind} have the same name {twice!r}"


def _of_loads(schedule: Schedule) -> Iterator[str]:
    names = {name for site in schedule.sites for name in site.members}
    messages = 0.0
    for at, one in enumerate(schedule.loads):
        if one.member not in names:
            yield f"loads[{at}].member: nobody is called {one.member!r}; {_some_of(names)}"
        if one.count * one.size > BYTES_MAX:
            yield (
                f"loads[{at}]: {one.count} messages of {one.size} bytes at once; "
                f"at most {BYTES_MAX} bytes"
            )
        messages += max(0.0, one.stop - one.start) / one.every * one.count
    if messages > MESSAGES_MAX:
        yield f"loads: {messages:.3g} messages in all; at most {MESSAGES_MAX}"


def _of_steps(schedule: Schedule) -> Iterator[str]:
    sites = {site.name for site in schedule.sites}
    if len(schedule.steps) > STEPS_MAX:
        yield f"steps: at most {STEPS_MAX}, not {len(schedule.steps)}"
    for at, step in enumerate(schedule.steps):
        for key, roles in (("who", step.who), ("other", step.other)):
            for role in roles:
                if role.partition(".")[0] not in {*sites, "*"}:
                    yield f"steps[{at}].{key}: {role!r} begins with no site; {_some_of(sites)} or *"
        if step.after is not None and step.after.site not in {*sites, "", "*"}:
            yield f"steps[{at}].after.site: no site {step.after.site!r}; {_some_of(sites)}"
        if step.do == "drift" and not RATES[0] <= step.amount <= RATES[1]:
            yield f"steps[{at}].amount: a clock's rate is {RATES[0]} to {RATES[1]}, not {step.amount}"


def _some_of(names: Iterable[str]) -> str:
    return "there are " + ", ".join(sorted(names)[:SHOWN_MAX])
