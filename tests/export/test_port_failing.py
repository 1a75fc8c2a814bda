"""A user's store whose snapshots raise: the client gets an error, and the port goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from export_kit import TOKEN, Tree, client_of, in_thread, state_of

sys.path.insert(0, str(Path(__file__).parent.parent / "cache"))  # faulty_store.py

from faulty_store import FaultyStore

from jgroups_py.cache import CacheSettings, Fqn, LoaderConfig, StoreConfig, open_tree_cache
from jgroups_py.cache.store import StorePicture
from jgroups_py.export import ExportClient, ExportError, open_export

pytestmark = pytest.mark.sockets


class RudePicture(StorePicture):
    def __init__(self, store: RudeStore) -> None:
        self._store = store

    async def page(
        self, path: Fqn, after: Fqn | None, limit: int, *, values: bool = True
    ) -> Sequence[tuple[Fqn, bytes]]:
        if self._store.at == "page":
            raise ValueError("boom")
        return []

    async def aclose(self) -> None:
        self._store.closed += 1
        if self._store.at == "aclose":
            raise ValueError("boom")


class RudeStore(FaultyStore):
    at = ""
    closed = 0

    async def picture(self) -> Any:
        return RudePicture(self)


def whole(client: ExportClient) -> Tree:
    return state_of(client, client.open_snapshot("cache").id)


@pytest.mark.parametrize("at", ["page", "aclose"])
async def test_a_picture_that_raises_harms_one_request(at: str) -> None:
    store = RudeStore()
    settings = CacheSettings(
        cache_loader_configuration=LoaderConfig(cacheloader=StoreConfig(), passivation=True)
    )
    async with (
        open_tree_cache(settings, store=store) as cache,
        open_export(cache, token=TOKEN) as port,
    ):
        await cache.put("/a", "x", 1)
        async with client_of(port) as client:
            store.at = at
            if at == "page":
                with pytest.raises(ExportError, match="the store raised ValueError: boom"):
                    await in_thread(whole, client)
            else:
                opened = await in_thread(client.open_snapshot, "cache")
                await in_thread(client.close_snapshot, opened.id)
                assert store.closed == 1
            store.at = ""
            again = await in_thread(client.open_snapshot, "cache")
            assert list(await in_thread(state_of, client, again.id)) == ["/a"]
        assert port.counters["failed"] == 0
