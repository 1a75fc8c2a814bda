"""The store: SQLite for real, and how a cache uses one."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from faulty_store import FaultyStore

from jgroups_py.cache import (
    CacheSettings,
    EventKind,
    Fqn,
    LoaderConfig,
    SqliteStore,
    StoreConfig,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.cache.node import Node
from jgroups_py.cache.replication import LocalReplication
from jgroups_py.cache.saving import Keeper
from jgroups_py.errors import CacheRefused, StoreError

A, AB, ABC, AC = (Fqn.parse(p) for p in ("/a", "/a/b", "/a/b/c", "/a!"))


def settings(passivation: bool, **more: Any) -> CacheSettings:
    loader = LoaderConfig(cacheloader=StoreConfig(), passivation=passivation, **more)
    return CacheSettings(cache_loader_configuration=loader)


async def test_sqlite_keeps_nodes_by_path(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await store.open()
    one, two = Node({"x": b"1"}), Node({})
    await store.apply([(A, one), (ABC, two), (AC, one)])
    assert await store.load(A) == one and await store.load(AB) is None
    assert dict(await store.load_within(A, 10)) == {A: one, ABC: two}
    assert len(await store.load_within(Fqn(), 2)) == 2
    assert await store.names(Fqn()) == ["a", "a!"] and await store.names(A) == ["b"]
    assert await store.names(ABC) == []
    await store.apply([(A, None), (AB, one), (AC, None)])
    await store.aclose()
    await store.aclose()
    await store.open()
    assert dict(await store.load_within(Fqn(), 10)) == {AB: one, ABC: two}
    await store.purge()
    assert await store.names(Fqn()) == []
    await store.aclose()


async def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE customer (name TEXT)")
    db.close()
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 20)
    for name, said in (("other.db", "database of something else"), ("text", "not a database")):
        with pytest.raises(StoreError, match=said):
            async with open_tree_cache("local.xml", store=SqliteStore(tmp_path / name)):
                pass
    with pytest.raises(StoreError, match="there is no folder"):
        async with open_tree_cache("local.xml", store=SqliteStore(tmp_path / "no" / "s.db")):
            pass
    store = SqliteStore(file)
    with pytest.raises(StoreError, match="it is not open"):
        await store.load(A)


async def test_a_row_that_was_damaged_is_an_error_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with open_tree_cache("local.xml", store=SqliteStore(file)) as cache:
        await cache.put("/a", "x", 1)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE node SET data = 'rubbish'")
    db.close()
    async with open_tree_cache("local.xml", store=SqliteStore(file)) as cache:
        with pytest.raises(StoreError, match=r"cannot read /a from .*s.db: not a node"):
            await cache.get("/a", "x")
        await cache.put("/b", "x", 1)


async def test_a_killed_process_leaves_every_acknowledged_write(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    code = f"""
import os, trio
from jgroups_py.cache import SqliteStore, open_tree_cache
async def main():
    async with open_tree_cache("local.xml", store=SqliteStore({str(file)!r})) as cache:
        for n in range(20):
            async with cache.batch() as batch:
                batch.put("/one", "n", n)
                batch.put("/two", "n", n)
        os._exit(9)
