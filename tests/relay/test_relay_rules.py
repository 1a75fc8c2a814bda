"""Rules of RELAY that matter rarely, each in a case where it matters: faults planted in them once went unnoticed.

NYC: R relay, S standby, M other, N next, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from relay_harness import Net, got, id_of, session_of, unsole
from relay_harness import four_and_three as started
from relay_member import Member

from jgroups_py.protocols.relay.wire import (
    ID,
    BridgeGap,
    Lack,
    MessageKind,
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
def test_a_holder_fetches_copies_of_a_states_messages(name: str, other: str, marked: bool) -> None:
    """STATE_TRANSFER does not hand up messages that the state contains (all 20045)."""
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
def test_a_holder_keeps_a_states_messages(when: str) -> None:
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
    """M collects; the answers were held back like all other messages, and are older than the state."""
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
    """S delivers 1 after N's question and before N's view; N had it before its own view."""
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
    """R has crashed, and S collects. O's answer has not come yet when M crashes. Return the number of messages from O
    that S still has to get."""
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
    """R's trim did not reach M before the partition, and no longer comes."""
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


def test_a_relay_begins_with_the_numbers_of_the_slowest_member() -> None:
    """Z has message 1 and T does not. T gets it at once, not only when Z finds out that T is behind."""
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


def test_messages_wait_for_the_answer_of_the_other_relay() -> None:
    net = Net(NYC="RSMO", SFO="YZT")
    net.hold("bridge", dst="R")
    net.settle(3)
    net.send("O")
    net.deliver()
    net.members["R"].relay.bridge.pump_all()  # as with a view, or when flow control opens
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
    net.crash("Y", reach={"Z": 99, "T": 99, "J": 99})  # its messages to J are lost with it
    net.release()
    net.settle()
    assert got(net, "O", "J") == [[3, 4]]
    net.at_rest()


# --- members that are behind


def set_back(net: Net, name: str, to: int) -> Member:
    """A member of SFO forgets messages of O beyond ``to``, without noticing."""
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
    """T lacked a message that a GAP skipped a moment later; all others have it, and none keeps it any more (all
    8801)."""
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
    """T's half does not know of the promotion, and T is no holder, so it asks no member (all 1033)."""
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


def test_copies_of_a_member_that_missed_the_end_of_relaying_are_not_taken() -> None:
    """O's half still relays, as far as it knows; the other half knows of the promotion (all 1830)."""
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
    """A number is not given up while members that were just lost may come back, nor while the site has two relays."""
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
    """Y asks for a repetition, and reports 0 for the origin, because it does not list its numbers."""
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


def test_a_former_relay_forgets_its_multicasts() -> None:
    """Otherwise it would name forgotten members of other sites for as long as it lives."""
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
