"""Rules of RELAY that matter rarely, each where it does: faults planted in them went unnoticed once.

NYC: R relay, S standby, M other, N next, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from relay_harness import Member, Net, got
from relay_harness import four_and_three as started

from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import (
    ID,
    BridgeGap,
    CollectAsk,
    Forget,
    Known,
    Lack,
    MessageKind,
    Snapshot,
    StillKnown,
    decode_bridged,
)
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Covered,
    FlowBlocked,
    FlowOpened,
    GetState,
    StateReceived,
    StateRequested,
)
from jgroups_py.wire.headers import FragHeader


def id_of(net: Net, name: str) -> bytes:
    return bytes(net.members[name].id)


def session_of(member: Member) -> Any:
    (session,) = member.relay.bridge.sessions.values()
    return session


def unsole(member: Member) -> Any:
    """Its only session; from now on a second relay is on the bridge for each site."""
    session = session_of(member)
    member.relay.bridge.is_sole = lambda site: False  # type: ignore[method-assign]
    return session


# --- becoming a holder


def test_a_member_that_is_no_longer_in_line_keeps_its_copies() -> None:
    """A merge puts M behind S again, before R has collected."""
    net = started(buffering_members=2)
    net.partition("NYC", "R", "SMO")
    net.deliver()
    net.hold("bridge")
    net.send("O")
    net.deliver("mc", "view", "uc")
    assert net.members["M"].relay.is_holder
    net.merge("NYC")
    net.hold("uc")
    net.deliver("view")
    assert not net.members["M"].relay.is_holder
    net.crash("S", "O")
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1]] * 3


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(("name", "other"), [("R", "S"), ("S", "R")])
def test_a_holder_fetches_the_copies_of_what_a_state_contained(
    name: str, other: str, marked: bool
) -> None:
    """STATE_TRANSFER does not hand up what is in the state (all 20045)."""
    net = started(buffering_members=2)
    holder, provider, origin = (net.members[n] for n in (name, "M", "O"))
    net.hold("bridge")
    net.hold("mc", dst=name, src="O")
    net.send("O", 2)
    net.deliver("mc", "uc")
    holder.machine.enter(net.now)
    holder.stack.event_down(GetState(None, 1.0))
    holder.machine.leave()
    if marked:
        provider.machine.enter(net.now)
        provider.bottom.pass_event_up(StateRequested(holder.id, 1))
        provider.machine.leave()
        net.deliver("uc")
    holder.positions[origin] = len(origin.log)
    holder.machine.enter(net.now)
    holder.bottom.pass_event_up(StateReceived(provider.id, b"everything up to O#2"))
    holder.machine.leave()
    assert not holder.relay.holding.complete
    net.deliver("uc")
    assert holder.relay.holding.complete
    net.crash("O", other)
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2]] * 3


@pytest.mark.parametrize("when", ["delivered", "stable"])
def test_a_holder_keeps_what_a_state_contained(when: str) -> None:
    """R dies before the standby could collect from it; M is no holder (all 7806)."""
    net = started(buffering_members=2, relay_when=when)
    holder, origin = net.members["S"], net.members["O"]
    net.hold("bridge")
    net.hold("mc", dst="S", src="O")
    net.send("O", 2)
    net.deliver("mc", "uc")
    holder.machine.enter(net.now)
    for batch in origin.log:
        header = batch.header(ID, FragHeader)
        if header is not None and header.index == MessageKind.DATA:
            holder.bottom.pass_event_up(Covered(replace(batch, src=origin.id)))
    holder.machine.leave()
    holder.positions[origin] = len(origin.log)
    net.crash("O", "R")
    net.release()
    net.settle()
    assert got(net, "O", "S") == [[]] and got(net, "O", "Y", "Z", "T") == [[1, 2]] * 3


@pytest.mark.parametrize(
    "header", [FragHeader(0, MessageKind.DATA, 0), FragHeader(1, MessageKind.RELAYED, 0), None]
)
def test_other_contents_of_a_state_are_not_kept(header: FragHeader | None) -> None:
    net = started(buffering_members=2)
    holder = net.members["S"]
    batch = Batch(None, [b"x"], {} if header is None else {ID: header}, net.members["O"].id)
    before = holder.relay.buffer.messages
    holder.machine.enter(net.now)
    holder.bottom.pass_event_up(Covered(batch))
    holder.machine.leave()
    assert holder.relay.buffer.messages == before


def test_a_round_that_is_under_way_when_a_state_comes_begins_anew() -> None:
    """M collects; the answers were held back like everything else, and are older than the state."""
    net = started(buffering_members=2)
    holder, provider, origin = (net.members[n] for n in ("M", "R", "O"))
    net.hold("bridge")
    net.hold("mc", dst="M", src="O")
    net.crash("S")
    net.deliver("view")
    net.hold("uc", dst="M")
    net.deliver()
    assert holder.relay.holding.round is not None
    net.send("O", 2)
    net.deliver()
    provider.machine.enter(net.now)
    provider.bottom.pass_event_up(StateRequested(holder.id, 1))
    provider.machine.leave()
    holder.positions[origin] = len(origin.log)
    holder.machine.enter(net.now)
    holder.stack.event_down(GetState(None, 1.0))
    holder.bottom.pass_event_up(StateReceived(provider.id, b"everything up to O#2"))
    for sender in (provider, origin):
        for batch in net.unicasts.pop((sender, holder)):
            holder.bottom.pass_up(batch)
    holder.machine.leave()
    net.holds = [("bridge", {"dst": "", "src": ""})]
    net.deliver("uc")
    assert holder.relay.holding.complete
    net.crash("O", "R")
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2]] * 3


def test_a_member_that_is_asked_answers_only_after_it_has_that_view() -> None:
    """S delivers 1 after N has asked it and before it has N's view; N had it before its own."""
    net = started(nyc="RSNO", buffering_members=2)
    net.hold("mc", src="O")
    net.hold("bview")
    net.send("O")
    net.step("mc", "N", "O")
    net.hold("view", dst="S")
    net.crash("R")
    net.deliver("view")
    net.deliver("uc")
    net.step("mc", "S", "O")
    net.step("view", "S")
    net.deliver("uc")
    assert net.members["N"].relay.holding.complete
    net.crash("O", "S", reach={"N": 0})
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1]] * 3


