"""The ends of moves where messages are slow: questions that take longer than they are asked for again, rows that come late."""

from __future__ import annotations

from typing import Any

import pytest
from moving import MANAGERS, MS, SETTINGS, Moving, member
from seed_instance import MASTERS, Instance, key_in

from jgroups_py.buckets import Cep, Request
from jgroups_py.buckets.errors import Refused
from jgroups_py.buckets.messages import BucketRow, Kept, Parcel, Placed, Told
from jgroups_py.testing.explorer.buckets.ledger import OLD
from jgroups_py.testing.explorer.buckets.world import BucketWorld

SLOW = 0.4
"""Seconds of a message. An answer of the index takes longer than ``ask_timeout``."""


class SlowMove(Moving):
    """The slave moves. Each message takes ``SLOW``."""

    def __init__(self) -> None:
        latency = 0.98 * SLOW, 1.02 * SLOW
        self.world = world = BucketWorld(SETTINGS, 1, latency=latency, detection=(0.05, 0.06))
        for name in ("x", "y", "z", *MANAGERS):
            world.start(name, member(name))
        world.run(15.0)
        self.answers, self.asked, self.moves = [], 0, []
        router = world.machines["z.1"].routers["r/z"]
        ends = Cep("slave.1", "m/slave"), Cep("there.1", "m/there")
        router.migrate_slave_bucket(*ends, self.moves.append, bucket=0)
        world.flush("z.1")


@pytest.mark.seed("A51", "A52")
def test_a_move_that_the_index_refuses_late_is_rolled_back_and_unlocks_its_bucket() -> None:
    """The reservation is over because the slave acknowledges late. Then the destination is lost."""
    moving = SlowMove()
    world = moving.world
    world.slow["slave.1", "source.1"] = 3.0
    for _ in range(200):
        if moving.phase == "deciding":
            break
        moving.change()
        world.run(0.1)
    assert moving.phase == "deciding"
    world.kill("there.1")
    assert world.run(40.0, lambda: bool(moving.moves)), "the order has no end"
    assert isinstance(moving.moves[0], Refused)
    copy = world.machines["source.1"].managers["m/source"].copies[0]
    assert not copy.locked and copy.transfer is None


@pytest.mark.seed("A51")
def test_a_reservation_lasts_until_a_busy_bucket_has_redeemed_it() -> None:
    """Its master is away from the index copy, so five messages follow each other, and four prepared it."""
    made = Instance(1, latency=(0.35, 0.45), ask_timeout=1.0)
    assert made.world.run(60.0, lambda: all(made.index(n).state.version for n in MASTERS))
    made.world.run(5.0)
    moves: list[Any] = []
    made.router("n2").migrate_master_bucket(made.cep("n2"), made.cep("n1"), moves.append, bucket=3)
    made.world.flush("n2.1")
    for number in range(300):
        if moves:
            break
        request = Request(b"+t%d" % number, key_in(4))
        made.world.request("n3.1", request, lambda answer: None)
        made.world.run(0.1)
    assert isinstance(moves[0], BucketRow)
    assert sum(made.index(name).counts["reservations_over"] for name in MASTERS) == 0


def test_a_move_is_done_if_the_new_master_moves_a_copy_back_before_the_index_says_so() -> None:
    """A parcel of the new master comes before the decision. It names the epoch, not the slave."""
    moving = Moving("master")
    world = moving.world
    while moving.phase != "deciding":
        world.run(MS / 10)
    source = world.machines["source.1"].managers["m/source"]
    transfer = source.copies[0].transfer
    assert transfer is not None
    decided = transfer.moved()
    source.handle(Cep("there.1", "m/there"), Parcel(0, 1, 0, decided.epoch, [], []))
    world.flush("source.1")
    world.run(1.0)
    assert moving.moves == [decided]
    assert world.machines["x.1"].indices["i/x"].state.rows[0] == decided


def test_a_decided_row_is_taken_although_its_question_is_forgotten() -> None:
    source = Moving("master").world.machines["source.1"].managers["m/source"]
    row = source.copies[0].row
    decided = BucketRow(0, row.epoch + 1, row.master)
    source.handle(Cep("x.1", "i/x"), Told(1, True, "", decided))
    assert source.copies[0].row == decided


@pytest.mark.seed("A51")
def test_a_bucket_is_not_locked_while_many_changes_are_on_their_way() -> None:
    """The lock would last until the destination has taken them. 400 are on their way, and 128 are allowed."""
    moving = Moving("master")
    world = moving.world
    world.slow["there.1", "source.1"] = 400 * MS
    copy = world.machines["source.1"].managers["m/source"].copies[0]
    for _ in range(3_000):
        moving.change()
        world.run(MS)
    assert moving.phase == "ending" and not copy.locked and not moving.moves
    assert world.run(5.0, lambda: bool(moving.moves)), "it is quiet now"
    assert isinstance(moving.moves[0], BucketRow)
    moving.judge()


@pytest.mark.parametrize("first", ["the copy", "that it is elsewhere"])
def test_a_late_first_row_makes_no_empty_copy(first: str) -> None:
    """It would take the place of the copy on its way, and the bucket's entries would be lost."""
    moving = Moving("master")
    manager = moving.world.machines["there.1"].managers["m/there"]
    there, source = manager.cep, Cep("source.1", "m/source")
    assert not manager.copies
    manager.incoming.copies.clear()
    manager._left.clear()  # it has heard of no row
    parcel = Parcel(1, 9, 0, 2, [], [Kept(("r", 1), [])])
    if first == "the copy":
        manager.handle(source, parcel)
    else:
        manager.handle(source, Placed([BucketRow(1, 2, source)]))
    manager.handle(source, Placed([BucketRow(1, 1, source, there, OLD)]))
    assert 1 not in manager.copies
    if first != "the copy":
        manager.handle(source, parcel)
    manager.handle(source, Placed([BucketRow(1, 3, source, there, OLD)]))
    assert manager.copies[1].bucket.remembered(("r", 1)) is not None
