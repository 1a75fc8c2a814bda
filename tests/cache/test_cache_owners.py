"""A member asks for owners without moving a node; the effect of dataGravitationSearchBackupTrees."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cache_group import Deaf, counter, group, settings, total

from jgroups_py.cache import BuddyReplicationConfig, Fqn, NodeOwner, open_tree_cache
from jgroups_py.errors import CacheRefused, ReplicationError
from jgroups_py.tools.commands.cache_shell import execute, json_of


def owned_by(name: str, *backups: str) -> NodeOwner:
    return NodeOwner(name, backups)


async def test_owners_of_all_nodes_are_named_and_no_node_moves(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = caches = await g.start("ABC", settings())
        await a.put("/x", "k", 1)
        await a.put("/x/below", "k", 1)
        await b.put("/y", "k", 1)
        await b.put("/gone", "k", 1)
        await b.remove_node("/gone")
        for cache in caches:
            assert await cache.owners() == {
                Fqn.parse("/x"): owned_by("A", "B"),
                Fqn.parse("/x/below"): owned_by("A", "B"),
                Fqn.parse("/y"): owned_by("B", "C"),
            }
            assert await cache.owners("/x", deep=False) == {Fqn.parse("/x"): owned_by("A", "B")}
            assert await cache.owners("/nowhere") == {}
        assert [cache.statistics().nodes for cache in caches] == [2, 1, 0]
        assert total(caches, "buddy_nodes_granted") == 0
        await g.kill("A")
        await g.protected()
        assert (await c.owners("/x", deep=False)) == {Fqn.parse("/x"): owned_by("B", "C")}
        assert await c.get("/x", "k") == 1
        await g.protected()
        assert {having.owner for having in (await b.owners("/x")).values()} == {"C"}


@pytest.mark.seed("B40")
@pytest.mark.parametrize("search", [True, False])
async def test_backup_holders_say_so_if_they_are_asked_to(
    search: bool, autojump_clock: Any
) -> None:
    """Backup holders never grant a node: only the owner's answer is valid."""
    buddies = BuddyReplicationConfig(
        buddy_replication_enabled=True,
        auto_data_gravitation=True,
        data_gravitation_search_backup_trees=search,
    )
    async with group() as g:
        a, b, c = await g.start("ABC", replace(settings(), buddy_replication_config=buddies))
        await a.put("/x", "k", 1)
        await c.exists("/nowhere")
        assert (await c.owners("/x"))[Fqn.parse("/x")] == owned_by("A", *(["B"] if search else []))
        before = counter(c, "buddy_backups_told")
        assert await c.get("/x", "k") == 1  # an ordinary search
        assert counter(c, "buddy_backups_told") == before + search
        assert (counter(a, "buddy_nodes_granted"), counter(b, "buddy_nodes_granted")) == (1, 0)


async def test_an_answer_names_a_limited_number_of_nodes(autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings())
        for cache in (a, b):
            object.__setattr__(cache.buddies.machine.config, "look_max", 10)
        for n in range(30):
            await a.put(f"/n/{n}", "k", 1)
        assert len(await b.owners()) == 10


async def test_a_member_that_does_not_answer_is_not_waited_for_for_ever(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(sync_repl_timeout=2))
        b.buddies._incoming = Deaf()
        with pytest.raises(ReplicationError, match="answered within 2 s") as caught:
            await a.owners()
        assert caught.value.definite and not a.buddies.machine.calls.open
    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(CacheRefused, match="not configured"):
            await cache.owners()


async def test_the_shell_shows_owners_and_copies(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, _ = await g.start("ABC", settings())
        await a.put("/x/\x1b[2J", "k", 1)
        await b.put("/y", "k", 1)
        result = await execute(b, ["owners"])
        assert result.lines == ["/x/\x1b[2J  A  copies: B", "/y  B  copies: C"] and result.found
        assert json.loads(json_of((await execute(b, ["owners", "/y"])).value)) == {
            "path": "/y",
            "owners": [{"path": "/y", "owner": "B", "backups": ["C"]}],
            "complete": True,
        }
        assert not (await execute(b, ["owners", "/z"])).found
