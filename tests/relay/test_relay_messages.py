"""Messages on their way over the bridge: order, payloads, credit, and repetitions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from relay_harness import bridge_stacks, got
from relay_harness import five_and_five as started
from relay_member import Member

from jgroups_py.protocols.relay.wire import ID, SOURCE_ID, MessageKind
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    FlowBlocked,
    FlowOpened,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType


def test_oob_multicasts_are_relayed_in_the_order_of_their_numbers() -> None:
    net = started()
    sender = net.members["C"]
    net.oracle.home_in_order = False
    net.hold("mc", src="C")
    net.send("C")
    net.send("C", flags=Flag.OOB)
    net.send("C")
    first, second, third = sender.log
    for name in "EDBAC":
        member = net.members[name]
        for batch in (second, first, third):
            member.bottom.pass_up(batch)
            net.deliver("bridge")
    assert [m.got["C"] for m in net.alive("NYC")] == [[2, 1, 3]] * 5


def test_payload_types_and_null_payloads_survive() -> None:
    net = started()
    member = net.members["C"]
    member.sent = 4
    seen: list[Any] = []

    def take(at: Member, batch: Batch) -> None:
        if at.name == "W":
            seen.append((batch.type, list(batch.payloads)))
        at.stack.consumed(batch)

    for at in net.members.values():
        at.deliver = partial(take, at)  # type: ignore[method-assign]
    member.stack.send(Batch(None, [None], {}, type=MessageType.EMPTY))
    member.stack.send(Batch(None, [7], {}, type=MessageType.LONG))
    member.stack.send(Batch(None, [b"x", None], {}, flags=Flag.SERIALIZED))
    net.settle(5)
    assert seen == [
        (MessageType.EMPTY, [None]),
        (MessageType.LONG, [7]),
        (MessageType.BYTES, [b"x", None]),
    ]
    net.at_rest()


def test_a_relay_that_cannot_multicast_takes_nothing_from_the_bridge() -> None:
    net = started()
    relay = net.members["T"]
    relay.bottom.pass_event_up(FlowBlocked("MFC", None, ()))
    net.send("C", 3)
    net.settle(2)
    assert got(net, "C", "W") == [[]]
    assert [len(s.inbox) for s in relay.relay.bridge.sessions.values()] == [1]
    relay.machine.enter()
    relay.bottom.pass_event_up(FlowOpened("MFC", None))
    relay.machine.leave()
    net.settle()
    assert got(net, "C", "W") == [[1, 2, 3]]
    net.at_rest()


def test_messages_that_wait_for_local_credit_are_not_overtaken_and_give_it_back_once() -> None:
    net = started()
    relay = net.members["T"]
    (stack,) = bridge_stacks(relay)
    given_back: list[Batch] = []
    stack.consumed = given_back.append
    relay.bottom.pass_event_up(FlowBlocked("MFC", None, ()))
    for _ in range(2):
        net.send("C")
        net.deliver("mc")
    net.step("bridge", "T", "E")
    assert [len(s.inbox) for s in relay.relay.bridge.sessions.values()] == [1]
    assert given_back == []
    relay.machine.enter()
    relay.bottom.pass_event_up(FlowOpened("MFC", None))
    net.step("bridge", "T", "E")  # before the inbox is emptied
    relay.machine.leave()
    assert relay.relay.counters.beyond == 0
    assert len(given_back) == len({id(batch) for batch in given_back}) == 2
    net.settle()
    assert got(net, "C", "W") == [[1, 2]]


def test_forwarded_messages_are_not_multicast_again() -> None:
    net = started()
    net.hold("bridge", dst="T")
    net.send("C", 2)
    net.deliver("mc")
    (queue,) = [q for p, q in net.bridge_queues.items() if net.bridge_of[p[1]].name == "T" and q]
    queue.append(queue[0])
    relay = net.members["T"]
    before = len(relay.log)
    net.step("bridge", "T", "E")
    net.step("bridge", "T", "E")
    assert [len(batch) for batch in relay.log[before:]] == [2]
    assert relay.relay.counters.duplicates_dropped == 2


def test_a_relay_that_asks_again_gets_the_acknowledgements_again() -> None:
    """The other relay's session is new, ours is the same as before."""
    net = started()
    net.send("C", 3)
    net.settle(5)
    origin = bytes(net.members["C"].id)
    relay = net.members["E"].relay
    relay.machine.enter()
    relay.bridge.restart()
    relay.machine.leave()
    (session,) = relay.bridge.sessions.values()
    assert session.acked == {}
    net.settle(5)
    assert session.acked[origin] == 3
    net.at_rest()


def test_only_the_new_part_of_a_run_that_reaches_back_is_delivered() -> None:
    net = started()
    member, home = net.members["W"], net.members["E"]
    net.send("C", 3)
    net.settle(5)
    origin, relay = net.members["C"].id, net.members["T"].id
    net.send("C", 2)
    headers = {
        ID: FragHeader(3, MessageKind.RELAYED, home.relay.state.epoch[0]),
        SOURCE_ID: RelayHeader(
            RelayType.DATA, original_sender=home.relay.origins.source(bytes(origin))
        ),
    }
    run = [f"C#{n}".encode() for n in (3, 4, 5)]
    member.bottom.pass_up(Batch(None, run, headers, relay))
    assert member.got["C"] == [1, 2, 3, 4, 5]
    assert member.relay.counters.duplicates_dropped == 1
    net.settle()
    net.at_rest()


@pytest.mark.parametrize(("wanted", "comes"), [("wq", [1]), ("qw", [2]), ("wqw", [1, 3])])
def test_only_the_wanted_part_of_an_own_run_comes_back(wanted: str, comes: list[int]) -> None:
    """Messages of several sends came back as one run."""
    net = started()
    sender = net.members["C"]
    net.hold("mc", dst="C")
    for way in wanted:
        net.send("C", transient=Transient.DONT_LOOPBACK if way == "q" else 0)
    first = sender.log[0]
    payloads = [batch.payloads[0] for batch in sender.log]
    sender.bottom.pass_up(Batch(None, payloads, first.headers, sender.id))
    assert [len(batch) for batch in sender.batches] == [1] * len(comes)
    assert sender.got["C"] == comes
