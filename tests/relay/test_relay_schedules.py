"""The named schedules T1 to T21 of the design (design/relay.md), each played step by step.

NYC: R relay, S standby, M other, N next, O origin. SFO: Y relay, Z next, T other.
"""

from __future__ import annotations

from typing import Any

import pytest
from relay_harness import Net, got, told
from relay_harness import four_and_three as started

from jgroups_py.protocols.relay.site.reports import Reports
from jgroups_py.protocols.relay.wire import (
    CONTROL_FLAGS,
    CONTROL_HEADER,
    ID,
    CollectAsk,
    Report,
    encode,
)
from jgroups_py.values.batch import Batch


def sent_gaps(net: Net) -> list[dict[str, Any]]:
    return [g for m in net.everybody for g in told(m, "gap")]


def test_t1_nobody_takes_a_late_packet_of_the_departed() -> None:
    net = started()
    net.hold("mc", src="O")
    net.send("O")
    net.crash("O", reach={"R": 0, "S": 0, "M": 1})
    assert ("mc", "M", "O") not in net.enabled(), "frozen"
    net.release()
    net.settle()
    assert got(net, "O", "R", "S", "M", "Y") == [[], [], [], []]
    net.at_rest()


def test_t2_a_message_of_one_survivor_reaches_all_through_two_view_changes() -> None:
    net = started(nyc="RSMNO")
    net.hold("bridge")
    net.hold("mc", src="O")
    net.send("O")
    net.step("mc", "M", "O")
    net.crash("O", reach={"R": 0, "S": 0, "N": 0, "M": 0})
    net.hold("view", dst="S")
    net.deliver("view")
    assert got(net, "O", "R", "N", "S") == [[1], [1], []]
    net.crash("M")
    net.step("view", "S")
    assert got(net, "O", "S") == [[1]]
    net.crash("R")
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1], [1], [1]]
    net.at_rest()


def late_standby() -> Net:
    """R has crashed, S is relay, N the new standby. N delivered 1 before its view; S has not delivered it yet."""
    net = started(nyc="RSNO", buffering_members=2)
    net.hold("mc", src="O")
    net.hold("bview")
    net.send("O")
    net.step("mc", "N", "O")
    net.crash("R")
    net.deliver("view")
    return net


@pytest.mark.seed("R12")
def test_t3_a_new_standby_collects_its_former_deliveries() -> None:
    net = late_standby()
    assert not net.members["N"].relay.buffer
    net.deliver("uc")
    assert net.members["N"].relay.holding.complete
    net.crash("O", "S", reach={"N": 0})
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1], [1], [1]]
    net.at_rest()


def test_t4_messages_that_nobody_delivered_are_neither_kept_nor_relayed() -> None:
    net = late_standby()
    net.hold("uc", dst="S", src="N")
    net.send("O", 2)
    net.deliver("uc")
    standby = net.members["N"].relay
    assert standby.buffer.ranges(bytes(net.members["O"].id)) == [(1, 3)]
    assert not standby.holding.complete
    net.crash("O", reach={"N": 0, "S": 0})
    net.release()
    net.settle()
    assert got(net, "O", "S", "N", "Y", "Z", "T") == [[1], [1], [1], [1], [1]]
    net.at_rest()


def test_t5_a_relay_crash_at_the_other_site_loses_nothing_on_the_way() -> None:
    net = started()
    net.hold("bridge", dst="Y")
    net.send("O")
    net.deliver("mc")
    assert told(net.members["R"], "relay")
    net.crash("Y")
    net.hold("bview", dst="R")
    net.deliver()
    net.send("O")
    net.deliver()
    net.release()
    net.settle()
    assert got(net, "O", "Z", "T") == [[1, 2], [1, 2]]
    net.at_rest()


