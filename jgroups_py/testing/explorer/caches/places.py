"""The views of each member with their times, and the views that went on.

A replicated cache is one line of views: each hands its tree on to the next. A partition makes two lines;
when they merge, the members of one take the other's tree, and their own line has ended. The line that all members have
in the end is the one whose promises were kept; changes on other lines may be gone
(design/linearizability.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

View = tuple[int, tuple[bytes, ...]]
"""Number and members. Two sides may have the same number, not the same members."""


class MemberPlace(NamedTuple):
    """The place of a member at a moment. ``waiting``: for the other side's tree, after a merge. ``apart``: it is on
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
    had: dict[View, float] = field(default_factory=dict)
    """The views that it had itself, and since when; ``line`` may hold views that only others had before a merge."""

    def goes_on(self, line: tuple[View, ...], now: float) -> None:
        """Note that the member has the last view of ``line`` now, with a tree."""
        self.line = line
        self.had.setdefault(line[-1], now)
        self.pending, self.waiting = None, False

    @property
    def place(self) -> MemberPlace:
        return MemberPlace(self.pending or (self.line[-1] if self.line else None), self.waiting)


@dataclass(eq=False)
class Places:
    """``now``: the time. ``installed``: each view, with its first holder and the time."""

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
        """Note that a member has begun, with the state of the view it is in; not ``ready``: the state is to come."""
        view = (number, tuple(members))
        journey = self.journeys[name] = Journey(address)
        if ready:
            journey.goes_on((*self._line_to(view), view), self.now())
            self._note(view)
        else:
            journey.pending, journey.waiting = view, True
        return journey

    def install(
        self, journey: Journey, number: int, members: Sequence[bytes], *, ready: bool
    ) -> None:
        """Note a view; not ``ready``: the tree is to come from the other side."""
        view = (number, tuple(members))
        if ready:
            journey.goes_on((*journey.line, view), self.now())
            self._note(view)
        else:
            journey.pending, journey.waiting = view, True

    def begin(self, journey: Journey) -> None:
        """Note that the other side's tree has come."""
        view = journey.pending
        if view is not None:
            journey.goes_on((*self._line_to(view), view), self.now())

    def _line_to(self, view: View) -> tuple[View, ...]:
        for other in self.journeys.values():
            if view in other.line:
                return other.line[: other.line.index(view)]
        return ()

    def _note(self, view: View) -> None:
        self.installed.setdefault(view, self.now())

    def went_on(self, last: Sequence[str]) -> Went:
        """Return the line that went on, seen from the end. ``last``: the members that are present then, in one view."""
        lines = [self.journeys[name].line for name in last]
        line = max(lines, key=len)
        had = {journey.address: journey.had for journey in self.journeys.values()}
        left: dict[tuple[bytes, View], float] = {}
        for at, before in enumerate(line):
            for member in before[1]:
                since = self._left_at(member, line[at + 1 :], had.get(member, {}))
                if since is not None:
                    left[member, before] = since
        return Went(dict.fromkeys(line), left)

    def _left_at(
        self, member: bytes, later: Sequence[View], had: dict[View, float]
    ) -> float | None:
        """Return the time when others first had one of the ``later`` views that lacks ``member``. None: there is no
        such view, or ``member`` had an earlier one of them by then. A view that reached the member even later did not
        end its old view in time."""
        went_on = math.inf
        for view in later:
            if member not in view[1]:
                left = self.installed[view]
                return left if went_on > left else None
            went_on = min(went_on, had.get(view, math.inf))
        return None


@dataclass(frozen=True)
class Went:
    """``line``: the views that went on. ``left``: each excluded member, with its last common view and the time of the
    others' first view without it. Views in between may have come to it later, or never."""

    line: dict[View, None]
    left: dict[tuple[bytes, View], float]

    def has(self, place: MemberPlace) -> bool:
        """Was the member on the line then?"""
        return not place.waiting and place.view in self.line
