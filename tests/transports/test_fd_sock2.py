from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.early_reports import EARLY_MAX
from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.protocols.transport.udp import UDP
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
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect as ConnectEvent,
)
from jgroups_py.values.events import (
    Failed,
    GetPhysical,
    PhysicalAddress,
    Silent,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import FdHeader, FdType
from jgroups_py.wire.packet import (
    GRACEFUL_CLOSE,
    decode_fd_frame,
    decode_handshake,
    encode_fd_frame,
    encode_frame,
    encode_handshake,
)
from jgroups_py.wire.primitives import make_version

A, B, C, D, E = (make_address(n) for n in range(1, 6))
JAVA = UUID(bytes(15) + b"\x07")
V55 = make_version(5, 5, 6)
VECTORS = Path(__file__).parents[1] / "wire" / "vectors"


def at(port: int) -> IpAddress:
    return IpAddress("127.0.0.1", port)


PHYSICAL: dict[Address, IpAddress] = {
    A: at(5001),
    B: at(5011),
    C: at(5021),
    D: at(5031),
    JAVA: at(5041),
}


def view(*members: Address, number: int = 1) -> View:
    return View(ViewId(members[0], number), members)


def opened(**attributes: Any) -> FakeStack:
    """A's stack; handle 1 listens on 127.0.0.1:5101."""
    stack = FakeStack(FD_SOCK2(**attributes), address=A)
    stack.answers[GetPhysical] = lambda query: PHYSICAL.get(query.member)
    stack.event_up(TransportReady(at(5001)))
    stack.take_outgoing()
    stack.handle(Bound(1, ("127.0.0.1", 5101)))
    stack.take_up_events()
    return stack


def install(stack: FakeStack, *members: Address, number: int = 1) -> None:
    stack.event_down(ViewChange(view(*members, number=number), None))
    stack.take_down_events()


def connects(stack: FakeStack) -> list[Connect]:
    return [out for out in stack.take_outgoing() if isinstance(out, Connect)]


def frame(src: Address, header: FdHeader) -> bytes:
    return encode_frame(encode_fd_frame(src, header))


def answer(member: Address, cluster: str = "test") -> bytes:
    return frame(member, FdHeader(FdType.CONNECT_RSP, cluster=cluster, server=member))


def said(data: bytes) -> list[tuple[Address, FdHeader]]:
    return [decode_fd_frame(f) for f in FrameReader(1000).feed(data) if f is not None]


def writes(stack: FakeStack, handle: int) -> bytes:
    return b"".join(
        out.data for out in stack.take_outgoing() if isinstance(out, Write) and out.handle == handle
    )


def watching(stack: FakeStack, member: Address) -> int:
    """Lets the connection to ``member`` succeed; its handle."""
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    stack.handle(Received(connect.handle, answer(member)))
    return connect.handle


def refuse_all(stack: FakeStack) -> int:
    """Refuses every connection that is tried; how many there were."""
    count = 0
    while tried := connects(stack):
        for connect in tried:
            count += 1
            stack.handle(ConnectFailed(connect.handle, True, "refused"))
    return count


# --- our port


def test_it_listens_beside_the_transport_before_anybody_hears_of_us() -> None:
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
    assert stack.now == 0.0  # no time-out was waited for


def refuse_all_but(stack: FakeStack, count: int) -> int:
    """Refuses ``count`` connections one after the other."""
    for _ in range(count):
        (connect,) = connects(stack)
        stack.handle(ConnectFailed(connect.handle, True, "refused"))
    return count


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


def test_somebody_else_behind_a_port_is_passed_over() -> None:
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


# --- proof of death


def let_break(stack: FakeStack, member: Address, **options: Any) -> int:
    """The connection to ``member`` comes up and is reset."""
    handle = watching(stack, member)
    stack.handle(Closed(handle, True))
    return handle


def test_one_silent_port_of_four_is_no_proof() -> None:
    stack = opened()
    install(stack, C, A, B)
    let_break(stack, B)
    refuse_all_but(stack, 2)
    (connect,) = connects(stack)
    stack.handle(ConnectFailed(connect.handle, False, "timed out"))
    refuse_all_but(stack, 1)
    assert stack.take_up_events() == [Suspect((B,), gone=False)]
    assert stack.take_down()[0].headers == {71: FdHeader(FdType.SUSPECT, (B,))}


def test_a_port_that_takes_connections_and_says_nothing_is_no_proof() -> None:
    """A process that was stopped: its kernel answers for it."""
    stack = opened()
    install(stack, C, A, B)
    let_break(stack, B)
    refuse_all_but(stack, 3)
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50001)))
    stack.advance(1.0)
    assert stack.take_up_events() == [Suspect((B,), gone=False)]


