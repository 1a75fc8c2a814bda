"""Calls in a stack without FRAG2: a call larger than a packet is an error at once, not a call without an answer."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from rpc_nodes import Open, nodes, replies

from jgroups_py import Answer, LocalProtocolError, MemoryNetwork, Raised, RemoteError, open_channel

STACKS = Path(__file__).resolve().parents[2] / "stacks"
HEAD = 3
"""Bytes before a value of bytes between 256 and 65,535 (msgpack)."""
TOO_LARGE = r"a message of \d+ bytes is larger than a packet .* \(at most 65007 bytes\): put FRAG2"


@pytest.fixture
def open_whole(tmp_path: Path) -> Open:
    """Channels on udp.xml without FRAG2."""
    file = tmp_path / "whole.xml"
    file.write_text(re.sub(r"<FRAG2 [^>]*/>", "", (STACKS / "udp.xml").read_text()))
    return partial(open_channel, file, cluster="sizes", transport=MemoryNetwork())


async def test_a_value_that_no_packet_takes_is_an_error_of_the_call(
    open_whole: Open, autojump_clock: Any
) -> None:
    async with nodes(open_whole) as (a, b):
        most = b.channel.outbox.size_max
        assert most is not None
        for method in ("at_once", "later"):
            with trio.fail_after(1):
                assert len(await a.rpc.call(b.address, method, most - HEAD)) == most - HEAD
                with pytest.raises(RemoteError, match=f"^LocalProtocolError: {TOO_LARGE}") as told:
                    await a.rpc.call(b.address, method, most - HEAD + 1)
            assert told.value.member == b.address and not told.value.definite
        assert b.counters.raised == 2
        found = await replies(a.rpc, "at_once", 70_000)
        assert isinstance(found["A"], Answer) and isinstance(found["B"], Raised)


async def test_arguments_that_no_packet_takes_are_refused_where_they_are_given(
    open_whole: Open, autojump_clock: Any
) -> None:
    async with nodes(open_whole) as (a, b):
        for call in (
            partial(a.rpc.call, b.address),
            partial(replies, a.rpc),
            partial(replies, a.rpc, dests=b.address),
            a.rpc.cast,
            partial(a.rpc.cast, dests=b.address),
        ):
            with trio.fail_after(1), pytest.raises(LocalProtocolError, match=TOO_LARGE):
                await call("note", bytes(70_000))
        assert b.target.seen == [] and a.rpc.statistics().pending == 0
        assert await a.rpc.call(b.address, "add", 1, 2) == 3


async def test_a_call_of_a_member_at_itself_needs_no_packet(
    open_whole: Open, autojump_clock: Any
) -> None:
    async with nodes(open_whole) as (a, _):
        assert await a.rpc.call(a.address, "slowly", 0, bytes(70_000)) == bytes(70_000)
