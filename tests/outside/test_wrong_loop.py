"""The trio API in a program without a trio loop: an error of one line names the right module."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from jgroups_py import LocalProtocolError, aio, open_channel, open_rpc
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
def test_the_error_without_a_trio_loop_names_the_right_module(
    name: str, run: Callable[[Any], None]
) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        run(enter(OPENERS[name]))
    text = str(refused.value)
    assert text.startswith(f"{name} needs a trio loop")
    assert f"jgroups_py.aio.{name}" in text
    assert f"jgroups_py.blocking.{name}" in text
    assert "\n" not in text


def test_an_rpc_under_asyncio_on_a_channel_of_the_background_loop() -> None:
    """A channel cannot be opened without trio, but a program can take its value into asyncio by mistake."""
    told = r"^open_rpc needs a trio loop.*jgroups_py.aio.open_rpc"
    with (
        open_blocking("sim.xml", cluster="demo", transport=MemoryNetwork()) as channel,
        pytest.raises(LocalProtocolError, match=told),
    ):
        asyncio.run(enter(lambda: open_rpc(channel)))  # type: ignore[arg-type]


def aio_state() -> Any:
    raise AssertionError("is not called")


OF_ASYNCIO: dict[str, Callable[[], Any]] = {
    "open_channel": lambda: aio.open_channel("udp.xml", cluster="demo"),
    "open_channel ": lambda: aio.open_channel("udp.xml", cluster="demo", state=aio_state),
    "open_rpc": lambda: aio.open_rpc(aio.open_channel("udp.xml", cluster="demo"), {}),
    "open_tree_cache": lambda: aio.open_tree_cache("local.xml"),
}


@pytest.mark.parametrize("name", OF_ASYNCIO)
@pytest.mark.parametrize("run", [lambda coroutine: trio.run(lambda: coroutine), without_a_loop])
def test_the_error_without_an_asyncio_loop_names_the_right_module(
    name: str, run: Callable[[Any], None]
) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        run(enter(OF_ASYNCIO[name]))
    text, opener = str(refused.value), name.strip()
    assert text.startswith(f"jgroups_py.aio.{opener} needs an asyncio loop")
    of_trio = "jgroups_py.cache." if opener == "open_tree_cache" else "jgroups_py."
    assert f" {of_trio}{opener} in trio programs" in text
    assert f"jgroups_py.blocking.{opener}" in text
    assert "\n" not in text


BLOCKING = """
import asyncio, sys, trio
from jgroups_py.blocking import open_tree_cache
async def main():
    for _ in range(3):
        with open_tree_cache("local.xml") as cache:
            cache.put("/a", "k", 1)
if sys.argv[1] == "trio":
    trio.run(main)
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("loop", "instead"), [("trio", "the API of jgroups_py itself"), ("asyncio", "jgroups_py.aio")]
)
def test_a_program_that_blocks_a_loop_is_warned_once(loop: str, instead: str) -> None:
    command = [sys.executable, "-c", BLOCKING, loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (line,) = done.stderr.splitlines()
    assert f"tree cache of local.xml is opened in a task of {loop}," in line and instead in line


def test_a_program_that_blocks_no_loop_is_not_warned() -> None:
    program = BLOCKING.partition("async def")[0] + "open_tree_cache('local.xml').close()"
    program += "\ntrio.run(trio.to_thread.run_sync, lambda: open_tree_cache('local.xml').close())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
