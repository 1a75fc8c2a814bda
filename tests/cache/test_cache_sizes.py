"""Caches in a stack without FRAG2: a write larger than a packet is an error of its caller, and of nobody else."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from cache_group import Group, counter, group, settings

from jgroups_py import MemoryNetwork
from jgroups_py.cache import CacheSettings, TreeCache, open_tree_cache
from jgroups_py.cache.fqn import ROOT
from jgroups_py.cache.sizes import PIECE_COST, JoinedPieces, is_piece, pieces_of
from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.errors import CacheRefused, RemoteProtocolError, StateTransferError
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.values.address import UUID
from jgroups_py.values.events import FlowBlocked

STACKS = Path(__file__).resolve().parents[2] / "stacks"
MOST = 65_007
TOO_LARGE = (
    rf"^/large: \d+ bytes are more than a packet of this stack takes \(at most {MOST}.*FRAG2"
)
TOO_LARGE_STATE = r"the state has \d+ bytes, more than a packet .* FRAG2"
Write = Callable[[TreeCache], Awaitable[Any]]


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """The file of a stack without FRAG2."""
    file = tmp_path / "whole.xml"
    file.write_text(re.sub(r"<FRAG2 [^>]*/>", "", (STACKS / "udp.xml").read_text()))
    return str(file)


async def in_batch(cache: TreeCache) -> None:
    async with cache.batch() as batch:
        batch.put("/small", "k", b"batch")
        batch.put("/large", "k", bytes(70_000))
        batch.put("/other", "k", b"batch")


async def grown(cache: TreeCache) -> None:
    """The node is too large only with what it has already."""
    async with cache.batch() as batch:
        batch.put("/large", "first", bytes(40_000))
        batch.put("/large", "second", bytes(40_000))


WRITES: list[Write] = [
    lambda cache: cache.put("/large", "k", bytes(70_000)),
    lambda cache: cache.put("/large", "k", bytes(70_000), sync=False),
    lambda cache: cache.put_node("/large", {"k": bytes(40_000), "m": bytes(40_000)}),
    in_batch,
    grown,
]


def same_everywhere(a: TreeCache, b: TreeCache) -> None:
    """Owner and buddy have the same nodes, and so has the tree of the owner."""
    own = {path: entry.value for path, entry in a.buddies.entries.items()}
    (backup,) = b.buddies.backups().values()
    assert own == {path: entry.value for path, entry in backup.items()}
    shown = {tuple(path): node.attributes for path, node in a.local_nodes(ROOT)}
    assert own == shown


@pytest.mark.parametrize("write", WRITES, ids=["put", "async", "node", "batch", "grown"])
async def test_a_write_that_no_packet_takes_is_refused_and_others_go_on(
    whole: str, write: Write, autojump_clock: Any
) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(stack=whole))
        await a.put("/small", "k", b"before")
        told: list[str] = []

        async def refused() -> None:
            with pytest.raises(CacheRefused, match=TOO_LARGE) as error:
                await write(a)
            told.append(str(error.value))

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.put, "/x", "k", b"earlier")
                nursery.start_soon(refused)
                nursery.start_soon(a.put, "/y", "k", b"later")
            assert len(told) == 1
            await a.put("/z", "k", b"after")
            assert await a.get("/small", "k") == b"before"
            assert not await a.exists("/large") and not await a.exists("/other")
            await g.protected()
        same_everywhere(a, b)


async def test_the_largest_write_that_is_taken_arrives(whole: str, autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(stack=whole))
        size = MOST
        with trio.fail_after(5):
            while True:
                try:
                    await a.put("/large", "k", bytes(size))
                    break
                except CacheRefused:
                    size -= 1
        assert MOST - 100 < size < MOST
        same_everywhere(a, b)
        await b.put("/large", "k", b"mine")  # the node moves
        assert await a.get("/large", "k") == b"mine"


async def test_a_group_with_much_to_say_of_its_nodes_needs_no_fragments(
    whole: str, autojump_clock: Any
) -> None:
    """State for a new buddy, what a member holds at a new view, and nodes that move: each is larger than a packet."""
    async with group() as g:
        a, b = await g.start("AB", settings(stack=whole))
        async with a.batch() as batch:
            for n in range(2000):
                batch.put(f"/many/{n}", "k", bytes(300))
        for n in range(8):
            await a.put(f"/wide/{n}", "k", bytes(60_000))
        same_everywhere(a, b)
        (c,) = await g.start("C", settings(stack=whole))
        await g.kill("B")
        await g.protected()
        same_everywhere(a, c)
        await g.kill("A")
        await g.protected()
        assert await c.get("/many/1999", "k") == bytes(300)
        (d,) = await g.start("D", settings(stack=whole))
        assert await d.get("/wide", "k", default=1) == 1
        await d.put("/wide/7", "k", b"moved")
        assert await c.get("/wide/7", "k", gravitation=False) is None
        assert len(await d.children("/many")) == 2000
        await g.protected()
        assert counter(c, "buddy_garbage") == counter(d, "buddy_garbage") == 0


async def test_large_messages_wait_for_credit_behind_others(
    whole: str, autojump_clock: Any
) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(stack=whole))
        for path in ("/first", "/last", *(f"/many/{n}" for n in range(250))):
            await a.put(path, "k", b"")  # later writes need no claim
        outbox, buddy = a.buddies.channel.outbox, b.buddies.channel.address
        outbox.on_blocked(FlowBlocked("UFC", buddy, (buddy,)))
        await a.put("/first", "k", b"waits", sync=False)
        async with a.batch(sync=False) as batch:  # pieces of 100 nodes
            for n in range(250):
                batch.put(f"/many/{n}", "k", bytes(1000))
        await a.put("/last", "k", b"waits", sync=False)
        assert a.buddies._waiting
        outbox.on_opened("UFC", buddy)
        with trio.fail_after(5):
            await a.put("/0", "k", b"later")
        same_everywhere(a, b)


async def test_with_all_members_a_large_write_is_refused_and_the_cache_goes_on(
    whole: str, autojump_clock: Any
) -> None:
    config = CacheSettings(cache_mode="REPL_SYNC", stack=whole, cluster_name="test")
    async with trio.open_nursery() as nursery:
        g = Group(nursery)
        a, b = await g.start("AB", config)
        for cache in (a, b):
            for write in WRITES[:1] + WRITES[2:]:
                with trio.fail_after(1), pytest.raises(CacheRefused, match=r"\d+ bytes .*FRAG2"):
                    await write(cache)
            with trio.fail_after(1):
                await cache.put("/x", "k", cache.name)
                assert await a.get("/x", "k") == await b.get("/x", "k") == cache.name
        assert not await a.exists("/large") and not await b.exists("/small")
        nursery.cancel_scope.cancel()


async def test_a_member_whose_state_no_packet_takes_is_told_so(
    whole: str, autojump_clock: Any
) -> None:
    config = CacheSettings(cache_mode="REPL_SYNC", stack=whole, cluster_name="test")
    network = MemoryNetwork()
    async with open_tree_cache(config, name="A", transport=network) as a:
        await a.put("/0", "k", bytes(60_000))
        async with open_tree_cache(config, name="B", transport=network) as b:
            assert await b.get("/0", "k") == bytes(60_000)
        await a.put("/1", "k", bytes(60_000))
        with trio.fail_after(2), pytest.raises(StateTransferError, match=TOO_LARGE_STATE):
            async with open_tree_cache(config, name="C", transport=network):
                pass
        await a.put("/2", "k", b"later")


@pytest.mark.sockets
@pytest.mark.timeout(180)
@pytest.mark.parametrize("buddies", [True, False])
async def test_on_sockets_a_write_that_no_packet_takes_is_refused(
    tmp_path: Path, buddies: bool
) -> None:
    text = re.sub(r"<FRAG2 [^>]*/>", "", (STACKS / "tcp.xml").read_text())
    file = tmp_path / "stack.xml"
    file.write_text(text)
    config = load_stack(file)
    own = private_attributes(config, 2) | {"TCP.max_length": "100000", "GMS.join_timeout": "20s"}
    file.write_text(to_xml(with_attributes(config, own)))
    kind = settings(stack=str(file)) if buddies else None
    kind = kind or CacheSettings(cache_mode="REPL_SYNC", stack=str(file), cluster_name="test")
    with trio.fail_after(120):
        async with open_tree_cache(kind, name="A") as a, open_tree_cache(kind, name="B") as b:
            await a.wait_members(2)
            await b.wait_members(2)
            await a.put("/small", "k", b"before")
            for size in (99_500, 200_000, 3_000_000):
                with pytest.raises(
                    CacheRefused,
                    match=r"\d+ bytes .*99500 bytes.*FRAG2|\d+ bytes .*99400 bytes.*FRAG2",
                ):
                    await a.put("/large", "k", bytes(size))
            await a.put("/fits", "k", bytes(99_000))
            await a.put("/small", "k", b"after")
            if buddies:
                await a.wait_protected(2)
                same_everywhere(a, b)
            assert not await b.exists("/large")
            assert await b.get("/fits", "k") == bytes(99_000)


def test_pieces_have_an_order_and_a_limit() -> None:
    one, other = UUID(bytes(15) + b"1"), UUID(bytes(15) + b"2")
    message = bytes(range(250))
    pieces = list(pieces_of(message, 102))
    assert [len(piece) for piece in pieces] == [102, 102, 52] and all(map(is_piece, pieces))
    assert list(pieces_of(message[:100], 102)) == [b"\xb2\x03" + message[:100]]
    most = 250 + 3 * PIECE_COST
    joined = JoinedPieces(most)
    joined.view_installed([one, other])
    found = [
        (joined.add(one, a), joined.add(other, b)) for a, b in zip(pieces, pieces, strict=True)
    ]
    assert found == [(None, None), (None, None), (message, message)]
    with pytest.raises(RemoteProtocolError, match="without the first"):
        joined.add(one, pieces[1])
    joined.add(one, pieces[0])
    joined.add(one, pieces[0])  # its sender began anew
    joined.add(other, pieces[0])
    joined.view_installed([one])
    with pytest.raises(RemoteProtocolError, match="without the first"):
        joined.add(other, pieces[1])
    joined.add(one, pieces[1])
    with pytest.raises(RemoteProtocolError, match=f"more than {most} bytes"):
        joined.add(one, pieces[1])
    with pytest.raises(RemoteProtocolError, match="without the first"):
        joined.add(one, pieces[2])
    assert not joined._parts and not joined._size and joined._strangers_size == 0


def test_pieces_of_senders_outside_the_view_have_one_limit_together() -> None:
    """A member that joins may send before its view is here. Anybody may say so."""
    one, *strangers = [UUID(bytes(15) + bytes([n])) for n in range(9)]
    message = bytes(range(250))
    first, second, last = pieces_of(message, 102)
    joined = JoinedPieces(3 * (100 + PIECE_COST))
    joined.view_installed([one])
    joined.add(one, first)
    for stranger in strangers:
        joined.add(stranger, first)
        assert len(joined._parts) <= 4
    with pytest.raises(RemoteProtocolError, match="without the first"):
        joined.add(strangers[4], second)  # later ones took its room
    joined.view_installed([one])  # not yet with the member that joins
    joined.view_installed([one, strangers[7]])
    for src in (one, strangers[7]):
        joined.add(src, second)
        assert joined.add(src, last) == message, "nothing of a member was dropped"
    joined.view_installed([*strangers])
    assert joined._strangers_size == 0
