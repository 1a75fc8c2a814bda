from __future__ import annotations

import json
from typing import Any

import pytest
from fd_sock2_member import (
    JAVA,
    PHYSICAL,
    V55,
    VECTORS,
    A,
    B,
    C,
    D,
    E,
    answer,
    at,
    connects,
    frame,
    install,
    opened,
    refuse_all,
    refuse_all_but,
    said,
    said_by,
    view,
    watching,
    writes,
)

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.early_reports import EARLY_MAX
from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Connected,
    ConnectFailed,
    Received,
)
from jgroups_py.testing import FakeStack
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect as ConnectEvent,
)
from jgroups_py.values.events import (
    Failed,
    GetPhysical,
    PhysicalAddress,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
)
from jgroups_py.wire.connection import decode_handshake, encode_handshake
from jgroups_py.wire.headers import FdHeader, FdType

# --- our port


def test_fd_sock2_listens_beside_the_transport_before_other_members_hear_of_us() -> None:
    stack = FakeStack(FD_SOCK2(), address=A)
    stack.event_up(TransportReady(at(5001)))
    assert stack.take_up_events() == []
    for port in (5101, 5102):
        (bind,) = stack.take_outgoing()
        assert isinstance(bind, Bind) and (bind.kind, bind.port) == ("tcp", port)
        if port == 5101:
            stack.handle(BindFailed(bind.handle, "in use"))
    stack.handle(Bound(bind.handle, ("127.0.0.1", 5102)))
    assert stack.take_up_events() == [TransportReady(at(5001))]


def test_without_a_free_port_the_stack_fails() -> None:
    stack = FakeStack(FD_SOCK2(port_range=1), address=A)
    stack.event_up(TransportReady(at(5001)))
    for _ in range(2):
        (bind,) = stack.take_outgoing()
        assert isinstance(bind, Bind)
        stack.handle(BindFailed(bind.handle, "in use"))
    assert stack.take_up_events() == [Failed("FD_SOCK2: no free port: in use")]


@pytest.mark.parametrize(
    ("port", "ports"),
    [(7800, [7900, 7901, 7902, 7903]), (65434, [65534, 65535, 1024, 1025])],
)
def test_ports_wrap_as_in_jgroups(port: int, ports: list[int]) -> None:
    stack = FakeStack(FD_SOCK2(), address=A)
    stack.event_up(TransportReady(at(port)))
    tried = []
    while outs := stack.take_outgoing():
        (bind,) = outs
        assert isinstance(bind, Bind)
        tried.append(bind.port)
        stack.handle(BindFailed(bind.handle, "in use"))
    assert tried == ports


# --- the ring


def test_the_right_hand_neighbour_is_watched() -> None:
    stack = opened()
    install(stack, C, A, B)
    (connect,) = connects(stack)
    assert connect.dest == ("127.0.0.1", 5111)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    data = writes(stack, connect.handle)
    assert decode_handshake(data[:15]) == (V55, at(5101))
    assert said(data[15:]) == [(A, FdHeader(FdType.CONNECT, server=B))]
    stack.handle(Received(connect.handle, answer(B)))
    stack.advance(60)
    assert stack.take_up_events() == [] and connects(stack) == []


def test_the_last_one_watches_the_first() -> None:
    stack = opened()
    install(stack, C, B, A)
    assert connects(stack)[0].dest == ("127.0.0.1", 5121)


def test_alone_nobody_is_watched() -> None:
    stack = opened()
    install(stack, A)
    stack.advance(60)
    assert stack.take_outgoing() == [] and stack.take_up_events() == []


def test_a_killed_neighbour_is_suspected_when_its_ports_refuse() -> None:
    stack = opened()
    install(stack, C, A, B)
    handle = watching(stack, B)
    stack.handle(Closed(handle, True))
    (again,) = connects(stack)
    stack.handle(ConnectFailed(again.handle, True, "refused"))
    assert stack.take_up_events() == []
    assert refuse_all_but(stack, 3) == 3
    assert stack.take_up_events() == [Suspect((B,), gone=True)]
    (told,) = stack.take_down()
    assert told.dest is None and told.headers == {71: FdHeader(FdType.SUSPECT, (B,), "test")}
    assert stack.now == 0.0  # without waiting for a time-out


