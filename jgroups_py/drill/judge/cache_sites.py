"""Caches at several sites: the acknowledged writes of other sites that a site must have, and those that it lacked.

The members of a site name the keys that another site has not acknowledged: just before they fall, and at the end
(``unsent``). An acknowledged value that is not named must be there. After a site failure, named and missing values are
``unrelayed``: the number of writes of a key, the last one, the age of the oldest.

Members that crashed without a final report cannot be asked until another member adopts their nodes, so their last list counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jgroups_py.drill.judge.cache_history import History, Order, Version
from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.rules import NEVER, Measured, Who, failures, unhealed
from jgroups_py.drill.log import DrillRecord

Said = Sequence[tuple[float, bool, list[str]]]
"""The times when a member was protected or not, with its view."""


class Unrelayed(NamedTuple):
    """Acknowledged writes of one key that ``at`` did not have when ``site`` failed."""

    site: str
    at: str
    key: int
    t: float
    """The time of the failure."""
    writes: int
    last: Version
    age: float
    """The age of the oldest write, since it began, when the site failed."""


class _Named(NamedTuple):
    t: float
    ended: float
    who: Who
    to: str
    keys: frozenset[int]


class SitesOfHistory:
    """The failures of sites, the sites present at the end, and the named keys."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.several = len(evidence.sites) > 1
        self.failures = {
            # A single site has no other copy: when all its members fall, their values are lost.
            site: failures(evidence, site) if self.several else []
            for site in evidence.sites
        }
        self._told = told(evidence)
        self._walls = unhealed(evidence.faults)
        self._asked = {r.site for r in evidence.marks if r.event == "census"}
        self._named = [
            _Named(
                record.t,
                evidence.ended(who),
                who,
                detail["to"],
                frozenset(map(int, detail["keys"])),
            )
            for record in evidence.marks
            if record.event == "unsent" and (detail := record.detail) is not None
            for who in [who_of(record)]
        ]
        self._counted: dict[tuple[str, str, float], list[_Named]] = {}
        self._looks = [record for record in evidence.marks if record.event == "holds"]
        self._sent = [
            (record.t, str(record.site)) for record in evidence.marks if record.event == "bootstrap"
        ]

    def there(self, site: str) -> bool:
        """Is a member of the site present at the end?"""
        return not self.several or site in self._asked

    def apart(self, site: str, origin: str, t: float) -> bool:
        """Is the site split then, in the view of the member?"""
        name, _, incarnation = origin.rpartition("#")
        return self._evidence.apart(Who(site, name, int(incarnation)), t)

    def same(self, one: str, other: str) -> bool:
        """Must two sites be equal at the end? They must if they reach each other and are whole."""
        return (
            self.there(one)
            and self.there(other)
            and not self._cut(one, other)
            and self._whole(one)
            and self._whole(other)
        )

    def _cut(self, one: str, other: str) -> bool:
        for sides in self._walls:
            at: dict[str, set[int]] = {}
            for number, side in enumerate(sides):
                for name in side:
                    at.setdefault(name.partition(".")[0], set()).add(number)
            if one in at and other in at and at[one] | at[other] != at[one] & at[other]:
                return True
        return False

    def _whole(self, site: str) -> bool:
        """Did the site never fail, or was it rebuilt from others?"""
        failed = max(self.failures[site], default=-NEVER)
        return failed == -NEVER or any(t > failed and to == site for t, to in self._sent)

    # --- required values

    def owed(self, key: int, site: str, order: Order) -> list[Version]:
        """Return the writes of other sites that ``site`` must have in this life: acknowledged and not named."""
        born = max(self.failures[site], default=-NEVER)
        found = []
        for version, write in order.writes.items():
            if version[0] == site or write.acked == NEVER or write.acked <= born:
                continue
            if not self._excused(key, version[0], site, write.acked):
                found.append(version)
        return found

    def _excused(self, key: int, origin: str, to: str, acked: float) -> bool:
        """Is it named as unacknowledged there, or was it acknowledged after the lists?"""
        failed = next((t for t in self.failures[origin] if t >= acked), NEVER)
        lists = self._lists(origin, to, failed)
        last = [named for named in lists if named.ended >= failed]
        if not last or min(named.t for named in last) < acked:
            return True
        return any(key in named.keys for named in lists if named.ended >= acked)

    def _lists(self, origin: str, to: str, failed: float) -> list[_Named]:
        """Return the lists that count for a failure of ``origin`` (``NEVER``: for the end)."""
        found = self._counted.get((origin, to, failed))
        if found is None:
            before = max((t for t in self.failures[origin] if t < failed), default=-NEVER)
            found = self._counted[origin, to, failed] = [
                named
                for named in self._named
                if named.who.site == origin
                and named.to == to
                and named.t > before
                and (named.ended >= failed or (named.t <= failed and self._open(named, failed)))
            ]
        return found

    def _open(self, named: _Named, until: float) -> bool:
        """Return whether no member had adopted its nodes before ``until``."""
        for who, said in self._told.items():
            if who.site != named.who.site or self._evidence.ended(who) < until:
                continue
            if self._evidence.born.get(who, 0.0) <= named.ended:
                safe = safe_after(named.ended, named.who.origin, said)
                if safe is None or named.ended + safe > until:
                    return True
        return False

    # --- missing values

    def unrelayed(self, key: int, history: History, order: Order) -> list[Unrelayed]:
        """Return, for each failure of a site, the values missing at each other living site."""
        found = []
        for site in self._evidence.sites if self.several else ():
            before = -NEVER
            for t in self.failures[site]:
                done = [
                    version
                    for version, write in history.writes.items()
                    if version[0] == site and before < write.acked <= t
                ]
                before = t
                for other in self._evidence.sites:
                    if other != site and done and self._lives(other, t):
                        found += self._missing(key, site, other, t, done, history, order)
        return found

    def _lives(self, site: str, t: float) -> bool:
        evidence = self._evidence
        return any(evidence.born[who] <= t < evidence.ended(who) for who in evidence.members(site))

    def _missing(
        self,
        key: int,
        site: str,
        other: str,
        t: float,
        done: Sequence[Version],
        history: History,
        order: Order,
    ) -> list[Unrelayed]:
        reads = [(read.t, read.version) for read in history.reads.get(other, ())]
        held = reads + self._held_after(key, site, other, t)
        seen = [version for _, version in held]
        seen += history.owners.get(other, {}).values()
        # There was no value: count it as a removal if there is one.
        removed = [(order.writes[v].at, v) for v in done if order.writes[v].removed]
        for at in [at for at, version in held if version is None]:
            seen += [v for _, v in sorted(removed) if order.writes[v].at < at][-1:]
        missing = [
            version
            for version in done
            if self._excused(key, site, other, order.writes[version].acked)
            and not order.covered(version, seen)
        ]
        if not missing:
            return []
        oldest = min(order.writes[version].began for version in missing)
        last = max(missing, key=lambda version: order.writes[version].began)
        return [Unrelayed(site, other, key, t, len(missing), last, t - oldest)]

    def _held_after(
        self, key: int, site: str, other: str, t: float
    ) -> list[tuple[float, Version | None]]:
        """Return the values that ``other`` owned of the key when ``site`` had failed. None: no member there had it."""
        rounds: dict[str | None, list[tuple[float, Version | None]]] = {}
        for record in self._looks:
            detail = record.detail or {}
            if record.site == other and detail["failed"] == site and record.t >= t:
                owned = detail["owned"].get(str(key))
                version = None if owned is None else version_of(owned, record)
                rounds.setdefault(record.member, []).append((record.t, version))
        found: list[tuple[float, Version | None]] = []
        for looks in zip(*rounds.values(), strict=False):
            there = [look for look in looks if look[1] is not None]
            found += there or [(min(at for at, _ in looks), None)]
        return found


