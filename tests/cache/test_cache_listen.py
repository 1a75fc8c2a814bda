"""Listening to changes: in order, bounded, and with visible losses."""

from __future__ import annotations

import pytest
import trio

from jgroups_py.cache import EventKind, Missed, NodeChanged, TreeCache, open_tree_cache
from jgroups_py.errors import CacheClosed, CacheRefused


def said(item: NodeChanged | Missed) -> str:
    if isinstance(item, Missed):
        return f"missed {item.count}"
    return f"{item.kind.value} {item.path} {','.join(sorted(item.keys))}".rstrip()


async def test_changes_come_in_order_with_their_keys() -> None:
    async with open_tree_cache("local.xml") as cache:
        async with cache.listen("/a") as changes:
            await cache.put_node("/a", {"x": 1, "y": 2})
            await cache.put_node("/a", {"x": 1, "y": 3, "z": 4})
            await cache.put("/b", "x", 1)
            await cache.remove("/a", "x")
            await cache.put("/a/b", "q", 0)
            await cache.remove_tree("/a")
            seen = [await anext(changes) for _ in range(6)]
        assert [said(item) for item in seen] == [
            "created /a x,y",
            "modified /a y,z",
            "modified /a x",
            "created /a/b q",
            "removed /a y,z",
            "removed /a/b q",
        ]
        batches = [item.batch for item in seen if isinstance(item, NodeChanged)]
        assert batches[4] == batches[5] and len(set(batches)) == 5
        assert all(item.local for item in seen if isinstance(item, NodeChanged))


async def test_the_events_that_a_slow_listener_missed_are_counted_where_the_gap_is() -> None:
    cache = TreeCache()
    async with cache.listen(buffer_max=2) as changes:
        for n in range(5):
            await cache.put("/a", "x", n)
        seen = [said(await anext(changes)), said(await anext(changes))]
        await cache.put("/b", "x", 0)
        for n in range(3):
            await cache.put("/c", "x", n)
        seen += [said(await anext(changes)) for _ in range(4)]
        await cache.put("/d", "x", 0)
        seen.append(said(await anext(changes)))
    assert seen == [
        "created /a x",
        "modified /a x",
        "missed 3",
        "created /b x",
        "created /c x",
        "missed 2",
        "created /d x",
    ]
    assert cache.statistics().missed_by_listeners == 5


async def test_a_stream_ends_with_the_cache_after_its_last_item() -> None:
    async with open_tree_cache("local.xml") as cache:
        listener = cache.listen(kinds=frozenset({EventKind.REMOVED}))
        async with listener:
            await cache.put("/a", "x", 1)
            await cache.remove_node("/a")
            await cache.aclose()
            assert [said(item) async for item in listener] == ["removed /a x"]
        with pytest.raises(CacheClosed):
            async with cache.listen():
                pass
    with pytest.raises(CacheRefused, match="buffer_max must be >= 1, got 0"):
        cache.listen(buffer_max=0)


async def test_a_waiting_listener_is_woken() -> None:
    cache = TreeCache()
    heard = []

    async def listen(task_status: trio.TaskStatus[None]) -> None:
        async with cache.listen("/a") as changes:
            task_status.started()
            async for item in changes:
                heard.append(said(item))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(listen)
            await trio.sleep(0.01)
            await cache.put("/b", "x", 1)
            await cache.put("/a", "x", 1)
            await trio.sleep(0.01)
            await cache.aclose()
    assert heard == ["created /a x"]
