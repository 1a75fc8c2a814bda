"""The facade for asyncio: calls, cancellation, streams, called methods, closing."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest
import trio

from jgroups_py import (
    Answer,
    ChannelClosed,
    JoinError,
    LocalProtocolError,
    MemoryNetwork,
    Message,
    Raised,
    RemoteError,
    StateTransferError,
    View,
    aio,
    blocking,
)
from jgroups_py.aio.cache import CacheBatch
from jgroups_py.blocking.loop import THREAD_NAME
from jgroups_py.cache import EventKind, NodeChanged
from jgroups_py.errors import BatchConflict, CacheClosed, CacheRefused, ConfigError

Open = Callable[..., aio.Channel]
Main = Coroutine[Any, Any, None]


def loops() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def until_no_loops() -> None:
    end = time.monotonic() + 30
    while loops():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Check that the trio loop's thread ends with its last user, and that no asyncio task is left."""
    until_no_loops()  # that of the previous test may be ending
    yield
    gc.collect()
    until_no_loops()


def run(main: Main) -> None:
    """Run a coroutine as a program would; no task may be left in its loop."""

    async def alone() -> None:
        async with asyncio.timeout(120):
            await main
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(alone())


@pytest.fixture
def open_sim() -> Open:
    fast = {"SHARED_LOOPBACK_PING.wait": "100ms"}
    return partial(
        aio.open_channel, "sim.xml", cluster="test", transport=MemoryNetwork(), attributes=fast
    )


async def together(*channels: aio.Channel) -> None:
    """Wait until all are in one view: on a busy machine a member may be alone at first, and merge later."""
    for channel in channels:
        await channel.wait_members(len(channels), timeout=90)


async def next_message(channel: aio.Channel | aio.Rpc) -> Message:
    while not isinstance(item := await channel.receive(), Message):
        pass
    return item


async def calls_under_way(handle: aio.TreeCache | aio.Channel) -> int:
    """Return the tasks in the other loop, without the one that counts."""
    nursery = handle._opened._calls
    count: int = await handle._look(lambda: len(nursery.child_tasks))
    return count - 1


# --- calls and their cancellation


def test_a_thousand_calls_from_fifty_tasks_and_none_left_behind() -> None:
    """Every fourth task is cancelled in the middle; its calls end, and all calls of the others are done."""

    async def work(cache: aio.TreeCache, number: int) -> int:
        done = 0
        for call in range(20):
            await cache.put(f"/t{number}/c{call}", "v", call)
            done += 1
        return done

    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            tasks = [asyncio.create_task(work(cache, number)) for number in range(50)]
            while (await cache.statistics()).nodes < 100:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            for task in tasks[::4]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert await calls_under_way(cache) == 0
            for number, result in enumerate(results):
                if number % 4:
                    assert result == 20
                    assert len(await cache.children(f"/t{number}")) == 20
                else:
                    assert isinstance(result, asyncio.CancelledError)
            counters = (await cache.statistics()).counters
            assert counters["calls_under_way"] == 0

    run(main())


def test_a_cancelled_call_has_ended_when_cancelled_error_comes(open_sim: Open) -> None:
    async def main() -> None:
        async with open_sim() as channel:
            await channel.receive()
            reading = asyncio.create_task(channel.receive())
            await asyncio.sleep(0.05)
            assert await calls_under_way(channel) == 1
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert await calls_under_way(channel) == 0
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await channel.receive()
            assert await calls_under_way(channel) == 0

    run(main())


def test_cancelling_twice_still_waits_for_the_end_of_the_call() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            begun, ended = threading.Event(), list[bool]()

            async def slow() -> None:
                begun.set()
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.2)
                    ended.append(True)

            call = asyncio.create_task(cache._call(slow))
            assert await asyncio.to_thread(begun.wait, 30)
            for _ in range(3):
                call.cancel()
                await asyncio.sleep(0.02)
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ended == [True]

    run(main())


