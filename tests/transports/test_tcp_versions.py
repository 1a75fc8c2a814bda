"""Versions in the handshakes of connections."""

from __future__ import annotations

from typing import Any

from tcp_stack import (
    HIGHER,
    LOWER,
    V55,
    A,
    B,
    frame_of,
    message,
    opened,
    view,
    written,
)

from jgroups_py.stack.ports import (
    Accepted,
    Close,
    Closed,
    Connected,
    Received,
)
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    VersionHeard,
    ViewChange,
)
from jgroups_py.wire.connection import decode_handshake, encode_frame, encode_handshake
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import make_version


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
