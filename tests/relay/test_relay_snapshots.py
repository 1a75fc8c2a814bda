"""Snapshots for joiners are remembered as long as a joiner may request them.

NYC: R relay, S standby, M other, O origin. SFO: Y relay, Z next, T other, J joiner.
"""

from __future__ import annotations

from relay_harness import Net
from relay_harness import four_and_three as started

from jgroups_py.values.address import Address


def remembered(net: Net, names: str = "YZT") -> dict[str, list[list[str]]]:
    """Return, by member, the joiners that may request the snapshot of each remembered view."""
    name_of: dict[Address, str] = {m.id: m.name for m in net.everybody}
    return {
        name: [
            [name_of[m] for m in snapshot.waiting]
            for snapshot in net.members[name].relay.joining.snapshots.values()
        ]
        for name in names
    }


def test_no_joiner_is_remembered_when_all_have_begun() -> None:
    net = started()
    assert remembered(net, "RSMOYZT") == {name: [] for name in "RSMOYZT"}
    net.join("J", "SFO")
    net.settle(3)
    net.crash("Y")
    net.settle(3)
    assert remembered(net, "ZTJ") == {name: [] for name in "ZTJ"}
    assert not any(net.members[name].relay.joining.fresh for name in "ZTJ")


def test_messages_that_a_joiner_may_still_ask_for_outlive_the_relay() -> None:
    net = started()
    net.send("O")
    net.settle(3)
    net.hold("uc", dst="J")
    net.join("J", "SFO")
    net.settle(3)
    assert remembered(net) == {name: [["J"]] for name in "YZT"}
    net.send("O")
    net.settle(3)
    net.crash("Y", reach={"J": 9})
    net.deliver()
    assert remembered(net, "ZT") == {name: [["J"], ["J"]] for name in "ZT"}
    net.release()
    net.settle()
    assert remembered(net, "ZTJ") == {name: [] for name in "ZTJ"}
    assert net.members["J"].got["O"] == [2]
    net.at_rest()


def test_a_joiner_that_is_gone_is_remembered_for_a_while() -> None:
    """The joiner may only have been cut off."""
    net = started()
    net.hold("uc", dst="J")
    net.join("J", "SFO")
    net.settle(3)
    net.partition("SFO", "YZT", "J")
    net.settle(3)
    assert remembered(net) == {name: [["J"]] for name in "YZT"}
    net.advance(300)
    net.crash("T")
    net.settle(3)
    assert remembered(net, "YZ") == {name: [] for name in "YZ"}


def test_a_member_that_comes_back_by_a_merge_is_asked_for_nothing() -> None:
    net = started()
    net.partition("SFO", "YZ", "T")
    net.settle(3)
    net.merge("SFO")
    net.settle(5)
    assert remembered(net) == {name: [] for name in "YZT"}
    net.at_rest()
