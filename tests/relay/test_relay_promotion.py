"""The primary site: promotions, fencing, and members that departed earlier."""

from __future__ import annotations

from relay_harness import Net, got, told
from relay_harness import five_and_five as started

from jgroups_py.protocols.relay.wire import (
    Cut,
)


def test_an_old_primary_that_returns_is_fenced_and_lists_its_tail() -> None:
    net = started()
    net.send("C", 2)
    net.settle(2)
    net.cut_wan("NYC")
    net.settle(1)
    net.send("C", 3)
    net.settle(1)
    net.members["T"].relay.promote()
    net.settle(2)
    net.send("U", 2)
    net.settle(2)
    net.heal_wan("NYC")
    net.settle(5)
    old = net.members["E"].relay
    assert not old.is_relaying
    ((site, tail),) = old.status().out_of_sync.items()
    assert site == "SFO"
    assert [(t.origin, t.first, t.last) for t in tail] == [("C", 3, 5)]
    assert got(net, "C", "W") == [[1, 2]], "the tail is not relayed"
    assert old.counters.gaps == len(told(net.members["E"], "gap")) == 1
    assert got(net, "U", "A") == [[1, 2]]
    net.send("C")
    net.settle(2)
    assert got(net, "C", "W") == [[1, 2]]
    old.reconciled("SFO")
    assert not old.status().out_of_sync


def test_messages_under_way_from_the_old_primary_are_counted_and_told() -> None:
    net = started()
    net.settle(2)
    net.hold("bridge", dst="T", src="E")
    net.send("C", 3)
    net.deliver()
    net.members["T"].relay.promote()
    net.deliver()
    net.release()
    net.settle(5)
    assert net.members["T"].relay.counters.fenced == 3
    assert got(net, "C", "W") == [[]]
    ((_, (tail,)),) = net.members["E"].relay.status().out_of_sync.items()
    assert (tail.origin, tail.first, tail.last) == ("C", 1, 3)


def test_all_take_the_same_of_two_sites_promoted_at_once() -> None:
    net = Net(NYC="ED", SFO="TS", LON="XY", config={"sites": ("NYC", "SFO", "LON")})
    net.settle(3)
    net.cut_wan("SFO")
    net.cut_wan("LON")
    net.settle(1)
    net.members["T"].relay.promote()
    net.members["X"].relay.promote()
    net.settle(2)
    net.heal_wan("LON")
    net.heal_wan("SFO")
    net.settle(20)
    assert {m.relay.state.epoch for m in net.everybody} == {(1, "SFO")}
    assert [m.relay.is_relaying for m in net.everybody] == [m.site == "SFO" for m in net.everybody]


def test_an_older_epoch_does_not_come_back() -> None:
    net = started()
    net.members["T"].relay.promote()
    net.settle(2)
    member = net.members["A"].relay
    member.on_record(member.line[0], Cut(99, (0, "NYC"), {}))
    assert member.state.epoch == (1, "SFO")


def test_a_member_that_had_gone_before_the_promotion_is_nobody_to_relay() -> None:
    """T and S had forgotten U when T was promoted; W had not. As relay it would count U's messages as
    lost to the other sites."""
    net = started()
    net.send("U", 3)
    net.settle(2)
    member, origin = net.members["W"].relay, bytes(net.members["U"].id)
    net.crash("U")
    net.settle(30)
    member.state.is_back(origin)
    member.state.delivered[origin] = 3
    net.members["T"].relay.promote()
    net.settle(2)
    assert origin not in member.origins.origins()
    for name in "TSV":
        net.crash(name)
        net.settle(3)
    assert member.is_relay
    net.settle(30)
    assert not any(told(m, "gap") for m in net.everybody)


def test_a_member_that_leaves_with_nothing_sent_since_the_promotion_is_forgotten() -> None:
    """Earlier messages of the member are never relayed: no other site acknowledges them."""
    net = started()
    net.send("U", 3)
    net.settle(2)
    net.crash("U")
    net.settle(20)
    net.members["T"].relay.promote()
    net.settle(2)
    relay, origin = net.members["T"].relay, bytes(net.members["U"].id)
    relay.state.is_back(origin)  # as if it had not been forgotten before
    for table in (relay.state.base, relay.state.delivered, relay.state.trimmed):
        table[origin] = 3
    relay.machine.enter()
    relay._note_departed()
    relay.out.wake()
    relay.machine.leave()
    net.send("S")
    net.settle(60)
    assert origin not in relay.state.delivered and origin not in relay.state.base


def test_a_joiner_forgets_members_that_it_has_never_met() -> None:
    """SFO does not relay, so each member forgets departed members by itself."""
    net = started()
    net.send("U", 3)
    net.settle(2)
    net.crash("U")
    net.join("Z", "SFO")
    net.settle(60)
    origin = bytes(net.members["U"].id)
    for name in "TSVWZ":
        assert origin not in net.members[name].relay.state.delivered, name


def test_a_relay_crash_at_the_new_primary_right_after_the_promotion_loses_nothing() -> None:
    net = started()
    net.send("U")
    net.settle(1)
    net.members["T"].relay.promote()
    net.send("U", 2)
    net.deliver("mc")
    net.crash("T", reach={n: 99 for n in "SUVW"})
    net.settle()
    assert got(net, "U", "E", "A") == [[2, 3]] * 2
    assert not any(told(m, "gap") for m in net.everybody)


def test_a_third_site_compares_itself_with_the_new_primary() -> None:
    net = Net(NYC="ED", SFO="TS", LON="XY")
    net.settle(3)
    net.send("E", 2)
    net.settle(2)
    net.hold("bridge", dst="T", src="E")
    net.send("E", 2)
    net.settle(2)
    assert got(net, "E", "S", "Y") == [[1, 2], [1, 2, 3, 4]]
    net.crash("E", "D", view=False)
    net.settle(1)
    net.members["T"].relay.promote()
    net.settle(5)
    ((site, ranges),) = net.members["X"].relay.status().out_of_sync.items()
    assert (site, [(r.first, r.last) for r in ranges]) == ("SFO", [(3, 4)])
