"""The first places of buckets: rules hold for all deployments, the seed's example has the expected result, and
every possible distribution is found."""

from __future__ import annotations

import random
from functools import cache

import pytest
from seed_instance import MASTERS, SLAVES

from jgroups_py.buckets.deployment import (
    Deployment,
    Distribution,
    distribute,
    findings,
    parse_deployment,
)
from jgroups_py.buckets.deployment.findings import broken_rules
from jgroups_py.buckets.deployment.picture import as_json, as_text
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, ComponentInfo, KnownManager
from jgroups_py.buckets.rows import misplaced
from jgroups_py.errors import ConfigError

SEED = """\
name: seats
buckets: 9
nodes:
  n1: {buckets: 6, masters: 5}
  n2: {buckets: 6, masters: 5}
  n3: {buckets: 6, masters: 5}
"""


def by_node(found: Distribution) -> dict[str, tuple[int, int]]:
    """Return the masters and slaves of each node."""
    names = {name for pair in found.nodes.values() for name in pair}
    return {
        name: (
            sum(pair[0] == name for pair in found.nodes.values()),
            sum(pair[1] == name for pair in found.nodes.values()),
        )
        for name in sorted(names)
    }


@pytest.mark.seed("A32", "A35", "A37")
def test_the_seeds_example_has_its_loads_also_after_each_loss() -> None:
    deployment = parse_deployment(SEED)
    found = distribute(deployment)
    assert by_node(found) == {"n1": (3, 3), "n2": (3, 3), "n3": (3, 3)}
    assert not broken_rules(deployment, found) and not findings(deployment, found)
    text = as_text(deployment, found).splitlines()
    assert (
        text[3].split()[-6:][:6] == ["3", "of", "5", "6", "of", "6"] or "3 of 5   6 of 6" in text[3]
    )
    assert [line.split() for line in text[-3:]] == [
        ["node", "n1", "lost", "5", "4", "6"],
        ["node", "n2", "4", "lost", "5", "6"],
        ["node", "n3", "5", "4", "lost", "6"],
    ]
    assert distribute(parse_deployment(SEED)).components == found.components, "the same everywhere"


@pytest.mark.seed("A35")
def test_the_seeds_own_layout_can_be_pinned() -> None:
    pins = "".join(
        f"  {pair - 1}: [{master}, {slave}]\n"
        for master, masters in MASTERS.items()
        for slave, slaves in SLAVES.items()
        for pair in masters
        if pair in slaves
    )
    deployment = parse_deployment(f"{SEED}placement:\n{pins}")
    found = distribute(deployment)
    assert found.nodes == deployment.pinned and len(found.nodes) == 9
    assert found.components[3] == ("m/n2", "m/n3") and not broken_rules(deployment, found)
    assert as_json(deployment, found)["nodes"][1]["masters"] == [3, 4, 5]


def drawn(seed: int) -> str:
    """Return a deployment at the limit of its capacity, in which a node has at most one cause of failure."""
    r = random.Random(seed)
    buckets = r.randint(1, 7)
    lines = ["name: a", f"buckets: {buckets}", "settings: {index_quorum: 1}", "nodes:"]
    for number in range(r.randint(2, 6)):
        holds = r.randint(0, buckets + 1)
        cause = r.choice(("", "fails_with: za, ", "fails_with: zb, ", "fails_with: zc, "))
        lines.append(f"  n{number}: {{{cause}buckets: {holds}, masters: {r.randint(0, holds)}}}")
    return "\n".join(lines)


def is_possible(deployment: Deployment) -> bool:
    names = [node.name for node in deployment.nodes]

    @cache
    def go(left: int, room: tuple[tuple[int, int], ...]) -> bool:
        if not left:
            return True
        for m, (copies, masters) in enumerate(room):
            for s, (free, _) in enumerate(room):
                if copies and masters and free and deployment.may_pair(names[m], names[s]):
                    after = list(room)
                    after[m] = (copies - 1, masters - 1)
                    after[s] = (free - 1, room[s][1])
                    if go(left - 1, tuple(after)):
                        return True
        return False

    return go(
        deployment.buckets,
        tuple((min(n.buckets, deployment.buckets), n.masters) for n in deployment.nodes),
    )


@pytest.mark.seed("A32", "A35", "A66")
def test_every_possible_distribution_is_found_and_holds_the_rules() -> None:
    found = 0
    for seed in range(250):
        try:
            deployment = parse_deployment(drawn(seed))
        except ConfigError:
            continue
        try:
            distribution = distribute(deployment)
        except ConfigError:
            assert not is_possible(deployment), seed
            continue
        assert broken_rules(deployment, distribution) == [], seed
        found += 1
    assert found > 80


def test_buckets_that_a_cause_leaves_over_are_exchanged_with_a_pair() -> None:
    text = (
        "name: a\nbuckets: 3\nnodes:\n"
        "  a: {buckets: 2, fails_with: x}\n  b: {buckets: 1}\n  c: {buckets: 1}\n  d: {buckets: 1, fails_with: x}\n  e: {buckets: 1}\n"
    )
    deployment = parse_deployment(text)
    assert not broken_rules(deployment, distribute(deployment))