def test_a_message_that_came_for_a_cancelled_reader_is_kept(open_sim: Open) -> None:
    """In any order of the two, all numbers arrive once and in order."""

    async def main() -> None:
        async with open_sim() as channel:
            await channel.receive()
            got: list[bytes] = []

            async def read() -> None:
                got.append((await next_message(channel)).payload)

            for number in range(200):
                reading = asyncio.create_task(read())
                await asyncio.sleep(0)
                await channel.send(b"%d" % number)
                if number % 3:
                    await asyncio.sleep(0.0002 * (number % 7))
                    reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            async with asyncio.timeout(30):
                while len(got) < 200:
                    await read()
            assert got == [b"%d" % number for number in range(200)]

    run(main())


def test_errors_are_those_of_the_async_api(open_sim: Open) -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            with pytest.raises(CacheRefused, match="begins with /"):
                await cache.get("no", "k")
            with pytest.raises(TypeError):
                await cache.get("/a")  # type: ignore[call-arg]
        with pytest.raises(CacheClosed):
            await cache.get("/a", "k")
        with pytest.raises(ConfigError):
            async with aio.open_tree_cache("nowhere.xml"):
                pass
        with pytest.raises(LocalProtocolError, match="opened before"):
            async with cache:
                pass
        with pytest.raises(LocalProtocolError, match="async with"):
            await aio.open_tree_cache("local.xml").get("/a", "k")
        with pytest.raises(KeyError):
            async with open_sim():
                raise KeyError("of the body")

    run(main())


def test_an_opening_that_is_cancelled_leaves_nothing() -> None:
    async def main() -> None:
        slow = {"SHARED_LOOPBACK_PING.wait": "10s"}
        channel = aio.open_channel(
            "sim.xml", cluster="test", transport=MemoryNetwork(), attributes=slow
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), channel:
                pass
        assert channel.closed and loops() == []
        with pytest.raises(JoinError):
            async with aio.open_channel(
                "sim.xml",
                cluster="test",
                transport=MemoryNetwork(),
                attributes=slow,
                join_timeout=0.1,
            ):
                pass

    run(main())


def test_an_asyncio_cache_belongs_to_one_loop() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            with pytest.raises(LocalProtocolError, match="asyncio loop"):
                await asyncio.to_thread(asyncio.run, cache.get("/a", "k"))

    run(main())


def test_lost_it_is_closed_with_a_warning() -> None:
    async def main() -> None:
        cache = aio.open_tree_cache("local.xml")
        await cache.__aenter__()
        with pytest.warns(ResourceWarning, match="not closed"):
            cache = None  # type: ignore[assignment]

    run(main())


def test_threads_and_asyncio_share_the_loop(open_sim: Open) -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as one:
            with blocking.open_tree_cache("local.xml") as other:
                assert len(loops()) == 1
                other.put("/a", "k", 1)
                assert await one.exists("/a") is False

    run(main())


# --- channels


def test_views_and_messages_are_one_stream(open_sim: Open) -> None:
    async def main() -> None:
        async with open_sim(name="A") as a, open_sim(name="B") as b:
            await together(a, b)
            assert isinstance(await b.receive(), View)
            await a.send(b"one")
            await a.send(b"two", b.address)
            got = {(await next_message(b)).payload for _ in range(2)}
            assert got == {b"one", b"two"}
            assert a.name == "A" and b.name_of(a.address) == "A"
            assert (await a.statistics()).sent == 2
            await a.send_many([b"x"] * 100)
            many: list[Any] = []
            while len(many) < 100:
                many += await b.receive_many()
            assert {item.payload for item in many} == {b"x"}
            reading = asyncio.create_task(b.receive())
            await asyncio.sleep(0)
            with pytest.raises(LocalProtocolError, match="another task"):
                await b.receive()
            async for item in a:
                if isinstance(item, Message):
                    assert item.payload == b"one"
                    break
            await b.aclose()
            with pytest.raises(ChannelClosed):
                await reading

    run(main())