def test_ports_that_never_had_the_member_prove_nothing() -> None:
    stack = opened()
    install(stack, C, A, B)
    refuse_all_but(stack, 4)
    assert stack.take_up_events() == [Suspect((B,), gone=False)]


def test_another_member_on_the_port_of_the_old_one_is_proof() -> None:
    stack = opened()
    install(stack, C, A, B)
    let_break(stack, B)
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    stack.handle(Received(connect.handle, answer(E)))
    refuse_all_but(stack, 3)
    assert stack.take_up_events() == [Suspect((B,), gone=True)]


@pytest.mark.parametrize("silent", [False, True])
def test_a_proof_of_another_member_is_checked(silent: bool) -> None:
    stack = opened()
    install(stack, A, B, C, D)
    watching(stack, B)
    said_by(stack, B, FdHeader(FdType.SUSPECT, (C,), "test"))
    assert stack.take_up_events() == [Suspect((C,))]
    refuse_all_but(stack, 3)
    (connect,) = connects(stack)
    assert connect.dest[1] == 5124 and stack.now == 0.0
    stack.handle(ConnectFailed(connect.handle, not silent, "?"))
    assert stack.take_up_events() == ([] if silent else [Suspect((C,), gone=True)])
    assert stack.take_down() == []  # who watches it has told everybody


def said_by(stack: FakeStack, member: Address, header: FdHeader) -> None:
    batch = Batch.of(None, 71, header)
    batch.src = member
    stack.up(batch)


@pytest.mark.parametrize(
    ("source", "cluster"),
    [(B, None), (B, "other"), (JAVA, "test")],  # JAVA is not in the view
)
def test_only_members_of_the_view_can_claim_proof(source: Address, cluster: str | None) -> None:
    stack = opened()
    install(stack, A, B, C, D)
    watching(stack, B)
    said_by(stack, source, FdHeader(FdType.SUSPECT, (C,), cluster))
    assert connects(stack) == []


@pytest.mark.parametrize("provers", [1, 2, 3])
def test_only_the_first_members_look(provers: int) -> None:
    stack = opened(provers=provers)
    install(stack, C, D, A, B)
    watching(stack, B)
    said_by(stack, D, FdHeader(FdType.SUSPECT, (C,), "test"))
    assert bool(connects(stack)) == (provers >= 2)  # C is suspected: D is first, we are second


def test_a_member_that_is_there_after_all_is_not_reported_again() -> None:
    stack = opened()
    install(stack, A, B, C, D)
    watching(stack, B)
    said_by(stack, B, FdHeader(FdType.SUSPECT, (C,), "test"))
    watching(stack, C)
    stack.take_up_events()
    stack.advance(4.0)
    assert stack.take_up_events() == [] and connects(stack) == []


def test_a_member_that_answers_while_its_ports_refuse_is_not_proved_dead_again() -> None:
    stack = opened()
    install(stack, A, B, C)
    let_break(stack, B)
    refuse_all_but(stack, 4)
    watching(stack, C)
    assert stack.take_up_events() == [Suspect((B,), gone=True)]
    stack.event_down(Unsuspect((B,)))
    stack.advance(1.1)
    refuse_all_but(stack, 4)
    assert stack.take_up_events() == [Suspect((B,), gone=False)]
    said_by(stack, C, FdHeader(FdType.SUSPECT, (B,), "test"))
    assert connects(stack) == []


def test_a_reset_by_the_member_that_watched_us_is_looked_into() -> None:
    stack = opened()
    install(stack, C, A, B)
    watching(stack, B)
    watched_by(stack, C)
    stack.handle(Closed(-1, True))
    assert refuse_all_but(stack, 4) == 4
    assert stack.take_up_events() == [Suspect((C,), gone=True)]


def watched_by(stack: FakeStack, member: Address) -> None:
    """``member`` connects as our left neighbour, on handle -1."""
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    port = PHYSICAL[member].port + 100
    hello = encode_handshake(V55, at(port)) + frame(member, FdHeader(FdType.CONNECT, server=A))
    stack.handle(Received(-1, hello))
    stack.take_outgoing()


def test_a_watcher_that_connects_again_or_is_silent_is_left_alone() -> None:
    stack = opened()
    install(stack, C, A, B)
    watching(stack, B)
    watched_by(stack, C)
    stack.handle(Closed(-1, True))
    (connect,) = connects(stack)
    stack.handle(ConnectFailed(connect.handle, False, "timed out"))
    refuse_all_but(stack, 3)
    assert stack.take_up_events() == [] and stack.take_down() == []