def collecting() -> tuple[Net, int]:
    """R has crashed, S collects and so much of O, its answer too, has not come; then M crashes."""
    net = started(nyc="RSMNO")
    net.hold("uc", dst="S", src="O")
    net.crash("R")
    net.deliver("view", "uc")
    assert net.members["S"].relay.holding.round is not None
    late = len(net.unicasts[net.members["O"], net.members["S"]])
    net.crash("M")
    net.deliver("view")
    return net, late


def test_a_further_view_begins_an_open_round_anew() -> None:
    net, _ = collecting()
    net.release()
    net.settle()
    assert net.members["S"].relay.holding.complete
    net.at_rest()


def test_an_answer_to_an_older_round_does_not_count() -> None:
    net, late = collecting()
    assert late
    for _ in range(late):
        net.step("uc", "S", "O")
    relay = net.members["S"].relay
    assert relay.holding.round is not None
    assert net.members["O"].id in relay.holding.round.silent


def test_a_trim_is_repeated_after_a_merge() -> None:
    """R's trim did not reach M before the partition, and does not come any more."""
    net = started()
    net.hold("mc", dst="M", src="R")
    net.send("M")
    net.settle(2)
    assert net.members["R"].relay.state.trimmed[id_of(net, "M")] == 1
    assert len(net.members["M"].relay.buffer) == 1
    net.partition("NYC", "RSO", "M")
    net.deliver("view")
    net.merge("NYC")
    net.release()
    net.settle()
    net.at_rest()


