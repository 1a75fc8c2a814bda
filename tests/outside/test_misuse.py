"""Impossible arguments are refused at the call, with a clear error and without further effects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from jgroups_py import ConfigError, IpAddress, Message, aio, blocking, open_channel, open_rpc
from jgroups_py.cache import (
    CacheRefused,
    CacheSettings,
    LoaderConfig,
    Row,
    SqliteStore,
    StoreConfig,
    StoreError,
    open_tree_cache,
)
from jgroups_py.driver import MemoryNetwork

NO_ADDRESS: list[Any] = ["A", 5, b"x" * 16, ["A"], IpAddress("127.0.0.1", 7800)]


async def test_a_message_to_no_address_is_refused_at_the_call(autojump_clock: Any) -> None:
    async with open_channel("udp.xml", cluster="demo", transport=MemoryNetwork()) as channel:
        for to in NO_ADDRESS:
            with pytest.raises(TypeError, match=r"address|unhashable"):
                await channel.send(b"x", to)
            with pytest.raises(TypeError, match=r"address|unhashable"):
                channel.send_nowait(b"x", to)
            with pytest.raises(TypeError, match=r"address|unhashable"):
                await channel.send_many([b"x"], to)
        with pytest.raises(TypeError):
            await channel.send(b"x", flags="OOB")  # type: ignore[arg-type]
        await trio.sleep(0.1)
        await channel.send(b"still works", channel.address)
        with trio.fail_after(5):
            async for item in channel:
                if isinstance(item, Message):
                    assert item.payload == b"still works"
                    break


def test_threads_refuse_a_message_to_a_value_that_is_no_address() -> None:
    with blocking.open_channel("sim.xml", cluster="demo", transport=MemoryNetwork()) as channel:
        with pytest.raises(TypeError, match="address"):
            channel.send(b"x", "A")  # type: ignore[arg-type]
        channel.send(b"x", channel.address)


def test_asyncio_refuses_a_message_to_a_value_that_is_no_address() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        async with aio.open_channel("sim.xml", cluster="demo", transport=network) as channel:
            with pytest.raises(TypeError, match="address"):
                await channel.send(b"x", "A")  # type: ignore[arg-type]
            await channel.send(b"x", channel.address)

    asyncio.run(main())


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cluster": 5}, TypeError, "cluster is a str, got 5"),
    ({"cluster": ""}, ConfigError, "cluster is empty"),
    ({"cluster": "c" * 100_000}, ConfigError, "cluster has 100000 characters"),
    ({"cluster": "日本"}, ConfigError, "cluster: .* above 255"),
    ({"name": 5}, TypeError, "name is a str, got 5"),
    ({"name": ""}, ConfigError, "name is empty"),
    ({"name": "n" * 100_000}, ConfigError, "name has 100000 characters"),
    ({"name": "\ud800"}, ConfigError, "name: .* surrogate"),
    ({"properties": {"a": 7}}, TypeError, "properties .* 'a': 7"),
    ({"properties": 7}, TypeError, "properties .* 7"),
    ({"attributes": {"UDP.bind_port": 7800}}, TypeError, "attributes .* 7800"),
    ({"bind_addr": 7}, TypeError, "bind_addr is a str"),
]
OF_CHANNELS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cluster": None}, TypeError, "cluster is a str"),
    ({"state": 7}, TypeError, "state is an? .*, got 7"),
    ({"trace": 7}, TypeError, "trace is a function, got 7"),
]
OF_CACHES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"codec": 7}, TypeError, "codec must have encode and decode"),
    ({"store": 7}, TypeError, "store is derived from .*Store, got 7"),
]


@pytest.mark.parametrize(("given", "kind", "text"), WRONG + OF_CHANNELS)
async def test_a_channel_says_which_argument_cannot_be(
    given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"cluster": "demo", "transport": MemoryNetwork()} | given
    with pytest.raises(kind, match=text):
        async with open_channel("udp.xml", **arguments):
            pass


@pytest.mark.parametrize(("given", "kind", "text"), WRONG + OF_CHANNELS)
def test_a_channel_of_threads_and_of_asyncio_says_so_too(
    given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"cluster": "demo", "transport": MemoryNetwork()} | given

    async def main() -> None:
        async with aio.open_channel("udp.xml", **arguments):
            pass

    with pytest.raises(kind, match=text):
        blocking.open_channel("udp.xml", **arguments)
    with pytest.raises(kind, match=text):
        asyncio.run(main())


@pytest.mark.parametrize("file", ["local.xml", "replicated.xml", "buddy.xml"])
@pytest.mark.parametrize(("given", "kind", "text"), WRONG + OF_CACHES)
async def test_a_cache_says_which_argument_cannot_be(
    file: str, given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"transport": MemoryNetwork()} | given
    with pytest.raises(kind, match=text):
        async with open_tree_cache(file, **arguments):
            pass


async def test_the_longest_names_work(autojump_clock: Any) -> None:
    cluster, name = "ä" * 1000, "日" * 255
    network = MemoryNetwork()
    async with (
        open_channel("udp.xml", transport=network, cluster=cluster, name=name) as one,
        open_channel("udp.xml", transport=network, cluster=cluster, name="B") as two,
    ):
        await one.send(b"x" * 200_000)
        with trio.fail_after(10):
            async for item in two:
                if isinstance(item, Message):
                    assert len(item.payload) == 200_000 and two.name_of(item.sender) == one.name
                    break


def test_the_errors_of_caches_are_where_caches_are() -> None:
    from jgroups_py import cache, errors

    for name in ("BatchConflict", "CacheClosed", "CacheRefused", "LockTimeout", "StoreError"):
        assert name in cache.__all__
        assert getattr(cache, name) is getattr(errors, name)


async def test_calls_without_a_method_or_a_member_are_refused() -> None:
    async with (
        open_channel("sim.xml", cluster="demo", transport=MemoryNetwork()) as channel,
        open_rpc(channel, {"echo": lambda value: value}) as rpc,
    ):
        me, wrong = channel.address, cast(Any, 7)
        with pytest.raises(TypeError, match="its name, a str, got 7"):
            await rpc.call(me, wrong)
        with pytest.raises(TypeError, match="its name, a str, got 7"):
            rpc.call_all(wrong)
        with pytest.raises(TypeError, match="its name, a str, got 7"):
            await rpc.call_first(wrong)
        with pytest.raises(TypeError, match="its name, a str, got 7"):
            await rpc.cast(wrong)
        for nobody in (cast(Any, "A"), cast(Any, None), *NO_ADDRESS):
            with pytest.raises(TypeError, match="member is an address"):
                await rpc.call(nobody, "echo", 1)
        with pytest.raises(TypeError, match="member is an address"):
            rpc.call_all("echo", 1, dests=cast(Any, "AB"))
        with pytest.raises(TypeError, match="member is an address"):
            await rpc.cast("echo", 1, exclude=[cast(Any, "AB")])
        assert await rpc.call(me, "echo", 1) == 1


NO_DECORATORS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "no parentheses": (lambda cache, f: cache.batch(f), r"batch\(retries=10\)"),
    "no retries": (lambda cache, f: cache.batch()(f), r"say batch\(retries=10\)"),
    "None": (lambda cache, f: cache.batch(retries=None)(f), r"say batch\(retries=10\)"),
    "a text": (lambda cache, f: cache.batch(retries="5")(f), "retries is a number"),
}


@pytest.mark.parametrize("what", NO_DECORATORS)
async def test_a_batch_refuses_to_be_a_decorator(what: str) -> None:
    wrong, text = NO_DECORATORS[what]

    def function(batch: object) -> None:
        pass

    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(CacheRefused, match=text):
            wrong(cache, function)
        async with cache.batch() as batch:
            batch.put("/a", "k", 1)
        with suppress(KeyError):
            async with cache.batch() as batch:
                batch.put("/a", "k", 2)
                raise KeyError
        assert await cache.get("/a", "k") == 1

    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:
            with pytest.raises(CacheRefused, match=text):
                wrong(cache, function)

    with (
        blocking.open_tree_cache("local.xml") as threads,
        pytest.raises(CacheRefused, match=text),
    ):
        wrong(threads, function)
    await trio.to_thread.run_sync(asyncio.run, main())


async def test_the_stored_form_is_compared() -> None:
    async with open_tree_cache("local.xml") as cache:
        await cache.put("/a", "k", (1, 2))
        assert await cache.compare_and_set("/a", "k", (1, 2), {"a": 1, "b": (2,)})
        assert not await cache.compare_and_set("/a", "k", (1, 2), 3)
        assert await cache.compare_and_set("/a", "k", {"b": [2], "a": 1}, 3)
        with pytest.raises(CacheRefused, match="cannot be stored"):
            await cache.compare_and_set("/a", "k", object(), 4)
        assert not await cache.compare_and_set("/a", "k", None, 4)
        assert await cache.compare_and_set("/a", "other", None, 4)
        assert await cache.get_node("/a") == {"k": 3, "other": 4}


async def test_an_update_returns_the_stored_value() -> None:
    async with open_tree_cache("local.xml") as cache:
        assert await cache.update("/a", "k", lambda _: (1, 2)) == [1, 2]
        assert await cache.get("/a", "k") == [1, 2]
        assert await cache.increment("/a", "n") == 1


class FullStore(SqliteStore):
    """A store that refuses writes, and cannot be closed."""

    async def apply(self, rows: Sequence[Row]) -> None:
        raise StoreError("the disk is full")

    async def aclose(self) -> None:
        await super().aclose()
        raise StoreError("the disk is gone")


async def test_unsaved_changes_are_counted_also_when_closing_fails(tmp_path: Path) -> None:
    settings = CacheSettings(
        cache_loader_configuration=LoaderConfig(passivation=True, cacheloader=StoreConfig())
    )
    told = r"disk is full.*5 changes are not in the store.*not closed.*disk is gone"

    async def fill() -> None:
        async with open_tree_cache(settings, store=FullStore(tmp_path / "full.db")) as cache:
            for number in range(5):
                await cache.put(f"/{number}", "k", 1)

    with pytest.raises(StoreError, match=told):
        await fill()


SYNTAX = {
    "": "no element found",
    "<config><UDP a='1' a='2'/></config>": "duplicate attribute",
    "<config><UDP a=1/></config>": "invalid token",
    "<config/><config/>": "junk",
}


@pytest.mark.parametrize("content", SYNTAX)
async def test_an_error_of_xml_speaks_of_comments_only_where_one_stands(
    content: str, tmp_path: Path
) -> None:
    file = tmp_path / "stack.xml"

    async def refused(text: str) -> str:
        file.write_text(text)
        with pytest.raises(ConfigError) as error:
            async with open_channel(file, cluster="demo", transport=MemoryNetwork()):
                pass
        return str(error.value)

    told = await refused(content)
    assert SYNTAX[content] in told and "comment" not in told
    assert "comments cannot stand inside" in await refused("<config>\n<UDP <!-- x --> /></config>")