def test_without_proofs_suspicions_are_as_jgroups_makes_them() -> None:
    stack = opened(prove_death=False)
    install(stack, C, A, B, D)
    let_break(stack, B)
    refuse_all_but(stack, 4)
    assert stack.take_up_events() == [Suspect((B,), gone=False)]
    assert stack.take_down()[-1].headers == {71: FdHeader(FdType.SUSPECT, (B,))}
    watching(stack, D)
    said_by(stack, D, FdHeader(FdType.SUSPECT, (C,), "test"))
    assert connects(stack) == []


def test_a_silent_member_is_passed_over_until_it_is_heard() -> None:
    stack = opened()
    install(stack, C, A, B, D)
    handle = watching(stack, B)
    stack.event_down(Silent((B,)))
    watching(stack, D)
    stack.event_down(Silent(()))
    assert said(writes(stack, handle)) == [(A, FdHeader(FdType.CONNECT, server=B))]
    stack.handle(Received(handle, answer(B)))
    stack.event_down(Silent((B, C, D)))  # it is we who hear nothing: as without that
    stack.advance(5)
    assert connects(stack) == [] and stack.take_up_events() == []


def test_a_peer_that_dies_before_it_answers_is_tried_once_more() -> None:
    stack = opened()
    install(stack, C, A, B)
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)), Closed(connect.handle, True))
    (again,) = connects(stack)
    assert again.dest == connect.dest
    stack.handle(ConnectFailed(again.handle, True, "refused"))
    refuse_all_but(stack, 3)
    # It never told who it is: the ports may never have been its own.
    assert stack.take_up_events() == [Suspect((B,), gone=False)]


def test_a_goodbye_is_no_suspicion() -> None:
    stack = opened()
    install(stack, C, A, B)
    handle = watching(stack, B)
    stack.handle(Received(handle, GRACEFUL_CLOSE))
    assert connects(stack) == [] and stack.take_up_events() == []
    install(stack, A, C, number=2)
    watching(stack, C)
    stack.advance(10)
    assert stack.take_up_events() == []


def test_a_member_that_says_goodbye_and_stays_in_the_view_is_looked_for() -> None:
    stack = opened()
    install(stack, C, A, B)
    stack.handle(Received(watching(stack, B), GRACEFUL_CLOSE))
    stack.take_outgoing()
    stack.advance(0.6)
    assert refuse_all_but(stack, 4) == 4
    assert stack.take_up_events() == [Suspect((B,), gone=True)]


@pytest.mark.parametrize("known", [{}, {E: IpAddress(None, 5051)}])
def test_a_member_without_address_is_not_suspected_but_looked_for(
    known: dict[Address, IpAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    for member, place in known.items():
        monkeypatch.setitem(PHYSICAL, member, place)
    stack = opened()
    install(stack, C, A, E)
    stack.advance(2)
    assert connects(stack) == [] and stack.take_up_events() == []
    assert {b.dest for b in stack.take_down()} == {E}
    monkeypatch.setitem(PHYSICAL, E, at(5051))
    stack.advance(1)
    assert connects(stack)[0].dest == ("127.0.0.1", 5151)


def test_a_new_neighbour_is_watched_instead() -> None:
    stack = opened()
    install(stack, C, A, B)
    watching(stack, B)
    install(stack, C, A, D, number=2)
    assert connects(stack)[0].dest == ("127.0.0.1", 5131)
    stack.advance(1.1)
    assert GRACEFUL_CLOSE in [o.data for o in stack.take_outgoing() if isinstance(o, Write)]


# --- others


def test_a_connecting_member_is_told_who_we_are() -> None:
    stack = opened()
    install(stack, C, A, B)
    stack.take_outgoing()
    stack.handle(Accepted(1, -1, ("127.0.0.1", 50000)))
    hello = encode_handshake(V55, at(5121)) + frame(C, FdHeader(FdType.CONNECT, server=A))
    stack.handle(Received(-1, hello))
    assert said(writes(stack, -1)) == [(A, FdHeader(FdType.CONNECT_RSP, cluster="test", server=A))]


@pytest.mark.parametrize("says", [True, False])
def test_a_peer_that_never_comes_into_the_view_is_disconnected(says: bool) -> None:
    """It was let in too late, or says nothing at all (membership 1..40)."""
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
def test_what_a_stranger_says_of_members_is_turned_away(kind: FdType) -> None:
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


def test_of_two_that_are_suspected_the_other_one_is_still_told_of() -> None:
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
def test_everybody_hears_of_all_that_were_killed(network: Any, dead: tuple[UUID, ...]) -> None:
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
