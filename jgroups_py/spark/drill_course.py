"""RunRecord: the course of a drill, from the few records that are not messages. It has the lives of members, their views,
which messages they must have, the faults, and how soon each was seen.

It is computed from the log alone, apart from ``jgroups_py.drill.judge.verdict``. Both have the same rules (design/spark.md), so
that they can be compared. It has plain values, because it goes to every worker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NEVER: Final = float("inf")
DOWN: Final = frozenset(("crash", "vanish"))
ENDS: Final = DOWN | {"leave"}
FAULTS: Final = ENDS | {"pause", "resume", "restart", "partition", "heal", "promote", "fail_site"}
SMALL: Final = (*sorted(FAULTS), "view", "join")
"""Events that the course is made of."""


class Incarnation(NamedTuple):
    """One incarnation."""

    site: str
    origin: str
    """``NAME#incarnation``."""

    @property
    def place(self) -> str:
        """``SITE.NAME``, as partitions have it."""
        return f"{self.site}.{self.origin.rpartition('#')[0]}"


class RecordedView(NamedTuple):
    t: float
    order: int
    """Place of the record in the log."""
    id: str
    members: tuple[str, ...]

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return self.id, self.members


class RecordedEvent(NamedTuple):
    """A small record. ``order``: its place in the log."""

    order: int
    t: float
    site: str | None
    member: Incarnation | None
    event: str
    detail: Mapping[str, Any]


class Fall(NamedTuple):
    """A fault whose detection is measured. ``taken``: its take-over is, too."""

    t: float
    site: str
    seconds: float | None
    required: bool
    taken: bool


@dataclass
class RunRecord:
    """Of one run. Members in the order in which they came."""

    sites: list[str]
    primary: str | None
    grace: float
    members: list[Incarnation] = field(default_factory=list)
    born: dict[Incarnation, float] = field(default_factory=dict)
    views: dict[Incarnation, list[RecordedView]] = field(default_factory=dict)
    ended: dict[Incarnation, float] = field(default_factory=dict)
    silent: dict[Incarnation, int] = field(default_factory=dict)
    """From this place in the log on, what it says by itself is heard by nobody."""
    obliged: dict[Incarnation, float] = field(default_factory=dict)
    """From which time of sending on."""
    walls: list[list[list[str]]] = field(default_factory=list)
    """Partitions that stand at the end."""
    failures: dict[str, list[float]] = field(default_factory=dict)
    reigns: list[tuple[str, float, float]] = field(default_factory=list)
    """Who relays to the others: site, from, until, by time of sending."""
    primary_only: bool = False
    """What is sent where nothing is relayed is not lost."""
    promotions: list[float] = field(default_factory=list)
    falls: list[Fall] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    """For pictures."""

    def until(self, member: Incarnation) -> float:
        return self.ended.get(member, NEVER)

    def of(self, site: str) -> list[Incarnation]:
        return [member for member in self.members if member.site == site]

    def walled(self, member: Incarnation, sites: Sequence[str]) -> bool:
        """Whether a partition that stands keeps it from somebody of these sites."""
        for sides in self.walls:
            for number, side in enumerate(sides):
                if member.place not in side:
                    continue
                others = (name for n, other in enumerate(sides) if n != number for name in other)
                if any(name.split(".", 1)[0] in sites for name in others):
                    return True
        return False

    def must_have(self, site: str, origin_site: str) -> dict[Incarnation, float]:
        """Of ``site``, for messages of ``origin_site``: from which time of sending on."""
        return {
            member: since
            for member, since in self.obliged.items()
            if member.site == site and not self.walled(member, (site, origin_site))
        }

    def reign(self, site: str, sent: float) -> float | None:
        """Until when the site relayed, if it did when this was sent."""
        for name, start, end in self.reigns:
            if name == site and start <= sent < end:
                return end
        return None

    def counts(self, site: str, sent: float) -> bool:
        """Whether a message that other sites lack is held against the drill."""
        if self.reign(site, sent) is not None:
            return True
        promoted = any(t <= sent < t + self.grace for t in self.promotions)
        return not (promoted or self.primary_only)

    def next_failure(self, site: str, t: float) -> float:
        return min((f for f in self.failures.get(site, ()) if f >= t), default=NEVER)


