"""The trio API in a program that has no trio loop: one line that says what to use instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jgroups_py import LocalProtocolError, open_channel, open_rpc
from jgroups_py.blocking import open_channel as open_blocking
from jgroups_py.cache import open_tree_cache
from jgroups_py.driver import MemoryNetwork

OPENERS: dict[str, Callable[[], Any]] = {
    "open_channel": lambda: open_channel("udp.xml", cluster="demo"),
    "open_tree_cache": lambda: open_tree_cache("local.xml"),
}


async def enter(opener: Callable[[], Any]) -> None:
    async with opener():
        pass


def without_a_loop(coroutine: Awaitable[None]) -> None:
    coroutine.send(None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", OPENERS)
@pytest.mark.parametrize("run", [asyncio.run, without_a_loop])
def test_who_has_no_trio_loop_is_told_what_to_use(name: str, run: Callable[[Any], None]) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        run(enter(OPENERS[name]))
    text = str(refused.value)
    assert text.startswith(f"{name} needs a trio loop")
    assert f"jgroups_py.aio.{name}" in text
    assert f"jgroups_py.blocking.{name}" in text
    assert "\n" not in text


def test_an_rpc_under_asyncio_on_a_channel_of_the_background_loop() -> None:
    """A channel cannot be had without trio, but its value can be carried into asyncio by mistake."""
    told = r"^open_rpc needs a trio loop.*jgroups_py.aio.open_rpc"
    with (
        open_blocking("udp.xml", cluster="demo", transport=MemoryNetwork()) as channel,
        pytest.raises(LocalProtocolError, match=told),
    ):
        asyncio.run(enter(lambda: open_rpc(channel)))  # type: ignore[arg-type]
