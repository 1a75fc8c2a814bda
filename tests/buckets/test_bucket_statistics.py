"""Statistics of an instance, its nodes and its components (A23), on a network in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group
from seed_instance import PAIRS, Instance, key_in

from jgroups_py.buckets.census import QUESTIONS_MAX
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, Statistics
from jgroups_py.buckets.statistics import counts_of_pairs
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
        assert 'jgroups_buckets_members_missing{cluster="seats",member=""} 0.0' in page


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


@pytest.mark.seed("A23")
async def test_every_figure_of_a_member_and_the_lost_pairs_are_on_its_page(
    autojump_clock: Any,
) -> None:
    """A client has no index copy, but sees the pairs nevertheless."""
    async with bucket_group() as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        for node in (group.nodes["n1"], client):
            page = page_of(samples_of(node.channel)).decode()
            for part in node.machine.statistics().components:
                for name in part.counts:
                    metric = f"jgroups_buckets_{part.kind}_{name}".lower()
                    assert f'{metric}{{cluster="test",component="{part.name}"' in page
            assert _pairs(page) == {"pairs": 9, "pairs_lost": 0, "pairs_without_backup": 0}
        group.kill("n2")
        group.kill("n3")
        await trio.sleep(30)
        page = page_of(samples_of(client.channel)).decode()
        assert _pairs(page) == {"pairs": 9, "pairs_lost": 3, "pairs_without_backup": 6}


def _pairs(page: str) -> dict[str, float]:
    lines = [line for line in page.splitlines() if line.startswith("jgroups_buckets_pairs")]
    return {
        line.partition("{")[0].removeprefix("jgroups_buckets_"): float(line.rpartition(" ")[2])
        for line in lines
    }


@pytest.mark.seed("A37")
def test_a_pair_without_its_master_is_not_lost_while_its_slave_is_there() -> None:
    """This lasts some seconds, until the index has promoted the slave."""
    row = BucketRow(0, 1, Cep("a", "m/a"), Cep("b", "m/b"))
    found = {
        members: tuple(counts_of_pairs({0: row}, members).values())
        for members in (("a", "b"), ("a",), ("b",), ("c",))
    }
    assert found == {("a", "b"): (1, 0, 0), ("a",): (1, 0, 1), ("b",): (1, 0, 1), ("c",): (1, 1, 0)}