def test_neighbours_that_crash_together_are_all_found() -> None:
    stack = opened()
    install(stack, A, B, C, D)
    handle = watching(stack, B)
    stack.handle(Closed(handle, False))
    assert refuse_all(stack) == 12
    assert stack.take_up_events() == [Suspect((m,), gone=m is B) for m in (B, C, D)]
    with_proof, without = stack.take_down()[-2:]
    assert with_proof.headers == {71: FdHeader(FdType.SUSPECT, (B,), "test")}
    assert without.headers == {71: FdHeader(FdType.SUSPECT, (C, D))}


def test_a_suspicion_is_repeated_until_the_view_changes() -> None:
    stack = opened()
    install(stack, A, B, C)
    stack.handle(Closed(watching(stack, B), True))
    refuse_all_but(stack, 4)
    watching(stack, C)
    stack.take_down(), stack.take_up_events()
    stack.advance(10.1)
    assert len(stack.take_down()) == 2 and len(stack.take_up_events()) == 2
    install(stack, A, C, number=2)
    stack.advance(30)
    assert stack.take_down() == [] and stack.take_up_events() == []


def test_a_silent_neighbour_is_suspected_but_not_gone() -> None:
    stack = opened()
    install(stack, C, A, B)
    for _ in range(4):
        (connect,) = connects(stack)
        stack.advance(1.0)
        stack.handle(ConnectFailed(connect.handle, False, "timed out"))
    assert stack.take_up_events() == [Suspect((B,), gone=False)]


