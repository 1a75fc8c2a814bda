"""The load of the bucket store's benches: lost accounts, and requests that met a move."""

from __future__ import annotations

import random
from typing import cast

import msgspec
import trio
import trio.testing

from jgroups_py.buckets import BucketNode
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, EntryChange
from jgroups_py.tools.bench.account_load import OLD, AccountLoad, key_of


def account_load() -> tuple[AccountLoad, list[EntryChange]]:
    """The load of four accounts, each with a euro; its client saves them in one bucket, in both versions."""
    saved = [
        EntryChange(
            key_of(number),
            {"": msgspec.msgpack.encode({"owner": "", "euros": 1})}
            if number % 2
            else {"": msgspec.msgpack.encode({"owner": "", "cents": 100})},
            True,
            73 if number % 2 else 81,
        )
        for number in range(4)
    ]

    class Client:
        plugin = OLD

        async def next_entries(
            self, bucket: int, after: str, size: int
        ) -> tuple[list[EntryChange], bool]:
            rest = [change for change in saved if change.key > after]
            return rest[:3], len(rest) > 3

    load = AccountLoad(cast(BucketNode, Client()), 4, 1.0, random.Random(1), 1)
    load.paid = [1] * 4
    return load, saved


def test_an_object_without_an_answered_change_counts_as_lost() -> None:
    load, saved = account_load()
    assert trio.run(load.lost) == 0 and load.read == 4
    load.paid[1] = 2
    assert trio.run(load.lost) == 1
    load.paid[1], load.paid[2] = 1, 0
    assert trio.run(load.lost) == 1  # more than was requested
    load.unknown[2] = 1
    assert trio.run(load.lost) == 0
    del saved[3]
    assert trio.run(load.lost) == 1


async def test_requests_to_a_bucket_that_moves_are_told_from_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    load, _ = account_load()
    row = BucketRow(0, 1, Cep("a", "m"), Cep("b", "m"))
    assert not load.was_moving(0, 0.0)
    load.move_begins(row)
    assert load.was_moving(0, 0.0)
    await trio.sleep(1)
    load.move_ends(row)
    assert load.was_moving(0, 0.5) and not load.was_moving(0, 1.5)
