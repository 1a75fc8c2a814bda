"""The present load of an instance: the difference between two looks at its statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from jgroups_py.buckets.latency import KINDS, percentile
from jgroups_py.buckets.messages import NodeStatistics
from jgroups_py.buckets.statistics import InstanceStatistics

BUSIEST: Final = 5
"""The number of the busiest buckets that are named for people."""


def rates(before: InstanceStatistics, after: InstanceStatistics, seconds: float) -> dict[str, Any]:
    """Return requests a second of the instance, of nodes and of buckets, and p50 and p99 of reads and changes in
    milliseconds, as seen by a node's routers.

    A node's ``requests`` are those of its bucket managers. Components that began between the looks count from their
    beginning; ended ones are left out.
    """
    nodes = sorted({node.node for node in after.nodes})
    return {
        "seconds": round(seconds, 3),
        **_of(before.nodes, after.nodes, seconds),
        "nodes": {
            name: _of(
                [n for n in before.nodes if n.node == name],
                [n for n in after.nodes if n.node == name],
                seconds,
            )
            for name in nodes
        },
        "buckets": _of_buckets(before, after, seconds),
    }


def rates_text(told: dict[str, Any]) -> list[str]:
    """Return ``rates``' result as lines for people."""
    lines = [f"{told['requests']:g} requests/s{_latencies(told)}"]
    busiest = sorted(told["buckets"].items(), key=lambda b: (-sum(b[1].values()), int(b[0])))
    named = [
        f"{bucket} ({sum(rate.values()):g}/s)"
        for bucket, rate in busiest[:BUSIEST]
        if sum(rate.values())
    ]
    if named:
        lines.append(f"busiest buckets: {', '.join(named)}")
    return lines


def _latencies(told: dict[str, Any]) -> str:
    return "".join(
        f"; {kind}: p50 {told[kind]['p50_ms']:g} ms, p99 {told[kind]['p99_ms']:g} ms"
        for kind in KINDS
        if told[kind]["p50_ms"] is not None
    )


def _of(
    before: Iterable[NodeStatistics], after: Iterable[NodeStatistics], seconds: float
) -> dict[str, Any]:
    counts = _sums(after, "router")
    counts.subtract(_sums_of_present(before, after, "router"))
    worked = _sums(after, "manager")["requests"]
    worked -= _sums_of_present(before, after, "manager")["requests"]
    return {
        "requests": round(worked / seconds, 1),
        **{
            kind: {
                "p50_ms": percentile(counts, kind, 0.5),
                "p99_ms": percentile(counts, kind, 0.99),
            }
            for kind in KINDS
        },
    }


def _sums_of_present(
    before: Iterable[NodeStatistics], after: Iterable[NodeStatistics], kind: str
) -> Counter[str]:
    """Sum the counts of members that have answered both times."""
    here = {node.member for node in after}
    return _sums([node for node in before if node.member in here], kind)


def _sums(nodes: Iterable[NodeStatistics], kind: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in nodes:
        for part in node.components:
            if part.kind == kind:
                found.update(part.counts)
    return found


def _of_buckets(
    before: InstanceStatistics, after: InstanceStatistics, seconds: float
) -> dict[str, dict[str, float]]:
    earlier = {
        (node.member, load.bucket): load.requests for node in before.nodes for load in node.buckets
    }
    found: dict[str, dict[str, float]] = {}
    for node in after.nodes:
        for load in node.buckets:
            worked = load.requests - earlier.get((node.member, load.bucket), 0)
            # A copy that left and came back begins anew.
            rate = round(max(worked, 0) / seconds, 1)
            found.setdefault(str(load.bucket), {})[load.role] = rate
    return dict(sorted(found.items(), key=lambda one: int(one[0])))
