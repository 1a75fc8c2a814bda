"""Readers of a backup see confirmed operations only. Operations that the live node starts itself are slowed down
like all others. In virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from livebackup_group import (
    Queue,
    expire,
    livebackup_group,
    move,
    put,
    put_both,
    slow,
    slow_put,
    states,
)

from jgroups_py.errors import ConfigError
from jgroups_py.livebackup import Cut, Every, LiveBackupSettings, NotReadable
from jgroups_py.livebackup.cut import Copies
from jgroups_py.livebackup.tickets import Ticket


def messages(cut: Cut, *queues: str) -> list[list[Any]]:
    return [cut.get(Queue, queue).messages for queue in queues]


async def test_a_reader_of_a_backup_sees_nothing_of_an_operation_that_is_half_done(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(readable=True) as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, put_both, "a", "b", 2, 5.0)
            await trio.sleep(7)
            assert states(backup)["Queue/a"]["messages"] == [1, 2], "half of it is done"
            assert backup.read(messages, "a", "b") == [[1], []]
        assert backup.read(messages, "a", "b") == [[1, 2], [2]]


async def test_a_complete_operation_is_not_seen_before_those_it_depends_on(
    autojump_clock: Any,
) -> None:
    """The second operation took the first one's message from "a"; the first one is not complete on the backup."""
    async with livebackup_group(readable=True) as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, put_both, "a", "b", 1, 3.0)
            await trio.sleep(1)
            nursery.start_soon(live.run, move, "a", "c")
            await trio.sleep(4)
            assert states(backup)["Queue/c"]["messages"] == [1]
            assert backup.read(messages, "a", "b", "c") == [[], [], []]
        assert backup.read(messages, "a", "b", "c") == [[], [1], [1]]


@pytest.mark.parametrize("seed", range(2))
async def test_every_cut_has_both_halves_of_each_operation_under_load(
    seed: int, autojump_clock: Any
) -> None:
    chance = random.Random(seed)
    async with livebackup_group(readable=True, checksum_every=2) as group:
        live, *backups = await group.start("ABC")
        cuts = 0

        async def client(number: int) -> None:
            for n in range(20):
                first, second = (f"q{chance.randrange(4)}" for _ in range(2))
                await live.run(put_both, first, second, f"{number}-{n}", chance.random() / 10)

        async def reader(cancel: trio.CancelScope) -> None:
            nonlocal cuts
            while not cancel.cancel_called:
                for backup in backups:
                    found = backup.read(messages, *(f"q{n}" for n in range(4)))
                    counts: dict[str, int] = {}
                    for message in (m for queue in found for m in queue):
                        counts[message] = counts.get(message, 0) + 1
                    assert set(counts.values()) <= {2}, counts
                    cuts += 1
                await trio.sleep(0.02)

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader, scope)
                async with trio.open_nursery() as clients:
                    for number in range(5):
                        clients.start_soon(client, number)
                scope.cancel()
        await group.equal()
        assert cuts > 50
        for backup in backups:
            found = backup.read(messages, "q0")
            assert found == [states(backup)["Queue/q0"]["messages"]]
            side: Any = backup._following
            assert len(side.side.copies) == 0, "nothing is kept for confirmed changes"


async def test_a_reader_gets_copies(autojump_clock: Any) -> None:
    async with livebackup_group(readable=True) as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        backup.read(messages, "a")[0].append("mine")
        assert backup.read(messages, "a") == [[1]]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 2, 5.0)
            await trio.sleep(6)
            backup.read(messages, "a")[0].append("mine")
            assert backup.read(messages, "a") == [[1]], "the change is under way"
        await group.equal()


async def test_a_change_that_a_method_would_reverse_is_hidden_from_readers_too(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(readable=True) as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, put_both, "a", "b", 1, 2.0)
            await trio.sleep(3)
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        assert backup.role == "live" and await backup.run(put, "a", 9) == 2


async def test_a_node_that_cannot_be_read_says_why(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        with pytest.raises(NotReadable, match="this node is live, not backup"):
            live.read(messages, "a")
        with pytest.raises(NotReadable, match="readable is not set"):
            backup.read(messages, "a")
    with pytest.raises(ConfigError, match="readable must be false with mode"):
        LiveBackupSettings(readable=True, mode="one_at_a_time")


async def test_a_cut_says_how_many_operations_it_contains(autojump_clock: Any) -> None:
    async with livebackup_group(readable=True) as group:
        live, backup = await group.start("AB")
        for n in range(3):
            await live.run(put, "a", n)
        assert backup.read(lambda cut: cut.operations) == 3


def test_copies_are_kept_until_the_change_is_confirmed() -> None:
    copies = Copies()
    for number in (4, 5, 6):
        copies.keep(Ticket("q", number), {"n": number})
    assert copies.oldest("q") == {"n": 4} and copies.oldest("r") is None
    copies.confirmed([Ticket("q", 5), Ticket("r", 1)])
    assert copies.oldest("q") == {"n": 6} and len(copies) == 1
    copies.confirmed([Ticket("q", 6)])
    assert copies.oldest("q") is None and len(copies) == 0


# --- lag


@pytest.mark.seed("P4")
@pytest.mark.parametrize("confirm", ["first", "quorum"])
async def test_a_backup_that_is_behind_slows_timers_too(confirm: str, autojump_clock: Any) -> None:
    timers = tuple(Every(0.02, expire, ("q",)) for _ in range(3))
    async with livebackup_group(confirm=confirm, lag_operations=5, timers=timers) as group:
        live, *others = await group.start("ABCD")
        slow(others[-1], 1.0)
        most = 0
        for _ in range(100):
            most = max(most, int(live.statistics()["lag_operations"]))
            await trio.sleep(0.05)
        assert live.statistics()["slowed"] > 0 and 4 <= most <= 8
