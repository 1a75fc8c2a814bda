"""Which view each member had when, and which of the views went on.

A replicated cache is one line of views: each hands its tree on to the next. A partition makes two lines;
when they merge, the members of one take the other's tree, and their own line has ended. The line that
everybody has in the end is the one whose promises were kept; changes on others may be gone
(design/linearizability.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

View = tuple[int, tuple[bytes, ...]]
"""Number and members. Two sides may have the same number, not the same members."""


class Place(NamedTuple):
    """Where a member was at a moment. ``waiting``: for the other side's tree, after a merge. ``apart``: it is on
    the smaller side of a split, or the others went on without it."""

    view: View | None
    waiting: bool = False
    apart: bool = False


@dataclass(eq=False)
class Journey:
    """One incarnation of a member."""

    address: bytes
    line: tuple[View, ...] = ()
    waiting: bool = False
    pending: View | None = None
    """The merge view whose tree it waits for."""

    @property
    def place(self) -> Place:
        return Place(self.pending or (self.line[-1] if self.line else None), self.waiting)


@dataclass(eq=False)
class Places:
    """``now``: the time. ``installed``: each view, and when who had it first."""

    now: Callable[[], float]
    journeys: dict[str, Journey] = field(default_factory=dict)
    installed: dict[View, float] = field(default_factory=dict)

    def join(
        self,
        name: str,
        address: bytes,
        number: int,
        members: Sequence[bytes],
        *,
        ready: bool = True,
    ) -> Journey:
        """A member has begun, with the state of the view it is in; not ``ready``: that is to come."""
        view = (number, tuple(members))
        journey = self.journeys[name] = Journey(address)
        if ready:
            journey.line = (*self._line_to(view), view)
            self._note(view)
        else:
            journey.pending, journey.waiting = view, True
        return journey

    def install(
        self, journey: Journey, number: int, members: Sequence[bytes], *, ready: bool
    ) -> None:
        """A view; not ``ready``: the tree is to come from the other side."""
        view = (number, tuple(members))
        if ready:
            journey.line = (*journey.line, view)
            journey.pending, journey.waiting = None, False
            self._note(view)
        else:
            journey.pending, journey.waiting = view, True

    def begin(self, journey: Journey) -> None:
        """The other side's tree is there."""
        view = journey.pending
        if view is not None:
            journey.line = (*self._line_to(view), view)
            journey.pending, journey.waiting = None, False

    def _line_to(self, view: View) -> tuple[View, ...]:
        for other in self.journeys.values():
            if view in other.line:
                return other.line[: other.line.index(view)]
        return ()

    def _note(self, view: View) -> None:
        self.installed.setdefault(view, self.now())

    def went_on(self, last: Sequence[str]) -> Went:
        """Seen from the end: ``last`` are the members that are there then, in one view."""
        lines = [self.journeys[name].line for name in last]
        line = max(lines, key=len)
        left: dict[tuple[bytes, View], float] = {}
        for before, after in pairwise(line):
            for member in before[1]:
                if member not in after[1]:
                    left[member, before] = self.installed[after]
        return Went(dict.fromkeys(line), left)


@dataclass(frozen=True)
class Went:
    """``line``: the views that went on. ``left``: who was left out after which view, and when the others first had the next one."""

    line: dict[View, None]
    left: dict[tuple[bytes, View], float]

    def has(self, place: Place) -> bool:
        """Was the member on the line then?"""
        return not place.waiting and place.view in self.line