def version_of(said: Sequence[Any], record: DrillRecord) -> Version:
    """Read ``[origin, seqno]``, with a site if it is not the record's."""
    return (said[2] if len(said) > 2 else str(record.site), said[0], said[1])


def told(evidence: Evidence) -> dict[Who, Said]:
    """Return the members' statements about their copies."""
    found: dict[Who, list[tuple[float, bool, list[str]]]] = {}
    for record in evidence.marks:
        if record.event == "buddies" and record.site is not None:
            detail = record.detail or {}
            who = who_of(record)
            found.setdefault(who, []).append((record.t, detail["protected"], detail["members"]))
    return dict(found)


def safe_after(t: float, victim: str, said: Said) -> float | None:
    """Return the seconds until a survivor was protected in a view without the victim."""
    return next((at - t for at, ok, view in said if at >= t and ok and victim not in view), None)


def bootstraps(evidence: Evidence) -> list[Measured]:
    """Measure each bootstrap until a member of every other living site reports it as complete."""
    found = []
    for record in [mark for mark in evidence.marks if mark.event == "bootstrap"]:
        took = []
        for site in evidence.sites:
            members = evidence.members(site)
            there = any(evidence.born[w] <= record.t < evidence.ended(w) for w in members)
            if site != record.site and there:
                took.append(_completed(evidence, site, record.t))
        seconds = None if None in took else max((t for t in took if t is not None), default=None)
        found.append(Measured(record.t, "bootstrap", None, str(record.site), seconds))
    return found


def _completed(evidence: Evidence, site: str, t: float) -> float | None:
    """Return the seconds until a member's running total of bootstraps exceeded that at ``t``."""
    totals: dict[tuple[str | None, int], int] = {}
    for mark in evidence.marks:
        if mark.event != "buddies" or mark.site != site:
            continue
        total = (mark.detail or {}).get("bootstraps", 0)
        who = mark.member, mark.incarnation
        if mark.t >= t and total > totals.get(who, 0):
            return mark.t - t
        totals[who] = total
    return None
