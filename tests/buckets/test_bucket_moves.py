"""The rules by which a move and a save wait, one by one: links are slow and messages come late. Random schedules do
not reach these cases."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from moving import Moving
from seed_instance import MASTERS, PLACEMENT, Instance, key_in, seed_settings

from jgroups_py.buckets import Cep, Request
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import (
    Answer,
    BucketRow,
    EntryChange,
    IndexState,
    Kept,
    Message,
    Move,
    Placed,
    Reserve,
    Save,
)
from jgroups_py.buckets.questions import FIRST_ASKED
from jgroups_py.buckets.transfer import Transfer
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, LedgerProvider, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld, full_member

KEY = key_in(4)
"""A key of bucket 3, whose master is on node 2 and whose slave is on node 3."""


@pytest.mark.seed("A51", "A62")
@pytest.mark.parametrize("late", ["slave", "there"])
def test_a_move_is_decided_after_slave_and_destination_have_every_change(late: str) -> None:
    """The index decides in 3 ms, and the last change takes 60 ms to the slave or to the destination. So the
    change would arrive after the decision."""
    moving = Moving("master")
    assert moving.world.run(1.0, lambda: moving.phase == "reserving")
    moving.world.slow["source.1", f"{late}.1"] = 0.06
    moving.change()
    assert moving.world.run(1.0, lambda: bool(moving.moves and moving.answers))
    moving.world.run(0.2)
    moving.judge()
    assert moving.answers[0][1][0][1] == b"0"


@pytest.mark.seed("A48", "A51")
def test_a_master_moves_to_the_manager_whose_slave_has_just_left() -> None:
    """The index's message that the slave has left takes 200 ms to its manager. The parcels of the master come earlier."""
    moving = Moving("slave")
    world = moving.world
    for index in ("x", "y", "z"):
        world.slow[f"{index}.1", "slave.1"] = 0.2
    moving.change()
    assert world.run(2.0, lambda: bool(moving.moves))
    assert 0 in world.machines["slave.1"].managers["m/slave"].copies, "it knows nothing of the move"
    router = world.machines["z.1"].routers["r/z"]
    ends = Cep("source.1", "m/source"), Cep("slave.1", "m/slave")
    assert world.run(1.0, lambda: router.index.state.rows[0] == moving.moves[0])
    router.migrate_master_bucket(*ends, moving.moves.append, bucket=0)
    world.flush("z.1")
    moving.change()
    assert world.run(2.0, lambda: len(moving.moves) == 2 and len(moving.answers) == 2)
    there = Cep("there.1", "m/there")
    assert (moving.moves[1].master, moving.moves[1].slave) == (ends[1], there)
    world.run(0.5)
    moving.judge()


@pytest.mark.seed("A62")
@pytest.mark.parametrize("ends", ["decided", "cancelled"])
def test_a_manager_locks_a_bucket_fills_it_elsewhere_and_deletes_it_or_unlocks_it(
    ends: str,
) -> None:
    """LockBucket, UnserialiseBucket, DeleteBucket, UnLockBucket, one after the other: parcels take 50 ms here."""
    instance = Instance(latency=(0.001, 0.001))
    assert instance.ask("n3", KEY, "+before") == "0"
    instance.world.slow["n2.1", "n1.1"] = 0.05
    source, there = instance.manager("n2"), instance.manager("n1")
    copy, router = source.copies[3], instance.router("n2")
    moves: list[Any] = []

    def move() -> None:
        ends = instance.cep("n2"), instance.cep("n1")
        router.migrate_master_bucket(*ends, moves.append, bucket=3, lock_first=True)
        instance.world.flush("n2.1")

    move()
    instance.world.run(0.01)
    assert copy.locked and not copy.lock(), "a locked bucket cannot be locked again"
    move()
    instance.world.run(0.01)
    assert "the bucket is locked" in str(moves.pop())
    answers: list[Any] = []
    instance.world.request("n3.1", Request(b"+during", KEY), answers.append)
    assert instance.world.run(
        1.0, lambda: any(len(one.bucket) for one in there.incoming.copies.values())
    )
    coming = there.incoming.copies[3].bucket
    assert coming.state() == copy.bucket.state() == {KEY: ({"": b"before"}, OLD)}
    assert 3 not in there.copies and not answers, "it is filled and answers nothing"
    if ends == "cancelled":
        router.cancel(3, lambda _: None)
        instance.world.flush("n2.1")
    assert instance.world.run(5.0, lambda: bool(moves and answers))
    instance.world.run(1.0)
    where, other = (source, there) if ends == "cancelled" else (there, source)
    assert answers[0][0][1] == b"1" and 3 not in other.copies and not there.incoming
    assert where.copies[3].bucket.state() == {KEY: ({"": b"before during"}, OLD)}
    assert not where.copies[3].locked and where.copies[3].transfer is None
    assert other.counts["copies_deleted"] == (ends == "decided")
    assert source.moves.locks.counts(), "the time of the lock is counted"
    assert instance.ask("n3", KEY, "+after") == "2"


