from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.transport.frames import WRITE_SIZE, FrameReader, joined, writes_of
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Received,
    Writable,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect as ConnectEvent,
)
from jgroups_py.values.events import (
    Failed,
    GetPhysical,
    HasMulticast,
    PhysicalAddress,
    Suspect,
    TransportReady,
    Unreachable,
    VersionHeard,
    ViewChange,
)
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.connection import (
    GRACEFUL_CLOSE,
    decode_handshake,
    encode_frame,
    encode_handshake,
)
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import make_version

A, B, C = make_address(1), make_address(2), make_address(3)
HERE = ("127.0.0.1", 7801)
LOWER = IpAddress("127.0.0.1", 7800)
HIGHER = IpAddress("127.0.0.1", 7802)
V55 = make_version(5, 5, 6)


def opened(**attributes: Any) -> tuple[FakeStack, TCP]:
    """Return a stack that listens (handle 1) on 127.0.0.1:7801."""
    tcp = TCP(**attributes)
    stack = FakeStack(tcp, address=A)
    stack.event_down(ConnectEvent("test"))
    stack.take_outgoing()
    stack.handle(Bound(1, HERE))
    stack.take_up_events()
    return stack, tcp


def message(dest: Any, *payloads: bytes, src: Any = None) -> Batch:
    return Batch(dest, payloads, {}, src)


def frame_of(batch: Batch) -> bytes:
    (packet,) = encode_packets([batch], "test", V55)
    return encode_frame(packet)


def view(*members: Any) -> View:
    return View(ViewId(members[0], 1), members)


def written(stack: FakeStack, handle: int) -> bytes:
    return b"".join(
        out.data for out in stack.take_outgoing() if isinstance(out, Write) and out.handle == handle
    )


def frames(data: bytes) -> list[bytes | None]:
    return list(FrameReader(1_000_000).feed(data))


def accept(stack: FakeStack, peer: IpAddress, handle: int = -1) -> None:
    stack.handle(Accepted(1, handle, ("127.0.0.1", 55555)))
    stack.handle(Received(handle, encode_handshake(V55, peer)))


def payloads(batches: list[Batch]) -> list[bytes]:
    return [bytes(p) for b in batches for p in b.payloads]


# --- framing


def test_a_stream_may_be_cut_anywhere() -> None:
    packets = [b"x" * size for size in (3, 0, 1, 70_000, 5)]
    data = b"".join(encode_frame(packet) for packet in packets) + GRACEFUL_CLOSE
    for step in (1, 2, 3, 7, 1000, 65536, len(data)):
        reader = FrameReader(100_000)
        got: list[bytes | None] = []
        for start in range(0, len(data), step):
            got += reader.feed(data[start : start + step])
        assert got == [*packets, None] and len(reader) == 0


@pytest.mark.parametrize("length", [-1, -6, 100_001, 2**31 - 1, -(2**31)])
def test_a_length_that_cannot_be_ends_the_stream(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="frame of"):
        list(FrameReader(100_000).feed(length.to_bytes(4, "big", signed=True)))


def test_joining_keeps_every_byte() -> None:
    pieces = [b"a" * 200_000, b"b" * 100_000, b"c" * 10, b"d" * 300_000]
    assert b"".join(joined(pieces)) == b"".join(pieces)
    assert len(joined(pieces)) == 3


# --- opening


def test_connect_listens_on_the_first_free_port() -> None:
    stack = FakeStack(TCP(bind_addr="127.0.0.7"), address=A)
    stack.event_down(ConnectEvent("test"))
    (bind,) = stack.take_outgoing()
    assert isinstance(bind, Bind)
    assert (bind.kind, bind.host, bind.port, bind.port_range) == ("tcp", "127.0.0.7", 7800, 10)
    stack.handle(Bound(bind.handle, ("127.0.0.7", 7803)))
    assert stack.take_up_events() == [TransportReady(IpAddress("127.0.0.7", 7803))]
    assert stack.stack.ask(HasMulticast()) is False
    assert stack.stack.ask(GetPhysical()) == IpAddress("127.0.0.7", 7803)


