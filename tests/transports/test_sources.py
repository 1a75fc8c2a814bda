"""The places of members, and the packets that are believed."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.protocols.transport.sources import Sources
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.ports import Bound, Datagram
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Connect, GetPhysical, PhysicalAddress, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.message import WireMessage, write_typed_message
from jgroups_py.wire.packet import LIST, MULTICAST
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, Writer

A, B, C, D = (make_address(n) for n in range(1, 5))
AT_B, AT_C, ELSEWHERE = (IpAddress("10.0.0.2", n) for n in (7001, 7002, 7003))


def end(physical: IpAddress) -> tuple[str, int]:
    assert physical.host is not None
    return physical.host, physical.port


def opened(**attributes: Any) -> FakeStack:
    """A's stack on UDP, whose sockets are open. Handle 1 is for unicasts."""
    stack = FakeStack(UDP(ip_mcast=False, **attributes), address=A)
    stack.event_down(Connect("test", False))
    stack.handle(Bound(1, ("10.0.0.1", 7000)))
    stack.take_up_events()
    return stack


def heard(stack: FakeStack, src: Address, place: IpAddress | tuple[str, int]) -> bool:
    """Return whether a packet of ``src`` from ``place`` goes up."""
    source = end(place) if isinstance(place, IpAddress) else place
    (packet,) = encode_packets([Batch(None, (b"x",), {}, src)], "test")
    stack.handle(Datagram(1, packet, source))
    return bool(stack.take_up())


def install(stack: FakeStack, *members: Address, number: int = 1) -> None:
    stack.event_down(ViewChange(View(ViewId(members[0], number), members), None))


def with_b(**attributes: Any) -> FakeStack:
    stack = opened(**attributes)
    stack.event_down(PhysicalAddress(B, AT_B, "B"))
    install(stack, A, B)
    return stack


def refused(stack: FakeStack, cause: str) -> int:
    return int(stack.protocol.statistics()[f"turned_away_{cause}"])


def test_a_members_packet_from_elsewhere_is_turned_away() -> None:
    stack = with_b()
    assert heard(stack, B, AT_B)
    assert not heard(stack, B, ELSEWHERE)
    assert not heard(stack, B, ("10.0.0.9", AT_B.port))
    assert refused(stack, "other_place") == 2


def bundle(*batches: Batch) -> bytes:
    """Return a packet of B whose messages may have senders and destinations of their own."""
    writer = Writer(DEFAULT_VERSION)
    writer.u16(DEFAULT_VERSION)
    writer.u8(LIST | MULTICAST)
    writer.addr(None)
    writer.addr(batches[0].src)
    writer.astr("test")
    writer.i32(len(batches))
    for batch in batches:
        (payload,) = batch.payloads
        own = None if batch.src == batches[0].src else batch.src
        message = WireMessage(MessageType.BYTES, 0, batch.dest, own, (), payload)
        write_typed_message(writer, message)
    return writer.done()


def heard_of(stack: FakeStack, packet: bytes, place: IpAddress) -> list[bytes]:
    stack.handle(Datagram(1, packet, end(place)))
    return [bytes(payload) for batch in stack.take_up() for payload in batch.payloads]


def test_a_message_hidden_in_a_strangers_bundle_is_turned_away() -> None:
    stack = with_b()
    packet = bundle(Batch(None, (b"mine",), {}, D), Batch(None, (b"hidden",), {}, B))
    assert heard_of(stack, packet, ELSEWHERE) == [b"mine"]
    assert refused(stack, "other_place") == 1


def test_a_member_may_repeat_a_members_message_in_a_bundle() -> None:
    stack = with_b()
    stack.event_down(PhysicalAddress(C, AT_C, "C"))
    install(stack, A, B, C, number=2)
    packet = bundle(Batch(None, (b"mine",), {}, C), Batch(None, (b"repeated",), {}, B))
    assert heard_of(stack, packet, AT_C) == [b"mine", b"repeated"]


def test_a_message_of_a_bundle_in_our_own_name_is_dropped() -> None:
    stack = with_b()
    packet = bundle(Batch(None, (b"theirs",), {}, B), Batch(None, (b"ours",), {}, A))
    assert heard_of(stack, packet, AT_B) == [b"theirs"]
    assert stack.protocol.statistics()["dropped_own"] == 1


def test_a_message_of_a_bundle_for_somebody_else_is_dropped() -> None:
    stack = with_b()
    packet = bundle(Batch(None, (b"all",), {}, B), Batch(D, (b"D",), {}, B))
    assert heard_of(stack, packet, AT_B) == [b"all"]
    assert stack.protocol.statistics()["dropped_dest"] == 1


def test_without_the_check_a_packet_from_anywhere_counts() -> None:
    assert heard(with_b(source_check=False), B, ELSEWHERE)


def test_another_member_may_repeat_a_members_message() -> None:
    stack = with_b()
    stack.event_down(PhysicalAddress(C, AT_C, "C"))
    install(stack, A, B, C, number=2)
    assert heard(stack, B, AT_C)


def test_a_stranger_is_heard_from_anywhere() -> None:
    stack = with_b()
    assert heard(stack, D, ELSEWHERE)
    install(stack, A, number=2)
    assert heard(stack, B, ELSEWHERE), "B has left"


def test_a_member_whose_place_is_not_known_is_heard() -> None:
    stack = opened()
    install(stack, A, B)
    assert heard(stack, B, ELSEWHERE)
    stack.event_down(PhysicalAddress(B, AT_B, "B"))
    assert stack.stack.ask(GetPhysical(B)) == AT_B
    assert heard(stack, B, AT_B)


def test_a_member_of_the_view_does_not_move() -> None:
    stack = with_b()
    stack.event_down(PhysicalAddress(B, ELSEWHERE, "B"))
    assert stack.stack.ask(GetPhysical(B)) == AT_B
    assert refused(stack, "moved") == 1
    stack.event_down(PhysicalAddress(B, AT_B, "another name"))
    assert stack.stack.names[B] == "another name"
    install(stack, A, number=2)
    stack.event_down(PhysicalAddress(B, ELSEWHERE, "B"))
    assert stack.stack.ask(GetPhysical(B)) == ELSEWHERE, "it is not in the view any more"


def test_a_member_behind_address_translation_is_heard_from_where_it_first_told_its_place() -> None:
    sources, outside = Sources(), ("192.0.2.1", 50_000)
    for source in (outside, end(ELSEWHERE)):
        assert sources.admits(B, source)
        sources.learned(B, AT_B, present=False)
        sources.packet_read()
    sources.view_installed([B], {B: AT_B})
    assert sources.admits(B, end(AT_B)) and sources.admits(B, outside)
    assert not sources.admits(B, end(ELSEWHERE))


@pytest.mark.parametrize("host", ["fe80::1", "fe80::1%eth0"])
def test_the_scope_of_an_address_is_no_other_place(host: str) -> None:
    sources = Sources()
    sources.view_installed([B], {B: IpAddress("fe80::1", 7001)})
    assert sources.admits(B, (host, 7001))