@pytest.mark.seed("A50")
def test_requests_that_waited_for_a_move_go_on_at_once_elsewhere() -> None:
    instance = Instance()
    instance.ask("n3", KEY, "+before")
    instance.world.slow["n2.1", "n1.1"] = 0.05
    moves: list[Any] = []
    n1, n2 = instance.cep("n1"), instance.cep("n2")
    router = instance.router("n2")
    router.migrate_master_bucket(n2, n1, moves.append, bucket=3, lock_first=True)
    instance.world.flush("n2.1")
    instance.world.run(0.02)
    changes: list[Any] = []
    instance.world.request("n3.1", Request(b"+during", KEY), changes.append)
    assert not instance.world.run(0.05, lambda: bool(changes)), "it waits in the locked bucket"
    assert instance.world.run(5.0, lambda: bool(moves))
    decided = instance.world.now
    assert instance.world.run(5.0, lambda: bool(changes))
    assert instance.world.now - decided < 0.5, "without an answer it would be repeated after 3 s"
    router = instance.router("n3")
    assert router.counts["moved"] + router.counts["late_answers"] == 1, "the source tells it"


@pytest.mark.seed("A51")
def test_a_move_that_is_decided_while_it_is_cancelled_keeps_its_only_copy() -> None:
    """The index approves the move. The source learns this before the destination, and must not mistake it for a
    change by another member."""
    instance = Instance(latency=(0.001, 0.001))
    key = key_in(5)
    assert instance.ask("n1", key, "+before") == "0"
    moves: list[Any] = []
    n2, n3 = instance.cep("n2"), instance.cep("n3")
    router = instance.router("n2")
    router.migrate_master_bucket(n2, n3, moves.append, bucket=4)
    instance.world.flush("n2.1")
    copy = instance.manager("n2").copies[4]
    assert instance.world.run(
        1.0, lambda: copy.transfer is not None and copy.transfer.phase == "deciding"
    )
    instance.world.slow["n1.1", "n3.1"] = 0.05  # from the index copy that decides
    cancels: list[Any] = []
    router.cancel(4, cancels.append)
    instance.world.flush("n2.1")
    assert instance.world.run(5.0, lambda: bool(moves and cancels))
    assert moves[0].master == n3, "the first question was answered with yes"
    instance.world.run(0.2)
    assert instance.manager("n3").copies[4].bucket.state() == {key: ({"": b"before"}, 73)}


@pytest.mark.seed("A52")
def test_moves_that_end_together_ask_one_index_copy_and_wait_there_for_their_turn() -> None:
    """Index copies that begin updates at the same time refuse each other's locks. No bucket is locked while it waits."""
    instance = Instance(latency=(0.001, 0.001))
    before = instance.index("n1").counts["updates"]
    moves: list[Any] = []
    for name, bucket, to in (("n2", 4, "n3"), ("n3", 7, "n1"), ("n2", 3, "n1")):
        instance.router(name).migrate_master_bucket(
            instance.cep(name), instance.cep(to), moves.append, bucket=bucket
        )
        instance.world.flush(f"{name}.1")
    assert instance.world.run(5.0, lambda: len(moves) == 3)
    assert not [move for move in moves if isinstance(move, BucketError)]
    refused = {name: instance.index(name).counts["locks_refused"] for name in ("n1", "n2", "n3")}
    assert refused == {"n1": 0, "n2": 0, "n3": 0}
    assert instance.index("n1").counts["updates"] - before == 3
    assert max(instance.manager(n).moves.slowest_lock for n in ("n1", "n2", "n3")) < 0.004