def test_connections_of_both_sides_get_the_settings_of_the_stack() -> None:
    stack = FakeStack(TCP(send_buf_size=50_000, recv_buf_size=60_000, tcp_nodelay=False), address=A)
    stack.event_down(ConnectEvent("test"))
    (bind,) = stack.take_outgoing()
    stack.handle(Bound(bind.handle, HERE))
    stack.down(message(HIGHER, b"one"))
    (connect,) = stack.take_outgoing()
    for asked in (bind, connect):
        assert isinstance(asked, Bind | Connect)
        assert (asked.send_buffer, asked.receive_buffer, asked.nodelay) == (50_000, 60_000, False)


def test_no_free_port_fails_the_stack() -> None:
    stack = FakeStack(TCP(), address=A)
    stack.event_down(ConnectEvent("test"))
    stack.handle(BindFailed(1, "address in use"))
    assert stack.take_up_events() == [Failed("TCP: cannot listen: address in use")]


def test_the_first_message_connects_and_says_where_we_listen() -> None:
    stack, _ = opened()
    stack.down(message(HIGHER, b"one"))
    (connect,) = stack.take_outgoing()
    assert isinstance(connect, Connect)
    assert (connect.dest, connect.nodelay) == (("127.0.0.1", 7802), True)
    stack.down(message(HIGHER, b"two"))
    assert stack.take_outgoing() == []
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    data = written(stack, connect.handle)
    assert decode_handshake(data[:15]) == (V55, IpAddress(*HERE))
    got = [decode_packet(f) for f in frames(data[15:]) if f]
    assert payloads([b for p in got for b in p.batches]) == [b"one", b"two"]
    stack.down(message(HIGHER, b"three"))
    assert len(frames(written(stack, connect.handle))) == 1


def test_a_multicast_is_a_copy_to_each_other_member() -> None:
    stack, _ = opened()
    stack.event_down(PhysicalAddress(B, LOWER))
    stack.event_down(PhysicalAddress(C, HIGHER))
    stack.event_down(ViewChange(view(A, B, C), None))
    stack.down(message(None, b"x"))
    connects = [out for out in stack.take_outgoing() if isinstance(out, Connect)]
    assert [c.dest[1] for c in connects] == [7800, 7802]
    stack.handle(*[Connected(c.handle, ("127.0.0.1", 50000)) for c in connects])
    writes = [out for out in stack.take_outgoing() if isinstance(out, Write)]
    (first, second) = [w.data for w in writes if not w.data.startswith(b"bela")]
    assert first == second
    packet = decode_packet(first[4:])
    assert packet.multicast and packet.dest is None
    assert payloads(stack.take_up()) == [b"x"]


def test_an_accepted_connection_is_used_for_answering() -> None:
    stack, _ = opened()
    accept(stack, HIGHER)
    stack.handle(Received(-1, frame_of(message(A, b"hi", src=B))))
    assert payloads(stack.take_up()) == [b"hi"]
    stack.down(message(HIGHER, b"hello"))
    assert len(frames(written(stack, -1))) == 1


# --- both sides connect


