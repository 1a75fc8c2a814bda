"""A schedule of callers and faults, as plain data. Times are seconds from the moment all members are there."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.case_text import read_as, written
from jgroups_py.testing.explorer.stacks.schedule import Link, Name, Seconds

BackEnd = Literal["local", "replicated", "buddy"]
Doing = Literal[
    "node",
    "exists",
    "children",
    "put",
    "update",
    "remove",
    "remove_node",
    "remove_tree",
    "move",
    "rmw",
    "pair",
    "change",
    "add",
    "cas",
    "load",
    "save",
    "logout",
]
FaultKind = Literal["crash", "leave", "start", "pause", "cut"]
Store = Literal["none", "through", "passivation"]

MEMBERS_MAX = 8
CALLERS_MAX = 64
STEPS_MAX = 200
"""The most steps of one caller."""
FAULTS_MAX = 200


class Do(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call, ``wait`` after the one before. ``rmw``: a batch that reads ``path`` and writes it; ``pair``:
    one that reads and writes ``path`` and ``other``; ``change``, ``add``, ``cas``: the cache's update, increment,
    compare_and_set (of what a read before it has seen). ``load``, ``save``, ``logout``: of session ``path``."""

    do: Doing
    path: str
    other: str = ""
    key: str = "v"
    wait: Seconds = 0.0


class Caller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task at ``member``; it continues with the next incarnation of the member."""

    member: Name
    steps: Annotated[tuple[Do, ...], Meta(max_length=STEPS_MAX)]


class CacheFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``cut``: ``who`` from all others, for ``seconds``; ``pause`` for ``seconds``; ``start``: a member that is not
    running. A step without a member, or one that would end the last member, is left out."""

    at: Seconds
    do: FaultKind
    who: tuple[Name, ...]
    seconds: Seconds = 0.0


class CacheSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``sessions``: callers use sessions, not nodes. ``buddies``, ``majority``: of back end ``buddy``.
    ``store``: of ``local``; ``room``: nodes that stay in memory then. ``late``: members that are absent at first."""

    kind: Literal["caches"] = "caches"
    seed: Annotated[int, Meta(ge=0)]
    profile: Annotated[str, Meta(min_length=1)]
    back_end: BackEnd
    members: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    late: tuple[Name, ...] = ()
    sessions: bool = False
    buddies: Annotated[int, Meta(ge=1, le=3)] = 1
    majority: bool = False
    store: Store = "none"
    room: Annotated[int, Meta(ge=1, le=1000)] = 2
    link: Link = Link()
    callers: Annotated[tuple[Caller, ...], Meta(max_length=CALLERS_MAX)] = ()
    faults: Annotated[tuple[CacheFault, ...], Meta(max_length=FAULTS_MAX)] = ()

    def to_json(self) -> str:
        return written(self)


def from_json(text: str, file: str) -> CacheSchedule:
    """Read a schedule. Raises ``ConfigError`` naming ``file`` if ``text`` is not one."""
    schedule = read_as(CacheSchedule, text, file)
    known = ", ".join(schedule.members)
    for at, caller in enumerate(schedule.callers):
        if caller.member not in schedule.members:
            problem = f"callers[{at}].member: nobody is called {caller.member!r}; there are {known}"
            raise ConfigError(problem, file=file)
    for at, fault in enumerate(schedule.faults):
        for name in fault.who:
            if name not in schedule.members:
                problem = f"faults[{at}].who: nobody is called {name!r}; there are {known}"
                raise ConfigError(problem, file=file)
    return schedule
