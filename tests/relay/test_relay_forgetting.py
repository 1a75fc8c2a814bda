"""The rules by which an origin, a member, a joiner or a relay is forgotten, each in a case where it matters. Faults
planted in these rules once went unnoticed.

NYC: R relay, S standby, M other, N next, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

from typing import Any

from relay_harness import Net, got, id_of, session_of, unsole
from relay_harness import four_and_three as started

from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import (
    CollectAsk,
    Forget,
    Known,
    Snapshot,
    StillKnown,
)
from jgroups_py.values.events import (
    FlowBlocked,
    FlowOpened,
)


def test_a_member_is_not_forgotten_on_the_word_of_one_of_two_relays() -> None:
    net = started()
    net.send("O")
    net.settle(2)
    member = net.members["Y"]
    session = unsole(member)
    before = len(member.log)
    member.relay.bridge._on_still_known(session, StillKnown([]))
    assert len(member.log) == before


def test_an_origin_that_one_of_two_relays_had_forgotten_is_forgotten_when_that_relay_is_the_only_one() -> (
    None
):
    """NYC forgets O while another relay of NYC may be on the bridge."""
    net = started()
    net.send("O")
    net.settle(2)
    member = net.members["Y"]
    session = unsole(member)
    net.crash("O")
    net.settle(40)
    origin = id_of(net, "O")
    assert origin not in net.members["R"].relay.origins.still_known()
    assert session.perhaps_gone == {origin: 1}
    assert origin in net.members["T"].relay.state.site_digest["NYC"]
    del member.relay.bridge.is_sole
    net._new_bridge_views(merge=True)
    net.settle(2)
    assert origin not in net.members["T"].relay.state.site_digest["NYC"]
    assert session.perhaps_gone == {}
    net.at_rest()


def test_an_origin_that_sent_since_is_not_forgotten_late() -> None:
    net = started()
    net.send("O", 2)
    net.settle(2)
    bridge, session = net.members["Y"].relay.bridge, session_of(net.members["Y"])
    session.perhaps_gone = {id_of(net, "O"): 1}
    bridge._forget_owed()
    net.settle(2)
    assert id_of(net, "O") in net.members["T"].relay.state.site_digest["NYC"]
    assert session.perhaps_gone == {}


def test_other_sites_are_told_when_all_at_home_have_forgotten() -> None:
    net = started()
    net.send("O")
    net.settle(2)
    net.crash("O")
    net.settle(10)
    net.hold("mc", dst="S", src="R")
    net.settle(20)
    origin = id_of(net, "O")
    assert origin in net.members["R"].relay.trimming.forgetting, "S has not"
    assert origin in net.members["Y"].relay.state.site_digest["NYC"]
    net.release()
    net.settle()
    assert origin not in net.members["Y"].relay.state.site_digest["NYC"]
    net.at_rest()


def test_a_member_that_is_in_the_view_is_not_forgotten_whatever_others_say_that_left_it_out() -> (
    None
):
    """O was away for a long time; the others have a view without O, forget O, and O is told so."""
    net = started()
    net.hold("bridge")
    net.send("O")
    net.deliver("mc")
    origin = id_of(net, "O")
    net.members["R"].relay.out.multicast(lambda serial: Forget(serial, "", [origin]))
    net.deliver("mc")
    for name in "RSMO":
        assert net.members[name].relay.buffer.next_above(origin, 0) == 1
    net.crash("R")
    net.release()
    net.settle(20)
    assert got(net, "O", "Y", "Z") == [[1], [1]]


def test_a_member_that_is_not_acknowledged_is_not_forgotten() -> None:
    net = started()
    net.send("O")
    net.settle(2)
    relay = net.members["R"]
    bridge = next(iter(relay.stack.children))
    peer = session_of(relay).peer
    bridge.protocols[0].pass_event_up(FlowBlocked("UFC", peer, ()))
    net.send("O")
    net.deliver()
    net.crash("O", reach={"R": 9, "S": 9, "M": 9})
    net.settle(60)
    bridge.protocols[0].pass_event_up(FlowOpened("UFC", peer))
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2]] * 3
    net.at_rest()


def test_a_member_that_said_nothing_here_is_forgotten_also_where_another_site_heard_of_it() -> None:
    """O was alone, relayed for itself, came back for a moment and left again."""
    net = started()
    origin, session = id_of(net, "O"), session_of(net.members["R"])
    net.crash("O")
    session.acked[origin] = 2
    net.settle(40)
    assert (
        origin not in session.acked and origin not in net.members["R"].relay.origins.still_known()
    )


def test_a_member_that_departs_with_an_out_of_band_message_beyond_a_gap_leaves_nothing() -> None:
    """No message of it was delivered in order, so it counts as silent."""
    net = started()
    origin, state = id_of(net, "O"), net.members["M"].relay.state
    state.note_delivered(origin, 2, 2, in_order=False)
    net.crash("O")
    net.settle(60)
    assert origin not in state._beyond


def test_a_member_that_departs_before_anything_of_it_was_delivered_leaves_nothing() -> None:
    """The messages of that member were held here, relayed, and cut when it departed (all 1277)."""
    net = started()
    origin, relay = id_of(net, "O"), net.members["R"].relay
    assert relay.origins.source(origin) is relay.origins.source(origin)
    net.crash("O")
    net.settle(60)
    assert relay.origins._sources == {}


def test_a_member_that_is_being_forgotten_when_its_site_stops_relaying_is_forgotten_altogether() -> (
    None
):
    net = started()
    net.send("O", 2)
    net.settle(2)
    origin, relay = id_of(net, "O"), net.members["R"].relay
    session = session_of(net.members["R"])
    assert origin in session.cursor
    net.crash("O")
    while origin not in relay.trimming.forgetting:
        net.settle(0.01)
    net.members["Y"].relay.promote()
    net.settle(20)
    assert not relay.is_relaying and relay.trimming.forgetting == {}
    assert origin not in session.cursor and origin not in session.acked


def test_a_member_that_was_just_lost_is_still_known_to_other_sites() -> None:
    """The lost member may live on beyond a partition, with another relay."""
    net = started()
    net.partition("NYC", "RSM", "O")
    net.deliver("view")
    relay = net.members["R"].relay
    assert id_of(net, "O") not in relay.origins.origins()
    assert id_of(net, "O") in relay.origins.still_known()


def test_forgotten_origins_do_not_come_back_with_the_knowledge_of_another_member() -> None:
    state = RelayState("NYC", "all", ())
    origin = bytes(16)
    state.forget([origin], 0.0)
    numbers = {origin: 5}
    known = Known(numbers, numbers, {}, [], {}, (0, "all"), {}, 0)
    state.learn(known, 1.0, digest=True)
    assert state.delivered == state.trimmed == {}


def forgotten_too_soon(**config: Any) -> Net:
    """SFO forgot O after the report of half a site (R), before NYC knew that SFO has its messages."""
    net = started(**config)
    net.hold("bridge", src="Y")
    net.send("O", 2)
    net.deliver()
    origin = id_of(net, "O")
    net.members["Y"].relay.out.multicast(lambda serial: Forget(serial, "NYC", [origin]))
    net.deliver("mc")
    assert not any(m.relay.state.has("NYC", origin) for m in net.alive("SFO"))
    return net


def test_a_member_that_was_forgotten_too_soon_goes_on_where_it_was() -> None:
    net = forgotten_too_soon()
    net.crash("R")
    net.release()
    net.settle()
    net.send("O")
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2, 3]] * 3
    assert all(not m.relay.state.left.get("NYC") for m in net.alive("SFO"))
    net.at_rest()


def test_a_joiner_learns_forgotten_origins_and_their_numbers() -> None:
    net = forgotten_too_soon()
    origin = id_of(net, "O")
    net.join("J", "SFO")
    net.settle(1)
    assert net.members["J"].relay.state.left["NYC"][origin][0] == 2


def test_the_forgotten_of_other_sites_are_remembered_for_a_while_and_a_thousand() -> None:
    state = RelayState("NYC", "all", (), max_age=10.0)
    many = [bytes([n % 256, n // 256]) * 8 for n in range(1002)]
    for number, origin in enumerate(many):
        state.advance("SFO", origin, number + 1)
    state.forget_remote("SFO", many, 100.0)
    assert list(state.left["SFO"]) == many[2:]
    assert not state.comes_back("SFO", many[0]) and state.comes_back("SFO", many[2])
    assert state.has("SFO", many[2]) == 3
    state.forget_remote("SFO", [], 399.9)
    assert len(state.left["SFO"]) == 999, "although max_age is only 10 s"
    state.forget_remote("SFO", [], 400.1)
    assert state.left == {}


def test_the_beginning_of_a_joiner_is_not_kept_by_a_member_that_has_joined_elsewhere() -> None:
    """A relay counted S as joined with a view that S never had, and died (all 2913)."""
    net = started()
    relay = net.members["S"].relay
    relay.on_record(relay.line[0], Snapshot((id_of(net, "O"), 99), relay.known_here()))
    assert relay.joining.early == {}


def test_messages_for_a_view_that_does_not_come_are_forgotten() -> None:
    """O asked S in a view that never came to S, and died (all 4865)."""
    net = started(gap_wait=4.0)
    member = net.members["S"]
    member.relay.on_record(net.members["O"].id, CollectAsk((id_of(net, "O"), 99)))
    net.settle(1)
    assert len(member.relay.joining.early) == 1
    net.settle(5)
    assert member.relay.joining.early == {}
