"""The live node does not get far ahead of its backups with one object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from livebackup_group import livebackup_group, put, put_both, slow, slow_put

from jgroups_py.livebackup.locks import ObjectLock
from jgroups_py.livebackup.pace import FIRST, LEAST, NEWEST_MIN, ObjectPace


class Backup:
    """Settles operations of one object, in their order."""

    def __init__(self, aim: float) -> None:
        self.now, self.newest, self.settled = 0.0, -1, -1
        self.lock = ObjectLock("Queue/q")
        self.pace = ObjectPace(aim, lambda number: number > self.settled, lambda: self.now)

    @property
    def on_their_way(self) -> int:
        return self.newest - self.settled

    def fill(self) -> int:
        """Let as many operations begin as allowed. Return the number of unconfirmed operations."""
        while self.pace.may_begin(self.lock):
            self.newest += 1
            self.pace.sent(self.lock.key, self.newest, self.now)
        return self.on_their_way

    def settle(self, seconds: float, number: int = 1) -> None:
        """Confirm a number of operations after a time."""
        self.now += seconds
        self.settled += number
        assert self.pace.confirmed() == [self.lock] and self.pace.confirmed() == []


def test_before_anything_is_confirmed_a_few_operations_of_an_object_may_be_on_their_way() -> None:
    backup = Backup(0.05)
    assert backup.fill() == FIRST
    assert backup.pace.may_begin(ObjectLock("Queue/other"))


def test_operations_on_their_way_are_those_confirmed_in_half_of_the_aim_and_one_way() -> None:
    """An operation is confirmed every 2 ms, beginning 2 ms after the first was sent: 0.025 + 0.002 seconds give
    14 operations, rounded up."""
    backup = Backup(0.05)
    for _ in range(30):
        backup.fill()
        backup.settle(0.002)
    assert backup.fill() == 14


def test_each_confirmation_at_most_doubles_the_operations_under_way() -> None:
    backup = Backup(0.05)
    for step in range(3):
        assert backup.fill() == FIRST * 2**step
        backup.settle(0.0001, backup.on_their_way - 1)


def test_confirmations_that_come_more_slowly_make_fewer_of_them() -> None:
    backup = Backup(0.05)
    for _ in range(30):
        backup.fill()
        backup.settle(0.002)
    for _ in range(30):
        backup.fill()
        backup.settle(0.01)
    assert backup.fill() == 3


def test_a_long_way_to_the_backups_is_no_reason_to_wait() -> None:
    """All operations on their way are confirmed together after 0.2 seconds, so their number may grow."""
    backup = Backup(0.05)
    for _ in range(20):
        backup.fill()
        backup.settle(0.2, backup.on_their_way)
    assert backup.fill() > 20
    backup.settled += 3
    backup.now += 0.1
    assert backup.pace.may_begin(backup.lock)
    backup.pace.backups_changed()
    assert not backup.pace.may_begin(backup.lock), "the way to the others may be shorter"


def test_while_the_oldest_one_is_old_only_two_are_on_their_way() -> None:
    backup = Backup(0.05)
    for number in range(LEAST):
        backup.newest = number
        backup.pace.sent(backup.lock.key, number, backup.now)
    backup.now = 0.025
    assert backup.pace.may_begin(backup.lock), "it is not old yet"
    backup.now = 0.026
    assert not backup.pace.may_begin(backup.lock)
    backup.settled = 0
    assert backup.pace.may_begin(backup.lock), f"fewer than {LEAST} are on their way"


def test_an_aim_of_0_holds_nothing_back() -> None:
    now = 0.0
    pace = ObjectPace(0.0, lambda number: True, lambda: now)
    lock = ObjectLock("Queue/q")
    for number in range(5):
        pace.sent(lock.key, number, now)
    now = 100.0
    assert pace.may_begin(lock)


@pytest.mark.parametrize("several", [1, 2, 3])
def test_objects_that_nobody_asks_for_again_are_forgotten_when_they_are_settled(
    several: int,
) -> None:
    """So many operations of each object are on their way at once."""
    settled, now = -1, 0.0
    pace = ObjectPace(0.05, lambda number: number > settled, lambda: now)
    for number in range(1_000):
        settled, now = number - 10, now + 0.1
        pace.sent(f"Queue/{number // several}", number, now)
        pace.confirmed()
    assert len(pace) <= 12 and pace.objects <= 2 * NEWEST_MIN


@asynccontextmanager
async def watched(live: Any, most: list[float]) -> AsyncIterator[None]:
    """Record the greatest lag in seconds."""

    async def watch() -> None:
        while True:
            most[0] = max(most[0], live.statistics()["lag_seconds"])
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()


async def clients(number: int, job: Callable[[int], Any]) -> None:
    async with trio.open_nursery() as nursery:
        for n in range(number):
            nursery.start_soon(job, n)


@pytest.mark.parametrize(("aim", "least", "most"), [(0.05, 0.025, 0.05), (0.0, 0.2, 10.0)])
async def test_the_lag_of_a_saturated_object_stays_below_the_aim(
    aim: float, least: float, most: float, autojump_clock: Any
) -> None:
    """The backup takes 8 ms for a change, the live node no time, and 60 clients wait for the one object."""
    async with livebackup_group(lag_aim=aim) as group:
        live, backup = await group.start("AB")
        slow(backup, 0.008)
        found = [0.0]
        async with watched(live, found):
            await clients(60, lambda n: live.run(put, "q", n))
        assert least < found[0] <= most
        assert len((await group.equal())["Queue/q"]["messages"]) == 60
        assert bool(live.statistics()["held_back"]) == bool(aim)


async def test_other_objects_are_not_held_back(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        slow(backup, 0.2)
        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(live.run, put, "q", n)
            await trio.sleep(0.1)
            began = trio.current_time()
            await live.run(put, "other", 1)
            assert trio.current_time() - began < 0.05


async def test_changes_that_take_longer_than_the_aim_go_on_in_both_nodes_at_once(
    autojump_clock: Any,
) -> None:
    """Both nodes work at the same time, each on one change after the other: 10 changes of a second
    take 11 seconds, not 20."""
    async with livebackup_group(lag_aim=0.05) as group:
        live, _ = await group.start("AB")
        began = trio.current_time()
        await clients(10, lambda n: live.run(slow_put, "q", n, 1.0))
        assert trio.current_time() - began < 11.5


async def test_operations_that_wait_for_each_other_end_while_both_objects_rest(
    autojump_clock: Any,
) -> None:
    """Each operation changes two objects, in either order, and the backup is slow with one of them: a waiting operation
    holds no object that another one needs."""
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        slow(backup, 0.02)
        with trio.fail_after(60):
            await clients(
                40,
                lambda n: live.run(put_both, *(("q", "r") if n % 2 else ("r", "q")), n, 0.005),
            )
        found = await group.equal()
        assert [len(found[key]["messages"]) for key in ("Queue/q", "Queue/r")] == [40, 40]


@pytest.mark.parametrize("confirm", ["first", "quorum"])
async def test_a_backup_that_nobody_waits_for_holds_nothing_back(
    confirm: Any, autojump_clock: Any
) -> None:
    """One backup hangs. Of three nodes the other backup confirms; that is enough."""
    async with livebackup_group(confirm=confirm) as group:
        live, backup, _ = await group.start("ABC")
        slow(backup, 1_000.0)
        began = trio.current_time()
        await clients(60, lambda n: live.run(put, "q", n))
        assert trio.current_time() - began < 1.0
        assert live.statistics()["lag_operations"] == 60, "the named limits see it all the same"


async def test_the_loss_of_the_backup_releases_held_confirmations(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        slow(backup, 1_000.0)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for n in range(20):
                    nursery.start_soon(live.run, put, "q", n)
                    await trio.sleep(0.01)
                assert live.statistics()["held_back"]
                group.kill(backup.channel.name)
        assert len((await group.equal())["Queue/q"]["messages"]) == 20
