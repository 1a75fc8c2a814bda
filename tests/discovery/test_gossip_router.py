"""The gossip router's machine: registrations, answers, and refusals."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listing import A, B, C, at

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.router import GossipRouter
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Received,
    Writable,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.events import Connect
from jgroups_py.values.payloads import PingData
from jgroups_py.wire.gossip import GossipRecord, GossipType, gossip_frame, read_gossip
from jgroups_py.wire.primitives import decode_whole


class Router:
    """The machine, and connections by number."""

    def __init__(self, **attributes: Any) -> None:
        self.stack = FakeStack(GossipRouter(**attributes))
        self.stack.event_down(Connect("router"))
        (bind,) = self.stack.take_outgoing()
        assert isinstance(bind, Bind)
        self.listener = bind.handle
        self.stack.handle(Bound(bind.handle, ("127.0.0.1", 12001)))
        self._next = -1

    def accept(self, host: str = "10.0.0.1") -> int:
        handle, self._next = self._next, self._next - 1
        self.stack.handle(Accepted(self.listener, handle, (host, 1)))
        return handle

    def say(self, handle: int, kind: int, group: str | None = "g", **fields: Any) -> None:
        self.stack.handle(Received(handle, gossip_frame(GossipRecord(kind, group, **fields))))

    def register(self, handle: int, address: Address, port: int, group: str = "g") -> None:
        self.say(handle, GossipType.REGISTER, group, address=address, name="n", physical=at(port))

    def members(self, handle: int, group: str = "g") -> list[Any]:
        self.stack.take_outgoing()
        self.say(handle, GossipType.GET_MBRS, group)
        return [m.physical.port for r in self.heard(handle) for m in r.members]  # type: ignore[union-attr]

    def heard(self, handle: int) -> list[GossipRecord]:
        reader = FrameReader(1_000_000)
        outs = [
            o for o in self.stack.take_outgoing() if isinstance(o, Write) and o.handle == handle
        ]
        return [decode_whole(read_gossip, f) for o in outs for f in reader.feed(o.data) if f]

    def closed(self) -> list[int]:
        return [out.handle for out in self.stack.take_outgoing() if isinstance(out, Close)]

    def count(self, name: str) -> int | float:
        return self.stack.protocol.statistics()[name]


def test_a_registered_member_is_told_to_a_member_that_asks() -> None:
    router = Router()
    a, b = router.accept(), router.accept("10.0.0.2")
    router.register(a, A, 1)
    router.register(b, B, 2)
    router.say(b, GossipType.GET_MBRS)
    (answer,) = router.heard(b)
    assert answer == GossipRecord(
        GossipType.GET_MBRS_RSP_LAST,
        "g",
        members=(PingData(A, 1, "n", at(1)), PingData(B, 1, "n", at(2))),
    )


def test_a_member_without_a_name_is_told_without_one_and_a_long_name_is_cut() -> None:
    router = Router()
    a = router.accept()
    router.say(a, GossipType.REGISTER, address=A, physical=at(1))
    router.say(a, GossipType.REGISTER, address=B, physical=at(2), name="n" * 300)
    router.say(a, GossipType.GET_MBRS)
    (answer,) = router.heard(a)
    assert answer.members is not None
    assert [member.name for member in answer.members] == [None, "n" * 255]


def test_a_group_that_nobody_knows_has_no_answer() -> None:
    router = Router()
    assert router.members(router.accept()) == []
    assert router.heard(-1) == []


def test_a_client_that_unregisters_or_whose_connection_ends_is_told_no_more() -> None:
    router = Router()
    a, b, c = (router.accept() for _ in range(3))
    for handle, address, port in ((a, A, 1), (b, B, 2), (c, C, 3)):
        router.register(handle, address, port)
    router.say(a, GossipType.UNREGISTER, address=A)
    assert router.members(b) == [2, 3]
    router.stack.handle(Closed(c, True))
    assert router.members(b) == [2]
    assert (router.count("groups"), router.count("members")) == (1, 1)
    router.stack.handle(Closed(b, False))
    assert (router.count("groups"), router.count("members"), router.count("connections")) == (
        0,
        0,
        1,
    )


def test_a_host_cannot_unregister_or_move_the_member_of_another_one() -> None:
    router = Router()
    a, stranger = router.accept("10.0.0.1"), router.accept("10.9.9.9")
    router.register(a, A, 1)
    router.say(stranger, GossipType.UNREGISTER, address=A)
    router.register(stranger, A, 666)
    assert router.members(a) == [1]
    assert router.count("refused_registrations") == 1
    again = router.accept("10.0.0.1")  # the same host, whose first connection may be dead
    router.register(again, A, 2)
    assert router.members(a) == [2]
    router.stack.handle(Closed(a, True))
    assert router.members(again) == [2]


def test_limits_of_groups_members_and_registrations() -> None:
    router = Router(max_groups=2, max_members=3, max_registrations=4)
    handles = [router.accept() for _ in range(3)]
    for number in range(6):
        router.register(handles[0], make_address(number), 1000 + number)
    assert router.members(handles[0]) == [1000, 1001, 1002]
    router.register(handles[0], A, 1, "h")
    router.register(handles[0], B, 2, "h")  # a fifth of this connection
    router.register(handles[1], C, 3, "i")  # a third group
    assert router.members(handles[1], "h") == [1]
    assert router.members(handles[1], "i") == []
    assert router.count("refused_registrations") == 5


def test_limits_of_connections_altogether_and_of_one_host() -> None:
    router = Router(max_connections=4, max_connections_per_host=3)
    for number in range(3):
        router.register(router.accept("10.0.0.1"), make_address(number), 1000 + number)
    refused = router.accept("10.0.0.1")
    assert router.closed() == [refused]
    router.register(router.accept("10.0.0.2"), make_address(9), 1009)
    assert router.closed() == []
    router.accept("10.0.0.3")
    assert len(router.closed()) == 1
    assert router.count("refused_connections") == 2


def test_a_client_that_registers_nothing_is_disconnected() -> None:
    router = Router(register_timeout=10.0)
    silent, member = router.accept(), router.accept()
    router.register(member, A, 1)
    router.stack.advance(9)
    assert router.closed() == []
    router.stack.advance(2)
    assert router.closed() == [silent]
    router.stack.advance(100)
    assert router.closed() == []
    late = router.accept()
    router.stack.advance(12.6)
    assert router.closed() == [late]


def test_a_client_that_does_not_read_is_disconnected() -> None:
    router = Router(max_unsent=1000)
    a = router.accept()
    router.register(a, A, 1)
    router.stack.handle(Writable(a, 1000))
    assert router.closed() == []
    router.stack.handle(Writable(a, 1001))
    assert router.closed() == [a]
    assert router.count("members") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xf0",
        b"\x00\x00\x40\x00",
        b"\x00\x00\x00\x02\x00\x07",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_rubbish_ends_its_connection(data: bytes) -> None:
    router = Router()
    a, b = router.accept(), router.accept()
    router.register(a, A, 1)
    router.stack.handle(Received(b, data))
    assert router.closed() == [b]
    assert router.members(a) == [1]
    assert router.count("dropped_garbage") == router.count("turned_away_garbage") == 1


def test_a_goodbye_and_a_heartbeat_are_told_apart() -> None:
    router = Router()
    a = router.accept()
    router.stack.handle(Received(a, b"\xff\xff\xff\xfb"))
    router.say(a, GossipType.HEARTBEAT, None)
    assert router.heard(a) == [GossipRecord(GossipType.HEARTBEAT)]


def test_requests_that_a_router_does_not_serve_are_counted() -> None:
    router = Router()
    a = router.accept()
    router.register(a, A, 1)
    router.say(a, GossipType.MESSAGE, sender=A, buffer=b"x")
    router.say(a, GossipType.GET_MBRS, None)
    router.say(a, 99)
    router.say(a, GossipType.UNREGISTER, None)
    assert router.heard(a) == []
    assert router.count("dropped_records") == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"group": None},
        {"group": "x" * 256},
        {"address": None},
        {"physical": None},
        {"physical": B},
    ],
)
def test_an_incomplete_registration_is_refused(fields: dict[str, Any]) -> None:
    router = Router()
    values: dict[str, Any] = {"group": "g", "address": A, "physical": at(1), **fields}
    router.say(router.accept(), GossipType.REGISTER, **values)
    assert router.count("refused_registrations") == 1
    assert router.count("members") == 0


@given(st.integers(0, 2**32))
def test_the_tables_agree_after_any_calls_of_clients(seed: int) -> None:
    """``check`` runs after each step."""
    chance = random.Random(seed)
    router = Router(max_groups=2, max_members=3, max_connections=5, max_registrations=2)
    handles: list[int] = []
    for _ in range(60):
        if not handles or chance.random() < 0.2:
            handles.append(router.accept(f"10.0.0.{chance.randrange(3)}"))
        handle = chance.choice(handles)
        if handle not in router.stack.protocol._clients:  # type: ignore[attr-defined]
            continue
        address = make_address(chance.randrange(4))
        group = chance.choice("ghi")
        match chance.randrange(4):
            case 0 | 1:
                router.register(handle, address, chance.randrange(9), group)
            case 2:
                router.say(handle, GossipType.UNREGISTER, group, address=address)
            case 3:
                router.stack.handle(Closed(handle, chance.random() < 0.5))
        assert router.count("members") <= 2 * 3
        assert len(router.stack.protocol._clients) <= 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"bind_addr": "localhost"}, 'bind_addr must be a numeric address.*"localhost"'),
        ({"bind_port": 70000}, "bind_port"),
        ({"max_members": 0}, "max_members"),
        ({"max_members": 40000}, "max_members"),
        ({"max_record": 10}, "max_record"),
    ],
)
def test_settings_of_a_router_that_cannot_be_are_refused(
    attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        GossipRouter(**attributes)
