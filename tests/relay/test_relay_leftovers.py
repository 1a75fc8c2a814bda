"""No table names departed members: findings of whole simulations, in few steps each.

NYC: R relay, S standby, M other, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

import pytest
from relay_harness import Net, got
from relay_harness import four_and_three as started
from relay_member import Member

from jgroups_py.protocols.relay.wire import Ack, Report
from jgroups_py.testing.check.tables import MAY_REMEMBER, named_in


def naming(net: Net, gone: Member) -> list[str]:
    """Return the tables of the site's members that still name ``gone``."""
    found = []
    for member in net.alive(gone.site):
        paths = dict.fromkeys(p for p, address in named_in(member.relay) if address == gone.id)
        found += [f"{member}: {p}" for p in paths if not p.startswith(tuple(MAY_REMEMBER))]
    return found


def test_a_sender_that_left_a_site_that_relays_is_forgotten() -> None:
    """That sender's trims had been sent (relay 3)."""
    net = started()
    net.send("O", 2)
    net.settle(2)
    assert naming(net, net.members["O"])
    net.crash("O")
    net.settle(40)
    assert naming(net, net.members["O"]) == []


def test_a_member_that_never_sent_is_forgotten_by_all_members() -> None:
    """(relay 14)"""
    net = started()
    net.crash("O")
    net.deliver()
    assert [m.name for m in net.alive("NYC") if m.relay.departures.gone_at] == list("RSM")
    net.settle(40)
    assert naming(net, net.members["O"]) == []


def test_an_origin_that_was_forgotten_unheard_by_the_other_site_is_forgotten() -> None:
    """The other relay reports its numbers of that member, and acknowledges them again (relay 5)."""
    net = started()
    net.send("O", 2)
    net.settle(2)
    origin = net.members["O"]
    net.crash("O")
    net.hold("mc", dst="S", src="R")
    net.settle(30)
    assert bytes(origin.id) in net.members["R"].relay.trimming.forgetting
    net.cut_wan("SFO")
    net.release()
    net.settle(2)
    assert naming(net, origin) == []
    far = net.members["Y"].relay
    had = dict(far.state.site_digest["NYC"])
    assert bytes(origin.id) in had
    net.heal_wan("SFO")
    net.settle(2)
    assert naming(net, origin) == []
    far.bridge._tell(next(iter(far.bridge.sessions.values())), Ack(had))
    net.settle(2)
    assert naming(net, origin) == []


def test_members_from_before_a_site_began_anew_are_known() -> None:
    """The site's new relay never knew such a member; the other site's relay reports its numbers (relay 10)."""
    net = started()
    net.send("O", 2)
    net.settle(2)
    origin = net.members["O"]
    net.crash(*"RSMO")
    net.new_view("NYC", [net.start("P", "NYC")])
    far = net.members["Y"].relay
    net.hold("bridge", dst="Y", src="P")
    net.settle(1)
    assert bytes(origin.id) in far.state.site_digest["NYC"]
    net.release()
    net.settle(10)
    assert naming(net, origin) == []


def test_a_leaver_of_a_site_that_does_not_relay_goes_from_sessions_too() -> None:
    """The site had relayed while it was promoted for a while (all 14)."""
    net = started()
    net.members["Y"].relay.promote()
    net.settle(3)
    net.send("T", 2)
    net.settle(3)
    assert "RELAY.bridge.sessions.cursor" in {p for p, _ in named_in(net.members["Y"].relay)}
    net.members["R"].relay.promote()
    net.settle(3)
    net.crash("T")
    net.settle(40)
    assert naming(net, net.members["T"]) == []


def test_a_standby_of_a_site_that_does_not_relay_keeps_no_floors() -> None:
    """The first numbers in others' buffers were reported when the member became standby (relay 11)."""
    net = started()
    net.members["Y"].relay.promote()
    net.settle(3)
    net.send("T", 2)
    net.deliver("mc")
    net.crash("Y")
    net.settle(3)
    relay, gone = net.members["Z"].relay, net.members["T"]
    relay.holding.floors.setdefault(net.members["Z"].id, {})[bytes(gone.id)] = 1
    net.members["R"].relay.promote()
    net.settle(3)
    net.crash("T")
    net.settle(40)
    assert naming(net, gone) == []


def test_a_report_that_comes_after_its_member_has_gone() -> None:
    """(all 6)"""
    net = started()
    net.crash("O")
    net.settle(40)
    relay, gone = net.members["R"].relay, net.members["O"]
    late = Report(relay.roles.key, 1, False, {})
    relay.on_record(gone.id, late)
    assert naming(net, gone) == []


def test_an_origin_that_others_forgot_without_telling_is_forgotten() -> None:
    """M was beyond a partition meanwhile, and learned of it by a COLLECT (relay 1269)."""
    net = started()
    net.send("O", 2)
    net.settle(2)
    late, gone = net.members["M"].relay, net.members["O"]
    net.crash("O")
    net.settle(40)
    assert late.state.is_forgotten(bytes(gone.id))
    late.state.delivered[bytes(gone.id)] = 2
    late.departures.gone_at[bytes(gone.id)] = net.now
    net.crash("R", "S")
    net.settle(60)
    assert late.is_relay
    assert naming(net, gone) == []


def test_a_relay_without_a_beginning_forgets_earlier_members() -> None:
    """The former relay left before it reported. The other site's numbers of members that the new relay never saw stayed
    in its session for ever, because no further view of its site came (all 870)."""
    net = started()
    net.send("R", 2)
    net.send("O", 3)
    net.settle(2)
    gone = [net.members[name] for name in "RSMO"]
    net.crash("O")
    net.deliver()
    net.hold("uc", dst="J")
    net.join("J", "NYC")
    net.deliver()
    net.crash(*"RSM", reach={"J": 0})
    net.release()
    net.settle(2)
    joiner = net.members["J"].relay
    assert joiner.joining.blind
    assert naming(net, gone[3]) == ["J: RELAY.bridge.sessions.cursor"]
    net.send("J", 2)
    net.settle(40)
    assert not joiner.joining.blind
    assert [naming(net, member) for member in gone] == [[], [], [], []]
    far = net.members["Y"].relay.state
    assert list(far.site_digest["NYC"]) == [bytes(net.members["J"].id)]
    assert got(net, "R", "T") + got(net, "O", "T") + got(net, "J", "T") == [
        [1, 2],
        [1, 2, 3],
        [1, 2],
    ]
    net.at_rest()


def first_site_comes(net: Net) -> None:
    members = [net.start(name, "SFO") for name in "YZT"]
    net.new_view("SFO", members)
    net.settle(40)


@pytest.mark.parametrize("late", [False, True])
def test_the_first_other_site_gets_messages_of_departed_members(late: bool) -> None:
    """Otherwise the joiner is told that they are lost. They are remembered until that site comes (relay 1, of
    one site)."""
    net = Net(NYC="RSMO", config={"max_age": 60.0})
    net.settle(3)
    net.send("O", 2)
    net.settle(2)
    origin = net.members["O"]
    net.crash("O")
    net.settle(120 if late else 20)
    assert naming(net, origin)
    assert len(net.members["R"].relay.buffer) == (0 if late else 2)
    first_site_comes(net)
    assert got(net, "O", "Y", "T") == [[] if late else [1, 2]] * 2
    lost = {"SFO": [(1, 2)]} if late else {}
    told = net.members["R"].relay.out_of_sync.ranges()
    assert {site: [(r.first, r.last) for r in ranges] for site, ranges in told.items()} == lost
    assert naming(net, origin) == []