def test_t6_a_relay_multicasts_its_messages_that_others_lack() -> None:
    net = started()
    net.partition("SFO", "YZ", "T")
    net.hold("bview", dst="T")
    net.hold("bridge", dst="R", src="Y")
    net.deliver()
    net.send("O")
    net.settle(2)
    assert got(net, "O", "Y", "Z", "T") == [[1], [1], []]
    net.crash("Y")
    net.deliver("view")
    net.merge("SFO")
    net.release()
    net.settle()
    assert got(net, "O", "Z", "T") == [[1], [1]]
    assert net.members["Z"].relay.is_relay
    assert net.members["Z"].relay.counters.duplicates_dropped
    net.at_rest()


def test_t7_an_acknowledgement_is_repeated_to_a_successor_without_traffic() -> None:
    net = started()
    net.send("O")
    net.deliver()
    net.hold("mc", src="R")
    net.settle(1)
    assert net.members["R"].relay.state.trimmed
    assert len(net.members["S"].relay.buffer) == 1
    net.crash("R", reach={"S": 0, "M": 0, "O": 0})
    net.release()
    net.settle()
    assert not net.members["S"].relay.buffer
    net.at_rest()


@pytest.mark.parametrize("between", ["nothing", "view", "merge"])
def test_t8_a_trim_that_overtakes_its_message(between: str) -> None:
    net = started()
    net.hold("mc", dst="S", src="O")
    net.send("O")
    net.settle(2)
    assert net.members["S"].relay.state.trimmed[bytes(net.members["O"].id)] == 1
    assert got(net, "O", "S") == [[]]
    if between == "view":
        net.join("J", "NYC")
    elif between == "merge":
        net.partition("NYC", "RSO", "M")
        net.deliver("view", "uc")
        net.merge("NYC")
    net.release()
    net.settle()
    assert got(net, "O", "S", "Y") == [[1], [1]]
    assert not net.members["S"].relay.buffer
    net.at_rest()


def test_t9_nothing_is_acknowledged_that_a_joiner_lacks() -> None:
    net = started(sfo="YT")
    net.send("O")
    net.settle(2)
    net.hold("mc", dst="J", src="Y")
    net.join("J", "SFO")
    net.deliver()
    net.send("O")
    net.settle(2)
    assert got(net, "O", "Y", "T", "J") == [[1, 2], [1, 2], []]
    assert len(net.members["R"].relay.buffer) == 1, "2 is not acknowledged"
    net.crash("Y", "T", reach={"J": 0})
    net.release()
    net.settle()
    assert got(net, "O", "J") == [[2]]
    net.at_rest()


def test_a_joiner_without_a_beginning_gets_all_unacknowledged_messages() -> None:
    net = started(sfo="YT")
    net.send("O", 2)
    net.settle(2)
    net.hold("uc", dst="J")
    net.join("J", "SFO")
    net.deliver()
    net.send("O", 2)
    net.settle(2)
    net.crash("Y", "T", reach={"J": 0})
    net.release()
    net.settle(2)
    assert net.members["J"].relay.joining.blind
    net.settle()
    assert not net.members["J"].relay.joining.blind
    assert got(net, "O", "J") == [[3, 4]]
    assert not sent_gaps(net)
    net.send("O")
    net.settle()
    net.at_rest()


def test_t10_reports_count_for_the_view_they_were_made_in() -> None:
    net = started()
    net.crash("Z")
    net.step("view", "T")
    net.send("O")
    net.hold("view", dst="Y")
    net.settle(1)
    assert net.members["R"].relay.buffer, "Y has not installed the view in which T reports"
    net.release()
    net.settle()
    assert got(net, "O", "Y", "T") == [[1], [1]]
    net.at_rest()


def test_t10_a_report_of_an_older_view_is_ignored() -> None:
    reports = Reports()
    member, origin = Net(NYC="A").members["A"].id, bytes(16)
    new, old = (b"c", 2), (b"c", 1)
    reports.take(member, Report(new, 3, True, {"NYC": {origin: 5}}))
    reports.take(member, Report(old, 9, False, {"NYC": {origin: 9}}))
    assert reports.digests(new, [member]) == [{"NYC": {origin: 5}}]
    assert reports.digests(old, [member]) is None
    assert reports.serial(new, [member]) == 3


