"""The cost of writes of a cache with buddies: a single write leaves at once, several leave together;
nothing runs in cycles."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import trio
from cache_group import group, settings

from jgroups_py.cache import TreeCache


def packets(cache: TreeCache) -> int:
    """Return the number of packets sent so far."""
    protocols = cache.buddies.channel.statistics().protocols
    return int(sum(p.get("packets_sent", 0) for p in protocols.values()))


@types.coroutine
def watched(
    call: Coroutine[Any, Any, None], waits: Callable[[], None]
) -> Generator[Any, Any, None]:
    """``waits`` is called when ``call`` waits for the first time."""
    trap = call.send(None)
    waits()
    while True:
        answer = yield trap
        try:
            trap = call.send(answer)
        except StopIteration:
            return


async def test_a_write_alone_has_left_before_its_caller_waits(autojump_clock: Any) -> None:
    async with group() as g:
        a, _ = await g.start("AB", settings())
        await a.put("/x", "k", 0)
        before, then = packets(a), []
        await watched(a.put("/x", "k", 1), lambda: then.append(packets(a)))
        assert then == [before + 1] == [packets(a)]


async def test_writes_under_way_together_leave_together(autojump_clock: Any) -> None:
    async with group() as g:
        a, _ = await g.start("AB", settings())
        for n in range(8):
            await a.put(f"/{n}", "k", 0)

        async def write(n: int) -> None:
            for value in range(20):
                await a.put(f"/{n}", "k", value)

        await trio.sleep(5)  # until no other message is on its way
        before = packets(a)
        async with trio.open_nursery() as nursery:
            for n in range(8):
                nursery.start_soon(write, n)
        assert (
            20 <= packets(a) - before < 8 * 20 / 2
        )  # some members stay out of step with the others


async def test_writes_nobody_waits_for_leave_together(autojump_clock: Any) -> None:
    async with group() as g:
        a, _ = await g.start("AB", settings())
        await a.put("/x", "k", 0)
        before = packets(a)
        for value in range(50):
            await a.put("/x", "k", value, sync=False)
        await a.put("/x", "k", 50)
        assert packets(a) == before + 1


async def test_a_write_leaves_nothing_to_the_collector(autojump_clock: Any) -> None:
    async with group() as g:
        a, _ = await g.start("AB", settings())
        await a.put("/x", "k", 0)
        gc.collect()
        gc.disable()
        try:
            for value in range(100):
                await a.put("/x", "k", value)
            assert gc.collect() < 100
        finally:
            gc.enable()
