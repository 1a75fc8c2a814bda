"""Resolves roles such as ``NYC.relay`` to members, at the moment of an event.

The runner knows the living members and their views; the view that most of them hold decides.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from jgroups_py.drill.file.model import Selector
from jgroups_py.drill.file.plan import PlannedEvent
from jgroups_py.errors import JGroupsError


class DrillError(JGroupsError):
    """The drill could not be run: exit code 2. The text names file and line where it can."""


def main_view(views: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the view that most members hold. Of several such views it is the first one in the
    given order."""
    counts: dict[tuple[str, ...], int] = {}
    for view in views:
        counts[tuple(view)] = counts.get(tuple(view), 0) + 1
    return max(counts, key=lambda view: counts[view], default=())


def resolve(
    event: PlannedEvent,
    living: Mapping[str, Sequence[str]],
    views: Mapping[str, Mapping[str, Sequence[str]]],
    gone: Mapping[str, Sequence[str]],
) -> list[tuple[str, str]]:
    """Return (site, name) of the event's targets, in the order of the action.

    Args:
        event: crash, vanish, pause, leave or restart.
        living: site -> names that run, in the order of joining.
        views: site -> name -> the names in its newest view, in the view's order.
        gone: site -> names that crashed, vanished or left.

    Raises ``DrillError`` with file and line if a target is absent.
    """
    chance = random.Random(event.stream)
    chosen: list[tuple[str, str]] = []
    for target in event.targets:
        if event.fault == "restart":
            if target.what not in gone.get(target.site, ()):
                raise DrillError(f"{event.place}: restart {target}: it is running")
            name = str(target.what)
        else:
            taken = [name for site, name in chosen if site == target.site]
            name = member(target, living, views, taken, chance, str(event.place))
        if (target.site, name) in chosen:
            raise DrillError(f"{event.place}: {target} is {name}, who is hit already")
        chosen.append((target.site, name))
    if event.shuffled:
        chance.shuffle(chosen)
    return chosen


def member(
    target: Selector,
    living: Mapping[str, Sequence[str]],
    views: Mapping[str, Mapping[str, Sequence[str]]],
    taken: Sequence[str],
    chance: random.Random,
    place: str,
) -> str:
    """Return the name for a selector. Raises ``DrillError``."""
    there = list(living.get(target.site, ()))
    if not target.is_role:
        if target.what not in there:
            raise DrillError(f"{place}: {target} is not there")
        return str(target.what)
    held = views.get(target.site, {})
    line = [name for name in main_view([held[n] for n in there if n in held]) if name in there]
    line = line or there
    match target.what:
        case "coordinator" | "relay":
            found = line[:1]
        case "standby":
            found = line[1:2]
        case "newest":
            found = line[-1:]
        case _:
            free = [name for name in line if name not in taken]
            found = [chance.choice(free)] if free else []
    if not found:
        raise DrillError(f"{place}: there is no {target} ({len(line)} members are left)")
    return found[0]


def groups(
    event: PlannedEvent,
    living: Mapping[str, Sequence[str]],
    views: Mapping[str, Mapping[str, Sequence[str]]],
    members: Mapping[str, Sequence[str]],
) -> list[list[tuple[str, str]]]:
    """Return the sides of a partition as (site, name). A site stands for all its members, past ones included.

    Args:
        members: site -> all names of the drill file; a restarted one is cut off as well.
    """
    chance = random.Random(event.stream)
    sides = []
    for group in event.groups:
        side: list[tuple[str, str]] = []
        for target in group:
            if target.what is None:
                side += [(target.site, name) for name in members[target.site]]
            elif target.is_role:
                side.append(
                    (
                        target.site,
                        member(target, living, views, (), chance, str(event.place)),
                    )
                )
            else:
                side.append((target.site, target.what))
        sides.append(side)
    seen: list[tuple[str, str]] = []
    for side in sides:
        for who in side:
            if who in seen:
                raise DrillError(f"{event.place}: {'.'.join(who)} is on two sides")
            seen.append(who)
    return sides