def test_another_member_behind_a_port_is_passed_over() -> None:
    stack = opened()
    install(stack, C, A, B)
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    stack.handle(Received(connect.handle, answer(E)))
    (second,) = connects(stack)
    assert second.dest == ("127.0.0.1", 5112)
    stack.handle(Connected(second.handle, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    stack.handle(Received(second.handle, answer(B, cluster="other")))
    assert connects(stack)[0].dest == ("127.0.0.1", 5113)


# --- others


def test_a_connecting_member_gets_our_address() -> None:
    stack = opened()
    install(stack, C, A, B)
    stack.take_outgoing()
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    hello = encode_handshake(V55, at(5121)) + frame(C, FdHeader(FdType.CONNECT, server=A))
    stack.handle(Received(-1, hello))
    assert said(writes(stack, -1)) == [(A, FdHeader(FdType.CONNECT_RSP, cluster="test", server=A))]


@pytest.mark.parametrize("says", [True, False])
def test_a_peer_that_never_comes_into_the_view_is_disconnected(says: bool) -> None:
    """The peer was admitted too late, or sends nothing at all (membership 1..40)."""
    stack = opened()
    install(stack, A, B)
    watching(stack, B)
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    told = frame(C, FdHeader(FdType.CONNECT, server=A)) if says else b""
    stack.handle(Received(-1, encode_handshake(V55, at(5121)) + told))
    assert (C in dict.fromkeys(a for _, a in named_in(stack.protocol))) == says
    stack.take_outgoing()
    stack.advance(30)
    assert Close(-1) in stack.take_outgoing()
    assert C not in [address for _, address in named_in(stack.protocol)]


@pytest.mark.parametrize(("first", "other"), [(True, JAVA), (False, JAVA), (False, B)])
def test_two_members_share_one_connection(first: bool, other: Address) -> None:
    stack = opened()
    install(stack, *((A, other) if first else (other, A)))
    assert connects(stack) == []
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    port = PHYSICAL[other].port + 100
    hello = encode_handshake(V55, at(port)) + frame(other, FdHeader(FdType.CONNECT, server=A))
    stack.handle(Received(-1, hello))
    assert said(writes(stack, -1)) == [
        (A, FdHeader(FdType.CONNECT_RSP, cluster="test", server=A)),
        (A, FdHeader(FdType.CONNECT, server=other)),
    ]
    stack.handle(Received(-1, answer(other)))
    stack.advance(10)
    assert connects(stack) == [] and stack.take_up_events() == []
    stack.handle(Closed(-1, True))
    assert refuse_all(stack) == 4
    assert stack.take_up_events() == [Suspect((other,), gone=True)]


def test_the_first_of_two_connects_at_once_and_the_second_not_forever() -> None:
    stack = opened()
    install(stack, A, B)
    assert len(connects(stack)) == 1
    second = opened()
    install(second, B, A)
    second.advance(0.29)
    assert connects(second) == []
    second.advance(0.02)
    assert len(connects(second)) == 1


def test_a_suspicion_of_others_goes_up() -> None:
    stack = opened()
    install(stack, C, A, B)
    said_by(stack, C, FdHeader(FdType.SUSPECT, (B, A, E)))
    assert stack.take_up_events() == [Suspect((B,))]
    said_by(stack, C, FdHeader(FdType.UNSUSPECT, (B,)))
    assert stack.take_up_events() == [Unsuspect((B,))]


@pytest.mark.parametrize("kind", [FdType.SUSPECT, FdType.UNSUSPECT])
def test_a_strangers_reports_of_members_are_turned_away(kind: FdType) -> None:
    stack = opened()
    install(stack, C, A, B)
    said_by(stack, C, FdHeader(FdType.SUSPECT, (B,)))
    stack.take_up_events()
    said_by(stack, E, FdHeader(kind, (B,), "test"))
    assert turned_away(stack) == 0
    stack.advance(1.1)
    assert turned_away(stack) == 1
    assert stack.take_up_events() == []


def test_a_joiners_suspicion_counts_as_soon_as_the_view_has_the_joiner() -> None:
    stack = opened()
    install(stack, C, A, B)
    said_by(stack, D, FdHeader(FdType.SUSPECT, (B,)))
    assert stack.take_up_events() == []
    stack.advance(0.5)
    install(stack, C, A, B, D, number=2)
    assert stack.take_up_events() == [Suspect((B,))]
    stack.advance(2.0)
    assert turned_away(stack) == 0


def test_few_reports_of_strangers_wait() -> None:
    stack = opened()
    install(stack, C, A, B)
    for _ in range(EARLY_MAX + 7):
        said_by(stack, E, FdHeader(FdType.SUSPECT, (B,)))
    assert turned_away(stack) == 7


def turned_away(stack: FakeStack) -> int:
    return int(stack.protocol.statistics()["turned_away_not_member"])


def test_an_unsuspected_member_is_told_of_and_watched_again_after_a_while() -> None:
    stack = opened()
    install(stack, A, B, C)
    stack.handle(Closed(watching(stack, B), True))
    refuse_all_but(stack, 4)
    watching(stack, C)
    stack.advance(2)
    stack.take_down(), stack.take_up_events()
    stack.event_down(Unsuspect((B,)))
    assert stack.take_down()[0].headers == {71: FdHeader(FdType.UNSUSPECT, (B,))}
    stack.advance(4.9)
    assert connects(stack) == []
    stack.advance(0.2)
    assert connects(stack)[0].dest == ("127.0.0.1", 5111)
    assert stack.take_up_events() == []


def test_the_second_of_two_suspects_is_still_told_of() -> None:
    stack = opened()
    install(stack, A, B, C, D)
    stack.handle(Closed(watching(stack, B), False))
    refuse_all(stack)
    stack.advance(2)
    stack.take_down(), stack.take_up_events()
    stack.event_down(Unsuspect((B,)))
    stack.take_down()
    stack.advance(4)
    told = [m for b in stack.take_down() if 71 in b.headers for m in suspects_in(b)]
    assert told and set(told) == {C, D}


def suspects_in(batch: Batch) -> tuple[Address | None, ...]:
    header = batch.header(71, FdHeader)
    assert header is not None
    return header.members if header.type == FdType.SUSPECT else ()


def test_an_unsuspect_nobody_has_heard_a_suspicion_for_is_not_multicast() -> None:
    stack = opened()
    install(stack, A, B, C)
    stack.event_down(Unsuspect((B,)))
    assert stack.take_down() == []


def test_any_bytes_survive() -> None:
    stack = opened()
    install(stack, A, B, C)
    good = encode_handshake(V55, at(5121)) + frame(C, FdHeader(FdType.CONNECT, server=A)) * 2
    rng = stack.machine.random
    for number in range(1000):
        data = bytearray(good)
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        stack.handle(Accepted(1, -1 - number, ("127.0.0.1", 55555)))
        stack.handle(Received(-1 - number, bytes(data)), Closed(-1 - number, True))
    stack.advance(5)
    counts = stack.protocol.statistics()
    assert counts["connections_accepted"] > 900
    assert counts["dropped_bad_stream"] and counts["dropped_garbage"]
    assert counts["turned_away_too_many"] == 0, "each connection was given up when it closed"


# --- all together


def ring(network: Any, *members: UUID) -> dict[Address, FakeStack]:
    stacks: dict[Address, FakeStack] = {
        m: network.add(UDP(), FD_SOCK2(), address=m, name=str(m)[22:24]) for m in members
    }
    where = {}
    for member, stack in stacks.items():
        stack.event_down(ConnectEvent("test"))
        network.next_port += 7
        network.run()
        (ready,) = stack.take_up_events(TransportReady)
        where[member] = ready.physical
    for stack in stacks.values():
        for member, physical in where.items():
            stack.event_down(PhysicalAddress(member, physical))
    return stacks


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_ring_comes_up_without_suspicions(network: Any, count: int) -> None:
    members = [A, B, C, D, E][:count]
    stacks = ring(network, *members)
    for stack in stacks.values():
        stack.event_down(ViewChange(view(*members), None))
    network.run(20)
    assert all(stack.take_up_events(Suspect) == [] for stack in stacks.values())
    pairs = 1 if count == 2 else count
    assert sum(s.kind == "conn" for s in network.sockets) == 2 * pairs


def test_members_join_one_by_one_without_suspicions(network: Any) -> None:
    members = [A, B, C, D, E]
    stacks = ring(network, *members)
    for count in range(1, 6):
        for member in members[:count]:
            stacks[member].event_down(ViewChange(view(*members[:count], number=count), None))
            network.run()
        network.run(0.05)
    network.run(20)
    assert all(stack.take_up_events(Suspect) == [] for stack in stacks.values())


@pytest.mark.parametrize("dead", [(B,), (B, C), (A, E), (B, D), (A, B, C, D)])
def test_every_member_learns_of_all_killed_members(network: Any, dead: tuple[UUID, ...]) -> None:
    members = (A, B, C, D, E)
    stacks = ring(network, *members)
    for stack in stacks.values():
        stack.event_down(ViewChange(view(*members), None))
    network.run(2)
    for member in dead:
        network.kill(stacks.pop(member))
    network.run(0.001)
    for stack in stacks.values():
        suspects = [m for e in stack.take_up_events(Suspect) for m in e.members]
        assert set(suspects) == set(dead)


def test_a_member_that_leaves_is_not_suspected(network: Any) -> None:
    members = (A, B, C)
    stacks = ring(network, *members)
    for stack in stacks.values():
        stack.event_down(ViewChange(view(*members), None))
    network.run(2)
    stacks[B].stack.close()
    network.run(0.1)
    for member in (A, C):
        stacks[member].event_down(ViewChange(view(A, C, number=2), None))
    network.run(10)
    assert all(stacks[m].take_up_events(Suspect) == [] for m in (A, C))


def test_a_java_members_conversation_is_understood() -> None:
    """We play B of a recorded group of Java members: A connects, we answer, and use the same
    connection for watching A."""
    recorded = json.loads((VECTORS / "conversation_udp_crash.json").read_text())
    uuids = {
        n: UUID(bytes.fromhex(v["uuid"].replace("-", ""))) for n, v in recorded["nodes"].items()
    }
    events = [e for e in recorded["events"] if e.get("conn") == 1]
    stack = FakeStack(FD_SOCK2(), address=uuids["B"], cluster="demo")
    stack.answers[GetPhysical] = at(5001)
    stack.event_up(TransportReady(at(5011)))
    stack.take_outgoing()
    stack.handle(Bound(1, ("127.0.0.1", 5111)))
    stack.event_down(ViewChange(view(uuids["A"], uuids["B"]), None))
    assert connects(stack) == []
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    for event in events[:2]:
        assert event["from"] == "A"
        stack.handle(Received(-1, bytes.fromhex(event["hex"])))
    expected = b"".join(bytes.fromhex(e["hex"]) for e in events[2:4])
    assert writes(stack, -1) == expected
    stack.handle(Received(-1, bytes.fromhex(events[4]["hex"])))
    stack.advance(100)
    assert connects(stack) == [] and stack.take_up_events(Suspect) == []


@pytest.mark.parametrize("wrong", [{"offset": 0}, {"port_range": -1}, {"connect_timeout": 0.0}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        FD_SOCK2(**wrong)
