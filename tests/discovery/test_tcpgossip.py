"""TCPGOSSIP: it registers at routers, asks them, and goes on when one is missing or sends rubbish."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listing import FIND, A, B, C, at

from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.discovery.tcpgossip import TCPGOSSIP
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.stack.ports import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Out,
    Received,
    Resolve,
    Resolved,
    Write,
)
from jgroups_py.testing import FakeStack
from jgroups_py.values.events import MembersFound, TransportReady, Unreachable
from jgroups_py.values.payloads import PingData
from jgroups_py.wire.gossip import GOODBYE, GossipRecord, GossipType, gossip_frame, read_gossip
from jgroups_py.wire.primitives import decode_whole

ONE = (("127.0.0.9", 12001),)
TWO = (*ONE, ("127.0.0.8", 12001))


def gossip(hosts: Any = ONE, **attributes: Any) -> FakeStack:
    stack = FakeStack(TCPGOSSIP(initial_hosts=hosts, **attributes), address=A)
    stack.event_up(TransportReady(at(7800)))
    stack.take_up_events()
    return stack


def connects(stack: FakeStack) -> list[Connect]:
    return [out for out in stack.take_outgoing() if isinstance(out, Connect)]


def records(outs: list[Out]) -> list[GossipRecord | None]:
    """Return the written records; None stands for a goodbye."""
    reader = FrameReader(10_000)
    data = b"".join(out.data for out in outs if isinstance(out, Write))
    return [None if f is None else decode_whole(read_gossip, f) for f in reader.feed(data)]


def connected(hosts: Any = ONE, **attributes: Any) -> tuple[FakeStack, list[int]]:
    """Return a connected stack, with the handles of its connections."""
    stack = gossip(hosts, **attributes)
    handles = []
    for out in connects(stack):
        stack.handle(Connected(out.handle, ("127.0.0.1", 40000)))
        handles.append(out.handle)
    return stack, handles


def listing(*members: PingData, group: str = "test") -> bytes:
    return gossip_frame(GossipRecord(GossipType.GET_MBRS_RSP_LAST, group, members=members))


def statistics(stack: FakeStack) -> dict[str, int | float]:
    return stack.stack.statistics()["TCPGOSSIP"]


ME, OTHER = PingData(A, 1, "A", at(7800)), PingData(B, 1, "B", at(7801))


def test_a_member_registers_with_its_name_and_place() -> None:
    stack, _ = connected()
    assert records(stack.take_outgoing()) == [
        GossipRecord(GossipType.REGISTER, "test", A, name="A", physical=at(7800))
    ]


def test_members_that_the_router_names_are_asked() -> None:
    stack, (handle,) = connected()
    stack.take_outgoing()
    stack.event_down(FIND)
    assert records(stack.take_outgoing()) == [GossipRecord(GossipType.GET_MBRS, "test")]
    stack.handle(Received(handle, listing(ME, OTHER)))
    (batch,) = stack.take_down()
    assert batch.dest == at(7801) and 10 in batch.headers
    stack.event_up(Unreachable(at(7801)))
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_a_member_that_is_registered_alone_is_alone_at_once() -> None:
    stack, (handle,) = connected()
    stack.event_down(FIND)
    stack.handle(Received(handle, listing(ME)))
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_an_answer_may_come_byte_by_byte_and_a_search_while_connecting_waits_for_it() -> None:
    stack = gossip()
    (out,) = connects(stack)
    stack.event_down(FIND)
    assert stack.take_outgoing() == []
    stack.handle(Connected(out.handle, ("127.0.0.1", 40000)))
    sent = records(stack.take_outgoing())
    assert [r and r.kind for r in sent] == [GossipType.REGISTER, GossipType.GET_MBRS]
    for byte in listing(OTHER):
        stack.handle(Received(out.handle, bytes([byte])))
    assert len(stack.take_down()) == 1


def test_without_a_router_nothing_is_certain() -> None:
    stack = gossip(reconnect_interval=1.0)
    (out,) = connects(stack)
    stack.event_down(FIND)
    stack.handle(ConnectFailed(out.handle, True, "ECONNREFUSED"))
    assert stack.take_up_events() == []
    stack.advance(0.9)
    assert connects(stack) == []
    stack.advance(0.2)
    assert len(connects(stack)) == 1
    stack.advance(3)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]
    assert statistics(stack)["connects_failed"] == 1


def test_the_first_router_that_answers_is_not_kept_waiting_by_the_other() -> None:
    stack, (one, two) = connected(TWO)
    stack.event_down(FIND)
    stack.handle(Received(one, listing(ME, OTHER)))
    assert [b.dest for b in stack.take_down()] == [at(7801)]
    stack.event_up(Unreachable(at(7801)))
    assert stack.take_up_events() == []  # the other router may know more members
    stack.handle(Received(two, listing(ME, OTHER, PingData(C, 1, "C", at(7802)))))
    assert [b.dest for b in stack.take_down()] == [at(7802)]
    stack.event_up(Unreachable(at(7802)))
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_a_router_that_does_not_answer_is_given_up() -> None:
    stack, (handle,) = connected(lookup_timeout=0.5)
    stack.take_outgoing()
    stack.event_down(FIND)
    stack.take_outgoing()
    stack.advance(0.6)
    assert Close(handle, abort=True) in stack.take_outgoing()
    stack.advance(3)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_we_register_again_at_a_router_that_was_lost() -> None:
    stack, (handle,) = connected(reconnect_interval=1.0)
    stack.take_outgoing()
    stack.handle(Closed(handle, True))
    stack.advance(1.1)
    (out,) = connects(stack)
    stack.handle(Connected(out.handle, ("127.0.0.1", 40000)))
    (record,) = records(stack.take_outgoing())
    assert record is not None and record.kind == GossipType.REGISTER
    assert statistics(stack)["registrations"] == 2


def test_a_name_is_looked_up_each_time_and_its_addresses_are_tried_in_turn() -> None:
    stack = gossip((("router.svc", 12001),), reconnect_interval=1.0)
    for _ in range(2):
        (resolve,) = [o for o in stack.take_outgoing() if isinstance(o, Resolve)]
        stack.handle(Resolved(resolve.handle, ("10.0.0.1", "10.0.0.2")))
        for address in ("10.0.0.1", "10.0.0.2"):
            (out,) = connects(stack)
            assert out.dest == (address, 12001)
            stack.handle(ConnectFailed(out.handle, True, "ECONNREFUSED"))
        stack.advance(1.1)


def test_a_leaver_says_goodbye() -> None:
    stack, (handle,) = connected()
    stack.take_outgoing()
    stack.stack.close()
    outs = stack.take_outgoing()
    assert records(outs) == [GossipRecord(GossipType.UNREGISTER, "test", A), None]
    assert outs[-1] == Close(handle)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\x00",
        b"\x00\x00\x00\x03\x07\x09\x09",
        b"\x00\x00\x00\x00",
        gossip_frame(GossipRecord(GossipType.GET_MBRS_RSP_LAST, "test", members=(OTHER,)))[:-1]
        + b"\x09",
    ],
)
def test_rubbish_of_a_router_ends_the_connection_and_nothing_else(data: bytes) -> None:
    stack, (handle,) = connected()
    stack.event_down(FIND)
    stack.handle(Received(handle, data))
    assert Close(handle, abort=True) in stack.take_outgoing()
    assert statistics(stack)["dropped_records"] == 1
    stack.advance(4)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_answers_for_other_groups_and_without_a_question_are_counted() -> None:
    stack, (handle,) = connected()
    stack.handle(Received(handle, listing(OTHER)))
    stack.event_down(FIND)
    stack.handle(Received(handle, listing(OTHER, group="other")))
    assert stack.take_down() == []
    assert statistics(stack)["dropped_records"] == 2
    stack.handle(Received(handle, listing(PingData(B), PingData(C, 1, "C", C), OTHER)))
    assert len(stack.take_down()) == 1
    assert statistics(stack)["dropped_entries"] == 2


def test_a_router_that_names_half_the_world_is_believed_up_to_a_limit() -> None:
    stack, (handle,) = connected(max_hosts=5)
    stack.event_down(FIND)
    many = [PingData(B, 1, "B", at(8000 + n)) for n in range(50)]
    stack.handle(Received(handle, listing(*many)))
    assert len(stack.take_down()) == 5
    assert statistics(stack)["dropped_hosts"] == 45 * 2  # reported in parts, and as a whole


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_an_error(data: bytes) -> None:
    try:
        record = decode_whole(read_gossip, data)
    except RemoteProtocolError:
        return
    assert isinstance(record, GossipRecord)


def test_a_frame_is_a_length_and_a_record() -> None:
    record = GossipRecord(GossipType.MESSAGE, "g", B, A, buffer=b"x" * 10)
    frame = gossip_frame(record)
    assert list(FrameReader(100).feed(frame + GOODBYE)) == [frame[4:], None]
    assert decode_whole(read_gossip, frame[4:]) == record
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@pytest.mark.parametrize("hosts", [(), tuple((f"10.0.0.{n}", 1) for n in range(21))])
def test_one_to_twenty_gossip_routers_may_be_named(hosts: Any) -> None:
    with pytest.raises(ConfigError, match=r"initial_hosts must name 1 to 20 gossip routers"):
        TCPGOSSIP(initial_hosts=hosts)