trio.run(main)
"""
    done = await trio.run_process([sys.executable, "-c", code], check=False)
    assert done.returncode == 9
    async with open_tree_cache("local.xml", store=SqliteStore(file)) as cache:
        assert await cache.get("/one", "n") == await cache.get("/two", "n") == 19


async def test_write_through_has_every_write_at_once() -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(False), store=store) as cache:
        await cache.put("/a", "x", 1)
        assert set(store.rows) == {A}
        await cache.evict("/a")
        assert store.calls.count("apply") == 1 and cache.statistics().nodes == 0
        assert await cache.get("/a", "x") == 1
        await cache.remove_node("/a")
        assert not store.rows


async def test_passivation_has_evicted_nodes_and_writes_them_once() -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(True), store=store) as cache:
        await cache.put("/a", "x", 1)
        assert not store.rows
        assert await cache.evict("/a") and not await cache.evict("/a")
        assert set(store.rows) == {A} and cache.statistics().nodes == 0
        assert await cache.children("/") == ("a",)
        assert await cache.get("/a", "x") == 1
        await cache.evict("/a")
        assert store.calls.count("apply") == 1  # unchanged since the last save
        await cache.put("/a", "y", 2)
        await cache.put("/b", "x", 3)
    assert {str(p): sorted(n.attributes) for p, n in store.rows.items()} == {
        "/a": ["x", "y"],
        "/b": ["x"],
    }
    assert not store.is_open


async def test_a_subtree_that_was_evicted_is_removed_and_stays_removed() -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(True), store=store) as cache:
        for path in (A, AB, ABC):
            await cache.put(path, "x", 1)
            await cache.evict(path)
        assert await cache.remove_tree("/a/b") == 2
        assert set(store.rows) == {A}
        assert not await cache.exists("/a/b/c")


async def test_more_stored_nodes_than_a_call_may_load(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", durable=False)
    config = CacheSettings(max_call_nodes=5)
    async with open_tree_cache(config, store=store) as cache:
        for n in range(6):
            await cache.put(f"/a/{n}", "x", n)
            await cache.evict(f"/a/{n}")
        with pytest.raises(CacheRefused, match=r"more than 5 stored nodes within /a \(max_call"):
            await cache.remove_tree("/a")
        assert await cache.children("/a") == tuple("012345")
        await cache.remove_node("/a/0")
        assert await cache.remove_tree("/a") == 5


async def test_purge_and_preload_work(tmp_path: Path) -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(False), store=store) as cache:
        await cache.put("/a/b", "x", 1)
        await cache.put("/c", "x", 1)
    async with open_tree_cache(settings(False, preload="/a, /z"), store=store) as cache:
        assert cache.statistics().nodes == 1
    async with open_tree_cache(settings(False, purge_on_startup=True), store=store) as cache:
        assert await cache.children("/") == ()


async def test_a_write_the_store_refuses_is_not_done() -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(False), store=store) as cache:
        await cache.put("/a", "x", 1)
        store.fault = lambda: "before"
        with pytest.raises(StoreError, match="the disk is full") as caught:
            await cache.put("/a", "x", 2)
        assert caught.value.definite
        assert await cache.get("/a", "x") == 1  # from memory
        with pytest.raises(StoreError):
            await cache.get("/b", "x")  # unknown outcome
        assert cache.statistics().counters["store_failures"] == 2
        store.fault = lambda: ""
    assert store.rows[A].attributes == {"x": b"\x01"}


class Copies(LocalReplication):
    keeps_copies = True


async def test_with_copies_elsewhere_the_store_may_fall_behind_and_catches_up(
    autojump_clock: Any,
) -> None:
    store = FaultyStore()
    await store.open()
    keeper = Keeper(store, passivation=False, behind_max=2)
    cache = TreeCache(keeper=keeper, replication=Copies())
    await cache.put("/gone", "x", 1)
    await cache.put("/a", "x", 1)
    store.fault = lambda: "before" if store.calls[-1] == "apply" else ""
    await cache.put("/a", "x", 2)
    await cache.remove_node("/gone")
    assert set(store.rows) == {A, Fqn.parse("/gone")}
    assert cache.statistics().counters["store_behind"] == 2
    assert not await cache.exists("/gone") and await cache.children("/") == ("a",)
    with pytest.raises(StoreError, match="lacks 2 changes already; nothing was changed"):
        await cache.put("/b", "x", 1)
    with pytest.raises(StoreError):
        await cache.evict("/a")  # not saved: it stays
    assert await cache.get("/a", "x") == 2
    store.fault = lambda: ""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.run)
        await trio.sleep(6)
        nursery.cancel_scope.cancel()
    assert cache.statistics().counters["store_behind"] == 0
    assert {p: n.attributes for p, n in store.rows.items()} == {A: {"x": b"\x02"}}


async def test_closing_reports_unsaved_nodes() -> None:
    store = FaultyStore()
    with pytest.raises(StoreError, match="; 2 changes are not in the store"):  # noqa: PT012, the block is what raises
        async with open_tree_cache(settings(True), store=store) as cache:
            await cache.put("/a", "x", 1)
            await cache.put("/b", "x", 1)
            store.fault = lambda: "before"
    assert not store.is_open
    store.fault = lambda: ""
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, the block is what raises
        async with open_tree_cache(settings(True), store=store) as cache:
            await cache.put("/a", "x", 1)
            store.fault = lambda: "before"
            raise ZeroDivisionError
    assert not store.is_open


async def test_a_cancelled_call_is_done_or_not(autojump_clock: Any) -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(False), store=store) as cache:
        store.slow = 1
        for after in (0.5, 1.5, 2.5):
            with trio.move_on_after(after) as scope:
                await cache.put("/a", "x", after)
            store.slow, before = 0, store.slow
            assert await cache.get("/a", "x") in ((None,) if scope.cancelled_caught else (after,))
            row = store.rows.get(A)
            assert (row is None) is (await cache.get("/a", "x") is None)
            store.slow = before


async def test_loading_and_evicting_can_be_listened_to() -> None:
    store = FaultyStore()
    async with (
        open_tree_cache(settings(True), store=store) as cache,
        cache.listen(kinds=frozenset({EventKind.LOADED, EventKind.EVICTED})) as seen,
    ):
        await cache.put("/a", "x", 1)
        await cache.evict("/a")
        await cache.get("/a", "x")
        kinds = [(await anext(seen)).kind for _ in range(2)]  # type: ignore[union-attr]
    assert kinds == [EventKind.EVICTED, EventKind.LOADED]


@pytest.mark.parametrize("passivation", [False, True])
async def test_a_loaded_subtree_does_not_overwrite_newer_nodes(passivation: bool) -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(passivation), store=store) as cache:
        await cache.put("/a", "x", 1)
        await cache.evict("/a")
        await cache.put("/a", "x", 2)
        store.rows[A] = Node({"x": b"\x01"})  # of any age, while the node is in memory
        await cache.preload("/")
        assert await cache.get("/a", "x") == 2


async def test_a_write_that_failed_but_was_done_does_not_come_back() -> None:
    store = FaultyStore()
    async with open_tree_cache(settings(False), store=store) as cache:
        await cache.put("/a", "x", 1)
        store.fault = lambda: "after"
        with pytest.raises(StoreError):
            await cache.put("/a", "x", 2)
        store.fault = lambda: ""
        assert await cache.evict("/a")
        assert await cache.get("/a", "x") == 1
        store.fault = lambda: "after" if store.calls[-1] == "apply" else ""
        with pytest.raises(StoreError):
            await cache.put("/new", "x", 2)
        store.fault = lambda: ""
        assert not await cache.exists("/new") and await cache.children("/") == ("a",)
