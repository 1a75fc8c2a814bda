"""GMS, the round of agreement as its coordinator sees it: a table of reports that knows no GMS.

    asked       members that must report their delivered number of each sender
    reports     their reports
    silent      members that did not report in time; they are told the goals all the same
    fetching    members that lack messages up to the goals

The goal per sender is the highest number that any member has delivered. See agreement.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jgroups_py.protocols.membership.gms.wire import Goals
from jgroups_py.values.address import Address
from jgroups_py.values.view import Digest


class CoordinatorRound:
    """``proposed``: the id of the view to come. ``departing`` will not be in it, ``staying`` will be."""

    def __init__(
        self,
        number: int,
        departing: tuple[Address, ...],
        staying: tuple[Address, ...],
        proposed: int,
        asked: Iterable[Address],
        before: Iterable[Address] = (),
    ) -> None:
        self.number = number
        self.departing = departing
        self.staying = staying
        self.proposed = proposed
        self.asked: dict[Address, None] = dict.fromkeys(asked)
        self.reports: dict[Address, Digest] = {}
        self.silent: dict[Address, None] = {}
        self.fetching: dict[Address, None] | None = None
        """The members that still fetch. None: not all have reported."""
        self.goals: Goals = {}
        self.before: dict[Address, None] = {m: None for m in before if m not in self.asked}
        """Members that were asked only in replaced rounds."""

    @property
    def held(self) -> tuple[Address, ...]:
        """Return the members that hold messages for this round or one that it replaced."""
        return (*self.asked, *self.silent, *self.before)

    def is_about(self, departing: tuple[Address, ...], leavers: tuple[Address, ...]) -> bool:
        """Return whether the round serves a view without ``departing``. ``leavers``: the departing members that are alive."""
        return self.departing == departing and not self._waits_for_the_dead(leavers)

    def _waits_for_the_dead(self, leavers: tuple[Address, ...]) -> bool:
        """Return whether an asked leaver has died meanwhile."""
        return any(
            m in self.departing and m not in self.reports and m not in leavers for m in self.asked
        )

    def awaits(self, member: Address) -> bool:
        """Return whether a report of ``member`` counts."""
        return member in self.asked and self.fetching is None

    @property
    def unreported(self) -> tuple[Address, ...]:
        return tuple(m for m in self.asked if m not in self.reports)

    def decide(self, me: Address, own: Digest) -> Goals:
        """Return the goals, after all reports. ``own``: the present digest of the coordinator ``me``."""
        goals = self.goals
        goals.clear()
        self.reports[me] = own
        for member, report in self.reports.items():
            for sender, (delivered, _) in report.seqnos.items():
                if sender not in goals or delivered > goals[sender][0]:
                    goals[sender] = (delivered, member)
        lacking = [
            member
            for member, report in self.reports.items()
            if member not in self.departing
            and any(m in report and report.delivered(m) < goal[0] for m, goal in goals.items())
        ]
        self.fetching = dict.fromkeys(lacking)
        return goals

    def to_tell(self) -> Iterator[tuple[Address, bool]]:
        """Yield the members that get the goals, and whether each must fetch and answer."""
        fetching = self.fetching or {}
        for member in (*self.asked, *self.silent):
            if member in self.staying:
                yield member, member in fetching

    def fetched(self, member: Address) -> bool:
        """Note that ``member`` has delivered up to the goals. Return whether the round waited for it."""
        if self.fetching is None or member not in self.fetching:
            return False
        del self.fetching[member]
        return True

    @property
    def is_done(self) -> bool:
        """Return whether all have reported and no member fetches."""
        return self.fetching is not None and not self.fetching

    def silence(self) -> None:
        """Go on without missing reports."""
        for member in self.unreported:
            del self.asked[member]
            self.silent[member] = None

    def settle(self, me: Address, known: Digest) -> Goals:
        """Return goals for a coordinator ``me`` that could not fetch in time: its ``known`` numbers."""
        self.fetching = {}
        self.goals = {m: (seqnos[0], me) for m, seqnos in known.seqnos.items()}
        return self.goals
