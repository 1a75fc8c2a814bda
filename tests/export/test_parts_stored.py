"""Parts of members with a store each: they have the member's own nodes, in memory or not, but no nodes of others
and no old values."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from cache_group import Group, counter, group, settings
from export_kit import TOKEN, client_of, commit, in_thread, stage, write
from faulty_store import FaultyStore
from test_owners import Table
from test_parts import (
    Between,
    addresses,
    moved_to,
    opened,
    ports_of,
    rows_of,
    snapshots,
    without_told,
)

from jgroups_py.cache import (
    CacheSettings,
    EvictionConfig,
    Fqn,
    LoaderConfig,
    MsgpackCodec,
    RegionConfig,
    SqliteStore,
    StoreConfig,
    TreeCache,
)
from jgroups_py.cache.store import StorePicture
from jgroups_py.errors import CacheError, StoreError
from jgroups_py.export import ExportError, ExportLimits
from jgroups_py.export.client import Address
from jgroups_py.export.parts import close_all
from jgroups_py.export.source import Frozen, RowWrite
from jgroups_py.export.tree import TreeSource

pytestmark = pytest.mark.sockets

ROOM = 5
PATHS = [f"/n/{number}" for number in range(30)]
BOTH = pytest.mark.parametrize("passivation", [True, False], ids=["passivation", "write-through"])


def small(passivation: bool = True, **more: Any) -> CacheSettings:
    """Memory for few nodes; the others are in the store."""
    return settings(
        eviction_policy_config=EvictionConfig(regions=(RegionConfig(name="/", max_nodes=ROOM),)),
        cache_loader_configuration=LoaderConfig(
            cacheloader=StoreConfig(), passivation=passivation, purge_on_startup=True
        ),
        **more,
    )


async def started(
    g: Group, names: str, folder: Path | None = None, passivation: bool = True, **more: Any
) -> list[TreeCache]:
    for name in names:
        g.stores[name] = (
            FaultyStore() if folder is None else SqliteStore(folder / f"{name}.db", durable=False)
        )
    return await g.start(names, small(passivation, **more))


async def read(frozen: Frozen) -> list[tuple[str, dict[str, bytes]]]:
    """Read all rows of a snapshot, then close it."""
    found = [
        (str(path), dict(node.attributes))
        async for page in frozen.pages(0, 10**9, 7)
        for path, node in page
    ]
    assert len(found) == len(frozen)
    await frozen.aclose()
    return found


def passive(cache: TreeCache) -> int:
    return counter(cache, "passive_nodes")


async def whole(members: Sequence[Address], *under: str) -> dict[str, dict[str, bytes]]:
    """Return a snapshot in which each node occurs once."""
    found = await opened(members, *under)
    rows = await in_thread(rows_of, found.pictures)
    await in_thread(close_all, found.pictures, TOKEN)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


# --- contents of parts


@BOTH
async def test_the_parts_have_own_nodes_in_memory_and_in_stores(
    passivation: bool, tmp_path: Path
) -> None:
    async with group() as g:
        a, b, c = caches = await started(g, "ABC", tmp_path, passivation)
        want = {}
        for number, path in enumerate([*PATHS, "/other/x", "/other/y"]):
            await caches[number % 2].put(path, "v", number)
            want[path] = a.encode_all({"v": number})
        assert await a.evict("/n/28") and passive(a) > 5 < passive(b)
        async with ports_of(caches) as ports:
            assert await whole(addresses(ports)) == want
            less = await whole(addresses(ports), "/n/0", "/other", "/n/28", "/_buddy_backup_")
            assert sorted(less) == ["/n/0", "/n/28", "/other/x", "/other/y"]
            # C takes nodes from A's store; B removes some from its own store.
            for path in ("/n/0", "/n/2"):
                await moved_to(c, path)
                await c.put(path, "v", "C's")
                want[path] = a.encode_all({"v": "C's"})
            for path in ("/n/1", "/n/3"):
                assert await b.remove_node(path)
                del want[path]
            await g.protected()
            assert await whole(addresses(ports)) == want
            assert snapshots(ports) == 0


@pytest.mark.seed("B40")
async def test_rows_that_stay_in_the_store_of_a_former_owner_are_not_reported() -> None:
    """Nodes that a call is using are not in it, either."""
    async with group() as g:
        a, b = caches = await started(g, "AB", passivation=False, remove_on_find=False)
        for path in ("/x", "/y"):
            await a.put(path, "v", 1)
        await a.evict("/x")
        for path in ("/x", "/y"):
            await moved_to(b, path)
            await b.put(path, "v", 2)
        await b.remove_node("/y")
        await g.protected()
        store = g.stores["A"]
        assert isinstance(store, FaultyStore) and len(store.rows) == 2
        sources = [TreeSource(cache, ExportLimits()) for cache in caches]
        b.buddies.machine.log.stable = lambda path: False  # type: ignore[method-assign]  # it grants nothing

        async def write() -> None:
            async with (
                a.batch() as batch
            ):  # A's old rows are loaded, and the reader waits for B's nodes
                batch.put("/x", "w", 3)
                batch.put("/y", "w", 3)

        g.nursery.start_soon(write)
        with trio.fail_after(30):
            while a.tree.container.get(Fqn(("x",))) is None:  # noqa: ASYNC110
                await trio.sleep(0.001)
        for under in ("/", "/x"):
            rows = [row for source in sources for row in await read(await source.freeze([under]))]
            assert rows == [("/x", a.encode_all({"v": 2}))]
        assert a.tree.container.get(Fqn(("x",))) is not None


@pytest.mark.parametrize("seed", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4))])
async def test_each_node_once_and_as_it_was_while_nodes_leave_memory_come_back_and_move(
    seed: int, autojump_clock: Any
) -> None:
    """All members increment counters; parts are frozen in all orders, also while members crash and join."""
    choose = random.Random(seed)
    done, begun = Counter[str](), Counter[str]()

    async def traffic(cache: TreeCache) -> None:
        while True:
            path = choose.choice(PATHS)
            at = f"/gone/{choose.randrange(3)}"
            begun[path] += 1
            try:
                async with cache.batch() as batch:
                    batch.put(path, "v", await batch.get(path, "v", 0) + 1)
                done[path] += 1
                await (cache.put(at, "v", 1) if choose.random() < 0.5 else cache.remove_node(at))
            except CacheError:
                pass  # another call came first, or a view changed
            await trio.sleep(choose.choice((0.005, 0.02, 0.05)))

    said: Counter[str] = Counter()

    async def part_of(source: TreeSource) -> tuple[Frozen, Counter[str], Counter[str]]:
        least = done.copy()
        frozen = await source.freeze(["/"])
        return frozen, least, begun.copy()

    async def look(g: Group) -> None:
        sources = [TreeSource(cache, ExportLimits()) for cache in g.caches.values()]
        choose.shuffle(sources)
        parts = []
        for source in sources:
            try:
                parts.append(await part_of(source))
            except StoreError:  # the counter's member has left
                assert source._cache not in g.caches.values()
                return
            await trio.sleep(choose.choice((0.0, 0.0, 0.002)))
        before = [frozen.part for frozen, _, _ in parts]
        held = [*map(without_told, before)] == [without_told(source.part()) for source in sources]
        for source in sources:
            source.close()
        await trio.sleep(choose.choice((0.0, 0.1)))  # later changes are not in the parts
        rows = [await read(frozen) for frozen, _, _ in parts]
        told = [part for part in before if part is not None]
        if len({part.view for part in told}) > 1 or not held or any(p.moving for p in told):
            said["changed"] += 1
            return
        if len(told[0].members) != len(told):
            said["not all members"] += 1
            return
        said["still"] += 1
        said[told[0].view] += 1
        said["stored"] += sum(
            frozen.stored is not None and frozen.stored.count for frozen, *_ in parts
        )
        count = Counter(path for part in rows for path, _ in part)
        assert [path for path in PATHS if count[path] != 1] == []
        assert max(count.values()) == 1
        for (_, least, most), part in zip(parts, rows, strict=True):
            for path, node in part:
                if path in least:
                    assert least[path] <= MsgpackCodec().decode(node["v"]) <= most[path]

    async with group() as g:
        await started(g, "ABCD", passivation=seed % 2 == 1)
        for path in PATHS:
            begun[path] += 1
            await g.caches["ABCD"[len(begun) % 4]].put(path, "v", 1)
            done[path] += 1
        for store in g.stores.values():
            assert isinstance(store, FaultyStore)
            store.slow = 0.0005
        async with trio.open_nursery() as nursery:

            async def at(name: str) -> None:
                with trio.CancelScope() as g.work[name]:
                    await traffic(g.caches[name])

            async def come_and_go() -> None:
                for leave in (g.kill, g.close):
                    await trio.sleep(0.4)
                    g.work["D"].cancel()
                    await leave("D")
                    await trio.sleep(0.4)
                    await started(g, "D", passivation=seed % 2 == 1)
                    nursery.start_soon(at, "D")

            for name in "ABCD":
                nursery.start_soon(at, name)
            nursery.start_soon(come_and_go)
            while not (said["still"] > 25 and said["changed"] > 5 and len(said) > 6):
                await look(g)
                await trio.sleep(choose.choice((0.0, 0.003, 0.02)))
            nursery.cancel_scope.cancel()
        assert said["stored"] > 5 * said["still"], said


class Held(FaultyStore):
    """A store whose next snapshot waits for the test, before or after rows are copied."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late
        self.there, self.go_on = trio.Event(), trio.Event()

    async def picture(self) -> StorePicture:
        found = await super().picture() if self.late else None
        self.there.set()
        await self.go_on.wait()
        return found or await super().picture()


