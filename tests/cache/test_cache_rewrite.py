"""update, increment, compare_and_set, batch(retries=...): in every mode, and their failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from jgroups_py import MemoryNetwork
from jgroups_py.cache import CacheBatch, CacheSettings, TreeCache, open_tree_cache, rewriting
from jgroups_py.cache.full_replication import PATIENCE
from jgroups_py.cache.keeping import KEEP_TIME
from jgroups_py.errors import (
    BatchConflict,
    CacheClosed,
    CacheRefused,
    LockTimeout,
    NotOwner,
    ReplicationError,
)

MODES = ["local.xml", "replicated.xml", "buddy.xml"]
SHARED = MODES[1:]


@asynccontextmanager
async def caches(config: str, names: str = "ABC") -> AsyncIterator[list[TreeCache]]:
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        found = []
        for name in "A" if config == "local.xml" else names:
            opened = open_tree_cache(
                config,
                cluster=None if config == "local.xml" else "shop",
                name=name,
                transport=None if config == "local.xml" else network,
                properties={"cache.stack": "sim.xml"},
            )
            found.append(await stack.enter_async_context(opened))
        await trio.sleep(1)  # copies are made
        assert all(len(cache.members) == len(found) for cache in found[1:])
        yield found


def counter(cache: TreeCache, name: str) -> int:
    return cache.statistics().counters[name]


def idle(cache: TreeCache) -> bool:
    """Check that no call waits for a lock or a turn, or has one."""
    return not len(cache._locks) and not len(cache._rewriter)


@pytest.mark.parametrize("config", MODES)
async def test_each_rewriting_call_has_its_effect(config: str, autojump_clock: Any) -> None:
    async with caches(config) as found:
        a, z = found[0], found[-1]
        assert await a.update("/a", "list", lambda old: [*old, 1], default=[]) == [1]
        assert await z.update("/a", "list", lambda old: [*old, 2]) == [1, 2]
        assert await a.get_node("/a") == {"list": [1, 2]}
        assert await a.increment("/a", "n") == 1
        assert await z.increment("/a", "n", 5) == 6
        assert await a.increment("/a", "n", -0.5, initial=100) == 5.5
        assert await a.increment("/a", "m", 2, initial=100) == 102
        assert await a.compare_and_set("/b", "x", None, 1) is True
        assert await z.compare_and_set("/b", "x", None, 2) is False
        assert await z.compare_and_set("/b", "x", 1, 2) is True
        assert await a.get("/b", "x") == 2
        assert all(map(idle, found))


@pytest.mark.parametrize("config", MODES)
async def test_an_exception_of_the_function_comes_out_and_changes_nothing(
    config: str, autojump_clock: Any
) -> None:
    class Odd(Exception):
        pass

    async def later(_: Any) -> int:
        return 1

    def refuse(_: Any) -> None:
        raise Odd

    async def refuse_batch(batch: CacheBatch) -> None:
        batch.put("/a", "n", await batch.get("/a", "n") + 1)
        raise Odd

    async with caches(config) as found:
        z = found[-1]
        await found[0].put("/a", "n", 1)
        for cache in found:
            with pytest.raises(Odd):
                await cache.update("/a", "n", refuse)
            with pytest.raises(Odd):
                await cache.batch(retries=3).run(refuse_batch)
            with pytest.raises(CacheRefused, match="not async"):
                await cache.update("/a", "n", later)
            with pytest.raises(CacheRefused, match="cannot"):
                await cache.update("/a", "n", lambda _: object())
        assert all(map(idle, found))
        await z.put("/a", "text", "x")
        with pytest.raises(CacheRefused, match="\"text\" of /a is no number: 'x'"):
            await z.increment("/a", "text")
        with pytest.raises(CacheRefused, match="numbers, got True"):
            await z.increment("/a", "n", True)
        assert await z.get_node("/a") == {"n": 1, "text": "x"}
        assert await z.increment("/a", "n") == 2  # nothing is locked


@pytest.mark.parametrize("config", MODES)
async def test_a_batch_runs_again_when_it_lost_a_race(config: str, autojump_clock: Any) -> None:
    async with caches(config) as found:
        a, z = found[0], found[-1]
        await a.put_node("/a", {"n": 1})
        runs = 0

        @z.batch(retries=3)
        async def move(batch: CacheBatch, by: int, *, to: str) -> str:
            nonlocal runs
            runs += 1
            n = await batch.get("/a", "n")
            if runs < 3:
                await z.put("/a", "n", n + 100)  # a caller that does not queue is first
            batch.put("/a", "n", n - by)
            batch.put(to, "n", by)
            return f"{by} moved"

        assert await move(10, to="/b") == "10 moved"
        assert runs == 3
        assert await a.get("/a", "n") == 191 and await a.get("/b", "n") == 10
        assert all(map(idle, found))


@pytest.mark.parametrize("config", MODES)
async def test_the_last_attempt_says_that_nothing_was_changed(
    config: str, autojump_clock: Any
) -> None:
    async with caches(config) as found:
        z = found[-1]

        async def disturbed(batch: CacheBatch) -> None:
            n = await batch.get("/a", "n", 0)
            await z.put("/a", "n", n + 1)
            batch.put("/a", "n", 1000)

        for retries in (0, 2):
            with pytest.raises(BatchConflict, match=f"tried {retries + 1} times") as caught:
                await z.batch(retries=retries).run(disturbed)
            assert caught.value.definite
        assert await z.get("/a", "n") == 4
        assert all(map(idle, found))


async def test_a_block_is_refused_with_advice(autojump_clock: Any) -> None:
    async with caches("local.xml") as (cache,):
        with pytest.raises(CacheRefused, match=r"give batch\(retries=...\) a function"):
            async with cache.batch(retries=3):
                pass
        with pytest.raises(CacheRefused, match=r"give batch\(retries=...\) a function"):
            async for _ in cache.batch(retries=3):
                pass
        for retries in (-1, 1.5, True):
            with pytest.raises(CacheRefused, match="retries is a number >= 0"):
                cache.batch(retries=retries)  # type: ignore[arg-type]
        with pytest.raises(CacheRefused, match="options are"):
            cache.batch(retries=1, colour="red")  # type: ignore[call-overload]


@pytest.mark.parametrize("config", MODES)
@pytest.mark.parametrize("pause", [0.0, 0.005])
async def test_contention_costs_less_than_twice_the_work(
    config: str, pause: float, autojump_clock: Any
) -> None:
    """Ten tasks at each member make ten increments each; each member has a fair share half-way."""
    runs = 0
    half: dict[str, int] = {}
    done: dict[str, int] = {}

    def note(cache: TreeCache) -> None:
        done[cache.name] = done.get(cache.name, 0) + 1
        if sum(done.values()) == 50 * len(found):
            half.update(done)

    async def task(cache: TreeCache) -> None:
        @cache.batch(retries=20)
        async def count(batch: CacheBatch) -> None:
            nonlocal runs
            runs += 1
            n = await batch.get("/n", "n", 0)
            if pause:
                await trio.sleep(pause)
            batch.put("/n", "n", n + 1)

        def add(n: int) -> int:
            nonlocal runs
            runs += 1
            return n + 1

        for turn in range(10):
            if turn % 2:
                await count()
            else:
                await cache.update("/n", "n", add, default=0)
            note(cache)

    async with caches(config) as found:
        async with trio.open_nursery() as nursery:
            for cache in found:
                for _ in range(10):
                    nursery.start_soon(task, cache)
        assert await found[0].get("/n", "n") == 100 * len(found)
        assert runs <= 1.1 * 100 * len(found)
        assert min(half.values()) >= 25, half
        assert all(map(idle, found))
        if config == "replicated.xml":
            assert [counter(cache, "replication_line") for cache in found] == [0] * 3
            assert [counter(cache, "replication_turns_passed") for cache in found] == [0] * 3


@pytest.mark.parametrize("config", SHARED)
async def test_a_wait_for_a_turn_that_does_not_end_is_limited(
    config: str, autojump_clock: Any
) -> None:
    """Two members sleep with a turn; a third one goes on without its own, and they lose their race."""
    async with caches(config) as (a, b, c):
        await a.put("/n", "n", 0)

        def sleeping(cache: TreeCache, seconds: float) -> Callable[[], Any]:
            async def sleep(batch: CacheBatch) -> None:
                n = await batch.get("/n", "n")
                await trio.sleep(seconds)
                batch.put("/n", "n", n + 1)

            return lambda: cache.batch(retries=5).run(sleep)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeping(a, 20))
            nursery.start_soon(sleeping(b, 20))
            await trio.sleep(0.1)
            await c.put("/n", "n", 100)  # makes them lose: they queue afterwards
            await trio.sleep(20.5)
            began = trio.current_time()
            await c.increment("/n", "n")
            assert trio.current_time() - began < 2 * max(PATIENCE, KEEP_TIME) + 0.5
        assert await c.get("/n", "n") == 103
        assert all(map(idle, (a, b, c)))


@pytest.mark.parametrize("config", SHARED)
async def test_a_member_that_is_cancelled_or_gone_leaves_the_line(
    config: str, autojump_clock: Any
) -> None:
    async with caches(config, "AB") as (a, b):
        async with trio.open_nursery() as nursery:

            async def task(cache: TreeCache, scope: trio.CancelScope) -> None:
                with scope:
                    for _ in range(20):
                        await cache.increment("/n", "n")

            async def cancel(scope: trio.CancelScope, turns: int) -> None:
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            for cache in (a, b):
                for n in range(8):
                    scope = trio.CancelScope()
                    nursery.start_soon(task, cache, scope)
                    nursery.start_soon(cancel, scope, 15 * n)
        await trio.sleep(1)
        assert idle(a) and idle(b)
        if config == "replicated.xml":
            assert counter(a, "replication_line") == counter(b, "replication_line") == 0
        began = trio.current_time()
        await a.increment("/n", "n")
        assert trio.current_time() - began < 0.1


async def test_a_member_that_leaves_while_it_is_first_in_line_holds_nobody_up(
    autojump_clock: Any,
) -> None:
    network = MemoryNetwork()
    config = CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="test")

    async with open_tree_cache(config, name="A", transport=network) as a:
        with trio.CancelScope() as crash:
            async with open_tree_cache(config, name="B", transport=network) as b:
                await a.put("/n", "n", 0)

                async def sleep(batch: CacheBatch) -> None:
                    n = await batch.get("/n", "n")
                    await trio.sleep(0.1)
                    await a.put("/n", "n", n + 10)  # B loses, and queues
                    batch.put("/n", "n", n + 1)

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: b.batch(retries=9).run(sleep))
                    await trio.sleep(0.35)
                    assert counter(a, "replication_line") == 1
                    crash.cancel()
        while len(a.members) > 1:  # noqa: ASYNC110
            await trio.sleep(0.1)
        assert counter(a, "replication_line") == 0
        began = trio.current_time()
        await a.increment("/n", "n")
        assert trio.current_time() - began < 0.1


@pytest.mark.parametrize("config", MODES)
async def test_a_turn_that_does_not_come_is_a_lock_time_out(
    config: str, autojump_clock: Any
) -> None:
    async with caches(config) as found:
        z = found[-1]

        async def sleep(batch: CacheBatch) -> None:
            await batch.get("/n", "n")
            await trio.sleep(5)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: z.batch(retries=1).run(sleep))
            await trio.sleep(0.1)
            with pytest.raises(LockTimeout, match="/n within 2 s"):
                await z.increment("/n", "n", lock_timeout=2.0)
            await z.put("/n", "n", 1)  # plain calls do not queue
            nursery.cancel_scope.cancel()
        assert all(map(idle, found))
        assert await z.increment("/n", "n") == 2


async def test_a_rewrite_gives_up_after_rewrites_max_races(
    autojump_clock: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(rewriting, "REWRITES_MAX", 3)
    async with caches("replicated.xml", "AB") as (a, b):

        def always_late(call: Any) -> None:
            call.expected = [(scope, b"another member was first") for scope in call.depends]

        monkeypatch.setattr(a._replication, "promise", always_late)
        with pytest.raises(BatchConflict, match="changed by another member, 3 times"):
            await a.increment("/n", "n")
        assert not await b.exists("/n")
        await trio.sleep(0.1)
        assert counter(b, "replication_line") == 0
        assert idle(a) and idle(b)


async def test_without_gravitation_another_members_node_is_refused(autojump_clock: Any) -> None:
    async with caches("buddy.xml", "AB") as (a, b):
        await a.put("/n", "n", 1)
        with pytest.raises(NotOwner):
            await b.increment("/n", "n", gravitation=False)
        assert await a.get("/n", "n") == 1 and idle(b)


@pytest.mark.parametrize("config", MODES)
async def test_update_node_and_move_are_tried_again(config: str, autojump_clock: Any) -> None:
    """Both functions depend on the nodes that they find, and return their changes."""
    async with caches(config) as found:
        await found[0].put("/a/x", "n", 0)
        there = []

        async def update(cache: TreeCache, n: int) -> None:
            there.append(await cache.update_node("/a/x", {f"{cache.name}{n}": n}))

        async with trio.open_nursery() as nursery:
            for cache in found:
                for n in range(5):
                    nursery.start_soon(update, cache, n)
        assert there == [True] * 5 * len(found)
        assert len(await found[0].keys("/a/x")) == 1 + 5 * len(found)
        moved: list[int] = []

        async def move(cache: TreeCache) -> None:
            moved.append(await cache.move("/a", f"/to-{cache.name}"))

        async with trio.open_nursery() as nursery:
            for cache in found:
                nursery.start_soon(move, cache)
        assert sorted(moved) == [0] * (len(found) - 1) + [1]


@pytest.mark.parametrize("config", MODES)
async def test_after_the_end_they_are_refused(config: str, autojump_clock: Any) -> None:
    async with caches(config) as found:
        cache = found[-1]
    with pytest.raises((CacheClosed, ReplicationError)):
        await cache.increment("/n", "n")
    with pytest.raises(CacheClosed):
        await cache.compare_and_set("/n", "n", None, 1)


@pytest.mark.parametrize("config", SHARED)
async def test_a_member_that_is_slow_has_its_turn_too(config: str, autojump_clock: Any) -> None:
    """One member's batch takes 50 ms, the others change the node every 2 ms."""
    async with caches(config) as (a, b, c):
        runs, over = 0, False

        async def slow(batch: CacheBatch) -> None:
            nonlocal runs
            runs += 1
            n = await batch.get("/n", "n", 0)
            await trio.sleep(0.05)
            batch.put("/n", "n", n + 1000)

        async def fast(cache: TreeCache) -> None:
            while not over:
                await cache.increment("/n", "n")
                await trio.sleep(0.002)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fast, a)
            nursery.start_soon(fast, b)
            for _ in range(10):
                await c.batch(retries=5).run(slow)
            over = True
        assert runs <= 20
        assert await a.get("/n", "n") > 10_000


async def test_a_batch_that_lost_on_another_node_queues_for_that_too(autojump_clock: Any) -> None:
    """Batches begin with nodes of their own, and all change one more node after a while."""
    runs = 0

    async def task(cache: TreeCache, number: int) -> None:
        async def both(batch: CacheBatch) -> None:
            nonlocal runs
            runs += 1
            await batch.get(f"/own/{number}", "n")
            n = await batch.get("/all", "n", 0)
            await trio.sleep(0.01)
            batch.put("/all", "n", n + 1)

        await cache.batch(retries=20).run(both)

    async with caches("local.xml") as (cache,):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(task, cache, number)
        assert await cache.get("/all", "n") == 20
        assert runs <= 40
        assert idle(cache)


async def test_a_batch_that_reads_two_nodes_at_once_takes_one_turn(autojump_clock: Any) -> None:
    async def both(batch: CacheBatch) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch.get, "/a", "n")
            nursery.start_soon(batch.get, "/b", "n")
        batch.put("/c", "n", 1)

    async with caches("local.xml") as (cache,):
        await cache.batch(retries=1).run(both)
        assert await cache.get("/c", "n") == 1 and idle(cache)