def course_of(
    events: Sequence[RecordedEvent],
    sites: Sequence[str],
    primary: str | None,
    grace: float,
    primary_only: bool = False,
) -> RunRecord:
    """Events in the order of the log."""
    course = RunRecord(list(sites), primary, grace, primary_only=primary_only)
    bridges: dict[Incarnation, list[tuple[float, tuple[str, ...]]]] = {}
    faults = []
    for event in events:
        if event.site is not None and event.site not in course.sites:
            course.sites.append(event.site)
        if event.event in FAULTS:
            faults.append(event)
            _note_fault(course, event)
        elif event.member is not None and event.member not in course.silent:
            _note_life(course, event, event.member, bridges)
    for site in course.sites:
        _oblige(course, site)
    paused = {}
    for event in faults:
        if event.member is not None and event.event in ("pause", "resume"):
            paused[event.member] = event.event == "pause"
    for member, is_paused in paused.items():
        if is_paused:
            course.obliged.pop(member, None)
    course.failures = {site: _site_failures(course, faults, site) for site in course.sites}
    course.reigns = _reigns(faults, course.sites, primary, grace)
    course.promotions = [event.t for event in faults if event.event == "promote"]
    course.falls = sorted(
        [
            *_member_falls(course, faults),
            *(
                Fall(t, site, *_seen_by_others(course, bridges, site, t), False)
                for site, times in course.failures.items()
                for t in times
            ),
        ],
        key=lambda fall: fall.t,
    )
    return course


def _note_fault(course: RunRecord, event: RecordedEvent) -> None:
    member = event.member
    if event.detail.get("by") != "fail_site":
        course.faults.append((event.t, f"{event.event} {member.place if member else event.site}"))
    if event.event == "fail_site":
        for one in course.of(str(event.site)):
            course.ended.setdefault(one, event.t)
            course.silent.setdefault(one, event.order)
    elif event.event in ENDS and member is not None:
        course.ended.setdefault(member, event.t)
        if event.event == "vanish":
            course.silent.setdefault(member, event.order)
    elif event.event == "partition":
        course.walls = [w for w in course.walls if w != event.detail["groups"]]
        course.walls.append([list(side) for side in event.detail["groups"]])
    elif event.event == "heal":
        gone = json.dumps(event.detail["groups"])
        course.walls = [wall for wall in course.walls if json.dumps(wall) != gone]


def _note_life(
    course: RunRecord,
    event: RecordedEvent,
    member: Incarnation,
    bridges: dict[Incarnation, list[tuple[float, tuple[str, ...]]]],
) -> None:
    if event.event == "view" and event.detail.get("bridge"):
        bridges.setdefault(member, []).append((event.t, tuple(event.detail["sites"])))
        return
    if member not in course.born:
        course.born[member] = event.t
        course.members.append(member)
    if event.event == "view":
        view = RecordedView(
            event.t, event.order, event.detail["id"], tuple(event.detail["members"])
        )
        course.views.setdefault(member, []).append(view)


def _oblige(course: RunRecord, site: str) -> None:
    """Replays who held which view. The site's view is the one that most hold; who is not in it, or went,
    is not obliged until it holds the site's view again."""
    replay: list[tuple[float, Incarnation, RecordedView | None]] = []
    for member in course.of(site):
        replay += [(view.t, member, view) for view in course.views.get(member, ())]
        if member in course.ended:
            replay.append((course.ended[member], member, None))
    replay.sort(key=lambda step: step[0])
    holding: dict[Incarnation, RecordedView] = {}
    since: dict[str, float] = {}
    left: set[str] = set()
    main: RecordedView | None = None
    for t, member, view in replay:
        if view is None:
            holding.pop(member, None)
            since.pop(member.origin, None)
            left.add(member.origin)
        elif member.origin not in left:
            if member not in holding:
                since.setdefault(member.origin, t)
            holding[member] = view
        before, main = main, _prevailing(holding, main)
        if before is not None:
            staying = set(main.members) if main is not None else set()
            for origin in before.members:
                if origin not in staying:
                    since.pop(origin, None)
        if main is not None:
            for member, held in holding.items():
                if held.key == main.key:
                    since.setdefault(member.origin, t)
    if main is not None:
        for member in holding:
            if member.origin in main.members and member.origin in since:
                course.obliged[member] = since[member.origin]