@pytest.mark.seed("R11")
@pytest.mark.seed("R14")
def test_t11_messages_between_flush_and_view_are_relayed_by_the_successor() -> None:
    net = started()
    net.send("O", 4)
    net.deliver("mc")
    relay = net.members["R"]
    relay.stack.disconnect()
    assert not relay.wants_to_leave, "the tail is not acknowledged yet"
    net.hold("bview", dst="Y")
    net.settle(2)
    net.release()
    assert relay.wants_to_leave
    assert told(net.members["Y"], "going_down")
    net.send("O")
    net.deliver()
    assert got(net, "O", "R", "S", "Y") == [[1, 2, 3, 4, 5]] * 2 + [[1, 2, 3, 4]]
    net.leave("R")
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2, 3, 4, 5]] * 3
    assert net.members["S"].relay.counters.replayed == 1
    net.at_rest()


def test_t12_messages_of_a_former_relay_are_not_read_any_more() -> None:
    net = started()
    net.hold("bridge", dst="Y", src="R")
    net.send("O")
    net.deliver()
    net.crash("R")
    net.settle(5)
    assert got(net, "O", "Y", "Z", "T") == [[1]] * 3
    net.crash("O")
    net.settle(60)
    origin = bytes(net.members["O"].id)
    assert not any(origin in m.relay.state.delivered for m in net.alive("NYC"))
    assert not any(origin in m.relay.state.site_digest.get("NYC", {}) for m in net.alive("SFO"))
    for _ in range(sum(len(q) for (x, _), q in net.bridge_queues.items() if x not in net.bridge)):
        net.step("bridge", "Y", "R")
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1]] * 3
    net.at_rest()


@pytest.mark.parametrize("reach", [0, 99])
@pytest.mark.parametrize("collecting", [False, True])
def test_t13_a_late_trim_and_a_take_over_replay_nothing(reach: int, collecting: bool) -> None:
    net = started(nyc="RSMNO")
    net.send("O")
    net.deliver()
    net.hold("mc", dst="S", src="R")
    net.settle(2)
    net.crash("O")
    if collecting:
        net.hold("uc", dst="N")
    net.settle(40)
    origin = bytes(net.members["O"].id)
    assert origin in net.members["R"].relay.state.delivered, "the trim is not stable: S lacks it"
    net.crash("R", reach={"S": reach, "M": reach, "N": reach})
    net.deliver("view")
    net.release()
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1]] * 3
    assert not net.members["S"].relay.counters.replayed
    assert not sent_gaps(net)
    net.at_rest()


def test_a_relay_keeps_no_number_of_forgotten_origins() -> None:
    net = started()
    net.send("O")
    net.settle(2)
    origin = bytes(net.members["O"].id)
    relay = net.members["R"].relay
    assert origin in relay.trimming.trim_serials
    net.crash("O")
    net.settle(40)
    assert relay.state.is_forgotten(origin)
    assert origin not in relay.trimming.trim_serials


def test_t13_an_acknowledgement_after_forget_brings_nothing_back() -> None:
    net = started()
    net.send("O")
    net.settle(2)
    net.crash("O")
    net.hold("mc", src="R")
    net.settle(16)
    relay = net.members["R"].relay
    origin = bytes(net.members["O"].id)
    net.release()
    net.settle(1)
    assert origin in relay.state.delivered or relay.state.is_forgotten(origin)
    for session in relay.bridge.sessions.values():
        session.acked[origin] = 1
    net.settle()
    assert not any(origin in m.relay.state.trimmed for m in net.alive("NYC"))
    assert not sent_gaps(net)
    net.at_rest()


def test_t14_two_relays_of_one_site_and_their_merge() -> None:
    net = started()
    net.partition("NYC", "R", "SMO")
    net.send("R", 2)
    net.deliver()
    net.send("R")
    net.send("O", 2)
    net.settle(5)
    assert [m for m in net.alive("NYC") if m.relay.is_relay] == [net.members["R"], net.members["S"]]
    net.send("R")
    net.merge("NYC")
    net.send("O")
    net.settle()
    assert got(net, "R", "Y", "Z", "T") == [[1, 2, 3, 4]] * 3
    assert got(net, "O", "Y", "Z", "T") == [[1, 2, 3]] * 3
    assert not sent_gaps(net)
    net.at_rest()