@pytest.mark.seed("A52")
@pytest.mark.parametrize(
    ("source", "bucket", "to", "order"),
    [("n2", 3, "n1", ["n1", "n3", "n2", "n1"]), ("n1", 1, "n2", ["n2", "n3", "n1", "n2"])],
)
def test_a_move_asks_one_index_copy_after_the_other_and_that_of_its_own_process_last(
    source: str, bucket: int, to: str, order: list[str]
) -> None:
    instance = Instance(latency=(0.001, 0.001), ask_timeout=0.5)
    asked: list[str] = []
    for name in ("n1", "n2", "n3"):
        index = instance.index(name)
        index.handle = _heard(index.handle, asked, name)  # type: ignore[method-assign]
    moves: list[Any] = []
    instance.router(source).migrate_master_bucket(
        instance.cep(source), instance.cep(to), moves.append, bucket=bucket
    )
    instance.world.flush(f"{source}.1")
    instance.world.run(0.5 * 15.5)
    assert asked == [name for name in order for _ in range(FIRST_ASKED)][:16], "half a second each"


def _heard(handle: Any, asked: list[str], name: str) -> Any:
    """Return a function that records questions about moves instead of answering them."""

    def note(frm: Cep, message: Message) -> None:
        if isinstance(message, Reserve):
            asked.append(name)
        else:
            handle(frm, message)

    return note


@pytest.mark.seed("A52")
@pytest.mark.parametrize("phase", ["reserving", "deciding"])
def test_a_move_asks_another_index_copy_as_soon_as_the_one_it_asked_is_lost(phase: str) -> None:
    """The bucket is locked until there is an answer. The index copy that was asked is alone on its node."""
    settings = seed_settings(index_copies=("i/x", "i/n1", "i/n2"), ask_timeout=60.0)
    world = BucketWorld(settings, seed=1)
    world.start("x", _only_an_index)
    for name in MASTERS:
        world.start(name, full_member(ledger(), name, settings, PLACEMENT))
    machine = world.machines["n2.1"]
    router, manager = machine.routers["r/n2"], machine.managers["m/n2"]
    assert world.run(90.0, lambda: bool(router.index.state.version))
    world.run(1.0)
    moves: list[Any] = []
    router.migrate_master_bucket(manager.cep, Cep("n1.1", "m/n1"), moves.append, bucket=3)
    world.flush("n2.1")
    copy = manager.copies[3]

    def asked() -> bool:
        return copy.transfer is not None and copy.transfer.phase == phase

    assert world.run(1.0, asked)
    world.kill("x.1")
    assert world.run(10.0, lambda: bool(moves)) and isinstance(moves[0], BucketRow)


def _only_an_index(machine: BucketMachine) -> None:
    machine.add_index("i/x", PLACEMENT)


@pytest.mark.seed("A52")
@pytest.mark.parametrize("seed", range(1, 6))
def test_updates_of_all_index_copies_end_where_messages_are_slow(seed: int) -> None:
    """Index copies refuse each other's locks. With a pause that is shorter than a message's delay they would do so
    for ever."""
    instance = Instance(seed, latency=(0.1, 0.4), ask_timeout=60.0)
    world, ended = instance.world, list[Any]()
    assert world.run(30.0, lambda: all(instance.index(n).state.version for n in MASTERS))
    world.run(5.0)
    for name, bucket in zip(MASTERS, (0, 1, 2), strict=True):
        row = instance.index(name).state.rows[bucket]
        again = BucketRow(bucket, row.epoch + 1, row.master, row.slave, row.slave_version)
        instance.index(name).set_bucket_location(again, lambda *end: ended.append(end))
        world.flush(instance.member(name))
    assert world.run(20.0, lambda: len(ended) == 3)
    assert all(problem is None for _, problem in ended)


