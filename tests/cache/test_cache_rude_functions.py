"""Functions of users that a cache calls in a step of its own: above all the function of ``update``.

Whatever they raise goes to their caller. No node is changed, and the cache goes on, also where the function runs in the step of
another task: with buddies it runs when the nodes have come."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from cache_group import Group, settings

from jgroups_py.cache import CacheSettings, TreeCache
from jgroups_py.errors import CacheRefused
from jgroups_py.testing import NEVER, UNKNOWN, Call, Nodes, Operation, check_history


class Stop(BaseException):
    """No Exception, like a framework's own way out."""


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: ValueError("boom"),
    "no text": lambda: ValueError(),
    "broken text": Odd,
    "3 MB of text": lambda: ValueError("x" * 3_000_000),
    "BaseException": Stop,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "group": lambda: BaseExceptionGroup("two", [Stop(), ValueError()]),
    "CacheError": lambda: CacheRefused("of the user"),
}
KINDS = {
    "replicated": CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="test"),
    "buddies": settings(),
}


@asynccontextmanager
async def caches(kind: str, names: str = "AB") -> AsyncIterator[list[TreeCache]]:
    async with trio.open_nursery() as nursery:
        yield await Group(nursery).start(names, KINDS[kind])
        nursery.cancel_scope.cancel()


async def caught(call: Callable[[], Any]) -> BaseException | None:
    """Return what a call raises."""
    try:
        await call()
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_function_raises_goes_to_its_caller_alone(
    kind: str, raised: str, autojump_clock: Any
) -> None:
    async with caches(kind) as (a, b):
        await a.put("/x", "k", 1)
        for at, path in ((a, "/x"), (b, "/x"), (a, "/new"), (b, "/other")):
            error = RAISED[raised]()

            def fails(value: Any, error: BaseException = error) -> Any:
                raise error

            results: list[Any] = []

            async def others(at: TreeCache = at, path: str = path, n: list[Any] = results) -> None:
                n.append(await at.update(path, "count", lambda value: value + 1, default=0))

            with trio.fail_after(2):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(others)
                    got = await caught(lambda: at.update(path, "k", fails))  # noqa: B023
                    nursery.start_soon(others)
                assert got is error
                assert sorted(results) == [1, 2]
                assert await at.get(path, "k") == (1 if path == "/x" else None)
                await at.remove(path, "count")
        with trio.fail_after(2):
            for cache in (a, b):
                assert await cache.update("/x", "k", lambda value: value + 1) in (2, 3)
                await cache.wait_members(2)
        counters = a.statistics().counters
        assert counters["calls_under_way"] == 0 == b.statistics().counters["calls_under_way"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_function_that_is_cancelled_from_outside_changes_nothing(
    kind: str, autojump_clock: Any
) -> None:
    async with caches(kind) as (a, b):
        await a.put("/x", "k", 1)
        for cache in (a, b):
            with trio.CancelScope() as scope:

                def cancels(value: Any, scope: trio.CancelScope = scope) -> Any:
                    scope.cancel()
                    return 5

                await cache.update("/x", "k", cancels)
            with trio.fail_after(2):
                assert await cache.get("/x", "k") in (
                    1,
                    5,
                )  # its caller left: it may have been done
                await cache.put("/x", "k", 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_function_may_look_at_the_cache_but_not_wait_for_it(
    kind: str, autojump_clock: Any
) -> None:
    async with caches(kind) as (a, b):
        await a.put("/x", "k", 1)
        for cache in (b, a):
            seen: list[Any] = []

            def looks(value: Any, cache: TreeCache = cache, seen: list[Any] = seen) -> Any:
                seen.append((cache.statistics().nodes, cache.members, list(cache.discarded)))
                cache.listen("/x")
                return cache.put("/x", "k", value + 1)  # a function that is not async makes a call

            with trio.fail_after(2):
                with pytest.raises(CacheRefused, match="not async"):
                    await cache.update("/x", "k", looks)
                assert seen
                assert await cache.get("/x", "k") == 1
                await cache.put("/y", "k", cache.name)
                assert await (a if cache is b else b).get("/y", "k") == cache.name


async def cancel(scope: trio.CancelScope, steps: int) -> None:
    """Cancel a call after some steps of other tasks."""
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
async def test_histories_of_callers_with_rude_functions_are_linearizable(
    kind: str, seed: int, autojump_clock: Any
) -> None:
    rng, history = random.Random(seed), list[Operation]()
    unknown = 0

    async def step(cache: TreeCache, name: str, value: str) -> None:
        nonlocal unknown
        path, began = f"/{rng.choice('xy')}", trio.current_time()
        at = (path[1:],)

        def note(call: Call, result: Any, copy: str = "") -> None:
            history.append(Operation(name, call, began, trio.current_time(), result, copy))

        match rng.choice(("add", "rude", "node", "put", "cancelled")):
            case "node":
                got = await cache.get_node(path)
                result = None if got is None else tuple(sorted(got.items()))
                note(Call("node", at), result, cache.name if kind == "replicated" else "")
            case "put":
                await cache.put(path, "v", value)
                note(Call("put", at, (("v", value),)), None)
            case "add":
                note(Call("add", at, (("n", 1),)), await cache.increment(path, "n"))
            case "cancelled":
                steps = rng.randrange(8)
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(cancel, scope, steps)
                        total = await cache.update(path, "n", lambda n: n + 1, default=0)
                        note(Call("add", at, (("n", 1),)), total)
                        nursery.cancel_scope.cancel()
                if scope.cancelled_caught:
                    unknown += 1
                    call = Call("add", at, (("n", 1),))
                    history.append(Operation(name, call, began, NEVER, UNKNOWN))
            case "rude":
                error = RAISED[rng.choice(list(RAISED))]()

                def fails(value: Any) -> Any:
                    raise error

                assert await caught(lambda: cache.update(path, "v", fails)) is error

    async def caller(cache: TreeCache, name: str) -> None:
        for n in range(25):
            await step(cache, name, f"{name}{n}")
            await trio.sleep(rng.random() / 100)

    async with caches(kind, "ABC") as found:
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                for number, cache in enumerate(found * 2):
                    nursery.start_soon(caller, cache, "abcdef"[number])
    assert unknown >= 3 and len(history) > 100
    verdict = check_history(history, Nodes())
    assert verdict.linearizable is True, verdict
