"""The lock of a move: the answers that it waits for, and the steps before it. A message takes a millisecond here, so
times are counts of messages one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from seed_instance import Instance, key_in

from jgroups_py.buckets import Request
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.messages import BucketRow, Held, IndexState, Redeem, decode
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.testing.explorer.buckets.ledger import LedgerClassifier, LedgerProvider

KEY = key_in(4)
"""A key of bucket 3, whose master is on node 2 and whose slave is on node 3."""
MS = 0.001
NAMES = ("n1", "n2", "n3")


def instance(seed: int = 1, **options: Any) -> Instance:
    made = Instance(seed, latency=(MS, MS), **options)
    assert made.ask("n3", KEY, "+before") == "0"
    return made


def begin(made: Instance, role: str = "master", frm: str = "n2", bucket: int = 3) -> list[Any]:
    """Begin a move to node 1. Return a list that gets its result."""
    moves: list[Any] = []
    router = made.router("n2")
    migrate = router.migrate_master_bucket if role == "master" else router.migrate_slave_bucket
    migrate(made.cep(frm), made.cep("n1"), moves.append, bucket=bucket)
    made.world.flush("n2.1")
    return moves


def phase(made: Instance, bucket: int = 3) -> str:
    transfer = made.manager("n2").copies[bucket].transfer
    return "none" if transfer is None else str(transfer.phase)


@contextmanager
def sent_while_locked(made: Instance) -> Iterator[Counter[str]]:
    """Count the messages between members while bucket 3 is locked at node 2."""
    counted: Counter[str] = Counter()
    send = made.world._send

    def listen(frm: str, to: str, data: bytes) -> None:
        copy = made.manager("n2").copies.get(3)
        if copy is not None and copy.locked:
            counted[type(decode(data).message).__name__] += 1
        send(frm, to, data)

    made.world._send = listen  # type: ignore[method-assign]
    yield counted
    made.world._send = send  # type: ignore[method-assign]


@pytest.mark.seed("A51")
@pytest.mark.parametrize(("role", "frm"), [("master", "n2"), ("slave", "n3")])
def test_a_quiet_bucket_is_locked_for_one_and_a_half_round_trips(role: str, frm: str) -> None:
    """The messages are Redeem to the index copies, their Proposed to the copy that conducts the update, and its Told.
    Node 2 has an index copy, too."""
    made = instance()
    with sent_while_locked(made) as counted:
        moves = begin(made, role, frm)
        assert made.world.run(1.0, lambda: bool(moves))
    assert isinstance(moves[0], BucketRow)
    assert made.manager("n2").moves.slowest_lock == pytest.approx(3 * MS)
    decided = {"Unlock": 2, "Told": 1, "Placed": 2}
    assert counted == {"Redeem": 2, "Proposed": 2, **decided}


@pytest.mark.seed("A51")
def test_a_change_on_its_way_makes_the_lock_one_round_trip_longer() -> None:
    made = instance()
    moves = begin(made)
    assert made.world.run(1.0, lambda: phase(made) == "reserving")
    changes: list[Any] = []

    def change() -> None:
        made.world.request("n2.1", Request(b"+late", KEY), changes.append)

    index = made.index("n1")
    assert made.world.run(1.0, lambda: index.counts["reserved"] > 0)
    change()  # done just before the lock
    assert made.world.run(1.0, lambda: bool(moves and changes))
    assert 3 * MS < made.manager("n2").moves.slowest_lock <= 5.5 * MS
    assert changes[0][0][1] == b"1" and made.ask("n1", KEY, "?") == "before late"


@pytest.mark.seed("A50")
def test_a_request_that_meets_the_lock_goes_on_before_its_router_has_the_new_row() -> None:
    """The source knows the row, and its answer contains it."""
    made = instance(backoff=5.0, backoff_max=5.0)
    moves = begin(made)
    assert made.world.run(1.0, lambda: phase(made) == "deciding")
    made.world.slow["n1.1", "n3.1"] = 1.0  # the index's announcement to the router
    changes: list[Any] = []
    made.world.request("n3.1", Request(b"+locked", KEY), changes.append)
    assert made.world.run(1.0, lambda: bool(moves))
    del made.world.slow["n1.1", "n3.1"]
    decided = made.world.now
    assert not changes and made.index("n3").state.rows[3].epoch == 1
    made.world.slow["n1.1", "n3.1"] = 0.0
    assert made.world.run(1.5, lambda: made.router("n3").counts["moved"] > 0)
    assert made.world.run(3 * MS, lambda: 3 in made.manager("n1").copies)
    assert made.manager("n1").counts["requests"] > 0, "it has gone to the new master"
    assert made.world.run(1.5, lambda: bool(changes)) and changes[0][0][1] == b"1"
    assert made.world.now - decided < 1.1, "the answer comes behind the news"


@pytest.mark.seed("A51")
def test_a_move_that_waits_for_its_turn_at_the_index_locks_nothing() -> None:
    made = instance()
    first = begin(made, bucket=3)
    router, second = made.router("n2"), list[Any]()
    router.migrate_master_bucket(made.cep("n2"), made.cep("n3"), second.append, bucket=4)
    made.world.flush("n2.1")
    copies = made.manager("n2").copies
    most = 0

    def both() -> bool:
        nonlocal most
        most = max(most, sum(b in copies and copies[b].locked for b in (3, 4)))
        return bool(first and second)

    assert made.world.run(1.0, both)
    assert most == 1 and not [m for m in (*first, *second) if isinstance(m, BucketError)]
    assert made.manager("n2").moves.slowest_lock == pytest.approx(3 * MS)


@pytest.mark.seed("A52")
@pytest.mark.parametrize("at", ["ending", "reserving", "draining"])
def test_a_cancelled_move_leaves_neither_index_nor_bucket_nor_slave_locked(at: str) -> None:
    made = instance()
    moves = begin(made, "slave", "n3")
    if at == "draining":
        assert made.world.run(1.0, lambda: made.index("n1").counts["reserved"] > 0)
        made.world.slow["n3.1", "n2.1"] = 20 * MS  # acknowledgements of the slave
        made.world.request("n2.1", Request(b"+late", KEY), lambda _: None)
    assert made.world.run(1.0, lambda: phase(made) == at)
    cancels: list[Any] = []
    made.router("n2").cancel(3, cancels.append)
    made.world.flush("n2.1")
    assert made.world.run(0.2, lambda: bool(moves and cancels))
    made.world.run(0.1)
    assert isinstance(moves[0], BucketError) and "cancelled" in str(moves[0])
    assert [made.index(name).locked_by for name in NAMES] == [None] * 3
    assert [made.index(name).proposed for name in NAMES] == [None] * 3
    copy, slave = made.manager("n2").copies[3], made.manager("n3").copies[3]
    assert not copy.locked and copy.transfer is None and not slave.held
    assert not made.manager("n1").incoming


@pytest.mark.seed("A52")
def test_a_source_that_stands_still_holds_up_other_updates_for_a_second_and_moves_later() -> None:
    """The process stops, as with SIGSTOP, just after it was told that the index is prepared: its messages come
    three seconds later."""
    made = instance(ask_timeout=1.0)
    index = made.index("n1")
    moves = begin(made)
    assert made.world.run(1.0, lambda: index.counts["reserved"] > 0)
    for other in ("n1.1", "n3.1"):
        made.world.slow["n2.1", other] = 3.0
    began, ended = made.world.now, list[Any]()
    row = index.state.rows[0]
    changed = BucketRow(0, row.epoch + 1, row.master, row.slave, row.slave_version)
    index.set_bucket_location(changed, lambda *end: ended.append(made.world.now - began))
    made.world.flush("n1.1")
    assert made.world.run(10.0, lambda: index.counts["reservations_over"] > 0)
    assert made.world.now - began <= 1.0 + 2 * MS
    made.world.slow.clear()
    assert made.world.run(20.0, lambda: bool(moves and ended))
    assert isinstance(moves[0], BucketRow) and moves[0].master == made.cep("n1")
    made.world.run(1.0)
    assert made.ask("n3", KEY, "+after") == "1"
    late = {name: made.index(name).counts["late_redeems"] for name in NAMES}
    assert late == {"n1": 1, "n2": 0, "n3": 1}, "the reservation is over"


@pytest.mark.seed("A52")
def test_only_the_manager_of_the_move_redeems_a_reservation_and_only_while_it_lasts() -> None:
    made = instance()
    made.world.slow["n2.1", "n1.1"] = made.world.slow["n2.1", "n3.1"] = 0.0
    moves = begin(made)
    index, other = made.index("n1"), made.index("n3")
    assert made.world.run(1.0, lambda: index.counts["reserved"] > 0)
    txn = index.locked_by
    assert txn is not None
    for one in (index, other):
        one.handle(made.cep("n3"), Redeem(txn, True))
        one.handle(made.cep("n3"), Redeem(txn, False))
        assert one.proposed is None and one.locked_by == txn
        assert one.counts["late_redeems"] == 1
    assert made.world.run(1.0, lambda: bool(moves)) and isinstance(moves[0], BucketRow)
    for one in (index, other):
        one.handle(made.cep("n2"), Redeem(txn, True))
        assert one.proposed is None and one.counts["late_redeems"] == 2


@pytest.mark.seed("A52", "A54")
def test_a_reservation_ends_with_the_view_without_its_source() -> None:
    made = instance(ask_timeout=60.0)
    begin(made)
    index = made.index("n1")
    assert made.world.run(1.0, lambda: index.counts["reserved"] > 0)
    made.kill("n2")
    assert made.world.run(3.0, lambda: index.state.rows[3].master == made.cep("n3"))
    assert index.counts["reservations_over"] == 1
    assert made.ask("n1", KEY, "+after") == "1"


@pytest.mark.seed("A52")
def test_an_update_that_nobody_finished_is_finished_before_a_move_is_prepared() -> None:
    """A copy has a proposal that the others lack. The index need not wait for the move's manager."""
    made = instance()
    index, other = made.index("n1"), made.index("n3")
    state = index.state
    row = state.rows[0]
    again = BucketRow(0, row.epoch + 1, row.master, row.slave, row.slave_version)
    rows = {**state.rows, 0: again}
    other.proposed = IndexState(state.version + 1, rows, state.copies, state.managers)
    moves = begin(made)
    assert made.world.run(1.0, lambda: index.counts["reserved"] > 0)
    assert index.state.rows[0] == again
    assert made.world.run(1.0, lambda: bool(moves)) and isinstance(moves[0], BucketRow)