def test_t15_messages_that_a_member_sent_alone_arrive() -> None:
    net = started()
    net.send("M", 6)
    net.settle(2)
    net.partition("NYC", "RSO", "M")
    net.send("M")
    net.deliver("mc", "view")
    net.settle(2)
    net.hold("bview", dst="M")
    assert got(net, "M", "R", "M") == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]]
    net.merge("NYC")
    net.release()
    net.settle()
    assert got(net, "M", "Y", "Z", "T") == [[1, 2, 3, 4, 5, 6, 7]] * 3
    net.at_rest()


@pytest.mark.parametrize("both", [True, False])
def test_t16_the_other_site_splits_and_merges(both: bool) -> None:
    net = started()
    net.send("O")
    net.settle(2)
    net.partition("SFO", "YZ", "T")
    if not both:
        net.hold("bview", dst="T")
    net.settle(2)
    net.send("O", 2)
    net.settle(5)
    assert got(net, "O", "Y", "T") == [[1, 2, 3], [1, 2, 3] if both else [1]]
    net.merge("SFO")
    net.release()
    net.settle()
    net.send("O")
    net.settle()
    assert got(net, "O", "Y", "Z", "T") == [[1, 2, 3, 4]] * 2 + [[1, 2, 3, 4] if both else [1, 4]]
    assert bool(net.members["T"].relay.counters.skipped) != both
    assert not net.members["Y"].relay.counters.skipped
    net.at_rest(gaps=not both)


@pytest.mark.seed("R16")
@pytest.mark.parametrize("dead", [True, False])
def test_t17_a_gap_is_raised_although_no_higher_number_follows(dead: bool) -> None:
    net = started(buffering_members=1, max_messages=2)
    net.hold("bridge", dst="Y")
    net.send("O", 3)
    net.deliver("mc")
    assert net.members["R"].relay.counters.overflowed == 1
    net.crash(*("RO" if dead else "R"), reach={"S": 9, "M": 9, "O": 0})
    net.release()
    net.settle(8)
    assert not sent_gaps(net), "it waits: the number may be beyond a partition"
    net.settle()
    gap = told(net.members["S"], "gap")[-1]
    lost = (1, 3) if dead else (1, 1)
    assert (gap["origin"], gap["seqno"], gap["count"]) == ("O", lost[0], lost[1] - lost[0] + 1)
    assert got(net, "O", "Y", "Z", "T") == [[] if dead else [2, 3]] * 3
    for name in "SYZT":
        ((_, ranges),) = net.members[name].relay.status().out_of_sync.items()
        assert [(r.first, r.last) for r in ranges] == [lost]
    net.at_rest(lost=True, gaps=True)


def test_t18_both_coordinators_change_twice_at_every_step() -> None:
    for after in range(0, 60, 2):
        net = started(nyc="RSMNO", sfo="YZT")
        net.send("O", 2)
        net.send("M")
        net.deliver("mc")
        net.send("O")
        net.crash("R", "Y")
        some_steps(net, after)
        net.crash("S", "Z")
        net.send("O")
        net.settle()
        assert got(net, "O", "T") == [[1, 2, 3, 4]], after
        assert got(net, "M", "T") == [[1]], after
        net.at_rest()


