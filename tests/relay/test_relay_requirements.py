"""Requirements of seed 001 for RELAY, on a network of RELAY machines. Their numbers are those of
design/requirements.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from relay_faulty import LowerNumbers
from relay_harness import Net, bridge_stacks, got, told
from relay_harness import five_and_five as started
from relay_member import BridgeBottom, Member

from jgroups_py.errors import ConfigError, LocalProtocolError
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    FlowBlocked,
    FlowOpened,
)
from jgroups_py.values.message import Flag, Transient

TRACES = Path(__file__).parent.parent / "traces"


@pytest.mark.seed("R1")
def test_r1_delivery_at_home_does_not_wait_for_the_wan() -> None:
    net = started()
    net.hold("bridge")
    now = net.now
    net.send("C", 5)
    net.deliver()
    assert got(net, "C", *"EDCBA") == [[1, 2, 3, 4, 5]] * 5
    assert net.now == now, "no time has passed"
    assert not any(isinstance(e, FlowBlocked) for e in net.members["C"].events)
    net.release()
    net.settle()
    net.at_rest()


@pytest.mark.seed("R2")
def test_r2_the_other_sites_missing_messages_are_known_by_sender() -> None:
    net = started()
    net.send("C", 4)
    net.settle(2)
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 3)
    net.send("A", 2)
    net.settle(1)
    relay = net.members["E"].relay
    unacknowledged = {net.by_raw[o].name: relay.buffer.ranges(o) for o in relay.buffer.origins()}
    assert unacknowledged == {"C": [(5, 7)], "A": [(1, 2)]}
    net.heal_wan("SFO")
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3, 4, 5, 6, 7]]
    net.at_rest()


@pytest.mark.seed("R3")
def test_r3_only_the_primary_relays_until_another_is_promoted() -> None:
    net = started()
    net.send("U", 2)
    net.send("C", 2)
    net.settle(5)
    assert got(net, "U", *"EDCBA") == [[]] * 5
    assert got(net, "C", *"TSUVW") == [[1, 2]] * 5
    net.members["W"].relay.promote()
    net.settle(5)
    net.send("U", 2)
    net.send("C", 2)
    net.settle(5)
    assert got(net, "U", *"EDCBA") == [[3, 4]] * 5
    assert got(net, "C", *"TSUVW") == [[1, 2]] * 5
    assert not any(m.relay.out_of_sync.ranges() for m in net.everybody)
    assert [net.members[n].relay.status().epoch for n in "EAWT"] == [(1, "SFO")] * 4
    texts = {n: net.members[n].relay.texts() for n in net.members}
    relays = [t for t in texts.values() if t["role"] == "relay"]
    assert len(relays) == 2 and {t["buffered"] for t in relays} == {"0"}
    assert sorted(t["sites"] for t in relays) == ["NYC:up", "SFO:up"], (
        "people who look inside see it"
    )
    assert not any(len(m.relay.buffer) for m in net.everybody)


@pytest.mark.seed("R3")
def test_r3_all_sites_relay_if_the_settings_say_so() -> None:
    net = started(primary="all")
    net.send("U", 2)
    net.send("C", 2)
    net.settle(5)
    assert got(net, "U", *"EDCBA") == [[1, 2]] * 5
    assert got(net, "C", *"TSUVW") == [[1, 2]] * 5
    with pytest.raises(LocalProtocolError):
        net.members["T"].relay.promote()
    net.at_rest()


@pytest.mark.seed("R3")
def test_the_primary_defaults_to_the_first_site() -> None:
    def config(**more: Any) -> RELAY.Config:
        return RELAY.Config(site="SFO", bridge="b", **more)

    assert config(sites=("NYC", "SFO")).first_primary == "NYC"
    assert config().first_primary == "all"
    assert config(primary="SFO", sites=("NYC", "SFO")).first_primary == "SFO"


@pytest.mark.seed("R4")
def test_r4_only_data_and_control_records_cross_the_bridge_never_an_answer() -> None:
    net = started()
    net.send("C")
    net.settle(2)
    source = net.members["W"].batches[-1].src
    reply = Batch(source, [b"thanks"], {})
    queued = sum(map(len, net.bridge_queues.values()))
    net.members["W"].stack.send(reply)
    net.deliver("mc", "uc")
    assert sum(map(len, net.bridge_queues.values())) == queued


@pytest.mark.seed("R5")
@pytest.mark.seed("R6")
def test_r6_a_member_is_on_the_bridge_only_while_it_is_coordinator() -> None:
    net = started()

    def on_bridge() -> str:
        return "".join(m.name for m in net.alive() if bridge_stacks(m))

    assert on_bridge() == "ET"
    assert net.members["E"].relay.status().role == "relay"
    assert net.members["E"].relay.status().bridge == ("NYC", "SFO")
    net.crash("E")
    net.settle(5)
    assert on_bridge() == "DT"
    net.members["D"].stack.disconnect()
    net.settle(5)
    net.leave("D")
    net.settle(5)
    assert on_bridge() == "CT"
    net.partition("NYC", "BA", "C")
    net.settle(5)
    assert on_bridge() == "CBT"
    net.merge("NYC")
    net.settle(5)
    assert on_bridge() in ("CT", "BT")


@pytest.mark.seed("R7")
def test_r7_multicasts_are_relayed_and_unicasts_are_not() -> None:
    net = started()
    member, other = net.members["C"], net.members["A"]
    net.oracle.home_in_order = False
    member.stack.send(Batch(other.id, [b"C#9"], {}))
    member.stack.send(Batch(None, [b"C#10"], {}, flags=Flag.NO_RELAY))
    net.send("C")
    net.settle(5)
    assert got(net, "C", "W") == [[1]]
    assert 9 in other.got["C"] and 10 in other.got["C"]


@pytest.mark.seed("R8")
def test_r8_the_other_site_sees_the_original_sender() -> None:
    net = started()
    net.send("C", 2)
    net.settle(2)
    for name in "TSUVW":
        (batch,) = net.members[name].batches
        assert batch.dest is None
        assert isinstance(batch.src, SiteUUID)
        assert bytes(batch.src) == bytes(net.members["C"].id)
        assert str(batch.src) == "C:NYC"


@pytest.mark.seed("R9")
def test_r9_a_reply_to_a_remote_sender_is_dropped_and_counted() -> None:
    net = started()
    net.send("C")
    net.settle(2)
    member = net.members["T"]
    member.stack.send(Batch(member.batches[-1].src, [b"thanks"], {}))
    assert member.relay.counters.unicasts_dropped == 1
    home = SiteUUID(bytes(net.members["S"].id), "SFO", "S")
    member.stack.send(Batch(home, [b"T#1"], {}))
    net.settle(2)
    assert net.members["S"].got["T"] == [1], "an address of the own site is local"


@pytest.mark.seed("R10")
def test_r10_relayed_messages_are_not_relayed_again() -> None:
    net = Net(NYC="ED", SFO="TS", LON="XY", config={"primary": "all"})
    net.settle(3)
    net.send("E", 3)
    net.settle(5)
    assert got(net, "E", *"EDTSXY") == [[1, 2, 3]] * 6
    assert net.members["T"].relay.counters.relayed == 0
    assert net.members["X"].relay.counters.relayed == 0
    assert sum(m.relay.counters.returned for m in net.everybody) == 0


@pytest.mark.seed("R13")
def test_r13_numbers_above_the_answer_are_replayed_and_the_rest_is_dropped() -> None:
    net = started()
    net.send("C", 3)
    net.settle(2)
    net.hold("mc", src="E")
    net.send("C", 2)
    net.deliver("mc")
    net.hold("bridge")
    net.send("C", 2)
    net.deliver("mc")
    net.crash("E", reach={n: 0 for n in "DCBA"})
    net.send("C")
    net.release()
    net.settle()
    new = net.members["D"].relay
    assert got(net, "C", "W") == [[1, 2, 3, 4, 5, 6, 7, 8]]
    replays = [(t["seqno"], t["count"]) for t in told(net.members["D"], "replay")]
    assert min(first for first, _ in replays) >= 4, "what was answered is not replayed"
    assert new.counters.replayed + new.counters.relayed <= 5
    net.at_rest()


@pytest.mark.seed("R13")
def test_r13_the_lower_numbers_of_the_text_lose_messages() -> None:
    net = Net(NYC="EDCBA", SFO="TSUVW", relay_class=LowerNumbers)
    net.settle(3)
    net.send("C", 3)
    net.settle(2)
    net.hold("bridge")
    net.send("C", 2)
    net.deliver("mc")
    net.crash("E", reach={})
    net.release()
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3]]
    assert net.lost(primary="NYC")


@pytest.mark.seed("R13")
def test_r13_new_messages_wait_for_the_replay() -> None:
    net = started()
    net.hold("bridge")
    net.send("C", 2)
    net.deliver()
    net.crash("E")
    net.settle(1)
    net.send("C", 2)
    net.deliver()
    assert not told(net.members["D"], "relay"), "nothing is sent before the answer"
    net.release()
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3, 4]]
    net.at_rest()


@pytest.mark.seed("R12")
@pytest.mark.seed("R16")
@pytest.mark.parametrize(
    ("limit", "kept"),
    [({"max_messages": 3}, 3), ({"max_bytes": 3 * (280 + 64 + 3)}, 3), ({"max_age": 2.0}, 0)],
)
def test_r16_the_first_limit_that_is_hit_drops_the_oldest_and_says_so(
    limit: dict[str, Any], kept: int
) -> None:
    net = started(**limit)
    net.cut_wan("SFO")
    net.settle(1)
    for _ in range(5):
        net.send("C")
    net.settle(5)
    relay = net.members["E"].relay
    assert len(relay.buffer) == kept
    assert relay.counters.overflowed == 5 - kept
    drops = told(net.members["E"], "overflow")
    assert {d["limit"] for d in drops} == set(limit)
    assert sum(d["count"] for d in drops) == 5 - kept
    net.heal_wan("SFO")
    net.settle()
    assert got(net, "C", "W") == [[4, 5] if kept == 2 else [3, 4, 5][-kept:] if kept else []]
    (lost,) = net.members["W"].relay.status().out_of_sync["NYC"]
    assert (lost.first, lost.last) == (1, 5 - kept)
    (lost,) = relay.status().out_of_sync["SFO"]
    assert (lost.origin, lost.first, lost.last) == ("C", 1, 5 - kept)
    net.at_rest(lost=True, gaps=True)


@pytest.mark.seed("R16")
def test_r16_senders_wait_when_that_is_the_policy() -> None:
    net = started(overflow="block", max_messages=10, block_credits=1)
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 12)
    net.settle(1)
    for name in "EDCBA":
        (blocked,) = [e for e in net.members[name].events if isinstance(e, FlowBlocked)]
        assert blocked.source == "RELAY" and blocked.dest is None
        assert net.members[name].relay.status().blocked
    net.heal_wan("SFO")
    net.settle()
    for name in "EDCBA":
        assert [e for e in net.members[name].events if isinstance(e, FlowOpened)]
        assert not net.members[name].relay.status().blocked


@pytest.mark.seed("R16")
def test_r16_blocking_ends_with_a_view_until_told_again() -> None:
    net = started(overflow="block", max_messages=10, block_credits=1)
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 10)
    net.settle(1)
    net.crash("E")
    net.deliver("view")
    assert not net.members["C"].relay.status().blocked
    flow = [e for e in net.members["C"].events if isinstance(e, FlowBlocked | FlowOpened)]
    assert isinstance(flow[-1], FlowOpened), "its application is told"
    net.settle(2)
    assert net.members["C"].relay.status().blocked
    net.heal_wan("SFO")
    net.settle()
    assert not net.members["C"].relay.status().blocked
    net.at_rest()


@pytest.mark.seed("R16")
def test_r16_orders_of_the_view_before_are_taken_back() -> None:
    """Such an order came after the view, in which fewer members may use the remaining room (relay 1823)."""
    net = started(overflow="block", max_messages=100, block_credits=1_000_000, max_bytes=10_000_000)
    net.cut_wan("SFO")
    net.settle(1)
    net.hold("mc", src="E")
    net.send("C", 55)
    net.settle(1)
    net.crash("A")
    net.deliver("view")
    net.release()
    net.settle(1)
    assert net.members["C"].relay.status().blocked
    net.heal_wan("SFO")
    net.settle()
    assert not any(net.members[name].relay.status().blocked for name in "EDCB")
    net.at_rest()


@pytest.mark.seed("R16")
def test_r16_a_spilled_tail_is_replayed_from_the_file(tmp_path: Path) -> None:
    net = started(overflow="spill", max_messages=4, spill_dir=str(tmp_path))
    net.cut_wan("SFO")
    net.settle(1)
    for _ in range(10):
        net.send("C", 2)
    net.settle(1)
    status = net.members["E"].relay.status()
    assert (status.buffered_messages, status.spilled_messages) == (20, 16)
    assert net.members["E"].relay.counters.spilled == len(told(net.members["E"], "overflow")) > 0
    net.crash("E")
    net.settle(1)
    net.heal_wan("SFO")
    net.settle()
    assert got(net, "C", "W") == [list(range(1, 21))]
    assert net.members["D"].relay.counters.overflowed == 0
    net.at_rest()
    net.close()


@pytest.mark.seed("R20")
def test_r20_equal_names_and_endpoints_at_both_sites_are_told_apart() -> None:
    net = Net(NYC="AB", SFO="XY", config={"primary": "all"})
    for member in net.everybody:
        for other in net.everybody:
            member.stack.names[other.id] = "node"
    net.settle(3)
    net.send("A")
    net.send("X")
    net.settle(5)
    assert got(net, "A", *"ABXY") == [[1]] * 4
    assert got(net, "X", *"ABXY") == [[1]] * 4
    senders = {str(b.src) for b in net.members["Y"].batches if isinstance(b.src, SiteUUID)}
    assert senders == {"node:NYC"}


@pytest.mark.seed("R20")
def test_r20_a_sender_of_another_site_is_known_by_both() -> None:
    one, same, there = (SiteUUID(bytes(16), site, "A") for site in ("NYC", "NYC", "SFO"))
    assert [one == same, one == there] == [True, False]
    assert [one != same, one != there] == [False, True]
    assert hash(one) == hash(same)
    assert {one: 1, there: 2}[same] == 1


@pytest.mark.seed("R20")
def test_r20_a_restarted_member_is_a_new_origin() -> None:
    net = started()
    net.send("C", 3)
    net.settle(2)
    net.crash("C")
    net.settle(2)
    first = net.everybody[2]
    again = net.join("C2", "NYC")
    net.settle(2)
    net.send("C2", 2)
    net.settle(30)
    assert got(net, "C", "W") == [[1, 2, 3]]
    assert got(net, "C2", "W") == [[1, 2]]
    assert first.id != again.id
    assert all(bytes(first.id) not in m.relay.state.delivered for m in net.alive("NYC"))
    net.at_rest()


@pytest.mark.seed("R21")
@pytest.mark.parametrize("who", ["E", "C"])
def test_r21_own_multicasts_are_relayed_although_the_sender_does_not_want_them_back(
    who: str,
) -> None:
    net = started()
    net.send(who, 2)
    net.send(who, 3, transient=Transient.DONT_LOOPBACK)
    net.send(who, 1)
    net.settle(5)
    assert got(net, who, *"EDCBATSUVW") == [
        [1, 2, 6] if name == who else [1, 2, 3, 4, 5, 6] for name in "EDCBATSUVW"
    ]
    assert all(len(batch) for batch in net.members[who].batches), "nothing is no message"
    log = net.members[who].log
    assert not any(batch.transient & Transient.DONT_LOOPBACK for batch in log), "RELAY needs it"
    net.at_rest()


def test_with_relay_when_stable_nothing_leaves_that_a_member_of_the_site_lacks() -> None:
    net = started(relay_when="stable")
    net.hold("mc", dst="B", src="C")
    net.send("C", 2)
    net.settle(5)
    relay = net.members["E"]
    (session,) = relay.relay.bridge.sessions.values()
    bridge_stacks(relay)[0].protocols[0].pass_event_up(FlowOpened("UFC", session.peer))
    net.settle(5)
    assert got(net, "C", "E", "B", "W") == [[1, 2], [], []]
    net.release()
    net.settle()
    assert got(net, "C", "B", "W") == [[1, 2], [1, 2]]
    net.at_rest()


def test_a_collect_that_is_answered_in_pieces_brings_all_of_them() -> None:
    net = started(nyc="EDBC", buffering_members=2, fetch_bytes=1)
    net.hold("bridge", dst="T")
    for _ in range(6):
        net.send("C")
    net.deliver("mc")
    net.crash("E", reach={"D": 9, "B": 9, "C": 9})
    net.hold("bview")
    net.deliver()
    standby = net.members["B"].relay
    assert standby.holding.complete
    assert standby.buffer.ranges(bytes(net.members["C"].id)) == [(1, 6)]
    net.release()
    net.settle()
    net.at_rest()


def test_a_session_whose_flow_is_blocked_sends_nothing_and_goes_on_later() -> None:
    net = started()
    relay = net.members["E"]
    (stack,) = bridge_stacks(relay)
    bottom = stack.protocols[0]
    assert isinstance(bottom, BridgeBottom)
    (session,) = relay.relay.bridge.sessions.values()
    bottom.pass_event_up(FlowBlocked("UFC", session.peer, ()))
    net.send("C", 3)
    net.settle(2)
    assert got(net, "C", "W") == [[]]
    bottom.pass_event_up(FlowOpened("UFC", session.peer))
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3]]
    net.at_rest()


def test_a_leave_that_is_not_acknowledged_in_time_says_so() -> None:
    net = started(leave_timeout=2.0)
    net.hold("bridge")
    net.send("C", 3)
    net.deliver()
    relay = net.members["E"]
    relay.stack.disconnect()
    net.settle(1)
    assert not relay.wants_to_leave
    net.settle(2)
    assert relay.wants_to_leave
    (note,) = told(relay, "leave_timeout")
    assert note["count"] == 3
    net.leave("E")
    net.release()
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3]]


def test_a_leave_does_not_wait_for_the_bridge_for_ever() -> None:
    net = started(leave_timeout=2.0)
    relay = net.members["E"]
    (bridge,) = bridge_stacks(relay)
    bridge.protocols[0].pass_event_up = lambda _event: None  # it never reports that it has left
    net.hold("bridge")
    net.send("C", 3)
    net.deliver()
    relay.stack.disconnect()
    net.settle(3)
    assert told(relay, "leave_timeout") and not relay.wants_to_leave
    net.settle(2)
    assert relay.wants_to_leave


def test_a_site_that_is_given_up_no_longer_holds_messages_back() -> None:
    net = Net(NYC="ED", SFO="TS", LON="XY")
    net.settle(3)
    net.cut_wan("LON")
    net.settle(1)
    net.send("E", 3)
    net.settle(3)
    assert len(net.members["D"].relay.buffer) == 3
    net.members["E"].relay.give_up("LON")
    net.settle(3)
    assert not net.members["D"].relay.buffer
    net.split = True  # the oracle: a trimmed message is missing somewhere
    net.heal_wan("LON")
    net.settle()
    (lost,) = net.members["Y"].relay.status().out_of_sync["NYC"]
    assert (lost.first, lost.last) == (1, 3)
    net.send("E")
    net.settle()
    assert got(net, "E", "Y", "S") == [[4], [1, 2, 3, 4]]


def test_the_status_counts_complete_holders() -> None:
    net = started()
    relay = net.members["E"].relay
    assert (relay.status().holders_complete, relay.status().holders) == (3, 3)
    net.hold("uc", dst="B")
    net.crash("D")
    net.settle(1)
    assert (relay.status().holders_complete, relay.status().holders) == (2, 3)
    net.release()
    net.settle(5)
    assert (relay.status().holders_complete, relay.status().holders) == (3, 3)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"site": ""}, "site"),
        ({"site": "all"}, "site"),
        ({"buffering_members": 0}, "buffering_members"),
        ({"ack_interval": 0.0}, "ack_interval"),
        ({"bridge_attributes": "nonsense"}, "key=value"),
    ],
)
def test_settings_that_cannot_be_are_refused(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RELAY.Config(**{"site": "NYC", "bridge": "b", **attributes})


@pytest.mark.seed("R15")
def test_r15_the_walkthrough_of_the_seed_holds() -> None:
    net = started(buffering_members=2)
    lines: list[str] = []
    interesting = {
        "buffer": "{who} buffers {origin}#{seqno}",
        "relay": "{who} (relay) sends {origin}#{seqno} over the bridge to {to}",
        "deliver_relayed": "{who} delivers {origin}#{seqno}",
        "unicast_dropped": "{who} drops a reply to {to}",
        "dup_dropped": "{who} drops a second {origin}#{seqno}",
    }

    def tell(member: Member, what: str, more: dict[str, Any]) -> None:
        if what in interesting:
            lines.append(interesting[what].format(who=member, **more))

    net.listeners.append(tell)
    lines.append("C multicasts")
    net.send("C", flags=Flag.SERIALIZED)
    for name in "ABCDE":
        net.deliver_to("mc", name)
        lines.append(f"{name} delivers C#{net.members[name].got['C'][-1]}")
    ((pair, queue),) = [(p, q) for p, q in net.bridge_queues.items() if q]
    (message,) = queue
    relay_header: Any = message.headers[1061]
    lines.append(
        f"on the bridge: {net.bridge_of[pair[0]]} -> {net.bridge_of[pair[1]]},"
        f" payload {bytes(message.payloads[0])!r},"
        f" sender {relay_header.original_sender}, {len(message.headers)} headers, both RELAY's"
    )
    assert sorted(message.headers) == [1060, 1061]
    net.deliver("bridge")
    net.deliver("mc")
    for name in "TSUVW":
        assert [str(b.src) for b in net.members[name].batches] == ["C:NYC"]
        assert net.members[name].batches[0].dest is None
    assert not any(q for q in net.bridge_queues.values()), "nothing goes back"
    lines.append("nothing goes back over the bridge")
    member = net.members["T"]
    member.stack.send(Batch(member.batches[-1].src, [b"thanks"], {}))
    net.settle(2)
    lines.append("at rest, buffers are empty")
    net.at_rest()
    file = TRACES / "r15_walkthrough.txt"
    text = "\n".join(lines) + "\n"
    assert file.read_text().split("----\n", 1)[1] == text