@pytest.mark.parametrize("late", [False, True], ids=["before the rows", "after the rows"])
async def test_changes_while_the_rows_are_taken(late: bool) -> None:
    """Each node is reported with its value at the time when memory was read, wherever it was and is."""
    async with group() as g:
        store = g.stores["A"] = Held(late)
        g.stores["B"] = FaultyStore()
        a, b = await g.start("AB", small())
        for name in ("evicted", "evicted, moved", "evicted, written", "evicted, removed"):
            await a.put(f"/{name}", "v", 1)
        for name in ("row", "loaded", "written", "written, evicted", "removed", "moved"):
            await a.put(f"/{name}", "v", 1)
            assert await a.evict(f"/{name}")
        await b.put("/came, evicted", "v", 1)
        source = TreeSource(a, ExportLimits())
        frozen: list[Frozen] = []

        async def freeze() -> None:
            frozen.append(await source.freeze(["/"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(freeze)
            await store.there.wait()
            await moved_to(a, "/came, evicted")
            await g.protected()
            for name in ("written", "written, evicted"):
                await a.put(f"/{name}", "v", 2)
            for path in [p for p, _ in a.local_nodes(Fqn(()))]:
                if "evicted" in path.name:
                    assert await a.evict(path)
            await a.put("/evicted, written", "v", 2)
            assert await a.get("/loaded", "v") == 1
            for name in ("removed", "evicted, removed"):
                assert await a.remove_node(f"/{name}")
            for name in ("moved", "evicted, moved"):
                await moved_to(b, f"/{name}")
            await g.protected()
            store.go_on.set()
        await a.put("/row", "v", 3)
        rows = await read(frozen[0])
        assert len(rows) == len(dict(rows))
        assert {path: MsgpackCodec().decode(node["v"]) for path, node in rows} == {
            "/evicted": 1,
            "/evicted, written": 2,
            "/row": 1,
            "/loaded": 1,
            "/written": 2,
            "/written, evicted": 2,
            "/came, evicted": 1,
        }


async def test_bulk_writes_reach_passive_nodes(tmp_path: Path) -> None:
    async with group() as g:
        a, b = caches = await started(g, "AB", tmp_path)
        for number in range(30):
            await caches[number % 2].put(f"/n/{number}", "w", number)
        assert passive(a) == passive(b) == 15 - ROOM
        async with ports_of(caches) as ports, client_of(ports[1]) as client:
            rows = [write(number) for number in range(10, 40)] + [RowWrite("/n/0", True, b"")]
            staged = [await in_thread(stage, client, "j", 0, 0, rows)]
            assert (await in_thread(commit, client, "j", staged)).rows == 31
            want = {f"/n/{n}": a.encode_all({"w": n}) for n in range(1, 30)}
            for number in range(10, 40):
                want[f"/n/{number}"] = want.get(f"/n/{number}", {}) | {"v": b"\x01"}
            assert await whole(addresses(ports)) == want


async def test_a_snapshot_and_the_changes_since_are_the_next_snapshot() -> None:
    async with group() as g:
        caches = await started(g, "ABC")
        for number, path in enumerate(PATHS):
            await caches[number % 3].put(path, "v", 0)
        choose = random.Random(1)
        puts = 0

        async def traffic(number: int) -> None:
            nonlocal puts
            while True:
                await caches[number].put(choose.choice(PATHS[number::3]), "v", choose.random())
                puts += 1
                await trio.sleep(0.04 * choose.random())

        async def more(count: int) -> None:
            wanted = puts + count
            with trio.fail_after(60):
                while puts < wanted:  # noqa: ASYNC110
                    await trio.sleep(0.01)

        for store in g.stores.values():
            assert isinstance(store, FaultyStore)
            store.slow = 0.02
        async with ports_of(caches) as ports:
            members = addresses(ports)
            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(traffic, number)
                await more(5)
                found = await opened(members)
                await more(5)
                nursery.cancel_scope.cancel()
            await caches[0].remove_node(PATHS[0])
            await caches[0].put(PATHS[1], "v", "taken")
            await g.protected()
            table = Table(dict(await in_thread(rows_of, found.pictures)), found.offset)
            await in_thread(table.follow, members)
            with trio.fail_after(120):
                while table.tree != await whole(members):
                    await in_thread(table.follow, members)
            assert table.changes > 3 and sum(map(passive, caches)) > 5


# --- events while parts are opened


@pytest.mark.parametrize(
    "what", ["comes", "goes", "removed and made", "leaves memory", "comes back"]
)
async def test_a_stored_node_that_moves_between_two_parts_is_seen(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that leaves memory and comes back has not moved."""
    async with group() as g:
        a, b, _ = caches = await started(g, "ABC")
        owner = b if what == "comes" else a
        await owner.put("/x", "v", 1)
        assert what == "leaves memory" or await owner.evict("/x")

        async def step() -> None:
            if what == "comes":
                await moved_to(a, "/x")
                await g.protected()
                assert await a.evict("/x")
            elif what == "goes":
                await moved_to(b, "/x")
                await g.protected()
                assert await b.evict("/x")
            elif what == "leaves memory":
                assert await a.evict("/x")
            elif what == "comes back":
                assert await a.get("/x", "v") == 1
            else:
                await a.remove_node("/x")
                await b.put("/x", "v", 2)
            await g.protected()

        async with ports_of(caches) as ports:
            Between(monkeypatch, "A", step)
            found = await opened(addresses(ports))
            rows = await in_thread(rows_of, found.pictures)
            assert [path for path, _ in rows] == ["/x"]
            assert (found.tries == 1) == (what in ("leaves memory", "comes back"))
            assert snapshots(ports) == 3


# --- errors


def key(path: str) -> str:
    """Return the key as an SQL literal."""
    return f"x'{(path[1:] + '/').replace('/', chr(0)).encode().hex()}'"


async def test_rows_that_are_damaged_or_gone_and_a_store_that_fails_are_errors(
    tmp_path: Path,
) -> None:
    async with group() as g:
        a, _ = caches = await started(g, "AB", tmp_path)
        for path in PATHS:
            await a.put(path, "v", 1)
        stored = {str(Fqn(p)) for p, entry in a.buddies.entries.items() if entry.passive}
        assert len(stored) == len(PATHS) - ROOM

        def change(what: str) -> None:
            with closing(sqlite3.connect(tmp_path / "A.db")) as db, db:
                db.execute(what)

        async with ports_of(caches) as ports:
            members = addresses(ports)
            good = await opened(members)
            in_memory = next(path for path in PATHS if path not in stored)
            change(f"INSERT OR REPLACE INTO node VALUES ({key(in_memory)}, x'c1')")
            assert sorted(await whole(members)) == sorted(PATHS), "a row that nobody needs"
            change("UPDATE node SET data = x'c1'")
            bad = await opened(members)
            with pytest.raises(ExportError, match=r"the row of /n/\d+ in the store is damaged"):
                await in_thread(rows_of, bad.pictures)
            one = stored.pop()
            change(f"DELETE FROM node WHERE path = {key(one)}")
            worse = await opened(members)
            with pytest.raises(ExportError, match=f"no rows of 1 nodes .* passivated, {one} among"):
                await in_thread(rows_of, worse.pictures)
            assert dict(await in_thread(rows_of, good.pictures)).keys() == set(PATHS)
            change("ALTER TABLE node RENAME TO away")
            with pytest.raises(ExportError, match=r"cannot begin to read .*A\.db: no such table"):
                await opened(members)
            assert snapshots(ports) == 6, "nothing of the last one stays open"
            change("ALTER TABLE away RENAME TO node")


# --- rows without an owner


def kept(**more: Any) -> CacheSettings:
    """Each write goes to the store, too, which is not emptied when it is opened."""
    return settings(
        auto=False, cache_loader_configuration=LoaderConfig(cacheloader=StoreConfig()), **more
    )


async def test_rows_that_nobody_owns_after_a_restart_of_all_are_named_until_they_are_owned_or_gone(
    tmp_path: Path,
) -> None:
    async with group() as g:
        g.stores["A"] = SqliteStore(tmp_path / "A.db", durable=False)
        (a,) = await g.start("A", kept())
        for name in "xyz":
            await a.put(f"/n/{name}", "v", name)
        await a.put("/_export_/query", "batch", 7)
        await a.put("/other", "v", 1)
        await g.close("A")
    async with group() as g:
        g.stores["A"] = SqliteStore(tmp_path / "A.db", durable=False)
        g.stores["B"] = FaultyStore()
        a, b = caches = await g.start("AB", kept())
        assert await a.get("/n/x", "v") == "x" and not await b.exists("/n/x")
        async with ports_of(caches) as ports:
            members = addresses(ports)
            said = r"rows of 3 nodes that nobody owns, /n/x among them"
            with pytest.raises(ExportError, match=said):
                await opened(members, "/n")
            assert snapshots(ports) == 0
            await a.put_node("/n/x", {})
            await a.put("/n/y", "w", 2)
            assert await a.remove_node("/n/z")
            want: dict[str, dict[str, Any]] = {"/n/x": {"v": "x"}, "/n/y": {"v": "y", "w": 2}}
            encoded = {path: dict(a.encode_all(node)) for path, node in want.items()}
            assert await whole(members, "/n") == encoded
            with pytest.raises(ExportError, match=r"rows of 1 nodes that nobody owns, /other"):
                await opened(members)
            await a.remove_node("/other")
            assert await whole(members) == encoded
        await g.protected()
        await g.kill("A")
        await g.protected()
        assert await b.get_node("/n/x") == {"v": "x"}, "it had copies"


async def test_old_rows_of_nodes_that_others_own_are_not_reported(tmp_path: Path) -> None:
    """They are not reported when their owners remove them later, either. The owner is asked once."""
    async with group() as g:
        g.stores["A"] = SqliteStore(tmp_path / "A.db", durable=False)
        g.stores["B"] = FaultyStore()
        a, b = await g.start("AB", kept())
        for name in "xyz":
            await a.put(f"/{name}", "v", 1)
        await g.protected()
        claims = counter(a, "buddy_claims")
        assert len(await read(await TreeSource(a, ExportLimits()).freeze(["/"]))) == 3
        assert counter(a, "buddy_claims") == claims, "its rows are all its own: nobody is asked"
        await g.kill("A")
        await g.protected()
        await b.put("/x", "v", 2)
        g.stores["A"] = SqliteStore(tmp_path / "A.db", durable=False)
        (a,) = await g.start("A", kept())
        await g.together()
        assert await a.get("/x", "v") == 1, "a value"
        async with ports_of([a, b]) as ports:
            members = addresses(ports)
            want = {
                f"/{name}": a.encode_all({"v": v}) for name, v in zip("xyz", (2, 1, 1), strict=True)
            }
            assert await whole(members) == want
            assert await b.remove_node("/y")
            await g.protected()
            del want["/y"]
            claims = counter(a, "buddy_claims")
            assert await whole(members) == want
            assert counter(a, "buddy_claims") == claims


async def test_each_node_of_a_shared_store_is_told_once_while_nodes_are_made_and_removed(
    autojump_clock: Any,
) -> None:
    """A row has no owner for a moment while its node is being removed or made."""
    choose = random.Random(3)

    class Shared(FaultyStore):
        async def aclose(self) -> None:
            pass  # others still have it open

    async with group() as g:
        store = Shared()
        store.slow = 0.01
        g.stores.update(dict.fromkeys("ABC", store))
        caches = await g.start("ABC", kept(remove_on_find=False))
        for number, path in enumerate(PATHS):
            await caches[number % 3].put(path, "v", 1)

        async def traffic(cache: TreeCache, name: str) -> None:
            while True:
                path = f"/{name}/{choose.randrange(5)}"
                await (
                    cache.put(path, "v", 1) if choose.random() < 0.5 else cache.remove_node(path)
                )
                if choose.random() < 0.1:
                    await moved_to(cache, choose.choice(PATHS))

        async with trio.open_nursery() as nursery:
            for name, cache in zip("ABC", caches, strict=True):
                nursery.start_soon(traffic, cache, name)
            good = 0
            while good < 10:
                sources = [TreeSource(cache, ExportLimits()) for cache in caches]
                frozen = [await source.freeze(["/"]) for source in sources]
                before = [each.part for each in frozen]
                after = [without_told(source.part()) for source in sources]
                held = [*map(without_told, before)] == after
                for source in sources:
                    source.close()
                rows = [path for each in frozen for path, _ in await read(each)]
                if held and not any(part.moving for part in before if part is not None):
                    good += 1
                    assert len(rows) == len({*rows}) and {*PATHS} <= {*rows}
                for cache in caches:
                    old = cache.old_rows
                    assert old is not None
                    old._none.clear()  # each check is the first one for its row
            nursery.cancel_scope.cancel()


async def test_a_removed_node_whose_row_a_failing_store_keeps_is_neither_told_nor_complained_of() -> (
    None
):
    async with group() as g:
        store = g.stores["A"] = FaultyStore()
        g.stores["B"] = FaultyStore()
        a, _ = await g.start("AB", kept())
        for name in "xy":
            await a.put(f"/{name}", "v", 1)
            assert await a.evict(f"/{name}")
        store.fault = lambda: "before" if store.calls[-1] == "apply" else ""
        assert await a.remove_node("/x")
        with trio.fail_after(30):
            while ("x",) in a.buddies.entries:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert len(store.rows) == 2
        rows = await read(await TreeSource(a, ExportLimits()).freeze(["/"]))
        assert [path for path, _ in rows] == ["/y"]
