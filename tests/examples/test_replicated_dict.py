"""The dictionary of examples/: all members write at the same time, and end with the same data."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import Channel, MemoryNetwork, open_channel

FILE = Path(__file__).parents[2] / "examples" / "replicated_dict.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("replicated_dict", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.05)


@pytest.mark.parametrize("seed", range(5))
async def test_the_replicated_dict_converges_after_writes_at_the_same_time(
    autojump_clock: MockClock, seed: int
) -> None:
    module, network = load(), MemoryNetwork()
    copies = {name: module.ReplicatedDict() for name in "ABC"}
    channels: dict[str, Channel] = {}
    async with AsyncExitStack() as blocks:
        for number, name in enumerate(copies):
            opened = open_channel(
                "udp.xml", cluster="dict", name=name, transport=network, seed=10 * seed + number
            )
            channels[name] = await blocks.enter_async_context(opened)
        readers = await blocks.enter_async_context(trio.open_nursery())
        for name, copy in copies.items():
            readers.start_soon(copy.run, channels[name])
        await until(lambda: all(len(c.view) == 3 for c in channels.values()))

        async def write(name: str, task: int) -> None:
            for number in range(20):
                await copies[name].put(
                    channels[name], f"key {number % 7}", f"{name} {task} {number}"
                )
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as writers:
            for name in copies:
                for task in range(4):
                    writers.start_soon(write, name, task)
        for name in copies:
            await copies[name].put(channels[name], f"{name} is done", "yes")
        await until(lambda: all(len(copy.data) == 10 for copy in copies.values()))
        assert copies["A"].data == copies["B"].data == copies["C"].data
        readers.cancel_scope.cancel()
