"""Counters and locks with leases as a live node and its backups keep them, and the model of their operations.

A lock is granted until a time that its holder computes itself, before it asks. All processes of the tests share one clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

from jgroups_py.livebackup import Stateful, Work, only_reads
from jgroups_py.testing import UNKNOWN, Model


class Thing(Stateful):
    """A number, and a lock with the number of its grants."""

    def __init__(self) -> None:
        self.number = 0
        self.holder = ""
        self.until = 0.0
        self.token = 0

    def add(self, by: int) -> int:
        self.number += by
        return self.number

    @only_reads
    def value(self) -> int:
        return self.number

    def take(self, who: str, at: float, lease: float) -> int:
        """Return the number of the grant. 0: another one holds the lock at ``at``."""
        if self.holder and at < self.until:
            return 0
        self.holder, self.until, self.token = who, at + lease, self.token + 1
        return self.token

    def leave(self, who: str) -> bool:
        """Return whether ``who`` held the lock."""
        if self.holder != who:
            return False
        self.holder, self.until = "", 0.0
        return True


async def add(work: Work, name: str, by: int) -> int:
    found: int = await work.get(Thing, name).add(by)
    return found


async def value(work: Work, name: str) -> int:
    found: int = await work.get(Thing, name).value()
    return found


async def take(work: Work, name: str, who: str, at: float, lease: float) -> int:
    found: int = await work.get(Thing, name).take(who, at, lease)
    return found


async def leave(work: Work, name: str, who: str) -> bool:
    found: bool = await work.get(Thing, name).leave(who)
    return found


OPERATIONS = {one.__name__: one for one in (add, value, take, leave)}


class Asked(NamedTuple):
    """An operation and its arguments."""

    do: Literal["add", "value", "take", "leave"]
    name: str
    arguments: tuple[Any, ...] = ()


class ThingState(NamedTuple):
    number: int = 0
    holder: str = ""
    until: float = 0.0
    token: int = 0


class Things(Model[tuple[tuple[str, ThingState], ...]]):
    """The things by name."""

    def initial(self) -> tuple[tuple[str, ThingState], ...]:
        return ()

    def step(
        self, state: tuple[tuple[str, ThingState], ...], what: Asked, result: Any
    ) -> tuple[bool, tuple[tuple[str, ThingState], ...]]:
        things = dict(state)
        thing = things.get(what.name, ThingState())
        got: Any
        match what.do, what.arguments:
            case "add", (by,):
                thing = thing._replace(number=thing.number + by)
                got = thing.number
            case "value", _:
                got = thing.number
            case "take", (who, at, lease):
                got = 0
                if not thing.holder or at >= thing.until:
                    got = thing.token + 1
                    thing = ThingState(thing.number, who, at + lease, got)
            case _, (who,):
                got = thing.holder == who
                if got:
                    thing = thing._replace(holder="", until=0.0)
        if result is not UNKNOWN and result != got:
            return False, state
        if thing != ThingState():
            things[what.name] = thing
        return True, tuple(sorted(things.items()))

    def keys(self, what: Asked) -> Sequence[Hashable]:
        return (what.name,)

    def only_reads(self, what: Asked) -> bool:
        return what.do == "value"

    def never_changes(self, what: Asked, result: Any) -> bool:
        return what.do == "value" or (what.do in ("take", "leave") and not result)