class Asked:
    """The router of node 1 with one request for pair 5, fed by hand. The master is on node 2, then on node 3."""

    def __init__(self) -> None:
        self.instance = Instance(backoff=5.0, backoff_max=5.0)
        self.router = self.instance.router("n1")
        self.sent: list[Any] = []
        self.router.port.post = lambda to, message: self.sent.append(to.member)  # type: ignore[method-assign]
        self.id = self.router.route_a_request(Request(b"+x", key_in(5)), None, lambda _: None)

    def moved(self, frm: str) -> None:
        assert self.id is not None
        self.router.handle(self.instance.cep(frm), Answer(self.id, "moved", "", []))

    def row_changes(self) -> None:
        index = self.instance.index("n1")
        row = BucketRow(4, 2, self.instance.cep("n3"), self.instance.cep("n1"), 73)
        state = index.state
        index._commit(
            IndexState(state.version + 1, {**state.rows, 4: row}, state.copies, state.managers)
        )


@pytest.mark.seed("A50")
def test_a_request_that_is_moved_waits_for_the_row_or_a_random_time_and_is_repeated_once() -> None:
    asked = Asked()
    asked.moved("n2")
    asked.instance.world.run(0.001)
    assert asked.sent == ["n2.1"], "its index has nothing newer"
    asked.row_changes()
    assert asked.sent == ["n2.1", "n3.1"]
    asked.instance.world.run(2.0)  # less than repeat_after
    assert asked.sent == ["n2.1", "n3.1"], "the time it waited for is over"
    waiting = Asked()
    waiting.moved("n2")
    assert waiting.instance.world.run(30.0, lambda: len(waiting.sent) == 2)


@pytest.mark.seed("A50")
def test_a_request_that_was_repeated_already_is_not_repeated_because_its_old_master_says_moved() -> (
    None
):
    asked = Asked()
    asked.row_changes()
    asked.moved("n2")
    asked.instance.world.run(2.0)
    assert asked.sent == ["n2.1", "n3.1"]
    assert asked.router.counts["late_answers"] == 1


@pytest.mark.seed("A50")
def test_a_request_is_repeated_at_once_if_the_index_has_a_newer_row() -> None:
    """The request's master has the same place in the newer row, so the change of rows has not repeated the request."""
    asked = Asked()
    index = asked.instance.index("n1")
    state = index.state
    row = BucketRow(4, 2, asked.instance.cep("n2"), asked.instance.cep("n3"), 73)
    index._commit(
        IndexState(state.version + 1, {**state.rows, 4: row}, state.copies, state.managers)
    )
    assert asked.sent == ["n2.1"]
    asked.moved("n2")
    assert asked.sent == ["n2.1", "n2.1"]
    asked.moved("n2")
    assert asked.sent == ["n2.1", "n2.1"], "with the newest row it waits"


class Slave:
    """The slave of bucket 3, fed by hand."""

    def __init__(self) -> None:
        self.instance = Instance()
        self.manager = self.instance.manager("n3")
        self.master = self.instance.cep("n2")
        self.said: list[Message] = []
        self.manager.port.post = lambda to, message: self.said.append(message)

    def save(self, epoch: int, sequence: int, text: str) -> Message | None:
        """Return the slave's answer to a save."""
        change = EntryChange(KEY, {"": text.encode()}, True, 73)
        self.said.clear()
        kept = Kept(("router", sequence), [])
        self.manager.handle(self.master, Save(3, epoch, sequence, change, kept))
        return self.said[0] if self.said else None

    @property
    def text(self) -> str:
        pieces, _ = self.manager.copies[3].bucket.state()[KEY]
        return str(pieces[""].decode())


