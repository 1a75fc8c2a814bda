"""The interceptors and their calls of replication; a fake plays replication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from faulty_store import FaultyStore

from jgroups_py.cache import Fqn, TreeCache
from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import NodeChange
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.replication import LocalReplication
from jgroups_py.cache.saving import Keeper
from jgroups_py.errors import ReplicationError


class Elsewhere(LocalReplication):
    """Another member owns nodes; a search takes them from it, with all nodes below."""

    keeps_copies = True

    def __init__(self, store: FaultyStore, nodes: dict[str, bytes]) -> None:
        super().__init__()
        self.store = store
        self.nodes = {Fqn.parse(p): Node({"x": value}) for p, value in nodes.items()}
        self.claims: list[tuple[list[str], bool]] = []
        self.commits: list[list[str]] = []
        self.asked_first: list[str] = []
        self.fail = False

    async def claim(self, call: CacheCall, missing: Sequence[Scope], *, search: bool) -> None:
        self.asked_first = list(self.store.calls)
        self.claims.append(([str(scope.path) for scope in missing], search))
        await trio.sleep(1)  # ownership takes time
        for scope in missing if search else ():
            for path in [p for p in self.nodes if p.is_within(scope.path)]:
                self.tree.apply((NodeChange(path, None, self.nodes.pop(path)),), local=False)

    async def commit(self, call: CacheCall) -> None:
        self.commits.append([str(change.path) for change in call.changes])
        await trio.sleep(1)
        if self.fail:
            raise ReplicationError("no buddy has confirmed within 1 s")
        await super().commit(call)


@pytest.fixture
async def store() -> FaultyStore:
    store = FaultyStore()
    await store.open()
    return store


def cache_with(
    elsewhere: Elsewhere, *, automatic: bool = False, with_store: bool = False
) -> TreeCache:
    return TreeCache(
        replication=elsewhere,
        auto_gravitation=automatic,
        keeper=Keeper(elsewhere.store, passivation=True) if with_store else None,
    )


@pytest.mark.seed("B23")
async def test_a_miss_asks_the_others_only_when_the_call_or_the_configuration_says_so(
    store: FaultyStore, autojump_clock: Any
) -> None:
    elsewhere = Elsewhere(store, {"/a": b"\x01", "/a/b": b"\x02", "/c": b"\x03"})
    cache = cache_with(elsewhere)
    assert await cache.get("/a", "x") is None
    assert elsewhere.claims == [(["/a"], False)]
    assert await cache.get("/a", "x", gravitation=True) == 1
    assert elsewhere.claims[1:] == [(["/a"], True)]
    assert await cache.get("/a", "x") == 1  # the node is here now, so no member is asked
    assert len(elsewhere.claims) == 2
    automatic = cache_with(elsewhere, automatic=True)
    assert await automatic.get("/c", "x", gravitation=False) is None
    assert await automatic.get("/c", "x", local_only=True) is None
    assert await automatic.get("/c", "x") == 3
    assert automatic.statistics().counters["searches"] == 1


async def test_loaders_are_asked_before_the_cluster(
    store: FaultyStore, autojump_clock: Any
) -> None:
    """The first half of B22: the node may come from a loader or from an activation."""
    elsewhere = Elsewhere(store, {"/b": b"\x02"})
    store.rows[Fqn.parse("/a")] = Node({"x": b"\x01"})
    cache = cache_with(elsewhere, automatic=True, with_store=True)
    assert await cache.get("/a", "x") == 1 and elsewhere.claims == []
    assert await cache.get("/b", "x") == 2 and elsewhere.claims == [(["/b"], True)]
    assert elsewhere.asked_first == ["load", "load"]


async def test_a_batch_claims_all_its_paths_at_once_and_is_committed_as_one(
    store: FaultyStore, autojump_clock: Any
) -> None:
    elsewhere = Elsewhere(store, {})
    cache = cache_with(elsewhere, automatic=True)
    async with cache.batch() as batch:
        batch.put("/a", "x", 1)
        batch.put("/b", "x", 1)
        batch.put("/a", "y", 1)
        batch.remove_tree("/c")
    assert elsewhere.claims == [(["/a", "/b", "/c"], True)]
    assert elsewhere.commits == [["/a", "/b"]]
    await cache.put("/d", "x", 1, new=True)
    assert elsewhere.claims[1:] == [(["/d"], False)]
    await cache.put("/e", "x", 1, local_only=True)
    assert len(elsewhere.claims) == 2 and elsewhere.commits[1:] == [["/d"]]


async def test_writes_to_one_path_wait_for_each_other_until_they_are_acknowledged(
    store: FaultyStore, autojump_clock: Any
) -> None:
    elsewhere = Elsewhere(store, {})
    cache = cache_with(elsewhere)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.put, "/a", "x", 1)
        nursery.start_soon(cache.put, "/a", "y", 1)
        nursery.start_soon(cache.put, "/b", "x", 1)
    assert trio.current_time() - begin == pytest.approx(4.0)
    assert await cache.keys("/a") == ("x", "y")


async def test_a_write_nobody_confirmed_says_that_it_may_have_happened(
    store: FaultyStore, autojump_clock: Any
) -> None:
    elsewhere = Elsewhere(store, {})
    cache = cache_with(elsewhere)
    elsewhere.fail = True
    with pytest.raises(ReplicationError, match="no buddy has confirmed") as caught:
        await cache.put("/a", "x", 1)
    assert not caught.value.definite
    with pytest.raises(ReplicationError):
        await cache.remove_node("/none")  # asked again whether the last removal is confirmed
    assert elsewhere.commits == [["/a"], []]
    assert cache.statistics().counters["failed_calls"] == 2
