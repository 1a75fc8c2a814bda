"""RunRecord: the course of a drill, from the few records that are not messages. It has the lives of members, their views
and the faults.

It is read from the log alone, apart from ``jgroups_py.drill.judge.evidence``, so that the two can be compared. The rules are
the judge's (``jgroups_py.drill.judge.rules``). It has plain values, because it goes to every worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jgroups_py.drill.judge.rules import DOWN, Fault, Lives, Rules, ViewSeen, Who

ENDS: Final = (*DOWN, "leave")
FAULTS: Final = (*ENDS, "pause", "resume", "restart", "partition", "heal", "promote", "fail_site")
SMALL: Final = (*sorted(FAULTS), "view", "join")
"""The events of a course."""


class RecordedEvent(NamedTuple):
    """A small record. ``order``: its place in the log."""

    order: int
    t: float
    site: str | None
    member: Who | None
    event: str
    detail: Mapping[str, Any]


class RunRecord(Lives):
    """The records of one run."""

    rules: Rules

    def __init__(self, sites: Sequence[str]) -> None:
        super().__init__(sites)
        self.given: dict[Who, list[int]] = {}
        """The place in the log of each of its views."""
        self.silent: dict[Who, int] = {}
        """For each member, the place in the log after which its own actions reach no other member."""

    @property
    def told(self) -> list[tuple[float, str]]:
        """The faults, for pictures."""
        return [
            (f.t, f"{f.event} {f.who.place if f.who else f.site}")
            for f in self.faults
            if f.detail.get("by") != "fail_site"
        ]


def course_of(
    events: Sequence[RecordedEvent],
    sites: Sequence[str],
    primary: str | None,
    grace: float,
    primary_only: bool = False,
) -> RunRecord:
    """Return the course. ``events`` are in the order of the log."""
    course = RunRecord(sites)
    for event in events:
        if event.site is not None and event.site not in course.sites:
            course.sites.append(event.site)
        if event.event in FAULTS:
            _note_fault(course, event)
        elif event.member is not None and event.member not in course.silent:
            _note_life(course, event, event.member)
    course.rules = Rules(course, primary, grace, primary_only)
    return course


def _note_fault(course: RunRecord, event: RecordedEvent) -> None:
    member = event.member
    course.faults.append(Fault(event.t, event.event, event.site, member, event.detail))
    if event.event == "fail_site":
        for one in course.members(str(event.site)):
            course.gone.setdefault(one, (event.t, event.event))
            course.silent.setdefault(one, event.order)
    elif event.event in ENDS and member is not None:
        course.gone.setdefault(member, (event.t, event.event))
        if event.event == "vanish":
            course.silent.setdefault(member, event.order)


def _note_life(course: RunRecord, event: RecordedEvent, member: Who) -> None:
    if event.event == "view" and event.detail.get("bridge"):
        seen = (event.t, tuple(event.detail["sites"]))
        course.bridge_views.setdefault(member, []).append(seen)
        return
    course.born.setdefault(member, event.t)
    if event.event == "view":
        view = ViewSeen(event.t, event.detail["id"], tuple(event.detail["members"]))
        course.views.setdefault(member, []).append(view)
        course.given.setdefault(member, []).append(event.order)
