"""The numbers of other sites' messages that a relay has multicast at its own site, by origin.

The relay takes only the next number. If a member has less than was multicast, it goes back and asks the other site's
relay again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.protocols.relay.state import Numbers, SiteNumbers, fresh_from, raise_to
from jgroups_py.protocols.relay.wire import SEQNO_MAX

Lacking = tuple[str, bytes]
"""A site and one of its origins."""


class Forwarded:
    """``sites``: by site and origin, the highest number that was multicast here."""

    def __init__(self) -> None:
        self.sites: SiteNumbers = {}
        self._stuck: dict[Lacking, tuple[int, float]] = {}
        """Where a member is behind -> (its number, the time when later ones are asked for again)."""
        self._lack_until: dict[Lacking, tuple[int, float]] = {}
        """Where a member lacks a number -> (the number, the time until which it is not asked for again)."""

    def of(self, site: str) -> Numbers:
        return self.sites.get(site, {})

    def restart(self, lowest: SiteNumbers) -> None:
        """Begin, as new relay, with the numbers that all members have."""
        self.sites = lowest

    def step_down(self) -> None:
        """Drop all: another member is relay now."""
        self.sites = {}

    def view_changed(self) -> None:
        self._lack_until = {}

    def take(self, site: str, origin: bytes, first: int, last: int) -> int | None:
        """Return the first number of a run that is to be multicast, or ``last + 1`` if there is none. None: the run is
        beyond a gap."""
        numbers = self.sites.setdefault(site, {})
        have = numbers.get(origin, 0)
        fresh = fresh_from(have, first, last)
        if fresh is not None and fresh <= last:
            numbers[origin] = last
        return fresh

    def skip(self, site: str, gap: Mapping[bytes, int]) -> Numbers:
        """Skip the numbers up to ``gap``, which will not come. Return the new ones."""
        numbers = self.sites.setdefault(site, {})
        news = {o: n for o, n in gap.items() if n > numbers.get(o, 0)}
        numbers.update(news)
        return news

    def all_have(self, lowest: SiteNumbers) -> None:
        """Note that all members have the numbers up to ``lowest``."""
        for site, numbers in lowest.items():
            forwarded = self.sites.get(site, {})
            raise_to(forwarded, {o: n for o, n in numbers.items() if o in forwarded})

    def lack(
        self, site: str, numbers: Mapping[bytes, int], now: float, patience: float
    ) -> list[bytes]:
        """Go back for a member that has only ``numbers``. Return the origins; each at most once in ``patience``."""
        back = []
        forwarded = self.sites.setdefault(site, {})
        for origin, number in numbers.items():
            at, until = self._lack_until.get((site, origin), (SEQNO_MAX, 0.0))
            if number < forwarded.get(origin, 0) and (number < at or now >= until):
                self._lack_until[site, origin] = (number, now + patience)
                forwarded[origin] = number
                back.append(origin)
        return back

    def behind(
        self, lowest: SiteNumbers, now: float, patience: float, blocked: bool
    ) -> tuple[list[Lacking], bool]:
        """Find members that lack multicasts without having noticed. ``lowest``: numbers that all have.

        Return the origins to go back for, after ``patience`` and unless multicasts are ``blocked``, and whether others
        may follow.
        """
        back: list[Lacking] = []
        stuck: dict[Lacking, tuple[int, float]] = {}
        for site, numbers in self.sites.items():
            for origin, number in numbers.items():
                have = lowest.get(site, {}).get(origin, 0)
                if have >= number:
                    continue
                seen = self._stuck.get((site, origin))
                if seen is None or seen[0] != have:
                    seen = (have, now + patience)
                if now >= seen[1] and not blocked:
                    numbers[origin] = have
                    back.append((site, origin))
                else:
                    stuck[site, origin] = seen
        self._stuck = stuck
        return back, bool(stuck)

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        forwarded = self.sites.get(site, {})
        for origin in origins:
            forwarded.pop(origin, None)
