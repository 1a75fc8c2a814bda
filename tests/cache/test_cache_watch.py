"""A put of a single caller finds the buddy's acknowledgement in its own step; the buddy looks for the next change."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import pytest
import trio

from jgroups_py.cache import BuddyReplicationConfig, CacheSettings, TreeCache, open_tree_cache
from jgroups_py.cache.tree import Tree
from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.driver import answer_watch
from jgroups_py.driver.sockets import SocketDriver
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = pytest.mark.sockets
LONG = 5.0
"""Seconds that a caller may look for an answer that comes at once: the machine may run something else meanwhile."""


class Steps(trio.abc.Instrument):
    """Counts steps of tasks. Use it as a block."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self._began = trio.current_time()

    @property
    def of_timers(self) -> int:
        """Return how many steps the timers of two members may have made meanwhile: puts take long on a busy machine."""
        return int(50 * (trio.current_time() - self._began))

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name.rpartition(".")[2]] += 1

    def __enter__(self) -> Self:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_: object) -> None:
        trio.lowlevel.remove_instrument(self)


def driver_of(cache: TreeCache) -> SocketDriver:
    driver = cache.buddies.channel.driver
    assert isinstance(driver, SocketDriver)
    return driver


@pytest.fixture
def file(tmp_path: Any) -> str:
    stack = load_stack("tcp.xml")
    path = tmp_path / "two.xml"
    patient = {"GMS.join_timeout": "20s"}  # B is not alone on a busy machine
    own = private_attributes(stack, 2) | patient
    path.write_text(to_xml(with_attributes(stack, own)))
    return str(path)


@asynccontextmanager
async def pair(
    file: str, mode: Literal["REPL_SYNC", "REPL_ASYNC"] = "REPL_SYNC"
) -> AsyncIterator[tuple[TreeCache, TreeCache]]:
    settings = CacheSettings(
        cache_mode=mode,
        stack=file,
        cluster_name="watch",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": "1", "ignoreColocatedBuddies": "false"},
        ),
    )
    async with open_tree_cache(settings, name="A") as a, open_tree_cache(settings, name="B") as b:
        for cache in (a, b):
            await cache.wait_protected(2)
        for cache in (a, b):  # one process: the other member does not run while this one looks
            driver_of(cache)._requests.watch._limit = 0
            driver_of(cache)._watch._limit = 0
        yield a, b


@pytest.fixture
def the_other_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[TreeCache, TreeCache], None]:
    """Callers of a cache look. Between two looks the cache ``other`` takes what has come for it."""

    def start(cache: TreeCache, other: TreeCache) -> None:
        driver_of(cache)._watch._limit = LONG

        def take() -> None:
            driver = driver_of(other)
            for stream in list(driver.streams.values()):
                inputs = stream.look()
                if inputs:
                    driver.take(inputs)

        monkeypatch.setattr(answer_watch, "offer_processor", take)

    return start


async def test_puts_of_one_caller_wake_no_task(
    file: str, the_other_runs: Callable[[TreeCache, TreeCache], None]
) -> None:
    async with pair(file) as (a, b):
        for number in range(3):
            await a.put("/n", "k", number)
        the_other_runs(a, b)
        with Steps() as steps:
            for number in range(80):
                await a.put("/n", "k", number)
        assert driver_of(a)._watch.ended >= 78
        assert sum(steps.of.values()) <= 60 + steps.of_timers, (
            "a step for each ``watched_max`` puts"
        )


async def test_other_tasks_run_between_puts(
    file: str, the_other_runs: Callable[[TreeCache, TreeCache], None]
) -> None:
    rounds = 0

    async def runs_too() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with pair(file) as (a, b):
        the_other_runs(a, b)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runs_too)
            for number in range(163):
                await a.put("/n", "k", number)
            nursery.cancel_scope.cancel()
        assert 7 <= rounds <= 20 and driver_of(a)._watch.ended >= 150


