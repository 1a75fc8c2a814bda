"""The tables that every member of a site keeps for RELAY: digests, sites, epoch.

A digest ("numbers") maps the 16 bytes of an origin to the highest number without a gap below it; a missing entry means
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from jgroups_py.protocols.relay.wire import Known

Numbers = dict[bytes, int]
SiteNumbers = dict[str, Numbers]
Epoch = tuple[int, str]
T = TypeVar("T")
ALL: Final = "all"
"""As primary: every site relays."""
FORGOTTEN_MAX: Final = 1000
"""The most forgotten origins that are remembered for each site, so that a late answer does not bring them back."""
FORGOTTEN_AGES: Final = 2.0
"""The time for which they are remembered, as a multiple of RELAY's ``max_age``. By then no buffer holds their
messages."""
FORGOTTEN_LEAST: Final = 300.0
"""The least seconds for which they are remembered. A part of their site that was cut off may still send GAPs."""


def raise_to(numbers: Numbers, other: Mapping[bytes, int]) -> None:
    """Raise ``numbers`` in place to the maximum of both."""
    for origin, number in other.items():
        if number > numbers.get(origin, 0):
            numbers[origin] = number


def minimum(many: Iterable[SiteNumbers]) -> SiteNumbers:
    """Return the minimum of each entry; a missing entry is 0."""
    digests = list(many)
    lowest: SiteNumbers = {}
    for digest in digests:
        for site, numbers in digest.items():
            known = lowest.setdefault(site, {})
            for origin in numbers:
                if origin not in known:
                    known[origin] = min(d.get(site, {}).get(origin, 0) for d in digests)
    return lowest


def fresh_from(have: int, first: int, last: int) -> int | None:
    """Return the first number of ``first .. last`` above ``have``, or ``last + 1`` if there is none. None: a number
    below ``first`` is missing."""
    if last <= have:
        return last + 1
    if first > have + 1:
        return None
    return have + 1


def _youngest(table: dict[bytes, T], oldest: float, age_of: Callable[[T], float]) -> dict[bytes, T]:
    """Return the entries younger than ``oldest``, at most FORGOTTEN_MAX, in the order of forgetting."""
    kept = [(origin, entry) for origin, entry in table.items() if age_of(entry) > oldest]
    return dict(kept[-FORGOTTEN_MAX:])


class RelayState:
    """The numbers of one member. See RELAY.md, "Numbers everybody already agrees on"."""

    def __init__(self, site: str, primary: str, sites: Iterable[str], max_age: float = 0.0) -> None:
        self.site = site
        self._remember = max(FORGOTTEN_AGES * max_age, FORGOTTEN_LEAST) if max_age else 0.0
        """Seconds for which forgotten origins are remembered; 0: without limit."""
        self.sites: dict[str, None] = {name: None for name in sites if name != site}
        """Other sites that count for the trim."""
        self.delivered: Numbers = {}
        """Digest of home origins: numbers delivered here."""
        self.trimmed: Numbers = {}
        """Digest of home origins: numbers that every other site has acknowledged."""
        self.site_digest: SiteNumbers = {}
        """Digests of remote origins, by site: numbers delivered here."""
        self.epoch: Epoch = (0, primary)
        self.base: Numbers = {}
        """Home numbers from before this site was primary. They are not relayed."""
        self._beyond: dict[bytes, list[tuple[int, int]]] = {}
        """Out-of-band messages delivered beyond a gap."""
        self._forgotten: dict[bytes, float] = {}
        """Forgotten home origin -> the time when it was forgotten."""
        self.left: dict[str, dict[bytes, tuple[int, float]]] = {}
        """Site -> forgotten remote origin -> (its number, the time when it was forgotten). Perhaps only one half of its
        site has forgotten it."""

    def relays(self, epoch: Epoch | None = None) -> bool:
        """Does this site relay to others?"""
        return (epoch or self.epoch)[1] in (self.site, ALL)

    def accepts(self, number: int, site: str, epoch: Epoch | None = None) -> bool:
        """Does ``site`` relay in epoch ``number``, which is the present one or a later one?"""
        current = epoch or self.epoch
        return current[1] == ALL or (number, site) >= current

    def note_delivered(self, origin: bytes, first: int, last: int, in_order: bool) -> None:
        """Note a delivered home run. Numbers missing below a run ``in_order`` will not come."""
        have = self.delivered.get(origin, 0)
        if not in_order and first > have + 1:
            spans = self._beyond.setdefault(origin, [])
            spans.append((first, last))
            spans.sort()
            return
        have = max(have, last)
        if origin in self._beyond:
            spans = self._beyond[origin]
            while spans and spans[0][0] <= have + 1:
                have = max(have, spans.pop(0)[1])
            if not spans:
                del self._beyond[origin]
        self.delivered[origin] = have

    def is_over(self, origin: bytes) -> None:
        """Note that ``origin`` has gone: numbers missing below its out-of-band messages will not come."""
        self._beyond.pop(origin, None)

    def advance(self, site: str, origin: bytes, number: int) -> None:
        """Note that ``origin`` of ``site`` was delivered here up to ``number``."""
        self.site_digest.setdefault(site, {})[origin] = number

    def has(self, site: str, origin: bytes) -> int:
        numbers = self.site_digest.get(site)
        return numbers.get(origin, 0) if numbers else 0

    def comes_back(self, site: str, origin: bytes) -> bool:
        """Note a message of this origin. True: the origin had been forgotten and is known again."""
        left = self.left.get(site)
        if not left or origin not in left:
            return False
        number, _ = left.pop(origin)
        if number > self.has(site, origin):
            self.advance(site, origin, number)
        return True

    def trim_to(self, origin: bytes, number: int) -> None:
        """Note that all other sites have acknowledged ``origin`` up to ``number``."""
        if number > self.trimmed.get(origin, 0):
            self.trimmed[origin] = number

    def replace_sites(self, sites: Iterable[str]) -> None:
        """Set the sites that count to those of the relay."""
        self.sites = {name: None for name in sites if name != self.site}

    def give_up(self, site: str) -> bool:
        """Count ``site`` no longer. False: it did not count before."""
        return self.sites.pop(site, 0) is None

    def learn_site(self, site: str) -> bool:
        """Count ``site`` from now on. True: it is new."""
        if site == self.site or site in self.sites:
            return False
        self.sites[site] = None
        return True

    def is_forgotten(self, origin: bytes) -> bool:
        return origin in self._forgotten

    def forgotten(self) -> list[bytes]:
        return list(self._forgotten)

    def forget(self, origins: Iterable[bytes], now: float) -> None:
        """Drop departed home origins. Only a note that they are forgotten stays."""
        for origin in origins:
            self.delivered.pop(origin, None)
            self.trimmed.pop(origin, None)
            self.base.pop(origin, None)
            self._beyond.pop(origin, None)
            self._forgotten[origin] = now
        self._bound_forgotten(now)

    def _bound_forgotten(self, now: float) -> None:
        oldest = now - self._remember if self._remember else -math.inf
        self._forgotten = _youngest(self._forgotten, oldest, float)
        left = {s: _youngest(t, oldest, lambda entry: entry[1]) for s, t in self.left.items()}
        self.left = {site: table for site, table in left.items() if table}

    def is_back(self, origin: bytes) -> None:
        """Note that ``origin`` is in the view: it was not dead, only beyond a partition."""
        self._forgotten.pop(origin, None)

    def forget_remote(self, site: str, origins: Iterable[bytes], now: float) -> None:
        numbers = self.site_digest.get(site, {})
        left = self.left.setdefault(site, {})
        for origin in origins:
            number = numbers.pop(origin, 0)
            if number:
                left[origin] = (number, now)
        self._bound_forgotten(now)

    def begin_epoch(self, epoch: Epoch, base: Mapping[bytes, int]) -> None:
        self.epoch = epoch
        self.base = dict(base)
        raise_to(self.trimmed, base)

    def begin_relaying(self, base: Mapping[bytes, int]) -> None:
        """Become primary: numbers up to ``base`` are not relayed."""
        self.base = dict(base)
        raise_to(self.trimmed, base)

    def stop_relaying(self) -> None:
        """Stop relaying: another site is primary, and no acknowledgement is awaited."""
        self.trimmed = {}

    # --- sending and learning

    def known(self, serial: int, now: float) -> Known:
        self._bound_forgotten(now)
        return Known(
            dict(self.delivered),
            dict(self.trimmed),
            {site: dict(numbers) for site, numbers in self.site_digest.items()},
            list(self.sites),
            {origin: int(now - at) for origin, at in self._forgotten.items()},
            self.epoch,
            dict(self.base),
            serial,
            {
                site: {origin: (number, int(now - at)) for origin, (number, at) in table.items()}
                for site, table in self.left.items()
            },
        )

    def learn(self, known: Known, now: float, *, digest: bool, replace: bool = False) -> None:
        """Take over another member's knowledge. ``digest``: its digests become ours, too; ``replace``: even where ours
        are higher."""
        for site in known.sites:
            self.learn_site(site)
        for origin, age in known.forgotten.items():
            self._forgotten.setdefault(origin, now - age)
        self._bound_forgotten(now)
        if known.epoch > self.epoch:
            self.epoch = known.epoch
            self.base = dict(known.base)
        raise_to(self.trimmed, self.remembered(known.trimmed))
        if digest:
            raise_to(self.delivered, self.remembered(known.delivered))
            for site, numbers in known.site_digest.items():
                if site != self.site:
                    raise_to(self.site_digest.setdefault(site, {}), numbers)
            if replace:
                theirs = {s: dict(n) for s, n in known.site_digest.items() if s != self.site}
                self.site_digest = theirs
                self.left = {}
            self._learn_left(known, now)

    def _learn_left(self, known: Known, now: float) -> None:
        for site, table in known.left.items():
            mine = self.left.setdefault(site, {})
            for origin, (number, age) in table.items():
                if not self.has(site, origin):
                    mine.setdefault(origin, (number, now - age))
        self._bound_forgotten(now)

    def remembered(self, numbers: Mapping[bytes, int]) -> Numbers:
        """Return ``numbers`` without forgotten origins."""
        return {o: n for o, n in numbers.items() if o not in self._forgotten}
