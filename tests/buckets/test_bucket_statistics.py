"""Statistics of an instance, its nodes and its components (A23), on a network in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group
from seed_instance import PAIRS, Instance, key_in

from jgroups_py.buckets.census import QUESTIONS_MAX
from jgroups_py.buckets.messages import Statistics
from jgroups_py.channel.metrics import page_of, samples_of


@pytest.mark.seed("A23")
async def test_traffic_is_counted_for_instance_nodes_and_components(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        await trio.sleep(2)  # managers have their leases
        for pair in range(1, PAIRS + 1):
            await ask(group.nodes["n1"], key_in(pair), "+x")
        await ask(group.nodes["n2"], key_in(4), "?")
        client = await group.start("c", client=True)
        await client.wait_ready()
        found = await client.instance_statistics(buckets=True)
        whole = found.of_instance()
        assert (whole["manager_requests"], whole["manager_changes"]) == (10, 9)
        assert (whole["manager_saves"], whole["router_answered"]) == (9, 10)
        assert (whole["pairs"], whole["pairs_without_backup"], whole["pairs_lost"]) == (9, 0, 0)
        assert (whole["manager_masters"], whole["manager_entries"]) == (9, 9)
        nodes = found.of_nodes()
        assert [nodes[n]["manager_changes"] for n in ("n1", "n2", "n3")] == [3, 3, 3]
        assert nodes["n1"]["router_requests"] == 9 and nodes["c"]["router_pending"] == 0
        parts = found.of_components()
        assert parts["m/n2"]["requests"] == 4 and parts["r/n2"]["requests"] == 1
        assert parts["i/n1"]["has_quorum"] == 1 and parts["p/c"]["proxies"] == 1
        loads = {(n.node, b.bucket): b for n in found.nodes for b in n.buckets}
        assert loads["n2", 3].role == "master" and loads["n2", 3].requests == 2
        assert loads["n3", 3].role == "slave" and loads["n3", 3].entries == 1
        assert json.loads(json.dumps(found.as_json()))["instance"] == whole
        page = page_of(found.samples("seats")).decode()
        assert 'component="m/n2"' in page and 'jgroups_buckets_pairs{cluster="seats"' in page


async def test_a_member_that_is_silent_is_missing_and_one_that_is_lost_is_not_waited_for(
    autojump_clock: Any,
) -> None:
    async with bucket_group() as group:
        node = group.nodes["n1"]
        group.cut("n3")
        began = trio.current_time()
        found = await node.instance_statistics(timeout=2.0)
        assert found.missing == [str(group.nodes["n3"].channel.address)]
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
        group.cut()
        await trio.sleep(30)
        group.kill("n2")
        found = await node.instance_statistics(timeout=60.0)
        assert [n.node for n in found.nodes] == ["n1", "n3"] and not found.missing
        assert found.of_instance()["pairs_without_backup"] > 0


def test_questions_are_bounded_and_late_answers_counted() -> None:
    instance = Instance()
    census = instance.world.machines["n1.1"].census
    ended: list[int] = []
    for number in range(QUESTIONS_MAX + 1):
        census.ask(lambda nodes, missing, number=number: ended.append(number))  # type: ignore[misc]
    assert ended == [0] and census.counts["questions_full"] == 1
    own = instance.world.machines["n2.1"].statistics()
    census.handle(instance.cep("n2"), Statistics(7, own))
    assert census.counts["late_statistics"] == 1


async def test_the_metrics_of_a_member_have_its_components(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        await ask(group.nodes["n1"], key_in(4), "+x")
        page = page_of(samples_of(group.nodes["n2"].channel)).decode()
        line = 'jgroups_buckets_manager_changes{cluster="test",component="m/n2",member="n2",node="n2"} 1.0'
        assert line in page and "jgroups_view_members" in page
