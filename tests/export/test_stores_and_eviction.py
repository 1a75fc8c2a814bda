"""Caches with nodes that are not in memory: they are in a store, or were evicted and are lost."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from export_kit import (
    TOKEN,
    Tree,
    changes_of,
    client_of,
    commit,
    in_thread,
    played,
    stage,
    state_of,
    tree_of,
    write,
)

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.cache.node import node_bytes
from jgroups_py.errors import StoreError
from jgroups_py.export import ExportClient, ExportError, ExportLimits, ExportPort, open_export
from jgroups_py.export.source import RowWrite

pytestmark = pytest.mark.sockets

FILE = """
<cache>
  <CacheMode>LOCAL</CacheMode>
  <EvictionPolicyConfig><region name="/" maxNodes="30"/></EvictionPolicyConfig>
  <CacheLoaderConfiguration>
    <config>
      <passivation>{passivation}</passivation>
      <cacheloader>
        <class>jgroups_py.cache.SqliteStore</class>
        <properties>file = {folder}/store.db</properties>
      </cacheloader>
    </config>
  </CacheLoaderConfiguration>
</cache>
"""


@asynccontextmanager
async def stored(
    folder: Path, passivation: bool = True, **limits: Any
) -> AsyncIterator[tuple[TreeCache, ExportPort, ExportClient]]:
    file = folder / "cache.xml"
    file.write_text(FILE.format(folder=folder, passivation=str(passivation).lower()))
    async with (
        open_tree_cache(str(file)) as cache,
        open_export(cache, token=TOKEN, limits=ExportLimits(**limits)) as port,
        client_of(port) as client,
    ):
        yield cache, port, client


async def whole(cache: TreeCache) -> Tree:
    """Read the whole tree by calls of the cache, one by one."""
    found: Tree = {}
    for name in await cache.children("/n"):
        node = await cache.get_node(f"/n/{name}")
        if node is not None:
            found[f"/n/{name}"] = dict(cache.encode_all(node))
    return found


@pytest.mark.parametrize("passivation", [True, False])
async def test_a_snapshot_has_the_store_of_one_moment(tmp_path: Path, passivation: bool) -> None:
    """The snapshot is read piece by piece while nodes are written, removed, loaded and evicted; the log gives
    the same contents."""
    async with stored(tmp_path, passivation, frame_rows=7) as (cache, _, client):
        begin = (await in_thread(lambda: client.find_offset("cache", earliest=True))).offset
        for number in range(200):
            await cache.put_node(f"/n/{number}", {"v": number, "w": "x"})
        stop = trio.Event()

        async def traffic() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                await cache.put(f"/n/{number * 7 % 250}", "v", number)
                await cache.get_node(f"/n/{number * 11 % 250}")
                if not number % 3:
                    await cache.remove_node(f"/n/{number * 13 % 250}")
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(traffic)
            for part in (2, 3, 5):
                await trio.sleep(0.05)
                opened = await in_thread(client.open_snapshot, "cache")
                cuts = [opened.rows * n // part for n in range(part + 1)]
                tree: Tree = {}
                for start, end in reversed([*pairwise(cuts)]):
                    piece = await in_thread(state_of, client, opened.id, start, end)
                    assert len(piece) == end - start
                    tree |= piece
                assert len(tree) == opened.rows > 100
                told = await in_thread(changes_of, client, begin, opened.offset)
                assert played({}, told) == tree
                await in_thread(client.close_snapshot, opened.id)
            stop.set()
        assert len(cache.tree.container) <= 30
        opened = await in_thread(client.open_snapshot, "cache", ["/n/1", "/n"])
        assert await in_thread(state_of, client, opened.id) == await whole(cache)
        for nothing in (["/other"], []):
            assert (await in_thread(client.open_snapshot, "cache", nothing)).rows == 0


async def test_a_write_that_the_store_has_already_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its row would be in a snapshot that must not contain it."""
    from jgroups_py.cache import SqliteStore

    there, go_on, apply = trio.Event(), trio.Event(), SqliteStore.apply

    async def slow(self: SqliteStore, rows: Any) -> None:
        await apply(self, rows)
        there.set()
        await go_on.wait()

    async def release() -> None:
        await trio.sleep(0.3)
        go_on.set()

    async with stored(tmp_path, False) as (cache, _, client):
        begin = (await in_thread(client.find_offset, "cache")).offset
        monkeypatch.setattr(SqliteStore, "apply", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.put, "/n/1", "v", 1)
            await there.wait()
            nursery.start_soon(release)
            opened = await in_thread(client.open_snapshot, "cache")
        tree = await in_thread(state_of, client, opened.id)
        assert tree == played({}, await in_thread(changes_of, client, begin, opened.offset))