@pytest.mark.seed("A51")
def test_the_bucket_is_locked_when_the_slave_that_is_replaced_answers_no_more() -> None:
    made = instance()
    made.world.slow["n3.1", "n2.1"] = 50 * MS
    moves = begin(made, "slave", "n3")
    source, slave = made.manager("n2"), made.cep("n3")
    assert made.world.run(1.0, lambda: phase(made) == "ending")
    transfer = source.copies[3].transfer
    made.world.run(20 * MS)
    assert phase(made) == "ending" and transfer.ended and not transfer.held
    source.handle(slave, Held(3, 1, transfer.number - 1))
    assert not transfer.held, "it is the answer to an earlier move"
    del made.world.slow["n3.1", "n2.1"]
    assert made.world.run(1.0, lambda: phase(made) == "reserving") and transfer.held
    assert made.world.run(1.0, lambda: bool(moves)) and isinstance(moves[0], BucketRow)


@pytest.mark.seed("A51")
def test_a_read_that_a_slave_refuses_goes_to_the_master_at_once() -> None:
    """The slave is about to be replaced, and the index has not been asked yet."""

    class AtSlave(LedgerProvider):
        read_at = "slave"

    made = instance(plugin=Plugin(AtSlave(73), LedgerClassifier()), backoff=5.0, backoff_max=5.0)
    for name in NAMES:
        made.index(name)._on_reserve = lambda manager, asked: None  # type: ignore[method-assign]
    begin(made, "slave", "n3")
    slave = made.manager("n3").copies[3]
    assert made.world.run(1.0, lambda: bool(slave.held))
    began = made.world.now
    assert made.ask("n1", KEY, "?") == "before"
    assert made.world.now - began < 12 * MS
    assert made.router("n1").counts["moved"] == 1
