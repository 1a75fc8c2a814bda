"""The chain of interceptors names each step in its order, and names the step that runs the body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cache_group import group, settings
from faulty_store import FaultyStore

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    CacheSettings,
    Fqn,
    LoaderConfig,
    StoreConfig,
    TreeCache,
    interceptor,
    open_tree_cache,
)
from jgroups_py.cache.interceptor import Interceptor
from jgroups_py.errors import CacheRefused

STORED = LoaderConfig(cacheloader=StoreConfig(), passivation=False)


class Steps:
    """The steps of a call: the interceptors that it enters, and the work that is done meanwhile."""

    def __init__(self, cache: TreeCache) -> None:
        self.happened: list[str] = []
        for step in cache._interceptors:
            self._note_entry(step)
        replication = cache._replication
        replication.tree.observers.append(lambda *_: self.happened.append("true"))
        commit = replication.commit

        async def confirmed(call: Any) -> None:
            await commit(call)
            self.happened.append("confirmed")

        replication.commit = confirmed  # type: ignore[method-assign]
        if cache._keeper is not None:
            self._note_store(cache._keeper.store)

    def _note_entry(self, step: Interceptor) -> None:
        handle = step.handle

        async def noted(call: Any) -> None:
            self.happened.append(type(step).__name__)
            if type(step).__name__ == "Invocation":
                call.body = self._noting(call.body)
            await handle(call)

        step.handle = noted  # type: ignore[method-assign]

    def _noting(self, body: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            self.happened.append("body")
            return body(*args)

        return noted

    def _note_store(self, store: Any) -> None:
        apply = store.apply

        async def noted(rows: Any) -> None:
            await apply(rows)
            self.happened.append("stored")

        store.apply = noted


@asynccontextmanager
async def alone() -> AsyncIterator[TreeCache]:
    config = CacheSettings(cache_mode="LOCAL", cache_loader_configuration=STORED)
    async with open_tree_cache(config, store=FaultyStore()) as cache:
        yield cache


@asynccontextmanager
async def to_all() -> AsyncIterator[TreeCache]:
    config = CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="test")
    async with open_tree_cache(config, name="A", transport=MemoryNetwork()) as cache:
        yield cache


@asynccontextmanager
async def with_buddies() -> AsyncIterator[TreeCache]:
    async with group() as g:
        g.stores = {"A": FaultyStore(), "B": FaultyStore()}
        a, _ = await g.start("AB", settings(cache_loader_configuration=STORED))
        yield a


ORDERS = {
    alone: [
        *("Invocation", "Locking", "Loading", "Gravitating", "Computing", "body"),
        *("StoringFirst", "stored", "Replicating", "true", "confirmed"),
    ],
    to_all: [
        *("Invocation", "Locking", "Gravitating", "Computing", "body"),
        *("Replicating", "true", "confirmed"),
    ],
    with_buddies: [
        *("Invocation", "Locking", "Loading", "Owning", "body", "true"),
        *("Replicating", "confirmed", "StoringLast", "stored"),
    ],
}


@pytest.mark.parametrize("opened", ORDERS, ids=lambda opened: opened.__name__)
async def test_a_write_does_each_step_where_the_chain_names_it(
    opened: Any, autojump_clock: Any
) -> None:
    async with opened() as cache:
        steps = Steps(cache)
        await cache.put("/a", "x", 1)
        assert steps.happened == ORDERS[opened]
        names = [type(step).__name__ for step in cache._interceptors]
        assert [step for step in steps.happened if step[0].isupper()] == names


@pytest.mark.parametrize("opened", ORDERS, ids=lambda opened: opened.__name__)
async def test_a_read_ends_where_its_body_has_run(opened: Any, autojump_clock: Any) -> None:
    async with opened() as cache:
        await cache.put("/a", "x", 1)
        steps = Steps(cache)
        assert await cache.get("/a", "x") == 1
        order = ORDERS[opened]
        assert steps.happened == order[: order.index("body") + 1]


def test_the_module_lists_the_three_chains() -> None:
    """The columns of the table, as the tests above find them."""
    text = interceptor.__doc__ or ""
    rows = text[text.index("    alone") : text.index("\n\nLoading and")].splitlines()
    starts = [rows[0].index(title) for title in ("alone", "to all", "with buddies")]
    ends = [*starts[1:], rows[0].index("with buddies") + 16]
    for (start, end), order in zip(zip(starts, ends, strict=True), ORDERS.values(), strict=True):
        column = [row[start:end].strip() for row in rows[1:]]
        assert [name for name in column if name] == [name for name in order if name[0].isupper()]


async def test_a_write_for_this_member_alone_is_refused_before_the_store_hears_of_it(
    autojump_clock: Any,
) -> None:
    async with with_buddies() as cache:
        with pytest.raises(CacheRefused, match="apart from all"):
            await cache.put("/a", "x", 1, local_only=True)
        assert cache._keeper is not None and not cache._keeper.store.rows  # type: ignore[attr-defined]
        assert not await cache.exists(Fqn.parse("/a"))