def test_a_relay_begins_with_what_the_slowest_member_has() -> None:
    """Z has 1 and T has not. T gets it at once, not only when Z finds out that it stays behind."""
    net = started()
    net.partition("SFO", "YZ", "T")
    net.hold("bview", dst="T")
    net.hold("bridge", dst="R", src="Y")
    net.deliver()
    net.send("O")
    net.settle(2)
    net.crash("Y")
    net.deliver("view")
    net.merge("SFO")
    net.release()
    net.settle(1.5)
    assert got(net, "O", "Z", "T") == [[1], [1]]


def test_waiting_messages_of_a_departed_relay_are_dropped() -> None:
    net = started()
    relay = net.members["Y"]
    relay.bottom.pass_event_up(FlowBlocked("MFC", None, ()))
    net.send("O")
    net.settle(1)
    assert [len(s.inbox) for s in relay.relay.bridge.sessions.values()] == [1]
    before = len(relay.log)
    net.crash("R")
    net.deliver("bview")
    assert len(relay.log) == before
    relay.machine.enter()
    relay.bottom.pass_event_up(FlowOpened("MFC", None))
    relay.machine.leave()
    net.settle()
    assert got(net, "O", "Y", "T") == [[1], [1]]
    net.at_rest()


# --- sessions


def test_nothing_is_sent_before_the_other_relay_has_answered() -> None:
    net = Net(NYC="RSMO", SFO="YZT")
    net.hold("bridge", dst="R")
    net.settle(3)
    net.send("O")
    net.deliver()
    net.members["R"].relay.bridge.pump_all()  # as with a view, or when flow control lets go
    session = session_of(net.members["R"])
    assert (
        not session.ready and session.cursor == {} and net.members["R"].relay.counters.relayed == 0
    )
    net.release()
    net.settle()
    assert got(net, "O", "Y", "T") == [[1], [1]]
    net.at_rest()


def test_a_relay_multicasts_nothing_beyond_a_gap() -> None:
    net = started()
    net.hold("bridge", dst="Y")
    for _ in range(2):
        net.send("O")
        net.deliver("mc")
    (queue,) = [q for p, q in net.bridge_queues.items() if net.bridge_of[p[1]].name == "Y" and q]
    queue.reverse()
    relay = net.members["Y"]
    before = len(relay.log)
    net.step("bridge", "Y", "R")
    assert (len(relay.log), relay.relay.counters.beyond) == (before, 1)
    net.release()
    net.settle()
    assert got(net, "O", "Y", "T") == [[1, 2], [1, 2]]
    net.at_rest()


def test_acknowledged_messages_are_so_again_when_the_other_side_begins_anew() -> None:
    """LON was away, so nothing was trimmed; its return is a merge on the bridge."""
    net = Net(NYC="RSO", SFO="YT", LON="XW", config={"sites": ("NYC", "SFO", "LON")})
    net.settle(3)
    net.cut_wan("LON")
    net.send("O")
    net.settle(2)
    assert net.members["R"].relay.buffer
    net.heal_wan("LON")
    net.settle()
    net.at_rest()


# --- joiners


def test_a_joiner_is_told_by_a_successor_where_its_view_began() -> None:
    net = started()
    net.send("O", 2)
    net.settle(2)
    net.hold("uc", dst="J")
    net.join("J", "SFO")
    net.deliver()
    net.send("O", 2)
    net.deliver()
    net.crash("Y", reach={"Z": 99, "T": 99, "J": 99})  # what it had to tell J is lost with it
    net.release()
    net.settle()
    assert got(net, "O", "J") == [[3, 4]]
    net.at_rest()


# --- who is behind


def set_back(net: Net, name: str, to: int) -> Member:
    """A member of SFO forgets what it had of O beyond ``to``, without noticing."""
    member = net.members[name]
    member.relay.state.advance("NYC", id_of(net, "O"), to)
    del member.got["O"][to:]
    return member


