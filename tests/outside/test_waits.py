"""``wait_view``, ``wait_members``, ``wait_protected``: programs need not poll, and errors name missing members or
copies."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import (
    Channel,
    ChannelClosed,
    ConfigError,
    Expelled,
    JGroupsError,
    MemoryNetwork,
    Message,
    WaitTimeout,
    aio,
    blocking,
    open_channel,
)
from jgroups_py.cache import CacheClosed, CacheRefused, TreeCache, open_tree_cache


def member(network: MemoryNetwork, name: str, **more: Any) -> AbstractAsyncContextManager[Channel]:
    return open_channel("sim.xml", cluster="demo", name=name, transport=network, **more)


def cache_of(network: MemoryNetwork, name: str) -> AbstractAsyncContextManager[TreeCache]:
    return open_tree_cache("buddy.xml", cluster="shop", name=name, transport=network)


# --- channels


async def test_a_condition_that_holds_already_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with member(MemoryNetwork(), "A") as a:
        before = trio.current_time()
        assert await a.wait_view(1, timeout=0) == a.view
        assert await a.wait_members(1, timeout=0) == a.view
        assert await a.wait_members(["A"], timeout=0) == a.view
        assert await a.wait_view(lambda view: view.coordinator == a.address, timeout=0) == a.view
        assert trio.current_time() == before


async def test_a_waiting_member_sees_others_come_and_go(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    seen: list[str] = []

    async def watch(a: Channel) -> None:
        seen.append(f"three: {len(await a.wait_members(3))}")
        view = await a.wait_view(2)
        seen.append(f"two: {[a.name_of(m) for m in view]}")

    async with member(network, "A") as a, trio.open_nursery() as nursery:
        nursery.start_soon(watch, a)
        async with member(network, "B"):
            await trio.sleep(1)
            assert seen == []
            async with member(network, "C") as c:
                await c.wait_members(["A", "B"])
                await trio.sleep(1)
                assert seen == ["three: 3"]
            await a.wait_view(2)
        assert seen[1:] == ["two: ['A', 'B']"]


async def test_a_wait_ends_with_the_view_and_not_later(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with member(network, "A") as a:
        came: list[float] = []

        async def wait() -> None:
            await a.wait_members(["B"])
            came.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(5)
            async with member(network, "B"):
                opened = trio.current_time()
                await trio.sleep(2)
    assert came and abs(came[0] - opened) < 0.1


async def test_any_view_can_be_asked_for(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with member(network, "A") as a, member(network, "B") as b:
        view = await b.wait_view(lambda view: view.coordinator == a.address and len(view) > 1)
        assert view.coordinator == a.address

        def never(view: object) -> bool:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await b.wait_view(never)
        await b.send(b"the channel still works")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (3, r"^no view of 3 members; the view of A is \[A\|1\] \(2\) \[A, B\] \(waited 5 s\)$"),
        (lambda view: False, r"^no view that <lambda> accepts; the view of A is "),
    ],
    ids=["size", "function"],
)
async def test_a_view_that_does_not_come_is_named(
    autojump_clock: MockClock, wanted: Any, text: str
) -> None:
    network = MemoryNetwork()
    async with member(network, "A") as a, member(network, "B"):
        await a.wait_view(2)
        before = trio.current_time()
        with pytest.raises(WaitTimeout, match=text):
            await a.wait_view(wanted, timeout=5)
        assert trio.current_time() - before == pytest.approx(5)
        await a.send(b"the channel still works")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (5, "^3 of 5 members are missing; the view of A is .* [(]2[)] "),
        (["A", "Cleo", "B", "Dora"], "^members are missing: Cleo, Dora; the view of A is "),
    ],
    ids=["number", "names"],
)
async def test_members_that_do_not_come_are_named(
    autojump_clock: MockClock, wanted: Any, text: str
) -> None:
    network = MemoryNetwork()
    async with member(network, "A") as a, member(network, "B"):
        await a.wait_view(2)
        with pytest.raises(WaitTimeout, match=text) as caught:
            await a.wait_members(wanted, timeout=2)
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, JGroupsError)


async def test_waiting_takes_nothing_from_the_stream(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with member(network, "A") as a, member(network, "B") as b:
        await b.wait_members(2)
        await b.send(b"one")
        await a.wait_members(2)
        async for item in a:
            if isinstance(item, Message):
                assert item.payload == b"one"
                break


async def test_a_wait_ends_when_the_channel_does(autojump_clock: MockClock) -> None:
    errors: list[Exception] = []

    async def wait(channel: Channel) -> None:
        try:
            await channel.wait_members(2, timeout=None)
        except (ChannelClosed, Expelled) as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        async with member(MemoryNetwork(), "A") as a:
            nursery.start_soon(wait, a)
            await trio.sleep(1)
        nursery.start_soon(wait, a)
    assert [type(error) for error in errors] == [ChannelClosed, ChannelClosed]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [(0, ConfigError), (True, TypeError), ("AB", TypeError), ([1], TypeError), (2.0, TypeError)],
)
async def test_a_wrong_wish_is_refused_at_once(
    autojump_clock: MockClock, wanted: Any, error: type[Exception]
) -> None:
    async with member(MemoryNetwork(), "A") as a:
        with pytest.raises(error, match=r"^wanted "):
            await a.wait_members(wanted)
        if not isinstance(wanted, str | list):
            with pytest.raises(error, match=r"^wanted "):
                await a.wait_view(wanted)


# --- caches


async def test_a_cache_waits_for_members_and_for_copies(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with cache_of(network, "A") as a, cache_of(network, "B") as b:
        assert await a.wait_members(2) == ("A", "B")
        assert await b.wait_members(["A"]) == ("A", "B")
        await a.put("/users/7", "name", "Ada")
        for cache in (a, b):
            await cache.wait_protected(2)
            assert cache.statistics().counters["protected"] == 1
        with pytest.raises(WaitTimeout, match=r"^members are missing: C; the view of A is "):
            await a.wait_members(["C"], timeout=1)


class DeafNetwork(MemoryNetwork):
    """While ``deaf`` is set, it loses every datagram."""

    deaf = False

    def send(self, source: Any, data: bytes, dest: Any) -> None:
        if not self.deaf:
            super().send(source, data, dest)


async def test_a_copy_that_a_buddy_has_not_acknowledged_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    network = DeafNetwork()
    async with cache_of(network, "A") as a, cache_of(network, "B") as b:
        await a.put("/users/7", "name", "Eva")
        await a.wait_protected(2)
        network.deaf = True
        await a.put("/users/7", "name", "Ada", sync=False)
        for seconds in (0, 0.01):
            with pytest.raises(
                WaitTimeout, match=r"nodes of A are not protected: .*acknowledged 1 change"
            ):
                await a.wait_protected(timeout=seconds)
        network.deaf = False
        await a.wait_protected()
        assert b.statistics().counters["backup_nodes"] == 1


async def test_wait_protected_with_a_size_knows_that_a_member_has_crashed(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with cache_of(network, "A") as a, trio.open_nursery() as nursery:
        stay = trio.CancelScope()
        opened = trio.Event()

        async def crashing() -> None:
            with stay:
                async with cache_of(network, "B") as b:
                    await b.wait_protected(2)
                    opened.set()
                    await trio.sleep_forever()

        nursery.start_soon(crashing)
        await opened.wait()
        await a.wait_protected(2)
        stay.cancel()
        await a.wait_protected(timeout=0)  # no member has noticed the crash yet
        await a.wait_protected(1)
        assert a.members == ("A",)
        with pytest.raises(WaitTimeout, match="there are 1 members, not 2"):
            await a.wait_protected(2, timeout=1)


async def test_a_cache_without_others_or_buddies_says_so(autojump_clock: MockClock) -> None:
    async with open_tree_cache("local.xml") as local:
        with pytest.raises(CacheRefused, match="LOCAL has no members"):
            await local.wait_members(1)
        with pytest.raises(CacheRefused, match="buddy replication is not configured"):
            await local.wait_protected()


async def test_waiting_at_a_closed_cache_is_refused(autojump_clock: MockClock) -> None:
    async with cache_of(MemoryNetwork(), "A") as cache:
        pass
    with pytest.raises(CacheClosed):
        await cache.wait_members(2)
    with pytest.raises(CacheClosed):
        await cache.wait_protected()


# --- threads and asyncio


def test_the_same_for_threads() -> None:
    network = MemoryNetwork()
    options: Any = {"cluster": "demo", "transport": network, "timeout": 30}
    with (
        blocking.open_channel("sim.xml", name="A", **options) as a,
        blocking.open_channel("sim.xml", name="B", **options) as b,
    ):
        assert len(a.wait_view(2)) == 2
        assert a.address in b.wait_members(["A", "B"])
        with pytest.raises(WaitTimeout, match="members are missing: C"):
            a.wait_members(["C"], timeout=0.1)
    with blocking.open_tree_cache("buddy.xml", name="A", **options) as cache:
        assert cache.wait_members(1) == ("A",)
        cache.wait_protected(1)
        with pytest.raises(WaitTimeout, match="there are 1 members, not 2"):
            cache.wait_protected(2, timeout=0.1)


def test_asyncio_has_the_same_waits() -> None:
    network = MemoryNetwork()
    options: Any = {"cluster": "demo", "transport": network}

    async def main() -> None:
        async with (
            aio.open_channel("sim.xml", name="A", **options) as a,
            aio.open_channel("sim.xml", name="B", **options) as b,
        ):
            assert len(await a.wait_view(2)) == 2
            assert a.address in await b.wait_members(["A", "B"])
            with pytest.raises(WaitTimeout, match="members are missing: C"):
                await a.wait_members(["C"], timeout=0.1)
        async with aio.open_tree_cache("buddy.xml", name="A", **options) as cache:
            assert await cache.wait_members(1) == ("A",)
            await cache.wait_protected(1)
            with pytest.raises(WaitTimeout, match="there are 1 members, not 2"):
                await cache.wait_protected(2, timeout=0.1)

    asyncio.run(main())
