"""Messages on their way from one site to another, as applications sent and delivered them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import NamedTuple

from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.rules import NEVER, Who

GAP_SECONDS_MIN = 0.25
"""A site that gets nothing for this long, while something is under way to it, shows a gap."""


@dataclass
class SiteFlow:
    """One site's messages on their way to another, or to the others of its own members."""

    origin: str
    target: str
    sent: list[float]
    """Times of sending, sorted; lost messages included."""
    arrived: list[float]
    """Times of the first arrival of each, sorted."""
    journeys: list[tuple[float, float]] = field(default_factory=list)
    """(sent, first arrival) of arrived messages, by time of sending."""
    delays: array[float] = field(default_factory=lambda: array("d"))
    """Seconds from send to delivery, of each message at each member there."""
    lost: list[float] = field(default_factory=list)
    """Times of sending of messages that never arrived."""

    @property
    def under_way(self) -> Iterator[tuple[float, float]]:
        """Yield (sent, arrived) of each message; ``NEVER``: it did not arrive."""
        yield from self.journeys
        for at in self.lost:
            yield at, NEVER


class Wait(NamedTuple):
    start: float
    seconds: float

    @property
    def end(self) -> float:
        return self.start + self.seconds


def longest_wait(under_way: Iterable[tuple[float, float]], t: float) -> Wait | None:
    """Return the time for which the service stood still after a fault at ``t``. None: nothing that began later was
    done.

    ``under_way``: (begun, done) of messages or requests. It looks at the time from ``t`` until the first message or
    request that began later was done. It returns the longest part of that time in which one was always under way. Time
    without any request therefore does not count. A send that began earlier and was never done does not count either: it
    may have ended with its sender.
    """
    waits = [
        (max(t, begun), done)
        for begun, done in under_way
        if done > t and (begun > t or done < NEVER)
    ]
    until = min((done for begun, done in waits if begun > t), default=NEVER)
    if until == NEVER:
        return None
    longest = Wait(until, 0.0)
    start = end = -NEVER
    for begun, done in sorted(wait for wait in waits if wait[0] < until):
        if begun > end:
            start, end = begun, begun
        end = max(end, min(done, until))
        if end - start > longest.seconds:
            longest = Wait(start, end - start)
    return longest


def flows(evidence: Evidence) -> list[SiteFlow]:
    """Return the flows between sites with arrivals."""
    found = [
        flow(evidence, origin, target)
        for origin in evidence.sites
        for target in evidence.sites
        if origin != target
    ]
    return [one for one in found if one.arrived]


def flow(evidence: Evidence, origin_site: str, target: str) -> SiteFlow:
    """Return the flow from a site to ``target``, which may be the same site without the sender."""
    origins = [who for who in evidence.sent if who.site == origin_site]
    journeys: list[tuple[float, float]] = []
    lost: list[float] = []
    delays = array("d")
    for origin in origins:
        sent = evidence.sent[origin]
        first = array("d")
        for times in _deliveries(evidence, origin, target):
            common = min(len(first), len(times))
            first = array("d", [*map(min, first, times), *first[common:], *times[common:]])
            delays.extend(
                t - at for at, t in zip(sent, times, strict=False) if t < NEVER and at < NEVER
            )
        for at, t in zip_longest(sent, first[: len(sent)], fillvalue=NEVER):
            if at < NEVER and t < NEVER:
                journeys.append((at, t))
            elif at < NEVER:
                lost.append(at)
    journeys.sort()
    return SiteFlow(
        origin_site,
        target,
        sorted(t for origin in origins for t in evidence.sent[origin] if t < NEVER),
        sorted(t for _, t in journeys),
        journeys,
        delays,
        sorted(lost),
    )


def _deliveries(evidence: Evidence, origin: Who, target: str) -> Iterator[array[float]]:
    for who in evidence.receivers(target):
        delivered = evidence.delivered[who].get(origin)
        if who != origin and delivered is not None:
            yield delivered.times


def gaps(flow: SiteFlow) -> list[tuple[float, float]]:
    """Return the intervals of ``GAP_SECONDS_MIN`` or more in which nothing arrived although something was under way."""
    found = []
    for number, (t0, t1) in enumerate(pairwise(flow.arrived), 1):
        waiting = max(t0, flow.sent[number])
        if t1 - waiting >= GAP_SECONDS_MIN:
            found.append((waiting, t1))
    return found


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """Return the nearest rank of an ascending sequence; ``None`` for an empty one."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -int(-part * len(ordered) // 1) - 1))]


def rates(times: Sequence[float], edges: Sequence[float]) -> list[float]:
    """Return the rate a second in each bin."""
    counted = [bisect_left(times, edge) for edge in edges]
    return [
        (b - a) / (t1 - t0)
        for (a, b), (t0, t1) in zip(pairwise(counted), pairwise(edges), strict=True)
    ]


def latencies(flow: SiteFlow, edges: Sequence[float], part: float) -> list[float | None]:
    """Return a percentile of first arrivals in each bin, by the time of sending."""
    sent = [at for at, _ in flow.journeys]
    found = []
    for t0, t1 in pairwise(edges):
        inside = flow.journeys[bisect_left(sent, t0) : bisect_left(sent, t1)]
        found.append(percentile(sorted(t - at for at, t in inside), part))
    return found


def lags(flow: SiteFlow, edges: Sequence[float]) -> list[float]:
    """Return, for each bin, the largest age of the oldest message on its way that did arrive."""
    found = [0.0] * (len(edges) - 1)
    if not found:
        return found
    for at, t in flow.journeys:
        # It was the oldest until its arrival; its age was largest then.
        place = bisect_right(edges, t) - 1
        if 0 <= place < len(found):
            found[place] = max(found[place], t - at)
    oldest = 0
    for place, edge in enumerate(edges[1:]):
        while oldest < len(flow.journeys) and flow.journeys[oldest][1] <= edge:
            oldest += 1
        if oldest < len(flow.journeys) and flow.journeys[oldest][0] <= edge:
            found[place] = max(found[place], edge - flow.journeys[oldest][0])
    return found
