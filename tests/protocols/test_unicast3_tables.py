"""UNICAST3's tables of connections, without a protocol."""

from __future__ import annotations

from jgroups_py.protocols.reliable.unicast3.incoming import UnicastSenders
from jgroups_py.protocols.reliable.unicast3.outgoing import (
    CONN_IDS,
    Destinations,
    OutgoingConnection,
)
from jgroups_py.protocols.reliable.unicast3.unknown import UnknownConnections
from jgroups_py.stack.windows import cost
from jgroups_py.testing import make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch

A: Address = make_address(1)
B: Address = make_address(2)
C: Address = make_address(3)


OVERHEAD = cost(Batch(A, [b""], {}))


def message(size: int) -> Batch:
    """Return a message that takes ``size`` bytes where it is kept."""
    return Batch(A, [bytes(size - OVERHEAD)], {})


def stranger(table: Destinations, dest: Address, size: int) -> OutgoingConnection:
    """Connect to a stranger for which ``size`` bytes are kept."""
    conn = table.connect(dest, 0.0, True)
    table.use_stranger(dest, conn)
    conn.seqno = 1
    conn.kept.append(1, message(size))
    table.kept_more(size)
    table.check()
    return conn


def test_connection_numbers_go_round() -> None:
    table = Destinations(10, 1000)
    numbers = [table.connect(A, 0.0, False).conn_id for _ in range(CONN_IDS + 1)]
    assert numbers[:2] == [0, 1] and numbers[-2:] == [CONN_IDS - 1, 0]


def test_the_stranger_that_was_not_used_for_longest_makes_room() -> None:
    table = Destinations(2, 10_000)
    first, second = stranger(table, A, 600), stranger(table, B, 600)
    assert table.crowded_out(A, 10) is None, "it has a place"
    table.use_stranger(A, first)
    assert table.crowded_out(C, 10) == (B, second)
    table.forget(B, second)
    assert table.crowded_out(C, 10) is None


def test_bytes_for_all_strangers_have_one_limit_and_given_up_ones_count_no_more() -> None:
    table = Destinations(10, 1000)
    first = stranger(table, A, 600)
    assert table.crowded_out(B, 400) is None
    assert table.crowded_out(B, 401) == (A, first)
    table.forget(A, first)
    assert table.crowded_out(B, 1000) is None
    assert A not in table.connections
    table.check()


def test_acknowledged_bytes_count_no_more() -> None:
    table = Destinations(10, 1000)
    first = stranger(table, A, 600)
    table.drop_to(first, 1)
    table.check()
    stranger(table, B, 1000)
    assert table.crowded_out(A, 1) is not None


def test_one_destination_may_have_more_than_the_limit() -> None:
    """Its own messages are no reason to give it up."""
    table = Destinations(10, 1000)
    conn = stranger(table, A, 600)
    assert table.crowded_out(A, 10_000) is None
    table.use_stranger(A, conn)
    table.check()


def test_a_view_tells_who_is_a_stranger() -> None:
    table = Destinations(1, 1000)
    first = stranger(table, A, 600)
    second = table.connect(B, 0.0, False)
    second.kept.append(1, message(700))
    table.view_installed((A,))
    table.check()
    assert (first.stranger, second.stranger) == (False, True)
    assert table.crowded_out(C, 1) == (B, second)


def test_a_share_lasts_for_an_interval() -> None:
    conn = OutgoingConnection(0, 5.0, False)
    conn.begin_share(5.0, 0.5, 100)
    conn.share -= 80
    conn.begin_share(5.4, 0.5, 100)
    assert conn.share == 20
    conn.begin_share(5.5, 0.5, 100)
    assert conn.share == 100


def test_the_stranger_that_was_silent_for_longest_is_forgotten() -> None:
    table = UnicastSenders(0.5, 2)
    for src, now in ((A, 3.0), (B, 1.0), (C, 2.0)):
        table.accept(src, 0, 1, now)
    window = table.connections[C].window
    assert not table.make_room((A, B)), "one stranger"
    assert table.make_room((A,)) and list(table.connections) == [A, C]
    assert table.make_room(()) and window.closed


def test_an_idle_stranger_is_remembered_without_its_gaps_and_then_forgotten() -> None:
    table = UnicastSenders(0.5, 10)
    for src in (A, B, C):
        table.accept(src, 0, 1, 1.0)
        table.connections[src].window.add(3, Batch(A, [b"beyond a gap"], {}, src))
    table.connections[B].used_at = 5.0
    table.forget_idle((A,), 2.0, 0.5)
    assert [table.connections[src].window.has_gap for src in (A, B, C)] == [True, True, False]
    table.forget_idle((A,), 5.0, 1.0)
    assert list(table.connections) == [A, B]


def test_messages_of_unknown_connections_have_limits_in_number_and_bytes() -> None:
    table = UnknownConnections(2, 2)
    small, large = Batch(A, [bytes(10)], {}), Batch(A, [bytes(91)], {})
    assert not table.make_room(A)
    assert [table.keep(A, batch, 100) for batch in (small, large, small, small)] == [
        True,
        False,
        True,
        False,
    ]
    table.check()
    assert [len(batch) for batch in table.take(A)] == [1, 1]
    assert table.take(A) == [] and len(table) == 0


def test_the_first_unknown_sender_makes_room_for_another() -> None:
    table = UnknownConnections(2, 2)
    for src in (A, B):
        table.keep(src, Batch(A, [b"x"], {}), 100)
    assert not table.make_room(A), "it has a place"
    assert table.make_room(C)
    table.keep(C, Batch(A, [b"x"], {}), 100)
    assert [len(table.take(src)) for src in (A, B, C)] == [0, 1, 1]


def test_an_unknown_sender_is_asked_once_in_an_interval_and_forgotten_when_it_is_silent() -> None:
    table = UnknownConnections(2, 2)
    table.keep(A, Batch(A, [b"x"], {}), 100)
    assert [table.may_ask(A, now, 2.0) for now in (0.0, 1.9, 2.0, 3.0)] == [
        True,
        False,
        True,
        False,
    ]
    table.forget_idle(1.9)
    assert len(table) == 1
    table.forget_idle(2.0)
    assert len(table) == 0