def test_state_is_made_in_the_asyncio_loop(open_sim: Open) -> None:
    async def main() -> None:
        home = threading.current_thread()

        async def state() -> AsyncIterator[bytes]:
            for part in (b"all", b" of it"):
                await asyncio.sleep(0)
                assert threading.current_thread() is home
                yield part

        async with open_sim(name="A", state=state) as a, open_sim(name="B") as b:
            await together(a, b)
            serving = asyncio.create_task(next_message(a))
            assert await b.fetch_state(timeout=30) == b"all of it"
            await b.send(b"end", a.address)
            await serving

    run(main())


@pytest.mark.parametrize(
    ("chunk", "told"),
    [(ValueError("boom"), "ValueError: boom"), ("text", "yielded str"), (None, "yielded NoneType")],
)
def test_a_state_that_cannot_be_made_is_refused(open_sim: Open, chunk: Any, told: str) -> None:
    async def main() -> None:
        async def state() -> AsyncIterator[Any]:
            yield b"all"
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

        async with open_sim(name="A", state=state) as a, open_sim(name="B") as b:
            await together(a, b)
            serving = asyncio.create_task(next_message(a))
            with pytest.raises(StateTransferError, match=told):
                await b.fetch_state(timeout=30)
            await b.send(b"end", a.address)
            await serving

    run(main())


# --- calls between members

caller_name = contextvars.ContextVar[str]("caller_name")


class Target:
    def __init__(self) -> None:
        self.home = threading.current_thread()
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    def add(self, a: int, b: int) -> int:
        assert threading.current_thread() is self.home
        return a + b

    async def slowly(self, a: int) -> int:
        await asyncio.sleep(0.01)
        return a

    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.cancelled.set()

    async def fail(self) -> None:
        raise KeyError("milk")

    async def give_up(self) -> None:
        raise asyncio.CancelledError

    def who(self) -> str:
        return caller_name.get()


def test_methods_run_in_the_asyncio_loop(open_sim: Open) -> None:
    async def main() -> None:
        caller_name.set("of main")
        target = Target()
        async with (
            open_sim(name="A") as a,
            open_sim(name="B") as b,
            aio.open_rpc(a) as ra,
            aio.open_rpc(b, target) as rb,
        ):
            await together(a, b)
            there = b.address
            assert rb.channel is b and len(rb.view) == 2
            assert await ra.call(there, "add", 1, 2) == 3
            assert await ra.call(there, "slowly", 5) == 5
            assert await ra.call(there, "who") == "of main"
            with pytest.raises(RemoteError, match="milk"):
                await ra.call(there, "fail")
            with pytest.raises(RemoteError, match="cancelled"):
                await ra.call(there, "give_up")
            replies = await ra.call_many([(there, "add", 1, 1), (there, "fail")])
            assert isinstance(replies[0], Answer) and isinstance(replies[1], Raised)
            values = [r.value async for r in ra.call_all("add", 2, 2, dests=there)]  # type: ignore[union-attr]
            assert values == [4]
            assert (await ra.call_first("add", 2, 3, dests=[there])).value == 5
            await ra.cast("add", 0, 0)
            numbers = range(40)
            sums = await asyncio.gather(*(ra.call(there, "slowly", n) for n in numbers))
            assert sums == list(numbers)
            assert (await ra.statistics()).counters.calls >= 40

    run(main())


def test_closing_cancels_methods_that_run(open_sim: Open) -> None:
    async def main() -> None:
        target = Target()
        async with open_sim(name="A") as a, open_sim(name="B") as b, aio.open_rpc(a) as ra:
            await together(a, b)
            async with aio.open_rpc(b, target):
                call = asyncio.create_task(ra.call(b.address, "hang"))
                await target.started.wait()
            assert target.cancelled.is_set()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    run(main())


# --- tree caches


