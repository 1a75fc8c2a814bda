"""A cache with buddies is written through its members' ports. test_parts tests reading; test_owners tests following."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from cache_group import group, settings
from export_kit import TOKEN, client_of, commit, in_thread, stage, write
from faulty_store import FaultyStore

from jgroups_py.cache import TreeCache
from jgroups_py.export import ExportError, Marker, Offset, open_export
from jgroups_py.export.messages import Committed
from jgroups_py.export.source import RowWrite

pytestmark = pytest.mark.sockets

NOWHERE = Offset("", 0, {})


async def values(cache: TreeCache, numbers: range) -> list[Any]:
    return [await cache.get(f"/n/{number}", "v") for number in numbers]


@pytest.mark.parametrize("auto", [True, False])
async def test_rows_are_written_wherever_their_nodes_are(auto: bool) -> None:
    """Rows of nodes that another member owns are written, too, though calls may not take such nodes; no row is lost
    when the writer dies."""
    async with group() as g:
        a, b, c = await g.start("ABC", settings(auto=auto))
        await a.put_node("/n/7", {"w": "A's"})
        await c.put_node("/n/8", {"w": "C's"})
        async with open_export(b, token=TOKEN) as port, client_of(port) as client:
            rows = [write(number) for number in range(1200)] + [RowWrite("/n/8", True, b"")]
            parts = [await in_thread(stage, client, "j", 0, 0, rows)]
            assert (await in_thread(commit, client, "j", parts)).rows == 1201
        assert await b.get_node("/n/7") == {"v": 1, "w": "A's"}
        assert not await b.exists("/n/8", gravitation=True)
        await g.protected()
        await g.kill("B")
        await g.protected()
        found = [await c.get(f"/n/{n}", "v", gravitation=True) for n in range(0, 1200, 100)]
        assert found == [1] * 12


@pytest.mark.parametrize("auto", [True, False])
async def test_a_marked_batch_is_written_once_at_whatever_member(auto: bool) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(auto=auto))
        async with (
            open_export(a, token=TOKEN) as port_a,
            open_export(b, token=TOKEN) as port_b,
            client_of(port_a) as at_a,
            client_of(port_b) as at_b,
        ):

            async def once(client: Any, batch: int, job: str, value: bytes) -> Committed:
                rows = [write(number, value) for number in range(20)]
                parts = [await in_thread(stage, client, job, 0, 0, rows)]
                marker = Marker("query", batch)
                done: Committed = await in_thread(lambda: commit(client, job, parts, marker=marker))
                return done

            assert await once(at_a, 0, "j0", b"\x01") == Committed(20, False)
            assert await once(at_b, 0, "again", b"\x02") == Committed(0, True)
            assert await once(at_b, 1, "j1", b"\x03") == Committed(20, False)
            assert await once(at_a, 1, "again", b"\x04") == Committed(0, True)
            assert await b.get("/n/5", "v", gravitation=True) == 3


async def test_a_place_that_is_in_no_owners_log_is_refused_with_the_reason() -> None:
    async with group() as g:
        (a,) = await g.start("A", settings())
        async with open_export({"sessions": a}, token=TOKEN) as port, client_of(port) as client:
            said = await in_thread(client.describe)
            assert (said.map, said.kind, said.members) == ("sessions", "tree", ("A",))
            for call in (
                lambda: client.find_offset("sessions"),
                lambda: client.find_offset("sessions", earliest=True),
                lambda: [*client.read_changes("sessions", NOWHERE, NOWHERE)],
            ):
                with pytest.raises(ExportError, match="each owner has a log of its own"):
                    await in_thread(call)
            with trio.fail_after(30):
                await a.put("/still/works", "k", 1)


@pytest.mark.parametrize("stored", [False, True])
async def test_a_commit_that_is_begun_again_leaves_out_only_own_rows(
    stored: bool,
) -> None:
    """Other owners may have changed or removed their nodes by now, even if this member's store has an old row."""
    async with group() as g:
        if stored:
            g.stores["A"] = FaultyStore()
        a, b = await g.start("AB", settings(remove_on_find=False))
        for number in range(3):
            await a.put(f"/n/{number}", "v", 1)
        for number in (0, 1):
            await b.put(f"/n/{number}", "v", 2)
        await g.protected()
        async with open_export(a, token=TOKEN) as port, client_of(port) as client:
            rows = [write(0), RowWrite("/n/1", True, b""), write(2), RowWrite("/n/3", True, b"")]
            parts = [await in_thread(stage, client, "j", 0, 0, rows)]
            await in_thread(lambda: commit(client, "j", parts, skip_equal=True))
        found = [await b.get(f"/n/{number}", "v", gravitation=True) for number in range(3)]
        assert found == [1, None, 1]
