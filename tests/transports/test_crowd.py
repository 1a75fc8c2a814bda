"""Strangers' connections are bounded, and members still get theirs: TCP, FD_SOCK2, the gossip router."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.crowd import CrowdLimits, goes
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.router import GossipRouter
from jgroups_py.stack.ports import Accepted, Bind, Bound, Close, Crowded, Received
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    Connect,
    GetPhysical,
    PhysicalAddress,
    TransportReady,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.connection import encode_handshake
from jgroups_py.wire.primitives import make_version

A, B = make_address(1), make_address(2)
HERE = ("10.0.0.1", 7801)
MEMBER = IpAddress("10.0.0.2", 7800)
V55 = make_version(5, 5, 6)


def opened(**attributes: Any) -> FakeStack:
    """Return a stack that listens (handle 1), in a view with B."""
    stack = FakeStack(TCP(**attributes), address=A)
    stack.event_down(Connect("test"))
    stack.handle(Bound(1, HERE))
    stack.event_down(PhysicalAddress(B, MEMBER))
    stack.event_down(ViewChange(View(ViewId(A, 1), (A, B)), None))
    stack.take_outgoing()
    return stack


def connect(stack: FakeStack, handle: int, host: str) -> None:
    stack.handle(Accepted(1, handle, (host, 50_000 - handle)))


def greet(stack: FakeStack, handle: int, peer: IpAddress) -> None:
    stack.handle(Received(handle, encode_handshake(V55, peer)))


def closed(stack: FakeStack) -> list[int]:
    return [out.handle for out in stack.take_outgoing() if isinstance(out, Close)]


def count(stack: FakeStack, name: str, protocol: str = "TCP") -> int | float:
    return stack.stack.statistics()[protocol][name]


@dataclass(eq=False)
class One:
    host: str


def test_of_one_host_the_first_goes_and_of_several_one_of_the_largest() -> None:
    a, b, c, d = One("x"), One("y"), One("y"), One("z")
    assert goes([a, b, c, d], "y", 9, 2) is b
    assert goes([a, b, c, d], "w", 4, 2) is b
    assert goes([a, b, c, d], "w", 5, 3) is None
    assert goes([], "w", 0, 0) is None


def test_a_process_with_few_files_lets_fewer_in() -> None:
    limits = CrowdLimits(128, 64, 500, 250)
    assert limits.within(None) is limits
    assert limits.within(1_000_000) == limits
    assert limits.within(256) == CrowdLimits(16, 8, 32, 16)
    assert limits.within(3) == CrowdLimits(1, 1, 1, 1)


def test_a_thousand_silent_connections_of_a_host_close_each_other() -> None:
    stack = opened(max_silent=10, max_silent_per_host=4)
    connect(stack, -1, "10.0.0.2")
    for handle in range(-2, -1002, -1):
        connect(stack, handle, "10.6.6.6")
    assert closed(stack) == list(range(-2, -998, -1))
    assert count(stack, "connections") == 5
    assert count(stack, "turned_away_silent") == 996
    greet(stack, -1, MEMBER)
    assert count(stack, "connections_accepted") == 1


def test_many_hosts_do_not_keep_a_newcomer_out() -> None:
    stack = opened(max_silent=3, max_silent_per_host=3)
    for handle, host in ((-1, "10.6.6.1"), (-2, "10.6.6.2"), (-3, "10.6.6.2")):
        connect(stack, handle, host)
    connect(stack, -4, "10.0.0.2")
    assert closed(stack) == [-2]
    greet(stack, -4, MEMBER)
    assert count(stack, "connections_accepted") == 1


def test_the_place_of_a_silent_connection_is_free_once_its_handshake_has_come() -> None:
    stack = opened(max_silent=1)
    connect(stack, -1, "10.0.0.2")
    greet(stack, -1, MEMBER)
    connect(stack, -2, "10.0.0.3")
    assert closed(stack) == []
    assert count(stack, "turned_away_silent") == 0


def test_strangers_that_were_not_heard_for_longest_go_and_members_stay() -> None:
    stack = opened(max_strangers=3, max_strangers_per_host=2)
    connect(stack, -1, "10.0.0.2")
    greet(stack, -1, MEMBER)
    for number in (2, 3):
        stack.advance(0.1)
        connect(stack, -number, "10.6.6.6")
        greet(stack, -number, IpAddress("10.6.6.6", 7000 + number))
    stack.advance(0.1)
    stack.handle(Received(-2, b"\0\0\0\0"))
    connect(stack, -4, "10.6.6.6")
    greet(stack, -4, IpAddress("10.6.6.6", 7004))
    assert closed(stack) == [-3]
    for number in (5, 6):
        connect(stack, -number, f"10.6.7.{number}")
        greet(stack, -number, IpAddress(f"10.6.7.{number}", 7000))
    assert closed(stack) == [-2]
    assert count(stack, "turned_away_stranger") == 2
    assert count(stack, "connections") == 4


def test_handshakes_that_replace_each_other_leave_no_more_than_the_silent_may_be() -> None:
    """A connection that says goodbye keeps its descriptor until the peer has closed it."""
    stack = opened(max_silent=5, max_silent_per_host=5)
    for number in range(1, 50):
        connect(stack, -number, "10.6.6.6")
        greet(stack, -number, MEMBER)
    assert count(stack, "connections") <= 6


def test_a_full_table_makes_room_for_a_newcomer() -> None:
    stack = opened(max_connections=2, max_silent=10)
    for handle in (-1, -2, -3):
        connect(stack, handle, "10.6.6.6")
    assert closed(stack) == [-1]
    greet(stack, -2, IpAddress("10.6.6.6", 7002))
    greet(stack, -3, IpAddress("10.6.6.6", 7003))
    connect(stack, -4, "10.0.0.2")
    assert closed(stack) == [-2]
    assert count(stack, "dropped_too_many_connections") == 0


def test_late_handshakes_and_lack_of_descriptors_are_reported() -> None:
    stack = opened()
    connect(stack, -1, "10.6.6.6")
    stack.advance(2)
    assert closed(stack) == [-1]
    stack.handle(Crowded(1, ("10.6.6.6", 5)))
    assert count(stack, "turned_away_late") == 1
    assert count(stack, "turned_away_no_descriptors") == 1


def test_the_port_of_fd_sock2_has_the_same_limits() -> None:
    fd = FD_SOCK2(max_silent=3, max_silent_per_host=2, max_strangers=4, max_strangers_per_host=2)
    stack = FakeStack(fd, address=A)
    stack.answers[GetPhysical] = lambda query: None
    stack.event_up(TransportReady(IpAddress(*HERE)))
    (bind,) = [out for out in stack.take_outgoing() if isinstance(out, Bind)]
    stack.handle(Bound(bind.handle, ("10.0.0.1", 7901)))
    for number in range(1, 101):
        stack.handle(Accepted(bind.handle, -number, ("10.6.6.6", number)))
    assert closed(stack) == list(range(-1, -99, -1))
    for number in range(201, 301):
        stack.handle(Accepted(bind.handle, -number, ("10.6.6.6", number)))
        greet(stack, -number, IpAddress("10.6.6.6", number))
    assert closed(stack) == [-99, *range(-201, -299, -1)]
    assert count(stack, "turned_away_stranger", "FD_SOCK2") == 98


def test_a_router_keeps_registered_clients_and_closes_silent_ones() -> None:
    router = GossipRouter(max_connections=6, max_connections_per_host=4, max_silent=3)
    stack = FakeStack(router)
    stack.event_down(Connect("router"))
    (bind,) = stack.take_outgoing()
    assert isinstance(bind, Bind)
    for number in range(1, 101):
        stack.handle(Accepted(bind.handle, -number, ("10.6.6.6", number)))
    assert closed(stack) == list(range(-1, -98, -1))
    assert count(stack, "turned_away_silent", "GossipRouter") == 97
    assert count(stack, "refused_connections", "GossipRouter") == 0


@pytest.mark.parametrize("protocol", [TCP, FD_SOCK2])
@pytest.mark.parametrize(
    "name", ["max_silent", "max_silent_per_host", "max_strangers", "max_strangers_per_host"]
)
def test_limits_are_at_least_one(protocol: type, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        protocol(**{name: 0})