def _prevailing(
    holding: Mapping[Incarnation, RecordedView], now: RecordedView | None
) -> RecordedView | None:
    held = Counter(view.key for view in holding.values())
    if not held:
        return None
    most = max(held.values())
    if now is not None and held[now.key] == most:
        return now
    return next(view for view in holding.values() if held[view.key] == most)


def _site_failures(course: RunRecord, faults: Sequence[RecordedEvent], site: str) -> list[float]:
    """By decree, or with the last living member."""
    times = {event.t for event in faults if event.event == "fail_site" and event.site == site}
    fallen = {e.member: e.event for e in reversed(faults) if e.member and e.event in ENDS}
    for member in course.of(site):
        t = course.until(member)
        if fallen.get(member) not in DOWN or t in times or t == NEVER:
            continue
        if not any(
            course.born[other] <= t < course.until(other)
            for other in course.of(site)
            if other != member
        ):
            times.add(t)
    return sorted(times)


def _reigns(
    faults: Sequence[RecordedEvent], sites: Sequence[str], primary: str | None, grace: float
) -> list[tuple[str, float, float]]:
    if primary is None:
        return [(site, -NEVER, NEVER) for site in sites]
    found = [(primary, -NEVER, NEVER)]
    for event in faults:
        site, start, _ = found[-1]
        if event.event == "promote" and event.site is not None and event.site != site:
            found[-1:] = [(site, start, event.t), (event.site, event.t + grace, NEVER)]
    return found


def _member_falls(course: RunRecord, faults: Sequence[RecordedEvent]) -> list[Fall]:
    found = []
    for event in faults:
        victim, t = event.member, event.t
        if event.event not in DOWN or victim is None or event.detail.get("by") == "fail_site":
            continue
        witnesses = [
            other
            for other in course.of(victim.site)
            if other != victim
            and course.until(other) > t
            and (view := _held_at(course, other, t)) is not None
            and victim.origin in view.members
        ]
        seconds, required = _seen_inside(course, victim, t, witnesses)
        held = _held_at(course, victim, t)
        leads = held is not None and held.members[:1] == (victim.origin,)
        taken = leads and len(course.sites) > 1 and bool(witnesses)
        found.append(Fall(t, victim.site, seconds, required, taken))
    return found


def _held_at(course: RunRecord, member: Incarnation, t: float) -> RecordedView | None:
    held = None
    for view in course.views.get(member, ()):
        if view.t > t:
            break
        held = view
    return held


def _seen_inside(
    course: RunRecord, victim: Incarnation, t: float, witnesses: Sequence[Incarnation]
) -> tuple[float | None, bool]:
    """Until the last survivor's view lacked it; who fell itself, later than that, was late, too."""
    seen: list[float] = []
    fell: list[float] = []
    for witness in witnesses:
        without = [
            view.t - t
            for view in course.views[witness]
            if view.t > t and victim.origin not in view.members
        ]
        if without:
            seen.append(without[0])
        elif witness in course.ended:
            fell.append(course.ended[witness] - t)
        else:
            return None, True
    if not seen:
        return None, False
    return max(max(seen), max(fell, default=0.0)), True


def _seen_by_others(
    course: RunRecord,
    bridges: Mapping[Incarnation, Sequence[tuple[float, tuple[str, ...]]]],
    site: str,
    t: float,
) -> tuple[float | None, bool]:
    """Until each other site that lives had a view of the relays without this one."""
    took = []
    for other in course.sites:
        living = [member for member in course.of(other) if course.until(member) > t]
        if other == site or not living:
            continue
        seen = [
            when - t
            for member in living
            for when, names in bridges.get(member, ())
            if when > t and site not in names
        ]
        if not seen:
            return None, True
        took.append(min(seen))
    return (max(took), True) if took else (None, False)
