"""Two members that connect to each other at once keep one connection."""

from __future__ import annotations

from typing import Any

import pytest
from tcp_stack import (
    HIGHER,
    LOWER,
    A,
    B,
    accept,
    frame_of,
    frames,
    message,
    opened,
    payloads,
    written,
)

from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import (
    Close,
    Closed,
    Connected,
    ConnectFailed,
    Received,
    Write,
)
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    Connect as ConnectEvent,
)
from jgroups_py.values.events import (
    PhysicalAddress,
    TransportReady,
)
from jgroups_py.wire.connection import GRACEFUL_CLOSE
from jgroups_py.wire.packet import decode_packet


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
