"""The tree cache for threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jgroups_py import (
    blocking,
)
from jgroups_py.blocking.cache import CacheBatch
from jgroups_py.cache import EventKind, NodeChanged
from jgroups_py.errors import BatchConflict, CacheClosed, CacheRefused


def test_a_cache_acts_like_the_async_one(cache: blocking.TreeCache) -> None:
    cache.put("/a/b", "k", [1], timeout=30)
    cache.put_node("/a/c", {"x": 1, "y": 2})
    assert cache.get("/a/b", "k", timeout=30) == [1] and cache.get("/a/b", "z", "none") == "none"
    assert cache.get_node("/a/c") == {"x": 1, "y": 2} and cache.get_node("/nope") is None
    assert cache.keys("/a/c") == ("x", "y") and cache.children("/a") == ("b", "c")
    assert cache.exists("/a/b") and not cache.exists("/a")
    assert cache.remove("/a/c", "x") and not cache.remove("/a/c", "x")
    assert cache.move("/a/b", "/d/b") == 1 and cache.remove_node("/d/b")
    cache.preload("/")
    assert cache.evict("/a/c") and cache.remove_tree("/") == 0
    with pytest.raises(CacheRefused):
        cache.put("/", "k", 1)
    with pytest.raises(CacheRefused, match="options are"):
        cache.put("/a", "k", 1, nope=True)  # type: ignore[call-arg]


def test_bulk_calls_are_one_batch_and_one_look(cache: blocking.TreeCache) -> None:
    paths = [f"/n/{number}" for number in range(600)]
    cache.put_many({path: {"v": path, "w": 1} for path in paths}, timeout=30)
    assert cache.get_many([*paths, "/nope"], "v", "none") == [*paths, "none"]
    assert cache.get_nodes(paths[:2]) == [{"v": path, "w": 1} for path in paths[:2]]
    with pytest.raises(CacheRefused):
        cache.put_many([("/new", {"v": 1}), ("/", {"v": 1})])
    assert not cache.exists("/new")


def test_threads_that_change_the_same_node_queue(cache: blocking.TreeCache) -> None:
    runs = 0

    @cache.batch(retries=5, timeout=30)
    def count(batch: CacheBatch, by: int) -> int:
        nonlocal runs
        runs += 1
        n: int = batch.get("/n", "n", 0) + by
        time.sleep(0.001)
        batch.put("/n", "n", n)
        return n

    def work() -> None:
        for _ in range(5):
            count(1)
            cache.increment("/n", "n", timeout=30)
            cache.update("/n", "n", lambda n: n + 1, timeout=30)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("/n", "n") == 120 and runs <= 80
    assert cache.increment("/m", "n", 2, initial=5) == 7
    assert cache.update("/m", "x", len, default="abc") == 3
    assert cache.compare_and_set("/m", "x", 3, 4, timeout=30)
    assert not cache.compare_and_set("/m", "x", 3, 5)
    assert count(10) == 130 and cache.batch(retries=0).run(count.__wrapped__, 1) == 131  # type: ignore[attr-defined]


def test_the_end_of_a_retried_batch_ends_its_turn(cache: blocking.TreeCache) -> None:
    def fail(batch: CacheBatch) -> None:
        batch.put("/n", "n", batch.get("/n", "n", 0) + 1)
        raise KeyboardInterrupt

    def lose(batch: CacheBatch) -> None:
        n = batch.get("/n", "n", 0)
        batch.put("/n", "n", 1000)
        cache.put("/n", "n", n + 1)

    def wait(batch: CacheBatch) -> None:
        batch.get("/n", "n")
        other = cache.batch(retries=0).run
        with ThreadPoolExecutor(1) as pool, pytest.raises(TimeoutError):
            pool.submit(other, lambda late: late.get("/n", "n", timeout=0.05)).result()

    with pytest.raises(KeyboardInterrupt):
        cache.batch(retries=3).run(fail)
    with pytest.raises(BatchConflict, match="tried 3 times"):
        cache.batch(retries=2).run(lose)
    cache.batch(retries=0).run(wait)
    assert cache.increment("/n", "n", timeout=30) == 4
    with pytest.raises(CacheRefused, match="cannot run again"), cache.batch(retries=3):
        pass
    with pytest.raises(CacheRefused, match="cannot run again"):
        for _ in cache.batch(retries=3):
            pass
    with pytest.raises(CacheRefused, match="retries"):
        cache.batch(retries=-1)
    with pytest.raises(ZeroDivisionError):
        cache.update("/n", "n", lambda n: n / 0)
    cache.close()
    with pytest.raises(CacheClosed):
        cache.batch(retries=3).run(lose)


def test_batches_take_effect_together_or_not_at_all(cache: blocking.TreeCache) -> None:
    cache.put("/a", "n", 1)
    with cache.batch(timeout=30) as batch:
        batch.put("/a", "n", batch.get("/a", "n") + 1)
        batch.put_node("/b", {"n": 5})
        batch.remove_tree("/zzz")
        assert batch.get_node("/b") == {"n": 5} and batch.exists("/a") and len(batch) == 3
    assert cache.get("/a", "n") == 2

    def fail() -> None:
        with cache.batch() as batch:
            batch.put("/a", "n", 7)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    batch = cache.batch().__enter__()
    batch.put("/a", "n", batch.get("/a", "n") + 1)
    cache.put("/a", "n", 100)
    with pytest.raises(BatchConflict):
        batch.__exit__(None, None, None)
    assert cache.get("/a", "n") == 100


def test_listeners_are_called_and_removed(cache: blocking.TreeCache) -> None:
    with cache.listen("/a") as changes:
        with pytest.raises(TimeoutError):
            changes.receive(timeout=0.02)
        cache.put("/b", "k", 1)
        cache.put("/a", "k", 1)
        cache.remove_node("/a")
        got = [next(changes), next(changes)]
        assert [c.kind for c in got if isinstance(c, NodeChanged)] == [
            EventKind.CREATED,
            EventKind.REMOVED,
        ]
        cache.close()
        assert list(changes) == []
    with pytest.raises(CacheClosed):
        cache.get("/a", "k")


def test_eight_threads_use_one_cache(cache: blocking.TreeCache) -> None:
    def work(thread: int) -> None:
        for number in range(100):
            cache.put(f"/t/{thread}/{number}", "v", number, timeout=60)
            assert cache.get(f"/t/{thread}/{number}", "v") == number
            if number % 10 == 0:
                with pytest.raises(CacheRefused):
                    cache.put("/", "v", 1)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, thread) for thread in range(8)]:
            done.result(60)
    assert cache.statistics().nodes == 800