async def conflict(cache: aio.TreeCache) -> None:
    async with cache.batch() as batch:
        await batch.get("/a", "k")
        await cache.put("/a", "k", 2)
        batch.put("/b", "k", 3)


async def fail_in_a_batch(cache: aio.TreeCache) -> None:
    async with cache.batch() as batch:
        batch.put("/c", "k", 3)
        raise RuntimeError("of the body")


def test_batches_conflict_and_listeners_hear() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            await cache.put_many({f"/n/{n}": {"v": n} for n in range(300)})
            assert await cache.get_many(["/n/1", "/n/299", "/x"], "v", -1) == [1, 299, -1]
            assert await cache.get_nodes(["/n/5", "/x"]) == [{"v": 5}, None]
            async with cache.listen("/a") as changes:
                async with cache.batch() as batch:
                    assert await batch.get("/a", "k", 0) == 0
                    batch.put("/a", "k", 1)
                    assert len(batch) == 1
                with pytest.raises(BatchConflict):
                    await conflict(cache)
                with pytest.raises(RuntimeError, match="of the body"):
                    await fail_in_a_batch(cache)
                assert not await cache.exists("/b") and not await cache.exists("/c")
                heard = [await anext(changes), await anext(changes)]
                assert [h.kind for h in heard if isinstance(h, NodeChanged)] == [
                    EventKind.CREATED,
                    EventKind.MODIFIED,
                ]
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await anext(changes)
                await cache.remove_node("/a")
                assert isinstance(await anext(changes), NodeChanged)
            async with cache.listen() as changes:
                await cache.put("/z", "k", 1)
                await cache.aclose()
                assert len([change async for change in changes]) <= 1

    run(main())


def test_calls_keep_their_names_and_their_words() -> None:
    get: Any = aio.TreeCache.get
    assert get.__name__ == "get" and "value of an attribute" in get.__doc__
    assert asyncio.iscoroutinefunction(get)


def test_tasks_that_change_the_same_node_queue() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            runs = 0

            @cache.batch(retries=5)
            async def count(batch: CacheBatch, by: int) -> int:
                nonlocal runs
                runs += 1
                n: int = await batch.get("/n", "n", 0) + by
                await asyncio.sleep(0.001)
                batch.put("/n", "n", n)
                return n

            async def work() -> None:
                await count(1)
                await cache.increment("/n", "n")
                await cache.update("/n", "n", lambda n: n + 1)

            await asyncio.gather(*(work() for _ in range(40)))
            assert await cache.get("/n", "n") == 120 and runs <= 80
            assert await cache.increment("/m", "n", 2, initial=5) == 7
            assert await cache.compare_and_set("/m", "n", 7, 8)
            assert not await cache.compare_and_set("/m", "n", 7, 9)
            with pytest.raises(ZeroDivisionError):
                await cache.update("/m", "n", lambda n: n / 0)
            with pytest.raises(CacheRefused, match="retries"):
                cache.batch(retries=-1)
            with pytest.raises(CacheRefused, match="cannot run again"):
                async with cache.batch(retries=3):
                    pass
            with pytest.raises(CacheRefused, match="cannot run again"):
                async for _ in cache.batch(retries=3):
                    pass

    run(main())


def test_a_cancelled_batch_ends_its_turn() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:

            async def wait(batch: CacheBatch) -> None:
                await batch.get("/n", "n")
                await asyncio.sleep(60)

            async def lose(batch: CacheBatch) -> None:
                n = await batch.get("/n", "n", 0)
                batch.put("/n", "n", 1000)
                await cache.put("/n", "n", n + 1)

            tasks = [asyncio.create_task(cache.batch(retries=3).run(wait)) for _ in range(5)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with pytest.raises(BatchConflict, match="tried 3 times"):
                await cache.batch(retries=2).run(lose)
            async with asyncio.timeout(30):
                assert await cache.increment("/n", "n") == 4
        with pytest.raises(CacheClosed):
            await cache.batch(retries=3).run(lose)

    run(main())
