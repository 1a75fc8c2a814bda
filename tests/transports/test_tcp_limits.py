"""Limits of TCP, and hostile peers."""

from __future__ import annotations

import pytest
from tcp_stack import (
    HERE,
    HIGHER,
    LOWER,
    V55,
    A,
    B,
    C,
    accept,
    frame_of,
    frames,
    message,
    opened,
    payloads,
    view,
    written,
)

from jgroups_py.stack.ports import (
    Accepted,
    Close,
    Closed,
    Received,
    Writable,
)
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    PhysicalAddress,
    ViewChange,
)
from jgroups_py.wire.connection import encode_frame, encode_handshake


def test_bytes_for_a_slow_peer_are_bounded_in_whole_frames() -> None:
    stack, tcp = opened(max_send_queue=100_000)
    accept(stack, HIGHER)
    stack.down(message(HIGHER, b"x" * 50_000))
    stack.take_outgoing()
    stack.handle(Writable(-1, 40_000))
    for _ in range(5):
        stack.down(message(HIGHER, b"x" * 25_000))
        stack.take_outgoing()
    assert tcp.statistics()["dropped_send_queue_full"] == 3
    stack.handle(Writable(-1, 0))
    stack.down(message(HIGHER, b"x" * 25_000))
    assert len(frames(written(stack, -1))) == 1


def half_sent(stack: FakeStack, handle: int, size: int, announced: int = 90_000) -> None:
    """A stranger connects on ``handle`` and sends a part of a frame."""
    stack.handle(Accepted(1, handle, ("10.0.0.9", 50_000)))
    stack.handle(Received(handle, encode_handshake(V55, IpAddress("10.0.0.9", 1000 - handle))))
    stack.handle(Received(handle, announced.to_bytes(4, "big") + bytes(size - 4)))


def test_half_sent_frames_of_all_peers_are_bounded_together() -> None:
    stack, tcp = opened(max_length=100_000, max_incomplete=200_000)
    accept(stack, HIGHER, handle=-1)
    for number in range(2, 50):
        stack.advance(0.1)
        half_sent(stack, -number, 80_000)
        assert tcp.statistics()["incomplete_bytes"] <= 200_000
        tcp.check()
    assert tcp.statistics()["dropped_incomplete"] == 46
    closed = [out for out in stack.take_outgoing() if type(out) is Close]
    assert closed == [Close(-number, True) for number in range(2, 48)]  # the oldest ones are closed
    # A member's own frame arrives, although in two pieces and while strangers hold all the room.
    frame = frame_of(message(A, b"x" * 90_000, src=B))
    stack.handle(Received(-1, frame[:80_000]))
    stack.handle(Received(-1, frame[80_000:]))
    assert [bytes(p) for b in stack.take_up() for p in b.payloads] == [b"x" * 90_000]
    assert tcp.statistics()["incomplete_bytes"] == 80_000 and len(tcp._connections) == 2


def test_a_closed_connection_gives_back_its_bytes() -> None:
    stack, tcp = opened()
    half_sent(stack, -1, 50_000)
    half_sent(stack, -2, 50_000)
    assert tcp.statistics()["incomplete_bytes"] == 100_000
    stack.handle(Closed(-1, False))
    assert tcp.statistics()["incomplete_bytes"] == 50_000
    stack.handle(
        Received(-2, bytes(40_004))
    )  # the frame is complete now; its content is meaningless
    assert tcp.statistics()["incomplete_bytes"] == 0
    assert tcp.statistics()["dropped_incomplete"] == 0
    tcp.check()


def test_messages_that_wait_for_a_connection_are_bounded() -> None:
    stack, tcp = opened(max_send_queue=100_000)
    for _ in range(5):
        stack.down(message(HIGHER, b"x" * 40_000))
        stack.take_outgoing()
    assert tcp.statistics()["dropped_send_queue_full"] == 3