def test_t19_the_same_holds_with_the_wan_cut_and_back() -> None:
    for after in range(0, 60, 3):
        net = started(nyc="RSMNO", sfo="YZT")
        net.send("O", 2)
        net.deliver("mc")
        net.cut_wan("SFO")
        net.send("O")
        net.crash("R", "Y")
        some_steps(net, after)
        net.heal_wan("SFO")
        some_steps(net, after // 2)
        net.cut_wan("NYC")
        net.crash("S", "Z")
        net.send("O")
        some_steps(net, after)
        net.heal_wan("NYC")
        net.settle()
        assert got(net, "O", "T") == [[1, 2, 3, 4]], after
        net.at_rest()


def some_steps(net: Net, count: int) -> None:
    for index in range(count):
        steps = net.enabled()
        if not steps:
            due = net.next_deadline()
            if due is None or due > net.now + 5:
                return
            net.step("time", due)
        else:
            net.step(*steps[index % len(steps)])


@pytest.mark.parametrize(("k", "dead"), [(2, False), (2, True), (3, False), (3, True)])
def test_t20_rolling_crashes_inside_the_take_over(k: int, dead: bool) -> None:
    net = started(nyc="RSMNO", buffering_members=k)
    net.hold("bridge", dst="Y")
    net.send("O", 3)
    net.deliver("mc")
    net.crash(*("RO" if dead else "R"), reach={name: 9 for name in "SMN"})
    net.hold("uc")
    net.deliver("view")
    assert not net.members["M"].relay.holding.complete or k == 3
    net.crash("S")
    net.release()
    net.settle()
    lost = k == 2 and dead
    assert got(net, "O", "Y", "T") == ([[], []] if lost else [[1, 2, 3]] * 2)
    assert bool(sent_gaps(net)) == lost
    net.at_rest(lost=lost, gaps=lost)


def test_t21_questions_of_an_older_view_are_not_answered() -> None:
    net = started()
    old = net.members["M"].relay.roles.key
    net.crash("O")
    net.deliver("view", "uc")
    ask = Batch(
        net.members["M"].id,
        (encode(CollectAsk(old)),),
        {ID: CONTROL_HEADER},
        net.members["R"].id,
        CONTROL_FLAGS,
    )
    net.unicasts[net.members["R"], net.members["M"]] = [ask]
    net.step("uc", "M", "R")
    assert not net.unicasts.get((net.members["M"], net.members["R"]))
    net.settle()
    net.at_rest()


def test_a_member_that_missed_forgetting_in_a_partition_forgets_after_the_merge() -> None:
    """A was stopped meanwhile. It is no holder, so it does not collect. E repeats the message."""
    net = Net(NYC="EDCBA", SFO="TS")
    net.settle(3)
    net.send("B", 3)
    net.settle(2)
    origin, late = bytes(net.members["B"].id), net.members["A"].relay.state
    net.crash("B")
    net.settle(30)
    net.partition("NYC", "EDC", "A")
    net.settle(2)
    late.is_back(origin)
    late.delivered[origin] = late.trimmed[origin] = 3
    net.merge("NYC")
    net.settle(60)
    assert origin not in late.delivered and origin not in late.trimmed
    net.at_rest()


def test_origins_that_a_merge_shows_to_be_forgotten_go_from_sessions_and_other_sites_too() -> None:
    """Explored: relay 561. E was beyond a partition while D forgot C; other sites still know C because of E."""
    net = Net(NYC="EDC", SFO="TS")
    net.settle(3)
    net.send("C", 3)
    net.settle(2)
    net.crash("C")
    net.settle(30)
    net.partition("NYC", "E", "D")
    net.settle(2)
    origin, home = bytes(net.members["C"].id), net.members["E"].relay
    assert home.state.is_forgotten(origin)
    home.state.is_back(origin)
    home.state.delivered[origin] = home.state.trimmed[origin] = 3
    for name in "TS":
        net.members[name].relay.state.site_digest["NYC"][origin] = 3
        net.members[name].relay.state.left = {}
    net.merge("NYC")
    net.settle(30)
    assert not any(origin in s.acked for s in home.bridge.sessions.values())
    for name in "TS":
        assert origin not in net.members[name].relay.state.site_digest["NYC"]


def test_a_second_look_begins_again_when_a_member_goes() -> None:
    """The relay is complete but still asks (for messages that no buffer has); D does not answer."""
    net = Net(NYC="EDC", SFO="TS")
    net.settle(3)
    holding = net.members["E"].relay.holding
    assert holding.complete
    net.hold("uc", src="D")
    holding.new_round()
    net.members["E"].relay.holding.second_look = True
    net.crash("D")
    net.release()
    net.settle(30)
    assert holding.round is None and holding.complete
    net.at_rest()
