"""The calls of a local cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.lowlevel

from jgroups_py.cache import CacheLimits, Fqn, TreeCache, open_tree_cache
from jgroups_py.cache.node import Node
from jgroups_py.errors import BatchConflict, CacheClosed, CacheError, CacheRefused


@pytest.fixture
async def cache() -> AsyncIterator[TreeCache]:
    async with open_tree_cache("local.xml") as opened:
        yield opened


async def test_attributes_of_a_node_are_written_and_read(cache: TreeCache) -> None:
    await cache.put("/users/7", "name", "Ada")
    await cache.put_node("/users/7", {"born": 1815, "tags": ["a", None, 1.5, b"x"]})
    assert await cache.get("/users/7", "name") == "Ada"
    assert await cache.get_node("/users/7") == {
        "name": "Ada",
        "born": 1815,
        "tags": ["a", None, 1.5, b"x"],
    }
    assert await cache.keys("/users/7") == ("born", "name", "tags")
    assert await cache.get("/users/7", "none") is None
    assert await cache.get("/users/8", "name", "nobody") == "nobody"
    await cache.put_node("/users/7", {"name": "Ada L."}, replace=True)
    assert await cache.get_node(["users", "7"]) == {"name": "Ada L."}


async def test_a_prefix_of_nodes_is_no_node(cache: TreeCache) -> None:
    await cache.put_node("/a/b/c", {})
    assert await cache.exists("/a/b/c") and await cache.get_node("/a/b/c") == {}
    assert not await cache.exists("/a/b") and await cache.get_node("/a/b") is None
    assert await cache.children("/") == ("a",) and await cache.children("/a") == ("b",)
    assert await cache.remove_node("/a/b") is False
    assert await cache.remove_node("/a/b/c") is True
    assert await cache.children("/") == ()


async def test_an_attribute_a_node_and_a_subtree_are_removed(cache: TreeCache) -> None:
    for path in ("/a", "/a/b", "/a/b/c", "/ab"):
        await cache.put(path, "x", 1)
    assert await cache.remove("/a", "x") and not await cache.remove("/a", "x")
    assert await cache.get_node("/a") == {}
    assert await cache.remove_node("/a/b") and await cache.exists("/a/b/c")
    assert await cache.remove_tree("/a") == 2
    assert await cache.children("/") == ("ab",)
    assert await cache.remove_tree("/") == 1 and await cache.remove_tree("/") == 0
    assert cache.statistics().nodes == cache.statistics().bytes == 0


async def test_a_subtree_moves(cache: TreeCache) -> None:
    for path in ("/a", "/a/b/c", "/z"):
        await cache.put(path, "was", path)
    assert await cache.move("/a", "/q/r") == 2
    assert await cache.children("/") == ("q", "z")
    assert await cache.get("/q/r/b/c", "was") == "/a/b/c"
    assert await cache.move("/nothing", "/z/1") == 0
    for source, target in (("/q", "/q/x"), ("/q/r", "/q"), ("/q", "/q"), ("/q", "/z")):
        with pytest.raises(CacheRefused):
            await cache.move(source, target)
    assert await cache.children("/q/r/b") == ("c",)


async def test_a_value_cannot_change_behind_the_caches_back(cache: TreeCache) -> None:
    value = {"list": [1]}
    await cache.put("/a", "x", value)
    value["list"].append(2)
    (await cache.get("/a", "x"))["list"].append(3)
    assert await cache.get("/a", "x") == {"list": [1]}


async def test_bytes_are_counted_as_stored(cache: TreeCache) -> None:
    await cache.put("/a", "key", b"0123456789")  # 3, and 2 + 10 in msgpack
    await cache.put("/b", "é", 1)  # 2, and 1
    assert cache.statistics().bytes == 15 + 3
    await cache.put("/a", "key", b"")
    assert cache.statistics().bytes == 5 + 3
    await cache.remove_tree("/")
    assert cache.statistics().bytes == 0


class Upper:
    """A codec of a user."""

    def encode(self, value: Any) -> bytes:
        return str(value).upper().encode()

    def decode(self, data: bytes) -> Any:
        if data == b"BAD":
            raise ValueError("bad")
        return data.decode()


async def test_a_codec_of_ones_own() -> None:
    async with open_tree_cache("local.xml", codec=Upper()) as cache:
        await cache.put("/a", "x", "text")
        assert await cache.get("/a", "x") == "TEXT"
        await cache.put("/a", "y", "bad")
        with pytest.raises(CacheError, match="cannot be read by this codec"):
            await cache.get("/a", "y")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (7, 1, "is a text, got int"),
        ("", 1, "1 to 1024 bytes, got 0"),
        ("k" * 1025, 1, "got 1025"),
        ("\ud800", 1, "not Unicode"),
        ("k", object(), "object cannot be stored"),
        ("k", 1 << 70, "int cannot be stored"),
        ("k", bytes(101), "at most 100 bytes, got 103"),
    ],
)
async def test_a_value_that_cannot_be_stored_is_refused(key: Any, value: Any, said: str) -> None:
    cache = TreeCache(limits=CacheLimits(max_value_bytes=100))
    with pytest.raises(CacheRefused, match=said) as caught:
        await cache.put("/a", key, value)
    assert caught.value.definite and not await cache.exists("/a")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gravity": True}, "options are gravitation, new, sync, local_only, lock_timeout"),
        ({"new": True, "gravitation": True}, "searches for it"),
        ({"local_only": True, "sync": True}, "local_only excludes"),
        ({"lock_timeout": 0}, "must be > 0"),
        ({"lock_timeout": "5s"}, "must be > 0 seconds, got '5s'"),
    ],
)
async def test_options_that_cannot_be_are_refused(
    cache: TreeCache, options: Any, said: str
) -> None:
    with pytest.raises(CacheRefused, match=said):
        await cache.put("/a", "x", 1, **options)
    assert not await cache.exists("/a")


async def test_the_root_and_the_backups_are_not_for_applications(cache: TreeCache) -> None:
    with pytest.raises(CacheRefused, match="the root holds no attributes"):
        await cache.put("/", "x", 1)
    for call in (
        cache.put("/_buddy_backup_/A", "x", 1),
        cache.remove_tree("/_buddy_backup_"),
        cache.move("/_buddy_backup_/A", "/a"),
        cache.move("/a", "/_buddy_backup_/A"),
    ):
        with pytest.raises(CacheRefused, match="_buddy_backup_ is the cache's own"):
            await call
    assert await cache.children("/_buddy_backup_") == ()


async def test_a_batch_is_all_or_nothing(cache: TreeCache) -> None:
    await cache.put("/a", "x", 1)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, the block is what raises
        async with cache.batch() as batch:
            batch.put("/a", "x", 2)
            raise ZeroDivisionError
    assert await cache.get("/a", "x") == 1
    async with cache.batch() as batch:
        batch.put("/a", "x", 2)
        assert await batch.get("/a", "x") == 2 and await cache.get("/a", "x") == 1
        batch.remove_tree("/a")
        assert not await batch.exists("/a")
        batch.put("/a/b", "y", 3)
        batch.put("/a", "z", 4)
        batch.put("/c", "q", 1)
        batch.remove("/c", "q")
        batch.remove_node("/none")
        assert len(batch) == 7
    assert await cache.get_node("/a") == {"z": 4}
    assert await cache.get_node("/a/b") == {"y": 3}
    assert await cache.get_node("/c") == {}
    with pytest.raises(CacheRefused, match="has ended"):
        batch.put("/a", "x", 1)
    with pytest.raises(CacheRefused, match="has ended"):
        await batch.get("/a", "x")


async def test_a_batch_whose_reads_were_overtaken_changes_nothing(cache: TreeCache) -> None:
    async def withdraw(amount: int) -> None:
        async with cache.batch() as batch:
            balance = await batch.get("/account", "balance")
            await trio.lowlevel.checkpoint()
            batch.put("/account", "balance", balance - amount)

    await cache.put("/account", "balance", 100)
    with pytest.raises(BatchConflict, match="/account was changed"):  # noqa: PT012, the block is what raises
        async with cache.batch() as batch:
            await batch.get("/account", "balance")
            await cache.put("/account", "balance", 99)
            batch.put("/account", "balance", 0)
    assert await cache.get("/account", "balance") == 99

    async def insist() -> None:
        while True:
            try:
                return await withdraw(1)
            except BatchConflict:
                continue

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(insist)
    assert await cache.get("/account", "balance") == 79


async def test_a_batch_has_a_bound() -> None:
    cache = TreeCache(limits=CacheLimits(max_call_nodes=2))
    async with cache.batch() as batch:
        batch.put("/a", "x", 1)
        batch.put("/b", "x", 1)
        with pytest.raises(CacheRefused, match="at most 2 changes"):
            batch.put("/c", "x", 1)
        await batch.get("/1", "x")
        await batch.get("/2", "x")
        with pytest.raises(CacheRefused, match="at most 2 nodes"):
            await batch.get("/3", "x")
    assert await cache.children("/") == ("a", "b")


async def test_a_closed_cache_says_so() -> None:
    async with open_tree_cache("local.xml") as cache:
        await cache.put("/a", "x", 1)
    with pytest.raises(CacheClosed):
        await cache.get("/a", "x")
    with pytest.raises(trio.ClosedResourceError):
        await cache.put("/a", "x", 2)


async def test_other_tasks_run_while_one_calls_without_end(cache: TreeCache) -> None:
    async def busy() -> None:
        while True:
            await cache.put("/a", "x", 1)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy)
            while cache.statistics().counters["writes"] < 2:  # the first one is done
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert await cache.get("/a", "x") == 1


async def test_calls_are_counted(cache: TreeCache) -> None:
    await cache.put("/a", "x", 1)
    await cache.get("/a", "x")
    await cache.get("/b", "x")
    counters = cache.statistics().counters
    assert (counters["reads"], counters["writes"]) == (2, 1)
    assert (counters["hits"], counters["misses"]) == (1, 1)
    assert cache.statistics().nodes == 1
    assert Fqn.parse("/a") == ("a",)


async def test_a_node_is_updated_only_if_it_is_there(cache: TreeCache) -> None:
    assert await cache.update_node("/a", {"k": 1}, without=["l"]) is False
    assert not await cache.exists("/a")
    await cache.put_node("/a", {"l": 1, "m": 1})
    assert await cache.update_node("/a", {"k": 1}, without=["l", "nope"]) is True
    assert await cache.get_node("/a") == {"k": 1, "m": 1}
    for path, key in (("/", "k"), ("/_buddy_backup_/x", "k"), ("/a", "")):
        with pytest.raises(CacheRefused):
            await cache.update_node(path, {"k": 1}, without=[key])


async def test_many_nodes_at_once_are_a_batch(cache: TreeCache) -> None:
    """In a batch, it changes nothing where it would act differently."""

    def node(**attributes: int) -> Node:
        return Node(cache.encode_all(attributes))

    def rows(*nodes: tuple[str, Node]) -> list[tuple[Fqn, Node]]:
        return [(Fqn.parse(path), node) for path, node in nodes]

    await cache.put("/a", "x", 1)
    told: list[int] = []
    cache.tree.observers.append(lambda changes, _: told.append(len(changes)))
    assert await cache.put_at_once(rows(("/a", node(y=2)), ("/b/c", node(z=3))), replace=False)
    assert told == [2]
    assert await cache.get_node("/a") == {"x": 1, "y": 2} and await cache.children("/b") == ("c",)
    assert await cache.put_at_once(rows(("/a", node(y=3))), replace=True)
    assert await cache.get_node("/a") == {"y": 3}

    assert not await cache.put_at_once(rows(("/a", node(y=4)), ("/a", node(z=4))), replace=False)
    async with cache.batch() as batch:
        assert await batch.get("/a", "y") == 3
    for path, wrong in (
        ("/", node(a=1)),
        ("/_buddy_backup_/a", node(a=1)),
        ("/a", Node({"": b"1"})),
        ("/a", Node({"k" * 2000: b"1"})),
    ):
        with pytest.raises(CacheRefused):
            await cache.put_at_once(rows(("/new", node(a=1)), (path, wrong)), replace=False)
    assert not await cache.exists("/new") and await cache.get_node("/a") == {"y": 3}


async def test_many_nodes_at_once_stay_within_memory() -> None:
    properties = {"cache.max_nodes": "10"}
    async with open_tree_cache("local.xml", properties=properties) as cache:
        nodes = [(Fqn((str(n),)), Node({"v": b"1"})) for n in range(50)]
        assert await cache.put_at_once(nodes, replace=False)
        assert cache.statistics().nodes == 10
    with pytest.raises(CacheClosed):
        await cache.put_at_once(nodes, replace=False)


async def test_many_nodes_at_once_wait_for_nobody(cache: TreeCache) -> None:
    """While a call is under way, a batch queues behind it."""
    before = await cache.put_at_once([(Fqn(("a",)), Node({"v": b"1"}))], replace=False)
    cache._invocation._under_way += 1
    try:
        assert before and not await cache.put_at_once([], replace=False)
    finally:
        cache._invocation._under_way -= 1
