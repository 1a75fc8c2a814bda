"""The answers that a copy remembers for repeated requests travel with it, and the newest are never left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moving import KEY, MS, member
from seed_instance import key_in, seed_settings

from jgroups_py.buckets import Cep, Request
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.incoming import IncomingCopies
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import BucketRow, EntryChange, Kept, Move
from jgroups_py.buckets.transfer import KEPT_MAX, Transfer
from jgroups_py.testing.explorer.buckets.ledger import OLD, LedgerProvider, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld

REMEMBERED = 20
SETTINGS = seed_settings(
    index_copies=("i/x", "i/y", "i/z"), remembered_max=REMEMBERED, parcel_entries=1
)
SOURCE, THERE = Cep("source.1", "m/source"), Cep("there.1", "m/there")


def _client(machine: BucketMachine) -> None:
    """It is no index copy, so it learns of a move by a message."""
    machine.add_router("r/c", ledger(), machine.add_mirror("i/c"))
    machine.add_proxies("p/c")


@pytest.mark.seed("A51")
def test_a_change_just_before_the_end_of_a_move_is_not_carried_out_again_by_the_new_master() -> (
    None
):
    """The source's answers take 300 ms to the client. So the client hears of the new row first, and repeats its
    requests. More than ``remembered_max`` changes came before the move."""
    world = BucketWorld(SETTINGS, 1, latency=(MS, MS))
    for name in ("x", "y", "z", "source", "slave", "there"):
        world.start(name, member(name))
    world.start("c", _client)
    world.run(1.0)
    answers: list[Any] = []
    for number in range(2 * REMEMBERED):
        world.request("c.1", Request(b"+old", key_in(1, number)), answers.append)
        world.run(MS)
    assert world.run(1.0, lambda: len(answers) == 2 * REMEMBERED)
    tokens = [f"t{number}" for number in range(REMEMBERED // 2)]
    answers.clear()
    moves: list[Any] = []
    world.slow["source.1", "c.1"] = 0.3
    router = world.machines["x.1"].routers["r/x"]
    router.migrate_master_bucket(SOURCE, THERE, moves.append, bucket=0)
    world.flush("x.1")
    for token in tokens:
        world.request("c.1", Request(b"+" + token.encode(), KEY), answers.append)
        world.run(MS)
    assert not moves, "all changes come during the move"
    assert world.run(2.0, lambda: len(moves) == 1 and len(answers) == len(tokens))
    assert moves[0].master == THERE
    found: list[Any] = []
    world.request("c.1", Request(b"?", KEY), found.append)
    assert world.run(5.0, lambda: bool(found))
    assert found[0][0][1].decode().split() == ["old", *tokens]
    repeated = world.machines["there.1"].managers["m/there"].counts["repeated"]
    assert repeated == len(tokens), "the source had carried out all of them"


@pytest.mark.parametrize("before", [3, 2 * KEPT_MAX + 50])
def test_a_copy_remembers_the_same_answers_in_the_same_order_after_a_move(before: int) -> None:
    settings = seed_settings(remembered_max=2 * KEPT_MAX + 50)
    bucket = Bucket(3, LedgerProvider(OLD), settings.remembered_max)
    for number in range(120):
        bucket.adopt(EntryChange(f"k{number}", {"": b"x"}, True, OLD))
    for number in range(before):
        bucket.remember(Kept(("before", number), []))
    row = BucketRow(3, 1, SOURCE)
    transfer = Transfer(1, bucket, row, Move(1, row, "master", THERE, OLD), THERE, settings)
    copies = IncomingCopies(LedgerProvider(OLD), settings, Counter())
    number = 0
    while parcels := list(transfer.parcels()):
        change = EntryChange("k1", {"": b"y"}, True, OLD)
        kept = Kept(("during", number), [])
        number += 1
        bucket.adopt(change)
        bucket.remember(kept)
        for parcel in (*parcels, transfer.tail(change, kept)):
            taken = copies.parcel(SOURCE, parcel, here=False)
            assert taken is not None and not taken.refused
        transfer.taken = transfer.sent
    assert number > 1
    assert copies.copies[3].bucket.all_remembered() == bucket.all_remembered()


def test_older_answers_take_only_the_room_that_is_left() -> None:
    bucket = Bucket(3, LedgerProvider(OLD), 4)
    a, b, c, d, e = (Kept(("r", number), []) for number in range(5))
    for kept in (c, d):
        bucket.remember(kept)
    bucket.remember_older([a, b, c])
    assert bucket.all_remembered() == [a, b, c, d]
    bucket.remember(e)
    bucket.remember_older([a])
    assert bucket.all_remembered() == [b, c, d, e]
