"""The load of an instance, from counters at two times; and routers of one member that do not confuse their requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group
from seed_instance import key_in

from jgroups_py.buckets import NodeParts
from jgroups_py.buckets.latency import EDGES, KINDS, Latencies, percentile
from jgroups_py.buckets.messages import BucketLoad, ComponentCounts, NodeStatistics
from jgroups_py.buckets.rates import rates, rates_text
from jgroups_py.buckets.statistics import InstanceStatistics
from jgroups_py.errors import ConfigError


def test_a_latency_is_counted_at_the_first_edge_that_it_does_not_exceed() -> None:
    took = Latencies(*KINDS)
    for seconds in (0.0, 0.0002, 0.000251, 0.0101, 3600.0, 10**9):
        took.add("changes", seconds)
    took.add("reads", 0.004)
    assert took.counts() == {
        "reads_in_4000us": 1,
        "changes_in_250us": 2,
        "changes_in_500us": 1,
        "changes_in_12000us": 1,
        f"changes_in_{EDGES[-1]}us": 2,
    }


@pytest.mark.seed("A26")
def test_percentiles_are_edges_in_milliseconds() -> None:
    counts = {"reads_in_1000us": 98, "reads_in_5000us": 1, "reads_in_20000us": 1}
    found = [percentile(counts, "reads", part) for part in (0.5, 0.98, 0.981, 0.99, 1.0)]
    assert found == [1.0, 1.0, 5.0, 5.0, 20.0]
    assert percentile(counts, "changes", 0.5) is None


def node(
    name: str, member: str, requests: int, buckets: dict[int, int], **router: int
) -> NodeStatistics:
    parts = [
        ComponentCounts(f"m/{name}", "manager", {"requests": requests}),
        ComponentCounts(f"r/{name}", "router", dict(router)),
    ]
    loads = [BucketLoad(bucket, "master", 1, 0, count) for bucket, count in buckets.items()]
    return NodeStatistics(name, "", member, parts, loads)


def look(*nodes: NodeStatistics) -> InstanceStatistics:
    return InstanceStatistics(nodes, [], {})


@pytest.mark.seed("A23", "A26")
def test_rates_are_counted_between_two_looks() -> None:
    """Node 2 was started again meanwhile, and bucket 5 left node 1 and came back."""
    before = look(
        node("n1", "n1.1", 100, {4: 60, 5: 40}, reads_in_1000us=100),
        node("n2", "n2.1", 7, {6: 7}, reads_in_1000us=7),
    )
    after = look(
        node("n1", "n1.1", 140, {4: 80, 5: 10}, reads_in_1000us=110, reads_in_5000us=30),
        node("n2", "n2.2", 4, {6: 4}, changes_in_2000us=4),
    )
    found = rates(before, after, 2.0)
    assert found["requests"] == 22.0
    assert found["nodes"]["n1"] == {
        "requests": 20.0,
        "reads": {"p50_ms": 5.0, "p99_ms": 5.0},
        "changes": {"p50_ms": None, "p99_ms": None},
    }
    assert found["nodes"]["n2"]["changes"] == {"p50_ms": 2.0, "p99_ms": 2.0}
    assert found["buckets"] == {"4": {"master": 10.0}, "5": {"master": 0.0}, "6": {"master": 2.0}}
    assert rates_text(found) == [
        "22 requests/s; reads: p50 5 ms, p99 5 ms; changes: p50 2 ms, p99 2 ms",
        "busiest buckets: 4 (10/s), 6 (2/s)",
    ]


@pytest.mark.seed("A25", "A26")
async def test_a_client_sees_its_own_latencies(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        await trio.sleep(2)
        before = await client.instance_statistics(buckets=True)
        for _ in range(3):
            await ask(client, key_in(4), "+x")
        await ask(client, key_in(4), "?")
        found = rates(before, await client.instance_statistics(buckets=True), 1.0)
        assert found["requests"] == 4 and found["buckets"]["3"] == {"master": 4, "slave": 0}
        of_client = found["nodes"]["c"]
        assert of_client["requests"] == 0 and of_client["changes"]["p99_ms"] is not None
        assert found["nodes"]["n2"]["changes"]["p99_ms"] is None


@pytest.mark.seed("A6", "A66")
async def test_routers_of_one_member_share_its_requests_and_no_numbers(autojump_clock: Any) -> None:
    """With equal numbers the master would take one router's request for a repetition of the other's, and answer
    without carrying it out."""
    async with bucket_group() as group:
        client = await group.start("c", parts=NodeParts(node="c", routers=3))
        await client.wait_ready()
        await trio.sleep(2)
        places = [await ask(client, key_in(4), f"+{n}") for n in range(6)]
        assert places == ["0", "1", "2", "3", "4", "5"]
        parts = {n: r.counts["answered"] for n, r in client.machine.routers.items()}
        assert parts == {"r/c": 2, "r/c/2": 2, "r/c/3": 2}


def test_a_member_has_at_least_one_router() -> None:
    with pytest.raises(ConfigError, match="node n: 1 to 100 routers, not 0"):
        NodeParts(node="n", routers=0)
