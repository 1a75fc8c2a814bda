"""FD_SOCK2: which members are proved dead, and by whom."""

from __future__ import annotations

from typing import Any

import pytest
from fd_sock2_member import (
    JAVA,
    PHYSICAL,
    V55,
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
    refuse_all_but,
    said,
    said_by,
    watching,
    writes,
)

from jgroups_py.stack.ports import (
    Accepted,
    Closed,
    Connected,
    ConnectFailed,
    Received,
    Write,
)
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.events import (
    Silent,
    Suspect,
    Unsuspect,
)
from jgroups_py.wire.connection import GRACEFUL_CLOSE, encode_handshake
from jgroups_py.wire.headers import FdHeader, FdType


def let_break(stack: FakeStack, member: Address, **options: Any) -> int:
    """Let the connection to ``member`` open, and reset it."""
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
    """The process was stopped: its kernel answers for it."""
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
    assert stack.take_down() == []  # its watcher has told all members


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
    assert bool(connects(stack)) == (
        provers >= 2
    )  # C is suspected: D is first in line, we are second


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
    stack.event_down(Silent((B, C, D)))  # we hear no member, so this report counts for nothing
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
    # It never gave its address: the ports may never have been its own.
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
