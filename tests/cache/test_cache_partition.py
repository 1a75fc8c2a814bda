"""Partitions: ``partition=majority``, and the list of values that merges discarded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
from cache_group import counter, group, settings
from split_network import SplitNetwork

from jgroups_py.cache import Discarded, Fqn, discarded, parse_cache_settings
from jgroups_py.cache.node import Node
from jgroups_py.errors import ConfigError, ReplicationError

FILE = """
CacheMode: REPL_SYNC
BuddyReplicationConfig: {{buddyReplicationEnabled: true, partition: {partition}}}
"""


async def test_with_majority_the_smaller_side_refuses_and_nothing_is_discarded(
    autojump_clock: Any,
) -> None:
    config = parse_cache_settings(FILE.format(partition="majority"), language="yaml").buddies
    assert config is not None
    mine = settings(sync_repl_timeout=3)
    assert mine.buddies is not None
    mine = replace(mine, buddy_replication_config=replace(mine.buddies, partition=config.partition))
    async with group() as g:
        g.network = network = SplitNetwork()
        a, b, c = caches = await g.start("ABC", mine)
        await c.put("/c", "k", "before")
        await b.put("/b", "k", "before")
        network.side = {id(c.buddies._channel.driver)}
        with trio.fail_after(300):
            while len(c.buddies.members) != 1 or len(a.buddies.members) != 2:  # noqa: ASYNC110
                await trio.sleep(0.1)
        for path in ("/c", "/new"):
            with pytest.raises(
                ReplicationError, match=r"is the smaller one.*nothing was"
            ) as caught:
                await c.put(path, "k", "c")
            assert caught.value.definite
        assert counter(c, "minority") == 1 and counter(a, "minority") == 0
        await a.put("/c", "k", "a")  # its copy was adopted on the larger side
        await b.put("/b", "k", "b")
        network.side = set()
        with trio.fail_after(300):
            while any(len(cache.buddies.members) != 3 for cache in caches):  # noqa: ASYNC110
                await trio.sleep(0.1)
        await g.protected()
        assert [await c.get(path, "k") for path in ("/c", "/b", "/new")] == ["a", "b", None]
        assert [cache.discarded for cache in caches] == [(), (), ()]
        await c.put("/c", "k", "again")


def test_partition_has_two_values() -> None:
    with pytest.raises(ConfigError, match=r'partition: .*"quorum" \(one of all, majority\)'):
        parse_cache_settings(FILE.format(partition="quorum"), language="yaml")


def test_values_that_merges_dropped_are_kept_within_limits() -> None:
    values = discarded.DiscardedValues()
    big = Node({"k": bytes(discarded.BYTES_MAX // 3)})
    for n in range(discarded.LISTED_MAX + 5):
        values.add(Fqn((str(n),)), None, big)
    assert values.count == discarded.LISTED_MAX + 5
    assert len(values.listed) == discarded.LISTED_MAX
    assert [value.node is not None for value in values.listed][-4:] == [False, False, True, True]
    assert Discarded(Fqn(), "A", None).attributes is None