async def test_bulk_writes_reach_the_store_and_keep_its_attributes(tmp_path: Path) -> None:
    async with stored(tmp_path) as (cache, _, client):
        for number in range(100):
            await cache.put(f"/n/{number}", "w", number)
        rows = [write(number) for number in range(50, 150)] + [RowWrite("/n/0", True, b"")]
        parts = [await in_thread(stage, client, "j", 0, 0, rows)]
        await in_thread(commit, client, "j", parts)
        begin = (await in_thread(client.find_offset, "cache")).offset
        parts = [await in_thread(stage, client, "k", 0, 0, rows)]
        await in_thread(lambda: commit(client, "k", parts, skip_equal=True))
        end = (await in_thread(client.find_offset, "cache")).offset
        assert await in_thread(changes_of, client, begin, end) == [], "all was there, in the store"
        assert await cache.get_node("/n/60") == {"v": 1, "w": 60}
        assert await cache.get_node("/n/140") == {"v": 1}
        assert not await cache.exists("/n/0") and await cache.exists("/n/1")
    async with stored(tmp_path) as (cache, _, client):  # in its next life
        opened = await in_thread(client.open_snapshot, "cache")
        assert opened.rows == 149
        assert await in_thread(state_of, client, opened.id) == await whole(cache)


async def test_a_store_that_cannot_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgroups_py.cache import SqliteStore
    from jgroups_py.cache.store import Store

    async with stored(tmp_path, snapshots_max=1, snapshot_min=0.0) as (cache, port, client):
        for number in range(60):
            await cache.put(f"/n/{number}", "w", number)
        opened = await in_thread(client.open_snapshot, "cache")
        await trio.sleep(0.01)
        other = await in_thread(client.open_snapshot, "cache")  # which closes the first
        with pytest.raises(ExportError, match="not open here"):
            await in_thread(state_of, client, opened.id)
        assert len(await in_thread(state_of, client, other.id)) == 60
        await in_thread(client.close_snapshot, other.id)
        with sqlite3.connect(tmp_path / "store.db") as db:
            db.execute("UPDATE node SET data = x'c1'")
        db.close()
        opened = await in_thread(client.open_snapshot, "cache")
        with pytest.raises(ExportError, match=r"the row of /n/\d+ in the store is damaged"):
            await in_thread(state_of, client, opened.id)
        monkeypatch.setattr(SqliteStore, "picture", Store.picture)
        with pytest.raises(ExportError, match="class SqliteStore cannot be read as of one moment"):
            await in_thread(client.open_snapshot, "cache")
        assert len(port._snapshots) <= 1
        monkeypatch.undo()
        await in_thread(client.close_snapshot, opened.id)
        with sqlite3.connect(tmp_path / "store.db") as db:
            db.execute("DELETE FROM node")
        db.close()


async def test_a_node_evicted_without_a_store_is_told_as_removed() -> None:
    """A follower has the contents of the cache, even after memory was full."""
    async with (
        open_tree_cache("local.xml", properties={"cache.max_nodes": "20"}) as cache,
        open_export(cache, token=TOKEN) as port,
        client_of(port) as client,
    ):
        begin = (await in_thread(client.find_offset, "cache")).offset
        for number in range(50):
            await cache.put(f"/n/{number}", "v", number)
        assert await cache.evict("/n/49")
        opened = await in_thread(client.open_snapshot, "cache")
        parts = [await in_thread(stage, client, "j", 0, 0, [write(n) for n in range(100, 150)])]
        await in_thread(commit, client, "j", parts)
        tree = await in_thread(state_of, client, opened.id)
        assert 0 < len(tree) < 20
        assert played({}, await in_thread(changes_of, client, begin, opened.offset)) == tree
        end = (await in_thread(client.find_offset, "cache")).offset
        rest = await in_thread(changes_of, client, opened.offset, end)
        assert played(tree, rest) == tree_of(cache)


def test_a_plugged_store_loads_many_one_by_one() -> None:
    from jgroups_py.cache.fqn import Fqn
    from jgroups_py.cache.node import Node
    from jgroups_py.cache.store import Store

    class Mine(Store):
        async def open(self) -> None: ...
        async def aclose(self) -> None: ...
        async def load(self, path: Fqn) -> Node | None:
            return Node({"v": b"1"}) if path == ("a",) else None

        async def load_within(self, path: Fqn, limit: int) -> list[tuple[Fqn, Node]]:
            return []

        async def names(self, path: Fqn) -> list[str]:
            return []

        async def apply(self, rows: Any) -> None: ...
        async def purge(self) -> None: ...

    async def use() -> None:
        paths = [Fqn(("a",)), Fqn(("b",))]
        ((path, node),) = await Mine().load_many(paths)
        assert path == ("a",) and node_bytes(node)
        with pytest.raises(StoreError, match="class Mine"):
            await Mine().picture()

    trio.run(use)
