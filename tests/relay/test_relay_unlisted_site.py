"""The relay of a site that is not listed reads nothing, sends nothing, and holds nobody up when it dies."""

from __future__ import annotations

import pytest
from relay_harness import Net, got

from jgroups_py.values.events import FlowBlocked

LISTED = ("NYC", "SFO")


def three_sites(overflow: str = "drop_oldest") -> Net:
    """NYC and SFO list each other. LON lists all three and comes to their bridge."""
    net = Net(
        NYC="EDC",
        SFO="TS",
        config={
            "sites": LISTED,
            "primary": "all",
            "overflow": overflow,
            "max_messages": 10,
            "block_credits": 1,
        },
    )
    net.settle(3)
    net.start("L", "LON", sites=(*LISTED, "LON"))
    net.start("M", "LON", sites=(*LISTED, "LON"))
    net.new_view("LON", [net.members[name] for name in "LM"])
    net.settle(3)
    return net


def refused(net: Net, name: str) -> int:
    return int(net.members[name].relay.statistics()["turned_away_unlisted_site"])


def test_a_site_that_is_not_listed_reads_nothing_and_brings_nothing() -> None:
    net = three_sites()
    net.send("C", 3)
    net.send("M", 4)
    net.settle(3)
    assert got(net, "C", *"EDCTS") == [[1, 2, 3]] * 5
    assert got(net, "C", *"LM") == [[], []]
    assert got(net, "M", *"EDCTS") == [[]] * 5
    assert refused(net, "E") > 0 and refused(net, "T") > 0


def test_senders_do_not_wait_for_a_site_that_is_not_listed_and_has_died() -> None:
    net = three_sites("block")
    net.crash("L", "M")
    for _ in range(6):
        net.send("C", 5)
        net.settle(1)
    assert got(net, "C", *"TS") == [list(range(1, 31))] * 2
    assert not any(isinstance(event, FlowBlocked) for event in net.members["C"].events)
    assert "LON" not in net.members["E"].relay.state.sites


def test_a_listed_site_is_asked_back_while_an_unlisted_one_is_on_the_bridge() -> None:
    net = three_sites()
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 5)
    net.settle(1)
    net.heal_wan("SFO")
    net.settle(5)
    assert got(net, "C", *"TS") == [[1, 2, 3, 4, 5]] * 2
    assert net.members["T"].relay.bridge.is_sole("NYC")


@pytest.mark.parametrize("sites", [(), (*LISTED, "LON")])
def test_a_site_takes_part_where_none_or_all_are_listed(sites: tuple[str, ...]) -> None:
    net = Net(NYC="EC", LON="LM", config={"sites": sites, "primary": "all"})
    net.settle(3)
    net.send("M", 4)
    net.settle(3)
    assert got(net, "M", *"EC") == [[1, 2, 3, 4]] * 2