@pytest.mark.seed("A32")
def test_overlapping_causes_are_kept_apart() -> None:
    nodes = "\n".join(f"  n{n}: {{fails_with: [rack-{n % 3}, power-{n % 2}]}}" for n in range(6))
    deployment = parse_deployment(
        f"name: a\nbuckets: 60\nsettings: {{index_quorum: 3}}\nnodes:\n{nodes}\n"
    )
    found = distribute(deployment)
    assert not broken_rules(deployment, found)
    assert all(masters == 10 and 9 <= slaves <= 11 for masters, slaves in by_node(found).values())
    for master, slave in found.nodes.values():
        one, other = int(master[1]), int(slave[1])
        assert one % 3 != other % 3 and one % 2 != other % 2


def test_pinned_buckets_stay_and_the_others_fill_the_free_places() -> None:
    deployment = parse_deployment(f"{SEED}placement: {{4: [n1, n2], 5: [n1, n2], 6: [n1, n2]}}\n")
    found = distribute(deployment)
    assert [found.nodes[b] for b in (4, 5, 6)] == [("n1", "n2")] * 3
    assert by_node(found) == {"n1": (3, 3), "n2": (3, 3), "n3": (3, 3)}
    assert not broken_rules(deployment, found)


def test_managers_of_a_node_share_its_buckets_and_unequal_nodes_get_unequal_shares() -> None:
    text = SEED.replace("buckets: 9", "buckets: 30").replace(
        "{buckets: 6, masters: 5}", "{buckets: 15}", 2
    )
    text = text.replace(
        "{buckets: 6, masters: 5}",
        "{buckets: 30, components: {managers: 3, indices: 1, routers: 1}}",
    )
    deployment = parse_deployment(text)
    found = distribute(deployment)
    assert by_node(found) == {"n1": (8, 7), "n2": (7, 8), "n3": (15, 15)}
    masters = [pair[0] for pair in found.components.values() if pair[0].startswith("m/n3")]
    assert {name: masters.count(name) for name in set(masters)} == {
        "m/n3": 5,
        "m/n3/2": 5,
        "m/n3/3": 5,
    }


def test_overload_after_a_loss_and_copies_that_fail_together_are_reported() -> None:
    text = "name: a\nbuckets: 6\nseparate: nodes\nsettings: {index_quorum: 1}\nnodes: {n1: {fails_with: r, masters: 4}, n2: {fails_with: r, masters: 4}}\n"
    deployment = parse_deployment(text)
    found = distribute(deployment)
    assert findings(deployment, found) == [
        "after the loss of node n1 node n2 has 6 masters, and room for 4",
        "after the loss of node n2 node n1 has 6 masters, and room for 4",
        "both copies of 6 buckets fail with r (separate: nodes)",
        "index_quorum 1 of 2 is no majority: both sides of a cut network would have masters",
    ]
    assert "6!" in as_text(deployment, found)


@pytest.mark.seed("A37")
def test_slaves_are_spread_so_that_no_loss_overloads_a_node_if_that_is_possible() -> None:
    masters = {"n0": 3, "n1": 6, "n2": 3, "n3": 2}
    nodes = "".join(f"  {name}: {{masters: {most}}}\n" for name, most in masters.items())
    deployment = parse_deployment(f"name: a\nbuckets: 8\nnodes:\n{nodes}")
    found = distribute(deployment)
    assert not findings(deployment, found) and not broken_rules(deployment, found)


def test_a_distribution_that_breaks_rules_names_them() -> None:
    deployment = parse_deployment(SEED)
    good = distribute(deployment)
    nodes, components = dict(good.nodes), dict(good.components)
    nodes[0], components[0] = ("n1", "n1"), ("m/n1", "m/n9")
    del nodes[1]
    assert broken_rules(deployment, Distribution(nodes, components)) == [
        "bucket 0: n1 and n1 share node n1",
        "bucket 0: m/n9 is no manager of n1",
        "bucket 1 is nowhere",
    ]
    crowded = dict.fromkeys(range(9), ("n1", "n2"))
    told = broken_rules(
        deployment, Distribution(crowded, dict.fromkeys(range(9), ("m/n1", "m/n2")))
    )
    assert told == [
        "n1 has 9 copies and room for 6", "n1 has 9 masters and room for 5", "n2 has 9 copies and room for 6",
    ]  # fmt: skip


@pytest.mark.seed("A32")
def test_a_running_index_refuses_a_pair_that_shares_one_of_several_causes() -> None:
    def manager(node: str, zone: str) -> KnownManager:
        return KnownManager(
            Cep(node, f"m/{node}"), ComponentInfo(f"m/{node}", "manager", node, zone)
        )

    row = BucketRow(0, 1, Cep("n1", "m/n1"), Cep("n2", "m/n2"))
    for one, other, problem in (
        ("rack-a,power-1", "rack-b,power-1", "both copies would be in zone power-1"),
        ("rack-a", "rack-a", "both copies would be in zone rack-a"),
        ("rack-a", "rack-ab", ""),
        ("", "", ""),
    ):
        assert misplaced(row, [manager("n1", one), manager("n2", other)]) == problem