def test_a_slave_takes_no_change_behind_a_gap() -> None:
    slave = Slave()
    assert getattr(slave.save(1, 1, "first"), "sequence", 0) == 1
    assert slave.save(1, 3, "third") is None and slave.text == "first"
    assert slave.manager.counts["gaps"] == 1
    assert getattr(slave.save(1, 2, "second"), "sequence", 0) == 2
    assert getattr(slave.save(1, 3, "third"), "sequence", 0) == 3 and slave.text == "third"


def test_a_slave_takes_no_change_of_an_epoch_that_is_over() -> None:
    """The pair is the same after a move that was rolled back, so only the row's number shows the difference."""
    slave = Slave()
    row = slave.instance.index("n1").state.rows[3]
    after = BucketRow(3, row.epoch + 1, row.master, row.slave, row.slave_version)
    assert getattr(slave.save(1, 1, "before"), "sequence", 0) == 1
    slave.manager.handle(slave.instance.cep("n1"), Placed([after]))
    late = slave.save(1, 1, "late")
    assert type(late).__name__ == "Fenced" and slave.text == "before"
    assert getattr(slave.save(2, 1, "now"), "sequence", 0) == 1 and slave.text == "now"


def test_a_move_sends_entries_in_the_version_that_the_destination_reads() -> None:
    """This also holds for a change during the move."""
    bucket = Bucket(3, LedgerProvider(NEW), 10)
    row, there = BucketRow(3, 1, Cep("a", "m/a")), Cep("b", "m/b")
    for token in (b"+x", b"+y"):
        done = bucket.forward_to_entry("k", Request(token), None, modifies=True, now=0.0)
    move = Move(1, row, "slave", there, OLD)
    transfer = Transfer(1, bucket, row, move, there, seed_settings())
    assert done.change is not None
    parcels = [*transfer.parcels(), transfer.tail(done.change, Kept(("r", 1), []))]
    changes = [change for parcel in parcels for change in parcel.changes]
    assert [(c.pieces, c.version) for c in changes] == [({"": b"x y"}, OLD)] * 2


def test_a_move_lets_requests_in_after_few_entries() -> None:
    """A manager writes or reads one parcel in a turn; requests wait for the turn's end."""
    bucket = Bucket(3, LedgerProvider(OLD), 10)
    for number in range(120):
        bucket.adopt(EntryChange(f"k{number}", {"": b"x"}, True, OLD))
        bucket.remember(Kept(("r", number), []))
    row, there = BucketRow(3, 1, Cep("a", "m/a")), Cep("b", "m/b")
    transfer = Transfer(1, bucket, row, Move(1, row, "slave", there, OLD), there, seed_settings())
    sizes = []
    while parcels := list(transfer.parcels()):
        transfer.taken += len(parcels)
        sizes.append([len(parcel.changes) for parcel in parcels])
    assert sizes == [[50, 50], [20, 0]]
    assert transfer.copied


def test_a_copy_that_nobody_uses_is_no_work_for_the_garbage_collector() -> None:
    changes = [EntryChange(f"k{number}", {"": b"x"}, True, OLD) for number in range(1000)]
    bucket = Bucket(3, LedgerProvider(NEW), 10)
    gc.collect()
    before = len(gc.get_objects())
    for change in changes:
        bucket.unserialise_entry(change)
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert bucket.live == 0
    bucket.forward_to_entry("k1", Request(b"+y"), None, modifies=True, now=0.0)
    assert bucket.live == 1
    assert bucket.state()["k1"] == ({"": b'{"tokens": ["x", "y"]}'}, NEW)
    assert bucket.state()["k2"] == ({"": b"x"}, OLD)


@pytest.mark.seed("A63")
def test_another_copy_adds_pieces_to_its_own() -> None:
    bucket = Bucket(3, LedgerProvider(OLD), 10)
    bucket.adopt(EntryChange("k", {"": b"whole"}, True, OLD))
    for name, data in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        bucket.adopt(EntryChange("k", {name: data}, False, OLD))
    assert bucket.state() == {"k": ({"": b"whole", "a": b"3", "b": b"2"}, OLD)}
    bucket.adopt(EntryChange("k", {"": b"again"}, True, NEW))
    assert bucket.state() == {"k": ({"": b"again"}, NEW)}
