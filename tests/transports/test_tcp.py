"""Connections of TCP: how they are opened, and how they end."""

from __future__ import annotations

from typing import Any

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

from jgroups_py.errors import ConfigError
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
    Write,
)
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import IpAddress
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
    ViewChange,
)
from jgroups_py.wire.connection import GRACEFUL_CLOSE, decode_handshake, encode_handshake
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.primitives import make_version


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
