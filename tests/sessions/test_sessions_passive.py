"""Sessions whose values have left memory: they are kept, and removed when they expire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    EvictionConfig,
    LoaderConfig,
    MsgpackCodec,
    RegionConfig,
    StoreConfig,
    open_tree_cache,
)
from jgroups_py.sessions import SessionSettings, SessionStore
from jgroups_py.sessions.store import SWEEP_INTERVAL, Loaded

SMALL = CacheSettings(
    cache_mode="REPL_SYNC",
    stack="sim.xml",
    cluster_name="test",
    buddy_replication_config=BuddyReplicationConfig(
        buddy_replication_enabled=True, auto_data_gravitation=True
    ),
    eviction_policy_config=EvictionConfig(regions=(RegionConfig(name="/", max_nodes=3),)),
    cache_loader_configuration=LoaderConfig(
        cacheloader=StoreConfig(properties={"location": ":memory:"}),
        passivation=True,
        purge_on_startup=True,
    ),
)


ALONE = replace(
    SMALL,
    cache_mode="LOCAL",
    buddy_replication_config=None,
)


@pytest.mark.parametrize("settings", [SMALL, ALONE], ids=["buddies", "local"])
async def test_a_session_that_slept_too_long_is_removed_and_no_other(
    autojump_clock: Any, settings: CacheSettings
) -> None:
    now = 1000.0
    store = SessionStore(SessionSettings(max_idle=100.0), clock=lambda: now)
    async with open_tree_cache(settings, name="A", transport=MemoryNetwork()) as cache:

        async def visit(cookie: str = "") -> str:
            loaded: Loaded = await store.load(cache, f"session={cookie}")
            loaded.session["seen"] = now
            return (await store.save(cache, loaded)).partition(";")[0].partition("=")[2]

        cookies = [await visit() for _ in range(10)]
        assert len(await cache.passive_paths(store._root)) >= 7
        for _ in range(20):  # one visitor comes again and again, the others do not
            now += SWEEP_INTERVAL + 1
            for _ in range(3):
                await visit(cookies[0])
        assert store.statistics()["expired"] == 9
        assert await cache.children("/sessions") == (store._path(cookies[0].partition(".")[0])[-1],)


async def test_a_session_that_nobody_can_read_is_not_the_request_s_problem(
    autojump_clock: Any,
) -> None:
    """The codec may raise, because another one wrote the session."""

    class Picky(MsgpackCodec):
        def __init__(self) -> None:
            super().__init__()
            decode = self.decode

            def picky(data: bytes) -> Any:
                if decode(data) == 13.0:
                    raise ValueError("boom")
                return decode(data)

            self.decode = picky  # type: ignore[assignment]

    now = 1000.0
    store = SessionStore(SessionSettings(max_idle=100.0), clock=lambda: now)
    async with open_tree_cache("local.xml", codec=Picky()) as cache:
        await cache.put("/sessions/odd", "@used", 13.0)
        for _ in range(6):
            now += SWEEP_INTERVAL + 1
            loaded = await store.load(cache, "")
            loaded.session["seen"] = now
            assert await store.save(cache, loaded)
        assert store.statistics()["unreadable"] > 0
        assert await cache.exists("/sessions/odd")