def test_a_member_that_says_that_it_lacks_a_message_gets_it_at_once() -> None:
    net = started()
    net.send("O", 3)
    net.deliver()
    set_back(net, "T", 1)
    net.send("O")
    net.settle(2)
    assert got(net, "O", "T") == [[1, 2, 3, 4]]


def test_a_member_that_is_behind_and_does_not_notice_gets_it_after_a_while() -> None:
    net = started()
    net.send("O", 3)
    net.hold("uc", dst="Y", src="T")
    net.deliver()
    member = set_back(net, "T", 1)
    net.release()
    member.relay.reporting.view_changed()
    member.relay.report_soon()
    net.settle(10)
    assert got(net, "O", "T") == [[1, 2, 3]]


def test_messages_that_came_by_other_ways_hold_no_round_up() -> None:
    """T lacked what a GAP passed over a moment later; all have it, and nobody keeps it any more (all 8801)."""
    net = started()
    net.send("O", 3)
    net.settle(30)
    origin, relay = id_of(net, "O"), net.members["Y"].relay
    relay.duty.on_lack(net.members["T"].id, Lack("NYC", {origin: 1}))
    net.deliver()
    session = session_of(net.members["R"])
    assert (session.cursor[origin], session.acked[origin]) == (1, 1) and origin in session.stalled
    for name in "YZT":
        net.members[name].relay.reporting.view_changed()
        net.members[name].relay.report_soon()
    net.settle(2)
    assert (session.cursor[origin], session.acked[origin]) == (3, 3) and not session.stalled
    net.send("O")
    net.settle(2)
    assert got(net, "O", "Y", "Z", "T") == [[1, 2, 3, 4]] * 3


def test_after_a_merge_everybody_lives_in_the_same_epoch() -> None:
    """T's half has not heard of the promotion, and T is no holder: it asks nobody (all 1033)."""
    net = started(primary="NYC", buffering_members=1)
    net.partition("SFO", "YZ", "T")
    net.members["Y"].relay.promote()
    net.settle(2)
    behind = net.members["T"].relay
    behind.state.epoch = behind.direction.announced = (0, "NYC")
    net.merge("SFO")
    net.settle(10)
    assert {m.relay.state.epoch for m in net.alive()} == {(1, "SFO")}
    assert not behind.is_holder
    net.send("T", 2)
    net.settle(10)
    assert got(net, "T", "R", "O") == [[1, 2], [1, 2]]


def test_copies_of_who_has_not_heard_that_its_site_relays_no_more_are_nobodys() -> None:
    """O's half relays still, as far as it knows; the other one has heard of the promotion (all 1830)."""
    net = started(primary="NYC", buffering_members=2)
    net.partition("NYC", "RSM", "O")
    net.members["Y"].relay.promote()
    net.settle(2)
    behind = net.members["O"].relay
    behind.state.epoch = behind.direction.announced = (0, "NYC")
    net.send("O", 3)
    assert behind.buffer.messages == 3
    net.merge("NYC")
    net.settle(10)
    assert {m.relay.state.epoch for m in net.alive()} == {(1, "SFO")}
    assert [net.members[name].relay.buffer.messages for name in "RSMO"] == [0, 0, 0, 0]


# --- gaps


@pytest.mark.parametrize(
    ("shrunk", "sole", "told"), [(16.0, True, True), (14.0, True, False), (16.0, False, False)]
)
def test_a_number_is_given_up_when_nobody_can_have_it(
    shrunk: float, sole: bool, told: bool
) -> None:
    """Not while members lost a moment ago may come back, nor while the site has two relays."""
    net = started()
    net.settle(30)
    relay = net.members["R"].relay
    session = session_of(net.members["R"])
    gaps: list[bytes] = []
    relay.bridge._send_gap = lambda session, origin: gaps.append(origin)  # type: ignore
    relay.bridge.is_sole = lambda site: sole  # type: ignore[method-assign]
    late, early = id_of(net, "M"), id_of(net, "O")
    session.stalled = {early: relay.now - 20.0, late: relay.now - 14.0}
    relay.holding.looked_at = relay.now
    relay.departures.shrunk_at = relay.now - shrunk
    assert relay.duty.give_up_missing()
    assert gaps == ([early] if told else []), "each number waits for itself"