def test_a_peer_that_takes_nothing_is_disconnected() -> None:
    stack, tcp = opened(write_timeout=10.0)
    accept(stack, HIGHER)
    stack.down(message(HIGHER, b"x" * 1000))
    stack.take_outgoing()
    stack.handle(Writable(-1, 900))
    stack.advance(6)
    stack.down(message(HIGHER, b"x" * 1000))
    stack.take_outgoing()
    stack.handle(Writable(-1, 1500))  # the peer read something meanwhile
    stack.advance(6)
    assert stack.take_outgoing() == []
    stack.advance(5)
    assert stack.take_outgoing() == [Close(-1, True)]
    assert tcp.statistics()["dropped_stuck"] == 1


def test_a_peer_that_has_taken_everything_is_not() -> None:
    stack, tcp = opened(write_timeout=10.0)
    accept(stack, HIGHER)
    stack.down(message(HIGHER, b"x" * 1000))
    stack.take_outgoing()
    stack.handle(Writable(-1, 900))
    stack.handle(Writable(-1, 0))
    stack.advance(30)
    assert stack.take_outgoing() == []
    assert tcp.statistics()["dropped_stuck"] == 0


def test_a_peer_without_a_handshake_is_disconnected() -> None:
    stack, tcp = opened()
    stack.handle(Accepted(1, -1, ("127.0.0.1", 55555)))
    stack.handle(Received(-1, b"be"))
    stack.advance(1.1)
    assert stack.take_outgoing() == [Close(-1, True)]
    assert tcp.statistics()["dropped_handshake_late"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"belb",
        b"bela\x29\x46\x00\x08" + bytes(8),
        encode_handshake(V55, IpAddress(*HERE)),
        encode_handshake(V55, IpAddress(None, 7800)),
        encode_handshake(V55, HIGHER) + b"\xff\xff\xff\xff",
        encode_handshake(V55, HIGHER) + b"\x7f\xff\xff\xff",
    ],
)
def test_a_hostile_peer_is_disconnected_and_counted(data: bytes) -> None:
    stack, tcp = opened()
    stack.handle(Accepted(1, -1, ("127.0.0.1", 55555)))
    for index in range(len(data)):
        stack.handle(Received(-1, data[index : index + 1]))
    assert stack.take_outgoing() == [Close(-1, True)]
    assert tcp.statistics()["dropped_bad_stream"] == 1
    assert tcp.statistics()["connections"] == 0


def test_a_bad_packet_in_a_good_frame_does_not_end_the_connection() -> None:
    stack, tcp = opened()
    accept(stack, HIGHER)
    stack.handle(Received(-1, encode_frame(b"\x29\x46garbage")))
    stack.handle(Received(-1, frame_of(message(A, b"good", src=B))))
    assert payloads(stack.take_up()) == [b"good"]
    assert tcp.dropped_garbage == 1


def test_any_bytes_survive() -> None:
    stack, _ = opened()
    good = encode_handshake(V55, HIGHER) + frame_of(message(A, b"x" * 30, src=B)) * 2
    rng = stack.machine.random
    for number in range(2000):
        data = bytearray(good)
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        handle = -1 - number
        stack.handle(Accepted(1, handle, ("127.0.0.1", 55555)))
        cut = rng.randrange(len(data))
        stack.handle(Received(handle, bytes(data[:cut])), Received(handle, bytes(data[cut:])))
        stack.handle(Closed(handle, True))
    stack.advance(5)
    assert stack.stack.statistics()["TCP"]["connections"] == 0


def test_connections_of_members_are_bounded() -> None:
    stack, tcp = opened(max_connections=2)
    for handle, member, place in ((-1, B, HIGHER), (-2, C, LOWER)):
        stack.event_down(PhysicalAddress(member, place))
        accept(stack, place, handle)
    stack.event_down(ViewChange(view(A, B, C), None))
    stack.take_outgoing()
    stack.handle(Accepted(1, -3, ("127.0.0.1", 55555)))
    assert stack.take_outgoing() == [Close(-3, True)]
    assert tcp.statistics()["dropped_too_many_connections"] == 1
    assert tcp.statistics()["turned_away_too_many"] == 1
