"""Reports of members to their relay: the numbers that each has of other sites. The minimum is what all members have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jgroups_py.protocols.relay.state import Numbers, SiteNumbers
from jgroups_py.protocols.relay.wire import Report, ViewKey
from jgroups_py.values.address import Address


class Reporting:
    """Reports of this member to its relay in this view. A report has the changes since the last one. It is due at the
    next tick, or after ``every`` messages."""

    def __init__(self, every: int) -> None:
        self.due = False
        self._every = every
        self._told: dict[str, Numbers] = {}
        """By site, the digest reported in this view."""
        self._told_state: tuple[int, bool] | None = None
        self._untold = 0

    def view_changed(self) -> None:
        """Report all numbers again."""
        self._told = {}
        self._told_state = None

    def progress(self, count: int) -> bool:
        """Note ``count`` delivered messages of other sites. True: a report is due at once."""
        self.due = True
        self._untold += count
        return self._untold >= self._every

    def soon(self) -> None:
        """Report at the next tick."""
        self.due = True

    def reset(self) -> None:
        """Note that no number is left to report."""
        self.due = False
        self._untold = 0

    def report(
        self, view: ViewKey, serial: int, complete: bool, site_digest: SiteNumbers
    ) -> Report | None:
        """Make a report of the changes. None: nothing changed."""
        digest: dict[str, Numbers] = {}
        for site, numbers in site_digest.items():
            told = self._told.setdefault(site, {})
            news = {o: n for o, n in numbers.items() if told.get(o) != n}
            if news:
                digest[site] = news
                told.update(news)
        state = (serial, complete)
        if not digest and state == self._told_state:
            return None
        self._told_state = state
        return Report(view, serial, complete, digest)

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        told = self._told.get(site, {})
        for origin in origins:
            told.pop(origin, None)


class _Member:
    __slots__ = ("complete", "digest", "serial", "view")

    def __init__(self, view: ViewKey) -> None:
        self.view = view
        self.serial = 0
        self.complete = False
        self.digest: SiteNumbers = {}


class Reports:
    """The newest report of each member. Only those made in the current view count."""

    def __init__(self) -> None:
        self._members: dict[Address, _Member] = {}

    def take(self, member: Address, report: Report) -> None:
        """Keep a report. A report of an older view than the last is ignored; one of a newer view counts in that
        view."""
        known = self._members.get(member)
        if known is None or known.view != report.view:
            if known is not None and report.view[1] < known.view[1]:
                return
            known = self._members[member] = _Member(report.view)
        known.serial = max(known.serial, report.serial)
        known.complete = report.complete
        for site, numbers in report.digest.items():
            known.digest.setdefault(site, {}).update(numbers)

    def keep(self, members: Sequence[Address]) -> None:
        """Forget all but ``members``."""
        self._members = {m: r for m, r in self._members.items() if m in members}

    def lower(self, member: Address, site: str, origin: bytes, number: int) -> None:
        """Lower a member's number: it has reported to have only this."""
        known = self._members.get(member)
        if known is not None:
            known.digest.setdefault(site, {})[origin] = number

    def forget(self, site: str, origins: Sequence[bytes]) -> None:
        for known in self._members.values():
            numbers = known.digest.get(site, {})
            for origin in origins:
                numbers.pop(origin, None)

    def digests(self, view: ViewKey, members: Sequence[Address]) -> list[SiteNumbers] | None:
        """Return the digests of ``members``. None: one of them has not reported in ``view``."""
        out = []
        for member in members:
            known = self._members.get(member)
            if known is None or known.view != view:
                return None
            out.append(known.digest)
        return out

    def serial(self, view: ViewKey, members: Sequence[Address]) -> int | None:
        """Return the newest serial number of the relay that all of ``members`` have. -1: one has not reported in
        ``view``. None: there are no ``members``."""
        lowest: int | None = None
        for member in members:
            known = self._members.get(member)
            if known is None or known.view != view:
                return -1
            lowest = known.serial if lowest is None else min(lowest, known.serial)
        return lowest

    def complete(self, view: ViewKey, members: Sequence[Address]) -> int:
        """Count the complete holders among ``members``."""
        return sum(
            1
            for member in members
            if (known := self._members.get(member)) is not None
            and known.view == view
            and known.complete
        )