async def test_several_callers_are_bundled_and_none_looks(
    file: str,
    the_other_runs: Callable[[TreeCache, TreeCache], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def watch(is_over: Callable[[], bool]) -> bool:
        nonlocal looks
        looks += 1
        return SocketDriver.watch(driver_of(a), is_over)

    async def puts(cache: TreeCache, path: str) -> None:
        for number in range(40):
            await cache.put(path, "k", number)

    async with pair(file) as (a, b):
        await a.put("/n", "k", 0)
        the_other_runs(a, b)
        monkeypatch.setattr(driver_of(a), "watch", watch)
        async with trio.open_nursery() as nursery:
            for caller in range(8):
                nursery.start_soon(puts, a, f"/{caller}")
        assert looks <= 12, "the first caller looks until it pauses"
        assert [(await a.get(f"/{caller}", "k")) for caller in range(8)] == [39] * 8


async def test_puts_that_wait_for_nobody_do_not_look(
    file: str, the_other_runs: Callable[[TreeCache, TreeCache], None]
) -> None:
    async with pair(file, "REPL_ASYNC") as (a, b):
        the_other_runs(a, b)
        for number in range(20):
            await a.put("/n", "k", number)
        assert driver_of(a)._watch.ended == driver_of(a)._watch.in_vain == 0


async def test_a_put_that_is_cancelled_while_others_run(
    file: str, the_other_runs: Callable[[TreeCache, TreeCache], None]
) -> None:
    """The pause after some puts is a checkpoint. The change stays, and later puts work."""
    scope, made = trio.CancelScope(), 0

    async def cancel() -> None:
        scope.cancel()

    async with pair(file) as (a, b), trio.open_nursery() as nursery:
        await a.put("/n", "k", 0)
        the_other_runs(a, b)
        with scope:
            for number in range(1, 60):
                if number == 2:
                    nursery.start_soon(cancel)
                await a.put("/n", "k", number)
                made = number
        assert scope.cancelled_caught and made < 33
        assert await a.get("/n", "k") in (made, made + 1)
        looks = driver_of(a)._watch.ended
        for number in range(100, 120):
            await a.put("/n", "k", number)
        assert await a.get("/n", "k") == 119 and driver_of(a)._watch.ended > looks + 10


async def test_a_buddy_looks_for_the_next_change(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    async with pair(file) as (a, b):
        requests = driver_of(b)._requests

        def comes(heard: Any, now: float, count: int) -> bool:
            counts.append(count)
            return False

        monkeypatch.setattr(type(requests), "comes", lambda self, *given: comes(*given))
        await a.put("/n", "k", 0)
        counts.clear()
        for number in range(10):
            await a.put("/n", "k", number)
        assert counts == [1] * 10
        counts.clear()
        async with trio.open_nursery() as nursery:
            for caller in range(8):
                nursery.start_soon(a.put, f"/{caller}", "k", 1)
        assert sum(counts) == 8


async def test_a_change_leaves_before_the_own_tree_changes_and_is_there_when_the_put_returns(
    file: str,
    the_other_runs: Callable[[TreeCache, TreeCache], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    execute, apply = SocketDriver.execute, Tree.apply

    def executed(self: SocketDriver, outs: Any) -> None:
        if self is driver_of(a):
            order.append("sent")
        execute(self, outs)

    def applied(self: Tree, changes: Any, *, local: bool) -> None:
        order.append("applied")
        apply(self, changes, local=local)

    async with pair(file) as (a, b):
        await a.put("/n", "k", 0)
        the_other_runs(a, b)
        monkeypatch.setattr(SocketDriver, "execute", executed)
        monkeypatch.setattr(Tree, "apply", applied)
        await a.put("/n", "k", 1)
        assert order == ["sent", "applied"]
        assert await a.get("/n", "k") == 1
        assert b.buddies.backups()[a.buddies.group.name][("n",)].value is not None
