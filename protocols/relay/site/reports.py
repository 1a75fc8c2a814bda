"""What the members of a site report to their relay: the lowest of it is what all have."""

from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.protocols.relay.state import SiteNumbers
from jgroups_py.protocols.relay.wire import Report, ViewKey
from jgroups_py.values.address import Address


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
        """A report of an older view than the last one is ignored, of a newer one kept for then."""
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
        """Forgets everybody else."""
        self._members = {m: r for m, r in self._members.items() if m in members}

    def lower(self, member: Address, site: str, origin: bytes, number: int) -> None:
        """The member has said that it has only this."""
        known = self._members.get(member)
        if known is not None:
            known.digest.setdefault(site, {})[origin] = number

    def forget(self, site: str, origins: Sequence[bytes]) -> None:
        for known in self._members.values():
            numbers = known.digest.get(site, {})
            for origin in origins:
                numbers.pop(origin, None)

    def digests(self, view: ViewKey, members: Sequence[Address]) -> list[SiteNumbers] | None:
        """What each of ``members`` has; None while one has not reported in ``view``."""
        out = []
        for member in members:
            known = self._members.get(member)
            if known is None or known.view != view:
                return None
            out.append(known.digest)
        return out

    def serial(self, view: ViewKey, members: Sequence[Address]) -> int | None:
        """The relay's multicast that all of ``members`` have; None: nothing can be said."""
        lowest: int | None = None
        for member in members:
            known = self._members.get(member)
            if known is None or known.view != view:
                return -1
            lowest = known.serial if lowest is None else min(lowest, known.serial)
        return lowest

    def complete(self, view: ViewKey, members: Sequence[Address]) -> int:
        """How many of ``members`` are complete holders."""
        return sum(
            1
            for member in members
            if (known := self._members.get(member)) is not None
            and known.view == view
            and known.complete
        )
