"""Messages that take much longer than usual: answers of the index later than they are asked for again, a busy bucket far away from
its destination, words of a master before the index's rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moving import MS, Moving
from seed_instance import MASTERS, PLACEMENT, Instance, key_in, seed_settings

from jgroups_py.buckets import Cep, Request
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.errors import OutcomeUnknown
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import (
    AskStatistics,
    BucketPacket,
    BucketRow,
    EntryChange,
    Forward,
    Held,
    Hold,
    Kept,
    Message,
    Move,
    Placed,
    Redeem,
    Reserved,
    Statistics,
    Told,
    decode,
    encode,
)
from jgroups_py.buckets.reservation import Reservation, Reservations
from jgroups_py.buckets.transfer import Transfer
from jgroups_py.testing.explorer.buckets.ledger import OLD, LedgerProvider, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld, full_member

KEY = key_in(4)
"""A key of bucket 3, whose master is on node 2 and whose slave is on node 3."""


@pytest.mark.seed("A51", "A52")
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_move_ends_although_the_index_takes_longer_than_its_timeout(seed: int) -> None:
    """Each message takes about 400 ms, so a reservation needs more than two seconds, and it is asked for again after one."""
    made = Instance(seed, latency=(0.35, 0.45), ask_timeout=1.0)
    assert made.world.run(60.0, lambda: all(made.index(n).state.version for n in MASTERS))
    made.world.run(5.0)
    moves, sent = list[Any](), Counter[str]()
    send = made.world._send

    def listen(frm: str, to: str, data: bytes) -> None:
        sent[type(decode(data).message).__name__] += 1
        send(frm, to, data)

    made.world._send = listen  # type: ignore[method-assign]
    made.router("n2").migrate_master_bucket(made.cep("n2"), made.cep("n1"), moves.append, bucket=3)
    made.world.flush("n2.1")
    assert made.world.run(15.0, lambda: bool(moves)), (
        "the reservation was asked for again and again"
    )
    assert isinstance(moves[0], BucketRow) and moves[0].master == made.cep("n1")
    made.world.run(5.0)
    assert [made.index(name).locked_by for name in MASTERS] == [None] * 3
    assert sum(made.index(name).counts["reserved"] for name in MASTERS) == 1
    assert sum(made.index(name).counts["reservations_over"] for name in MASTERS) == 0
    questions = 1 + min(sent["SetLocation"], 1)
    assert sent["Lock"] == 2 * questions, "the other copies were locked once for each question"


def test_a_reservation_that_is_asked_for_again_keeps_its_turn() -> None:
    waiting = Reservations()
    first, second = (
        Reservation(Cep(name, f"m/{name}"), ask, BucketRow(ask, 2, Cep(name, f"m/{name}")))
        for ask, name in enumerate("ab")
    )
    for reservation in (first, second, first):
        waiting.add(reservation)
    assert len(waiting) == 2
    assert [waiting.next(("a", "b")), waiting.next(("a", "b"))] == [first, second]


@pytest.mark.seed("A50", "A51")
@pytest.mark.parametrize("role", ["master", "slave"])
def test_a_bucket_that_changes_all_the_time_moves_to_a_manager_far_away(role: str) -> None:
    """A change comes each millisecond, and a parcel and its answer take 40. So there are always changes on their way."""
    moving = Moving(role)
    world = moving.world
    for there, back in (("source.1", "there.1"), ("there.1", "source.1")):
        world.slow[there, back] = 20 * MS
    while not moving.moves:
        assert moving.asked < 1_000, f"the move stays in {moving.phase}"
        moving.change()
        world.run(MS)
    assert isinstance(moving.moves[0], BucketRow)
    assert world.run(35.0, lambda: len(moving.answers) == moving.asked)
    world.run(2.0)
    moving.judge()


def test_changes_on_their_way_do_not_hold_up_the_copy_of_a_large_bucket() -> None:
    bucket = Bucket(3, LedgerProvider(OLD), 10)
    for number in range(201):
        bucket.adopt(EntryChange(f"k{number}", {"": b"x"}, True, OLD))
    row, there = BucketRow(3, 1, Cep("a", "m/a")), Cep("b", "m/b")
    transfer = Transfer(1, bucket, row, Move(1, row, "slave", there, OLD), there, seed_settings())
    sizes = []
    while parcels := list(transfer.parcels()):
        sizes.append([len(parcel.changes) for parcel in parcels])
        assert not list(transfer.parcels()), "parcels_max are on their way"
        assert not transfer.copied
        for _ in range(3):
            transfer.tail(EntryChange("k1", {"": b"y"}, True, OLD), Kept(("r", 1), []))
        transfer.taken = parcels[-1].number + 1
    assert sizes == [[50, 50], [50, 50], [1]]
    assert transfer.copied and transfer.on_the_way == 3


@pytest.mark.seed("A51", "A52")
def test_the_second_index_copy_that_prepares_a_move_is_told_to_go_on() -> None:
    """The first one was asked five times before and has answered at last."""
    made = Instance(ask_timeout=60.0)
    made.router("n2").migrate_master_bucket(
        made.cep("n2"), made.cep("n1"), lambda _: None, bucket=3
    )
    made.world.flush("n2.1")
    source = made.manager("n2")
    transfer = source.copies[3].transfer
    assert made.world.run(1.0, lambda: transfer.phase == "deciding")
    first = transfer.reserved
    said: list[tuple[Cep, Message]] = []
    source.port.post = lambda to, message: said.append((to, message))
    other = Cep("n3.1", "i/n3")
    source.handle(other, Reserved(first.ask, (other, 5), list(first.copies)))
    assert said == [(other, Redeem((other, 5), False))]
    source.handle(other, Reserved(first.ask, (other, 5), []))
    assert len(said) == 1 and transfer.reserved == first


class LateSlave:
    """The slave of bucket 3, fed by hand. It has not heard that the master has moved from node 2 to node 1."""

    def __init__(self) -> None:
        self.made = made = Instance()
        assert made.ask("n1", KEY, "+before") == "0"
        self.slave = made.manager("n3")
        self.row = BucketRow(3, 2, made.cep("n1"), made.cep("n3"), 73)
        self.said: list[tuple[Cep, Message]] = []
        self.slave.port.post = lambda to, message: self.said.append((to, message))

    def read(self, row: BucketRow) -> str:
        """Return the status of the answer to a read that was sent by this row."""
        router = Cep("n1.1", "r/n1")
        self.said.clear()
        self.slave.handle(router, Forward(("n1.1", 99), row, KEY, b"?", False, None))
        return str(getattr(self.said[0][1], "status", ""))


@pytest.mark.seed("A31", "A51")
@pytest.mark.parametrize("held", [True, False])
def test_a_slave_that_is_about_to_be_replaced_answers_no_read_after_an_older_row(
    held: bool,
) -> None:
    """It has told the new master that it answers no more. The row of that master comes afterwards."""
    late = LateSlave()
    before = late.made.index("n1").state.rows[3]
    assert late.read(before) == "done"
    master = late.row.master
    late.said.clear()
    late.slave.handle(master, Hold(3, 2, held, 7))
    assert [m for _, m in late.said if isinstance(m, Held)] == ([Held(3, 2, 7)] if held else [])
    for row in (before, late.row):
        assert late.read(row) == ("moved" if held else "done")
    late.slave.handle(late.made.cep("n2"), Placed([late.row]))
    assert late.read(late.row) == ("moved" if held else "done")
    assert late.slave.copies[3].row == late.row
    late.slave.handle(master, Hold(3, 2, False, 7))
    assert late.read(late.row) == "done"


@pytest.mark.seed("A51")
def test_the_order_to_cancel_a_move_has_an_end_when_the_manager_is_lost() -> None:
    settings = seed_settings(ask_timeout=60.0)
    world = BucketWorld(settings, seed=1)
    for name in MASTERS:
        world.start(name, full_member(ledger(), name, settings, PLACEMENT))
    world.run(2.0)
    ended: list[Any] = []
    world.machines["n1.1"].routers["r/n1"].cancel(3, ended.append)
    world.kill("n2.1")  # the master of bucket 3
    world.flush("n1.1")
    assert world.run(5.0, lambda: bool(ended)), "nobody is left to answer"
    assert isinstance(ended[0], OutcomeUnknown)


@pytest.mark.seed("A30", "A49")
def test_a_slave_that_never_heard_of_the_first_rows_becomes_master() -> None:
    """The copy that makes the instance is lost with its messages to node 3. Its buckets have their backup there."""
    settings = seed_settings()
    world = BucketWorld(settings, seed=1)
    send = world._send

    def lose(frm: str, to: str, data: bytes) -> None:
        if (frm, to) != ("n1.1", "n3.1") or not isinstance(decode(data).message, Placed):
            send(frm, to, data)

    world._send = lose  # type: ignore[method-assign]
    for name in MASTERS:
        world.start(name, full_member(ledger(), name, settings, PLACEMENT))
    index = world.machines["n1.1"].indices["i/n1"]
    assert world.run(5.0, lambda: bool(index.state.version))
    world.run(0.01)
    assert not world.machines["n3.1"].managers["m/n3"].copies
    world.kill("n1.1")
    rows = world.machines["n2.1"].indices["i/n2"].state.rows
    assert rows[1].master.member == "n1.1" and rows[1].slave == Cep("n3.1", "m/n3")
    answers: list[Any] = []
    world.run(5.0)
    world.request("n2.1", Request(b"+x", key_in(2)), answers.append)
    assert world.run(5.0, lambda: bool(answers)), "the bucket has no copy"
    assert answers[0][0][1] == b"0"


@pytest.mark.seed("A30")
def test_a_slave_takes_a_change_of_the_first_epoch_before_the_first_row() -> None:
    """The index's row to node 3 takes two seconds. The master does not wait until it repeats the change."""
    settings = seed_settings(repeat_after=60.0)
    world = BucketWorld(settings, seed=1)
    send = world._send

    def late(frm: str, to: str, data: bytes) -> None:
        if to == "n3.1" and isinstance(decode(data).message, Placed):
            world.at(2.0, lambda: send(frm, to, data))
        else:
            send(frm, to, data)

    world._send = late  # type: ignore[method-assign]
    for name in MASTERS:
        world.start(name, full_member(ledger(), name, settings, PLACEMENT))
    router = world.machines["n1.1"].routers["r/n1"]
    assert world.run(5.0, lambda: bool(router.index.state.version))
    answers: list[Any] = []
    world.request("n1.1", Request(b"+x", KEY), answers.append)
    assert world.run(1.0, lambda: bool(answers)), "the slave knows of no copy"
    assert answers[0][0][1] == b"0"