@pytest.mark.parametrize(("peer", "winner"), [(HIGHER, "theirs"), (LOWER, "ours")])
def test_when_both_connect_the_higher_address_keeps_its_own(peer: IpAddress, winner: str) -> None:
    stack, _ = opened()
    stack.down(message(peer, b"one"))
    (connect,) = stack.take_outgoing()
    ours = connect.handle
    stack.handle(Connected(ours, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    accept(stack, peer)
    used, other = (-1, ours) if winner == "theirs" else (ours, -1)
    assert written(stack, other) == GRACEFUL_CLOSE
    stack.down(message(peer, b"two"))
    assert len(frames(written(stack, used))) == 1
    # Bytes under way on the other connection are still read.
    stack.handle(Received(other, frame_of(message(A, b"late", src=B))))
    assert payloads(stack.take_up()) == [b"late"]
    stack.handle(Closed(other, False))
    stack.down(message(peer, b"three"))
    assert len(frames(written(stack, used))) == 1


def test_messages_that_wait_for_our_connection_go_over_theirs() -> None:
    stack, _ = opened()
    stack.down(message(HIGHER, b"one"))
    (connect,) = stack.take_outgoing()
    accept(stack, HIGHER)
    out = stack.take_outgoing()
    assert Close(connect.handle) in out
    (write,) = [o for o in out if isinstance(o, Write)]
    assert write.handle == -1 and payloads(decode_packet(write.data[4:]).batches) == [b"one"]


@pytest.mark.parametrize("opens", [True, False])
def test_while_ours_is_not_open_theirs_is_spared(opens: bool) -> None:
    """Our connection is the one to keep, but it may never open: its packets were lost."""
    stack, _ = opened()
    stack.down(message(LOWER, b"one"))
    (connect,) = stack.take_outgoing()
    accept(stack, LOWER)
    assert stack.take_outgoing() == []
    stack.handle(Received(-1, frame_of(message(A, b"early", src=B))))
    assert payloads(stack.take_up()) == [b"early"]
    if opens:
        stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
        assert written(stack, -1) == GRACEFUL_CLOSE
    else:
        stack.handle(ConnectFailed(connect.handle, False, "timed out"))
        (write,) = [o for o in stack.take_outgoing() if isinstance(o, Write)]
        assert payloads(decode_packet(write.data[4:]).batches) == [b"one"]
        stack.down(message(LOWER, b"two"))
        assert len(frames(written(stack, -1))) == 1


def test_a_spare_connection_that_closes_is_no_spare() -> None:
    stack, _ = opened()
    stack.down(message(LOWER, b"one"))
    (connect,) = stack.take_outgoing()
    accept(stack, LOWER)
    stack.handle(Closed(-1, True))
    stack.handle(ConnectFailed(connect.handle, False, "timed out"))
    assert [o for o in stack.take_outgoing() if isinstance(o, Write)] == []
    assert stack.protocol.statistics()["connections_lost"] == 0


def test_a_peer_that_connects_again_has_lost_its_first_connection() -> None:
    stack, _ = opened()
    accept(stack, LOWER, -1)
    accept(stack, LOWER, -2)
    stack.take_outgoing()
    stack.down(message(LOWER, b"x"))
    assert len(frames(written(stack, -2))) == 1


def test_two_members_agree_on_one_connection(network: Any) -> None:
    a, b = network.add(TCP(), address=A), network.add(TCP(), address=B, name="B")
    for stack in (a, b):
        stack.event_down(ConnectEvent("test"))
    network.run()
    (pa,), (pb,) = (s.take_up_events(TransportReady) for s in (a, b))
    a.event_down(PhysicalAddress(B, pb.physical))
    b.event_down(PhysicalAddress(A, pa.physical))
    for number in range(3):  # the first time both connect at the same time
        a.down(message(B, b"to B %d" % number))
        b.down(message(A, b"to A %d" % number))
        network.run()
    network.run(2)
    assert payloads(b.take_up()) == [b"to B 0", b"to B 1", b"to B 2"]
    assert payloads(a.take_up()) == [b"to A 0", b"to A 1", b"to A 2"]
    assert len(network.open_sockets(a, "conn")) == 1


# --- the end of connections


def test_a_refused_connection_is_told_and_tried_again_later() -> None:
    stack, tcp = opened()
    stack.down(message(HIGHER, b"one"))
    (connect,) = stack.take_outgoing()
    stack.handle(ConnectFailed(connect.handle, True, "refused"))
    assert stack.take_up_events() == [Unreachable(HIGHER)]
    assert tcp.statistics()["dropped_unreachable"] == 1
    stack.down(message(HIGHER, b"two"))
    assert stack.take_outgoing() == []
    assert stack.take_up_events() == [Unreachable(HIGHER)]
    stack.advance(0.11)
    stack.down(message(HIGHER, b"three"))
    assert isinstance(stack.take_outgoing()[0], Connect)


def test_a_connection_that_timed_out_is_not_unreachable() -> None:
    stack, _ = opened()
    stack.down(message(HIGHER, b"one"))
    (connect,) = stack.take_outgoing()
    stack.handle(ConnectFailed(connect.handle, False, "timed out"))
    assert stack.take_up_events() == []


def test_a_lost_connection_is_opened_again_by_the_next_message() -> None:
    stack, _ = opened()
    accept(stack, HIGHER)
    stack.handle(Closed(-1, True))
    assert stack.take_up_events() == []
    stack.down(message(HIGHER, b"x"))
    assert isinstance(stack.take_outgoing()[-1], Connect)


def test_a_goodbye_is_answered_by_closing() -> None:
    stack, _ = opened()
    accept(stack, HIGHER)
    stack.handle(Received(-1, frame_of(message(A, b"last", src=B)) + GRACEFUL_CLOSE))
    assert payloads(stack.take_up()) == [b"last"]
    assert stack.take_outgoing() == [Close(-1)]


@pytest.mark.parametrize(("goodbye", "suspects"), [(b"", 1), (GRACEFUL_CLOSE, 0)])
def test_broken_connections_are_suspicious_if_asked_for(goodbye: bytes, suspects: int) -> None:
    stack, _ = opened(enable_suspect_events=True)
    stack.event_down(PhysicalAddress(B, HIGHER))
    stack.event_down(ViewChange(view(A, B), None))
    accept(stack, HIGHER)
    if goodbye:
        stack.handle(Received(-1, goodbye))
    stack.handle(Closed(-1, False))
    assert stack.take_up_events() == [Suspect((B,))] * suspects


def test_connections_to_others_than_members_are_closed_after_a_view() -> None:
    stack, _ = opened()
    accept(stack, LOWER, -1)
    accept(stack, HIGHER, -2)
    stack.event_down(PhysicalAddress(B, LOWER))
    stack.event_down(ViewChange(view(A, B), None))
    stack.take_outgoing()
    stack.advance(0.9)
    assert stack.take_outgoing() == []
    stack.advance(0.2)
    assert stack.take_outgoing() == [Write(-2, GRACEFUL_CLOSE)]
    stack.advance(1.1)
    assert stack.take_outgoing() == [Close(-2)]


def test_closing_the_stack_says_goodbye_on_every_connection() -> None:
    stack, _ = opened()
    accept(stack, LOWER, -1)
    stack.stack.close()
    assert stack.take_outgoing() == [Write(-1, GRACEFUL_CLOSE), Close(1), Close(-1)]


def test_older_members_do_not_know_the_goodbye() -> None:
    stack, _ = opened(version="5.4")
    stack.handle(Accepted(1, -1, ("127.0.0.1", 55555)))
    stack.handle(Received(-1, encode_handshake(make_version(5, 4, 12), LOWER)))
    stack.stack.close()
    assert stack.take_outgoing() == [Close(1), Close(-1)]


# --- limits and hostile peers


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


# --- versions


def test_another_version_is_refused() -> None:
    stack, tcp = opened()
    stack.handle(Accepted(1, -1, ("127.0.0.1", 55555)))
    stack.handle(Received(-1, encode_handshake(make_version(5, 4, 12), HIGHER)))
    assert stack.take_outgoing() == [Close(-1)]
    assert tcp.statistics()["dropped_handshake_version"] == 1


def test_a_joiner_that_is_refused_tries_the_neighbouring_versions() -> None:
    stack, tcp = opened()
    versions = []
    for _ in range(8):
        stack.advance(1)
        stack.down(message(HIGHER, b"who is there?"))
        (connect,) = stack.take_outgoing()
        stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
        versions.append(decode_handshake(written(stack, connect.handle)[:15])[0] >> 6 & 31)
        stack.handle(Closed(connect.handle, False))
    assert versions == [5, 5, 4, 4, 6, 6, 3, 3]
    assert tcp.version == V55
    assert len(stack.take_up_events(VersionHeard)) == 8


def hang_up(stack: Any, *peers: IpAddress) -> None:
    """The peers accept a connection each and close it."""
    handles = []
    for peer in peers:
        stack.down(message(peer, b"who is there?"))
        (connect,) = stack.take_outgoing()
        stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
        handles.append(connect.handle)
        stack.take_outgoing()
    for handle in handles:
        stack.handle(Closed(handle, False))


def test_a_member_that_crashes_while_a_joiner_asks_does_not_make_it_change_its_version() -> None:
    """The new relays of two sites took the crash of the third for a refusal, and never heard each
    other again (a simulated drill found it)."""
    stack, tcp = opened()
    hang_up(stack, HIGHER)
    assert stack.take_up_events(VersionHeard) == [VersionHeard(V55)]
    assert tcp.version == V55


def test_two_that_refuse_a_version_are_one_step() -> None:
    stack, tcp = opened()
    hang_up(stack, HIGHER, LOWER)
    assert tcp.version == V55
    hang_up(stack, HIGHER, LOWER)
    assert tcp.version >> 6 & 31 == 4


def test_a_joiner_that_stays_alone_speaks_its_own_version_again() -> None:
    """With another version it could never merge with a member."""
    stack, tcp = opened()
    hang_up(stack, HIGHER)
    hang_up(stack, HIGHER)
    assert tcp.version >> 6 & 31 == 4
    stack.event_down(ViewChange(view(A), None))
    assert tcp.version == V55


def test_a_joiner_that_tried_another_version_keeps_it_once_it_has_heard_somebody() -> None:
    stack, tcp = opened()
    hang_up(stack, HIGHER)
    hang_up(stack, HIGHER)
    older = tcp.version
    assert older >> 6 & 31 == 4
    (packet,) = encode_packets([message(A, b"me", src=B)], "test", older)
    stack.handle(Accepted(1, -1, ("127.0.0.1", 55555)))
    stack.handle(Received(-1, encode_handshake(older, LOWER)))
    stack.handle(Received(-1, encode_frame(packet)))
    third = IpAddress("127.0.0.1", 7803)
    hang_up(stack, third)
    hang_up(stack, third)
    assert tcp.version == older, "who hangs up now refuses something else"
    stack.event_down(ViewChange(view(B, A), None))
    assert tcp.version == older


def test_a_member_that_was_understood_keeps_its_version() -> None:
    stack, tcp = opened()
    stack.down(message(HIGHER, b"who is there?"))
    (connect,) = stack.take_outgoing()
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    stack.handle(Received(connect.handle, frame_of(message(A, b"me", src=B))))
    stack.handle(Closed(connect.handle, True))
    assert tcp.version == V55 and stack.take_up_events() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"sock_conn_timeout": 0.0},
        {"max_length": 10},
        {"max_send_queue": 0},
        {"max_incomplete": 20_000_000},
        {"max_connections": 0},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TCP(**wrong)


def test_frames_become_writes_of_bounded_size_and_none_is_cut() -> None:
    small = [encode_frame(bytes([number]) * 10_000) for number in range(60)]
    large = [encode_frame(bytes([number]) * 60_000) for number in range(4)]
    pieces = writes_of(small)
    assert b"".join(pieces) == b"".join(small)
    assert len(pieces) == 3 and all(len(piece) <= WRITE_SIZE for piece in pieces)
    assert [type(found) for piece in pieces for found in FrameReader(WRITE_SIZE).feed(piece)] == [
        bytes
    ] * 60
    assert writes_of(large) is large  # no bytes are copied
    mixed = [*large, small[0], encode_frame(bytes(2 * WRITE_SIZE))]
    assert [len(piece) > WRITE_SIZE for piece in writes_of(mixed)] == [False, True]
    assert b"".join(writes_of(mixed)) == b"".join(mixed)
    assert list(writes_of([])) == []


def test_a_frame_is_the_packet_with_its_length() -> None:
    """The packets have one message or many, of bytes and of other kinds, in several packets."""
    many = message(None, *[bytes([n]) * (n % 7) for n in range(200)], src=A)
    large = message(None, *[bytes(3_000)] * 50, src=A)
    empty = Batch(None, [None], {}, A, type=MessageType.EMPTY)
    number = Batch(None, [77], {}, A, type=MessageType.LONG)
    for batches in (
        [many],
        [large],
        [many, large, empty],
        [empty],
        [many, number],
        [number],
        [message(A, b"x", src=A)],
    ):
        packets = encode_packets(batches, "test", V55, 20_000)
        frames = encode_packets(batches, "test", V55, 20_000, framed=True)
        assert frames == [encode_frame(packet) for packet in packets]


def test_the_rest_of_a_frame_keeps_little_more_than_its_bytes() -> None:
    """This holds for any sizes of the pieces: a view of a read keeps the whole read, and an object for
    each byte takes forty bytes."""
    reader = FrameReader(1_000_000)
    head = (500_000).to_bytes(4, "big")
    whole = encode_frame(b"x" * 90_000)
    assert len(list(reader.feed(whole + head + bytes(10_000)))) == 1
    kept = reader._parts[0]
    assert type(kept) is bytes and len(kept) == 10_000
    for _ in range(5_000):
        assert list(reader.feed(b"1")) == []
    assert len(reader._parts) == 2 and len(reader) == 15_004
    assert list(reader.feed(bytes(100_000))) == []
    assert type(reader._parts[2]) is memoryview
    (frame,) = reader.feed(bytes(385_000))
    assert frame is not None and len(frame) == 500_000 and frame[10_000:15_000] == b"1" * 5_000
    assert len(reader) == 0 and reader._parts == []