def test_a_gap_is_put_off_while_a_former_relay_may_have_the_number() -> None:
    net = started()
    member = net.members["Y"]
    session = unsole(member)
    before = len(member.log)
    member.relay.bridge._on_gap(session, BridgeGap({id_of(net, "O"): 3}, False))
    assert (len(member.log), member.relay.counters.gaps_put_off) == (before, 1)
    assert list(session.owes_have) == [id_of(net, "O")]


def test_a_gap_that_was_put_off_comes_again_also_where_nothing_of_the_origin_is() -> None:
    """Y asks back, and says 0 for the origin: what it has, it does not list."""
    net = started()
    member = net.members["Y"]
    session = unsole(member)
    origin = id_of(net, "O")
    member.relay.bridge._on_gap(session, BridgeGap({origin: 3}, True))
    del member.relay.bridge.is_sole
    link: Any = member.relay.bridge.link
    said: list[Any] = []
    link.stack.send = lambda batch: said.extend(map(decode_bridged, batch.payloads))
    member.relay.bridge._ask_back_owed()
    assert [record.numbers for record in said] == [{origin: 0}] and not session.owes_have


def test_only_acknowledgements_of_all_relays_of_a_site_count() -> None:
    net = started()
    net.partition("SFO", "YZ", "T")
    net.settle(2)
    bridge, origin = net.members["R"].relay.bridge, id_of(net, "O")
    first, second = bridge.sessions.values()
    first.acked, second.acked = {origin: 5}, {origin: 3}
    assert bridge.sessions.acknowledged(["SFO"], origin) == 3


def test_a_member_that_is_no_longer_relay_remembers_nothing_of_what_it_multicast() -> None:
    """It would name members of other sites that are forgotten, for as long as it lives."""
    net = started()
    net.partition("SFO", "Y", "ZT")
    net.settle(20)
    net.send("O", 2)
    net.settle(20)
    bridge = net.members["Z"].relay.bridge
    assert bridge.forwarded.of("NYC")
    net.merge("SFO")
    net.settle(10)
    assert not net.members["Z"].relay.is_relay and not bridge.forwarded.sites
    net.at_rest()


# --- forgetting


def test_nobody_is_forgotten_on_the_word_of_one_of_two_relays() -> None:
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
    """NYC forgets O while another relay of it may be on the bridge."""
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
    """O was away for long; the others, in whose view it is not, forget it, and it hears that."""
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
    """O was alone, relayed for itself, came back for a moment and was gone."""
    net = started()
    origin, session = id_of(net, "O"), session_of(net.members["R"])
    net.crash("O")
    session.acked[origin] = 2
    net.settle(40)
    assert (
        origin not in session.acked and origin not in net.members["R"].relay.origins.still_known()
    )


def test_a_member_that_departs_with_an_out_of_band_message_beyond_a_gap_leaves_nothing() -> None:
    """Nothing was delivered of it in order: it counts as silent."""
    net = started()
    origin, state = id_of(net, "O"), net.members["M"].relay.state
    state.note_delivered(origin, 2, 2, in_order=False)
    net.crash("O")
    net.settle(60)
    assert origin not in state._beyond


def test_a_member_that_departs_before_anything_of_it_was_delivered_leaves_nothing() -> None:
    """Its messages were held here, relayed, and cut when it was gone (all 1277)."""
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
    """It may live on beyond a partition, with another relay."""
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
    """SFO forgot O on the word of half a site (R), before NYC knew that SFO has its messages."""
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


def test_a_joiner_learns_who_was_forgotten_and_where_they_were() -> None:
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