@pytest.mark.parametrize("late", [0.0, 11.0])
def test_a_message_of_a_new_member_waits_for_the_view_in_which_it_is(late: float) -> None:
    """The next view is that without a member that has left. A message of a sender that no view ever shows is dropped."""
    machine = BucketMachine("a", seed_settings(), node="a", seed=1)
    machine.on_view(("a", "b"))
    asked = encode(BucketPacket("*census*", "*census*", AskStatistics(7, False)))
    machine.receive("c", asked)
    machine.advance(late)
    machine.on_view(("a",))
    machine.take()
    machine.on_view(("a", "c"))
    said = [to for to, data in machine.take() if isinstance(decode(data).message, Statistics)]
    assert said == (["c"] if not late else [])


@pytest.mark.seed("A51")
def test_a_move_to_a_member_that_the_master_does_not_see_yet_is_refused() -> None:
    """The view of the master's manager is late. The parcels would go to nobody, and the move would have no end."""
    made = Instance()
    source, said = made.manager("n2"), list[tuple[Cep, Message]]()
    row, router = made.index("n1").state.rows[3], Cep("n1.1", "r/n1")
    source.port.post = lambda to, message: said.append((to, message))
    source.handle(router, Move(7, row, "master", Cep("n9.1", "m/n9"), OLD))
    assert said == [
        (router, Told(7, False, "the master's manager does not see m/n9@n9.1 yet", busy=True))
    ]
    assert source.copies[3].transfer is None
