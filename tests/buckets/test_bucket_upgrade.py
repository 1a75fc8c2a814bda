"""An upgrade from version 73 to 81 on line, with a fallback: two versions of the plug-in beside each other (A21, A39)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from bucket_group import Group, ask, bucket_group
from seed_instance import PAIRS, key_in

from jgroups_py.buckets import BucketNode, NodeParts, Refused
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, ledger

KEYS = [key_in(pair) for pair in range(1, PAIRS + 1)]


class Load:
    """Clients at one member that add tokens all the time. ``longest``: the most seconds that one request took."""

    def __init__(self, node: BucketNode) -> None:
        self._node = node
        self.added = {key: 0 for key in KEYS}
        self.longest = 0.0

    async def client(self, key: str) -> None:
        while True:
            began = trio.current_time()
            place = await ask(self._node, key, f"+{self.added[key]}")
            assert place == str(self.added[key]), "each is there once, in its order"
            self.added[key] += 1
            self.longest = max(self.longest, trio.current_time() - began)
            await trio.sleep(0.05)


def beside(name: str) -> NodeParts:
    """Start the new version's manager on the node of the old one, and return it."""
    return NodeParts(node=name, managers=(f"m/{name}-81",))


def versions(group: Group) -> set[int]:
    """Return the versions of all saved entries."""
    return {
        version
        for bucket in range(PAIRS)
        for state in group.states(bucket).values()
        for _, version in state.values()
    }


def old_copies(group: Group) -> set[int]:
    """Return the versions of entries at managers with the old plug-in."""
    return {
        version
        for node in group.nodes.values()
        for manager in node.machine.managers.values()
        for copy in manager.copies.values()
        for _, version in copy.bucket.state().values()
        if manager.provider.version == OLD
    }


@pytest.mark.seed("A15", "A21", "A39", "A48", "A55", "A65")
async def test_software_is_upgraded_and_falls_back_while_clients_go_on(autojump_clock: Any) -> None:
    async with bucket_group(plugin=ledger(OLD)) as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        await trio.sleep(2)  # managers have their leases
        load = Load(client)
        async with trio.open_nursery() as nursery:
            for key in KEYS:
                nursery.start_soon(load.client, key)
            await trio.sleep(0.5)
            for name in ("n1", "n2", "n3"):
                new = await group.start(f"{name}-81", parts=beside(name), plugin=ledger(NEW))
                await client.wait_until(
                    lambda state, name=name: (
                        f"m/{name}-81"  # type: ignore[misc]
                        in [m.cep.component for m in state.managers]
                    )
                )
                here, there = client.manager_at(f"m/{name}"), client.manager_at(f"m/{name}-81")
                few = await move_all(client, here, there, at_most=2)
                assert len(few.moved) == 2 and not few.refused
                await trio.sleep(0.3)  # the new version serves requests for them
                assert old_copies(group) <= {OLD}, "an old slave gets what it reads"
                back = await move_all(client, there, here)
                assert back.moved == few.moved, "the new version writes for the old one"
                all_of_them = await move_all(client, here, there)
                assert len(all_of_them.moved) == 6 and not all_of_them.refused
                await group.stop(name)
                await new.create_index(f"i/{name}")
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
        assert load.longest < 0.5, (
            "a move locks for a round trip, and nobody waits for a lost member"
        )
        state = client.state
        assert {m.info.version for m in state.managers} == {NEW}
        assert sorted(state.copies) == ["i/n1", "i/n2", "i/n3"]
        assert all(row.slave is not None for row in state.rows.values())
        assert versions(group) == {NEW}
        for key in KEYS:
            found = await ask(client, key, "?")
            assert found.split()[: load.added[key]] == [str(n) for n in range(load.added[key])]


async def test_a_version_that_is_not_written_or_read_is_refused(autojump_clock: Any) -> None:
    plugin = ledger(NEW)
    plugin.provider.writes = ()
    async with bucket_group(plugin=ledger(OLD)) as group:
        node = group.nodes["n1"]
        await ask(node, KEYS[0], "+x")
        await group.start("new", parts=beside("n1"), plugin=plugin)
        await node.wait_until(lambda state: len(state.managers) == 4)
        old, new = node.manager_at("m/n1"), node.manager_at("m/n1-81")
        assert len((await move_all(node, old, new, at_most=1)).moved) == 1
        refused = (await move_all(node, new, old)).refused
        assert refused == {0: "this plug-in does not write version 73"}
        assert await ask(node, KEYS[0], "+y") == "1", "and the bucket works on where it is"


async def test_orders_of_an_upgrade_that_cannot_be_are_refused(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        node = group.nodes["n1"]
        gone = node.manager_at("n3")
        client = await group.start("c", client=True)
        await client.wait_ready()
        for name, problem in [("i/n9", "not one of the index copies: i/n1, "), ("i/n2", "another")]:
            with pytest.raises(Refused, match=problem):
                await client.create_index(name)
        await group.stop("n3")
        await node.wait_until(lambda state: len(state.managers) == 2)
        with pytest.raises(Refused, match="there is no bucket manager m/n3@"):
            await move_all(node, gone, node.manager_at("n1"))
        await client.create_index("i/n3")
        assert client.router.index.state == node.state
        assert await ask(client, KEYS[3], "+x") == "0"


async def test_an_upgrade_whose_new_manager_is_lost_ends_at_once_and_names_the_buckets_that_stayed(
    autojump_clock: Any,
) -> None:
    async with bucket_group() as group:
        node = group.nodes["n1"]
        frm, to = node.manager_at("n2"), node.manager_at("n3")
        before: list[int] = []

        async def lose() -> None:
            await group.stop("n3")
            await node.wait_until(lambda state: len(state.managers) == 2)

        async with trio.open_nursery() as nursery:

            def begins(row: BucketRow) -> None:
                before.append(row.bucket)
                if len(before) == 1:
                    nursery.start_soon(lose)

            began = trio.current_time()
            done = await move_all(node, frm, to, before_move=begins, pause=5.0)
        stayed = {bucket: why for bucket, why in done.refused.items() if bucket not in before}
        assert before and stayed and set(stayed.values()) == {f"{to} is gone"}
        assert trio.current_time() - began < 5 * len(before) + 10
