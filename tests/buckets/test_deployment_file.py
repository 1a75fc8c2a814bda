"""Deployment files: the meaning of their keys, and each mistake with its place (A66, A24, A32, A47)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jgroups_py.buckets.deployment import load_deployment, parse_deployment
from jgroups_py.buckets.deployment.model import DeployedNode
from jgroups_py.errors import ConfigError

SEATS = """\
name: seats
buckets: 9
application: shop.seats:PLUGIN
stack: tcp.xml
set: {FD_ALL3.timeout: 3s}
settings: {lease: 1s, queue_max: 50, parcel_bytes: 64kb}
nodes:
  n1: {fails_with: rack-a, buckets: 6, masters: 5}
  n2: {fails_with: [rack-b, power-2], buckets: 6, masters: 5, address: 127.0.0.1}
  n3:
    fails_with: rack-c
    components: {managers: 2, indices: 1, routers: 2}
  n4:
    buckets: 0
    components: {proxies: 1}
placement:
  0: [n1, n2]
"""
TWO = "name: a\nbuckets: 4\nsettings: {index_quorum: 1}\nnodes: {n1: , n2: }\n"


def test_a_file_says_nodes_components_causes_and_settings() -> None:
    found = parse_deployment(SEATS)
    assert (found.name, found.buckets, found.stack, found.application) == (
        "seats", 9, "tcp.xml", "shop.seats:PLUGIN",
    )  # fmt: skip
    assert (found.settings.lease, found.settings.queue_max, found.settings.parcel_bytes) == (
        1.0, 50, 64_000,
    )  # fmt: skip
    assert found.settings.buckets == 9 and found.attributes == {"FD_ALL3.timeout": "3s"}
    assert found.settings.index_copies == ("i/n1", "i/n2", "i/n3")
    n1, n2, n3, n4 = found.nodes
    assert n1 == DeployedNode(name="n1", causes=("rack-a",), buckets=6, masters=5)
    assert (found.zone_of(n2), n2.address) == ("rack-b,power-2", "127.0.0.1")
    relaxed = parse_deployment(f"separate: nodes\n{SEATS}")
    assert relaxed.zone_of(relaxed.nodes[1]) == "", "a running index would refuse the pairs"
    assert n3.components("m") == ("m/n3", "m/n3/2") and n3.components("r") == ("r/n3", "r/n3/2")
    assert (n3.buckets, n3.masters, n3.proxies) == (9, 9, 0)
    assert (n4.components("p"), n4.components("m"), n4.components("i")) == (("p/n4",), (), ())
    assert found.pinned == {0: ("n1", "n2")}
    assert list(found.causes) == ["node n1", "node n2", "node n3", "node n4"], "racks of one node"
    racks = parse_deployment(SEATS.replace("buckets: 0", "fails_with: rack-a"))
    assert racks.causes["rack-a"] == ("n1", "n4") and racks.causes["node n1"] == ("n1",)


@pytest.mark.seed("A24")
def test_two_nodes_are_enough() -> None:
    found = parse_deployment(TWO)
    assert [node.name for node in found.nodes] == ["n1", "n2"] and found.settings.quorum == 1


MISTAKES = [
    ("name: seats\n", "", "1:1: name: the key is missing"),
    ("name: seats", "name: 'a b'", "1:7: name: 'a b' is no name (letters, digits, _ - ., at most 100)"),
    ("buckets: 9\n", "buckets: 9\nbuckets: 8\n", "3:1: buckets: the key stands twice, first in line 2"),
    ("buckets: 9", "buckets: 0", "2:10: buckets: 0 is not possible (1 to 65536)"),
    ("buckets: 9", "buckets: many", "2:10: buckets: 'many' is not a whole number (1 to 65536)"),
    ("buckets: 9", "bucket: 9", '2:1: bucket: no such key (did you mean "buckets"?) (known: name,'),
    ("shop.seats:PLUGIN", "shop.seats", "3:14: application: 'shop.seats' is not module:name"),
    ("lease: 1s", "lease: 1", "6:19: settings.lease: '1' has no unit (a time with its unit, such as"),
    ("lease: 1s", "lease: soon", "6:19: settings.lease: 'soon' is not a time"),
    ("lease: 1s", "lease: 0s", "6:19: settings.lease: more than 0 seconds, not 0.0"),
    ("lease: 1s", "leas: 1s", '6:12: settings.leas: no such key (did you mean "lease"?)'),
    ("lease: 1s", "index_quorum: 4", "6:26: settings.index_quorum: 0 to 3 (the index copies), not 4"),
    ("queue_max: 50", "queue_max: -1", "settings.queue_max: '-1' is not a whole number"),
    ("64kb", "64 miles", "settings.parcel_bytes: '64 miles' is not a size (a size such as 60000"),
    ("masters: 5}\n  n2", "masters: 7}\n  n2", "8:49: nodes.n1.masters: 7 are more than all its copies (nodes.n1.buckets: 6)"),
    ("fails_with: rack-a", "fails_with: [a, a]", "8:20: nodes.n1.fails_with: 1 to 10 different causes are possible, not a, a"),
    ("fails_with: rack-a", "fails_with: {a: b}", "8:20: nodes.n1.fails_with: a list is wanted, not keys and values"),
    ("127.0.0.1", "here", "nodes.n2.address: 'here' is not an address, such as 10.0.0.1 or ::1"),
    ("managers: 2", "managers: 200", "12:28: nodes.n3.components.managers: 200 is not possible (0 to 100)"),
    ("managers: 2", "manager: 2", '12:18: nodes.n3.components.manager: no such key (did you mean "managers"?)'),
    ("0: [n1, n2]", "9: [n1, n2]", "17:6: placement.9: '9' is no bucket (0 to 8)"),
    ("0: [n1, n2]", "00: [n1, n2]", "17:7: placement.00: a bucket is written without zeros: 0"),
    ("0: [n1, n2]", "0: [n1, n9]", "17:11: placement.0: 'n9' is not one of n1, n2, n3, n4"),
    ("0: [n1, n2]", "0: n1", "17:6: placement.0: two nodes are wanted, [master, slave], not 1"),
    ("0: [n1, n2]", "0: [n1, n4]", "17:3: placement.0: node n4 has no bucket manager"),
    ("0: [n1, n2]", "0: [n1, n1]", "17:3: placement.0: [n1, n1] fail together: node n1; master and slave must not"),
    ("name: seats", "separate: racks\nname: seats", "1:11: separate: 'racks' is not one of causes, nodes"),
    ("name: seats", '"\\e[2J": 1', "1:1: '\\x1b[2J' is no key"),
    ("nodes:\n", "nodes: [\n", "not YAML: "),
    ("settings: {lease: 1s, queue_max: 50, parcel_bytes: 64kb}", "settings: []", "6:11: settings: keys and values are wanted, not a list"),
    ("name: seats", "name: &a seats\nstack: *a", "2:8: not YAML: anchors and aliases are not accepted"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "error"), MISTAKES)
def test_a_mistake_is_told_with_its_place(old: str, new: str, error: str) -> None:
    assert SEATS.count(old) >= 1
    with pytest.raises(ConfigError) as caught:
        parse_deployment(SEATS.replace(old, new, 1), "seats.yaml")
    assert str(caught.value).startswith("seats.yaml:") and error in str(caught.value)


def deployed(nodes: str, top: str = "") -> str:
    return f"name: a\nbuckets: 4\n{top}nodes:\n{nodes}"


THREE = "  n1:\n  n2:\n  n3:\n"
NO_ROUTER = "{components: {managers: 1, proxies: 1}}"
RULES = [
    ("no proxy manager", deployed("".join(f"  n{n}: {{components: {{managers: 1, indices: 1, routers: 1}}}}\n" for n in (1, 2, 3))),
     "3:1: nodes: no node has a proxy manager; at least one is needed"),
    ("managers on one node", deployed("  n1:\n" + "".join(f"  n{n}: {{components: {{indices: 1, routers: 1}}}}\n" for n in (2, 3))),
     "nodes: bucket managers on two different nodes are needed, not on n1"),
    ("no router", deployed(f"  n1: {NO_ROUTER}\n  n2: {NO_ROUTER}\n"), "3:1: nodes: no node has a router; at least one is needed"),
    ("two index copies on a node", deployed(THREE + "  n4: {components: {indices: 2, routers: 1}}\n"),
     "nodes.n4.components.indices: 2 index copies on one node; a node has one router unit at most"),
    ("a router without an index copy", deployed(THREE + "  n4: {components: {routers: 1}}\n"),
     "7:8: nodes.n4.components.indices: the node has routers (1) and no index copy"),
    ("an index copy without a router", deployed(THREE + "  n4: {components: {indices: 1}}\n"),
     "nodes.n4.components.routers: the node has an index copy and no router"),
    ("copies without a manager", deployed(THREE + "  n4: {buckets: 3, components: {proxies: 1}}\n"),
     "7:8: nodes.n4.buckets: it is to hold 3 copies, and has no bucket manager"),
    ("one host twice", deployed("  n1: {address: 10.0.0.1}\n  n2: {address: 10.0.0.1}\n  n3:\n"),
     "5:8: nodes.n2.address: 10.0.0.1 is the address of n1, too"),
    ("too few copies", deployed("".join(f"  n{n}: {{buckets: 2}}\n" for n in (1, 2, 3))),
     "2:1: buckets: 4 pairs are 8 copies, and the nodes can hold 6 (n1 2, n2 2, n3 2; a node holds one copy of a pair); at most 3"),
    ("too few masters", deployed("".join(f"  n{n}: {{masters: 1}}\n" for n in (1, 2, 3))),
     "2:1: buckets: 4 masters are needed, and the nodes can hold 3"),
    ("one large node", deployed("  n1: {buckets: 100}\n  n2: {buckets: 2}\n  n3: {buckets: 1}\n"),
     "2:1: buckets: 4 pairs are 8 copies, and the nodes can hold 7"),
    ("one large rack", deployed("  n1: {fails_with: r}\n  n2: {fails_with: r}\n  n3: {buckets: 2}\n  n4: {components: {indices: 1, routers: 1}}\n"),
     "2:1: buckets: each of 4 pairs needs a copy outside r (n1, n2), and the other nodes can hold 2"),
    ("an index on one node", deployed(f"  n1:\n  n2: {NO_ROUTER}\n"),
     "3:1: nodes: index copies on two different nodes are needed, not on n1 only"),
    ("an index that a node's loss ends", deployed("  n1:\n  n2:\n"),
     "3:1: nodes: the loss of node n1 leaves 1 of 2 index copies, and 2 are needed to promote slaves"),
    ("an index that a rack's loss ends", deployed("  n1: {fails_with: r}\n  n2: {fails_with: r}\n  n3:\n"),
     "3:1: nodes: the loss of r leaves 1 of 3 index copies, and 2 are needed"),
    ("a quorum that a loss ends", deployed(THREE, "settings: {index_quorum: 3}\n"),
     "3:12: settings.index_quorum: the loss of node n1 leaves 2 of 3 index copies, and 3 are needed"),
]  # fmt: skip


@pytest.mark.seed("A24", "A32", "A47", "A66")
@pytest.mark.parametrize(("text", "error"), [rule[1:] for rule in RULES], ids=[r[0] for r in RULES])
def test_a_broken_rule_is_refused_at_its_key(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_deployment(text, "a.yaml")
    assert error in str(caught.value)


def test_loopback_addresses_may_be_shared_and_racks_too_if_the_file_says_so() -> None:
    parse_deployment(deployed("".join(f"  n{n}: {{address: 127.0.0.1}}\n" for n in (1, 2, 3))))
    racks = "".join(f"  n{n}: {{fails_with: r}}\n" for n in (1, 2, 3))
    with pytest.raises(ConfigError):
        parse_deployment(deployed(racks))
    assert parse_deployment(deployed(racks, "separate: nodes\n")).may_pair("n1", "n2")


def test_pins_beyond_a_capacity_are_refused() -> None:
    nodes = "  n1: {masters: 1}\n  n2:\n  n3: {buckets: 1}\n"
    for pins, error in (
        ("placement: {0: [n1, n2], 1: [n1, n2]}\n", "placement.1: [n1, n2]: node n1 can hold 1 masters"),
        ("placement: {0: [n1, n3], 1: [n2, n3]}\n", "placement.1: [n2, n3]: node n3 can hold 1 copies"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=re.escape(error)):
            parse_deployment(deployed(nodes, pins))


def test_any_bytes_make_a_file_or_one_error_with_its_name() -> None:
    problems = []
    for at in range(0, len(SEATS), 2):
        data = bytearray(SEATS.encode())
        data[at] = b"\x00\xff{\n'[:-"[at // 2 % 8]
        try:
            parse_deployment(bytes(data), "seats.yaml")
        except ConfigError as error:
            problems.append(str(error))
    assert len(problems) > 100 and all(text.startswith("seats.yaml") for text in problems)


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_deployment(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="it has more than 4194304 bytes"):
        load_deployment(large)
    large.write_bytes(b"")
    with pytest.raises(ConfigError, match="the file is empty"):
        load_deployment(large)
