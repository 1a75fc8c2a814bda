"""Mistakes of new users, plug-ins and disks with buddies: each gives a clear error, or a counted, visible degradation,
and no acknowledged write is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from cache_group import counter, group, settings, total
from faulty_store import Fault, FaultyStore

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    EvictionConfig,
    LoaderConfig,
    RegionConfig,
    StoreConfig,
    open_tree_cache,
)
from jgroups_py.errors import CacheClosed, CacheRefused, ConfigError, StoreError

FILE = """
cache:
  CacheMode: REPL_SYNC
  ClusterConfig: sim.xml
  BuddyReplicationConfig:
    buddyReplicationEnabled: true
    {lines}
"""


def own(locator: str, buddies: int = 1) -> CacheSettings:
    return replace(
        settings(),
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_class=f"own_locator.{locator}",
            buddy_locator_properties={"numBuddies": str(buddies)},
            auto_data_gravitation=True,
        ),
    )


@pytest.mark.seed("B31")
@pytest.mark.parametrize(
    ("locator", "counted", "said"),
    [
        ("FirstMember", "", ""),
        ("Raises", "locator_raised", "raised RuntimeError: no idea; next in line it is"),
        ("Nothing", "locator_raised", "raised TypeError"),
        ("Strangers", "locator_corrected", "the locator named a stranger, 'B'"),
        ("Endless", "locator_corrected", "the locator named the owner itself"),
        ("AllOthers", "locator_corrected", "more than numBuddies, which is 1"),
    ],
)
async def test_a_wrong_locator_is_counted_and_next_in_line_is_taken(
    locator: str,
    counted: str,
    said: str,
    autojump_clock: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with group() as g:
        a, b, c = await g.start("ABC", own(locator))
        await a.put("/x", "k", 1)
        assert [counter(cache, "backup_nodes") for cache in (a, b, c)] == [0, 1, 0]
        wrong = counter(a, "buddy_locator_raised") + counter(a, "buddy_locator_corrected")
        assert counter(a, f"buddy_{counted}") if counted else not wrong
        assert said in caplog.text
        await g.kill("A")
        await g.protected()
        assert await c.get("/x", "k") == 1


@pytest.mark.parametrize("locator", ["FirstMember", "Raises", "Endless"])
async def test_a_member_that_leaves_need_not_wait_for_a_locator_that_goes_on_naming_it(
    locator: str, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with group() as g:
        a, _, c = await g.start("ABC", own(locator))
        await a.put("/x", "k", 1)
        began = trio.current_time()
        await g.close("B")
        assert trio.current_time() - began < 5 and "this leave is a crash" not in caplog.text
        await g.protected()
        assert await c.get("/x", "k") == 1


@pytest.mark.parametrize("file", ["buddy.xml", "replicated.xml"])
async def test_copies_that_others_count_on_do_not_leave_memory_without_a_store(
    file: str, autojump_clock: Any
) -> None:
    network = MemoryNetwork()
    async with (
        open_tree_cache(file, name="A", transport=network) as a,
        open_tree_cache(file, name="B", transport=network) as b,
    ):
        await a.put("/x", "k", 1)
        with pytest.raises(CacheRefused, match="no store for it to go to"):
            await a.evict("/x")
        assert await a.get("/x", "k") == await b.get("/x", "k") == 1
    for call in (a.evict, a.owners):
        with pytest.raises(CacheClosed):
            await call("/x")


@pytest.mark.parametrize("buddies", [2, 5, 100])
async def test_more_buddies_than_members_is_as_many_as_there_are(
    buddies: int, autojump_clock: Any
) -> None:
    async with group() as g:
        a, _, c = caches = await g.start("ABC", settings(buddies))
        await a.put("/x", "k", 1)
        for cache in caches:
            assert (counter(cache, "buddies"), counter(cache, "buddies_missing")) == (
                2,
                buddies - 2,
            )
        assert total(caches, "backup_nodes") == 2
        await g.kill("A")
        await g.kill("B")  # before anything is protected again
        await g.protected()
        assert await c.get("/x", "k") == 1 and counter(c, "buddies_missing") == buddies


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "buddyLocatorClass: own_locator.InitRaises",
            "{file}: buddyLocatorClass: init() raised KeyError: 'rack' (it is given"
            " buddyLocatorProperties, texts by name)",
        ),
        (
            "buddyLocatorClass: own_locator.NotMade",
            "{file}: buddyLocatorClass: own_locator.NotMade() raised TypeError: ",
        ),
        (
            "buddyLocatorClass: own_locator.Stranger",
            '{file}:7:24: BuddyReplicationConfig.buddyLocatorClass: "own_locator.Stranger" is no class',
        ),
        (
            "buddyLocatorClass: own_locator.FirstMember\n"
            "    buddyLocatorProperties: {numBuddies: many}",
            '{file}:8:5: BuddyReplicationConfig.buddyLocatorProperties: numBuddies is "many"'
            " (a whole number from 1 to 100",
        ),
        (
            "buddyLocatorProperties: {numBuddies: 101}",
            'buddyLocatorProperties: numBuddies is "101" (a whole number from 1 to 100; for no',
        ),
        ("zone: a", "{file}: needs ClusterName, or cluster= when it is opened"),
    ],
)
async def test_a_mistake_that_is_found_at_the_start_names_the_file(
    lines: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "cache.yaml"
    file.write_text(FILE.format(lines=lines))
    cluster = None if "zone" in lines else "test"
    with pytest.raises(ConfigError) as caught:
        async with open_tree_cache(file, cluster=cluster, transport=MemoryNetwork()):
            pass
    assert said.format(file=file) in str(caught.value) and "\n" not in str(caught.value)


async def test_in_python_numbers_are_numbers(autojump_clock: Any) -> None:
    def buddies(value: Any) -> BuddyReplicationConfig:
        return BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": value, "ignoreColocatedBuddies": False},  # type: ignore[dict-item]
        )

    async with group() as g:
        caches = await g.start("ABC", replace(settings(), buddy_replication_config=buddies(2)))
        assert counter(caches[0], "buddies") == 2
    for wrong in (0, 2.5, None, -1, True):
        with pytest.raises(ConfigError, match="whole number from 1 to 100"):
            buddies(wrong)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("/" + "/".join("a" * 65), 1, "at most 64 parts, got 65"),
        ("/" + "a" * 1025, 1, "at most 1024 bytes, got 1025"),
        ("/" + "/".join(["a" * 1000] * 5), 1, "at most 4096 bytes, got 5000"),
        ("/a", b"x" * 1001, "at most 1000 bytes, got 1004 (max_value_bytes)"),
        ("/a", 2**64, "cannot be stored"),
        ("/_buddy_backup_/A", 1, "cannot be written"),
    ],
)
async def test_a_write_out_of_bounds_changes_nothing_anywhere(
    path: str, value: Any, said: str, autojump_clock: Any
) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(max_value_size=1000))
        claims = counter(b, "buddy_claims")
        with pytest.raises(CacheRefused, match=r".*".join(said.split("(")[0].split())) as caught:
            await b.put(path, "k", value)
        assert caught.value.definite and counter(b, "buddy_claims") == claims
        async with b.batch() as batch:
            batch.put("/fine", "k", 1)
            with pytest.raises(CacheRefused):
                batch.put(path, "k", value)
        assert await a.get("/fine", "k") == 1
        assert a.statistics().nodes == 1 and b.statistics().nodes == 0


class Bug(FaultyStore):
    """An error that a store should not raise."""

    async def _call(self, name: str) -> Fault:
        try:
            return await super()._call(name)
        except StoreError:
            raise OSError("no space left on device") from None


@pytest.mark.parametrize("kind", [FaultyStore, Bug])
async def test_a_store_that_fails_in_the_middle_loses_nothing_acknowledged(
    kind: type[FaultyStore], autojump_clock: Any
) -> None:
    """The store lags up to a limit, which is counted; then writes are refused; then the store catches up."""
    loader = LoaderConfig(cacheloader=StoreConfig(), store_behind_max=20)
    fault: Fault = ""
    async with group() as g:
        a_store = g.stores["A"] = kind(lambda: fault)
        g.stores["B"] = FaultyStore()
        a, b = await g.start("AB", settings(cache_loader_configuration=loader))
        acked = {}
        for n in range(30):
            fault = "" if n < 5 else "before"
            if n < 25:
                await a.put(f"/n/{n}", "k", n, new=True)
                acked[n] = n
            else:
                with pytest.raises(StoreError, match="lacks 20 changes") as caught:
                    await a.put(f"/n/{n}", "k", n, new=True)
                assert caught.value.definite
        with pytest.raises(StoreError, match=r"disk is full|OSError") as caught:
            await a.get("/nowhere", "k")
        assert caught.value.definite
        assert list(acked) == list(range(25))
        assert counter(a, "store_failures") >= 20 and counter(a, "store_behind") == 20
        fault = ""
        await trio.sleep(10)  # the evictor's task
        assert counter(a, "store_behind") == 0 and len(a_store.rows) == 25
        fault = "before"
        await a.put("/n/3", "k", "changed")
        acked[3] = "changed"  # type: ignore[assignment]
        await g.kill("A")
        await g.protected()
        assert {n: await b.get(f"/n/{n}", "k") for n in acked} == acked


async def test_a_store_with_a_bug_does_not_end_the_cache(autojump_clock: Any) -> None:
    """The fault shows in a call, in the task that evicts, and at closing, whose error names the missing nodes."""
    fault: Fault = ""
    store = Bug(lambda: fault)
    config = CacheSettings(
        cache_loader_configuration=LoaderConfig(cacheloader=StoreConfig(), passivation=True),
        eviction_policy_config=EvictionConfig(
            regions=(RegionConfig(name="/", time_to_live=1, max_nodes=100),)
        ),
    )
    with pytest.raises(StoreError, match=r"no space left.*1 changes are not"):  # noqa: PT012
        async with open_tree_cache(config, store=store) as cache:
            await cache.put("/x", "k", 1)
            fault = "before"
            await trio.sleep(20)
            assert counter(cache, "eviction_failures") > 1
            assert await cache.get("/x", "k") == 1
            with pytest.raises(StoreError, match="the store raised OSError: no space left"):
                await cache.get("/y", "k")
    fault = "before"
    with pytest.raises(StoreError, match="OSError"):
        async with open_tree_cache(
            replace(
                config,
                cache_loader_configuration=LoaderConfig(
                    cacheloader=StoreConfig(), purge_on_startup=True
                ),
            ),
            store=store,
        ):
            pass
    assert not store.is_open


@pytest.mark.parametrize(
    ("place", "said"), [("nowhere/c.db", "there is no folder"), ("", "it is a folder")]
)
async def test_a_location_that_cannot_be_says_why(place: str, said: str, tmp_path: Path) -> None:
    properties = {"cache.file": str(tmp_path / place)}
    with pytest.raises(StoreError, match=f"cannot open .*: {said}"):
        async with open_tree_cache("passivation.xml", properties=properties):
            pass
