"""The README's counter, by many tasks at every member at once: no acknowledged increment is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from counting import HOW, KEY, PATH

from jgroups_py import MemoryNetwork
from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import private_attributes

IN_MEMORY = {"cache.stack": "sim.xml"}
TASKS, TIMES = 10, 30


QUEUED = ("update", "increment", "retried")
"""Contention costs these at most twice the work."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tasks", [1, TASKS])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("file", "times"), [("replicated.xml", TIMES), ("buddy.xml", 3)])
async def test_no_increment_is_lost_in_memory(
    file: str, times: int, how: str, tasks: int, autojump_clock: Any
) -> None:
    conflicts = 0
    network = MemoryNetwork()

    def opened(name: str) -> Any:
        return open_tree_cache(
            file, cluster="shop", name=name, transport=network, properties=IN_MEMORY
        )

    async def task(cache: TreeCache) -> None:
        nonlocal conflicts
        for _ in range(times):
            met = await HOW[how](cache)
            conflicts += met

    async with opened("A") as a, opened("B") as b, opened("C") as c:
        async with trio.open_nursery() as nursery:
            for cache in (a, b, c):
                for _ in range(tasks):
                    nursery.start_soon(task, cache)
        writes = 3 * tasks * times
        assert [await cache.get(PATH, KEY) for cache in (a, b, c)] == [writes] * 3
        assert how not in QUEUED or conflicts <= writes, conflicts


@contextmanager
def peers(folder: Path, how: str, tasks: int, times: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Three processes over TCP on loopback."""
    stack, file = folder / "stack.xml", folder / "cache.yaml"
    config = load_stack("tcp.xml")
    stack.write_text(to_xml(with_attributes(config, private_attributes(config, 3))))
    file.write_text(f"cache: {{CacheMode: REPL_SYNC, ClusterName: shop, ClusterConfig: {stack}}}")
    command = [sys.executable, str(Path(__file__).parent / "counting_peer.py"), str(file)]
    with ExitStack() as cleanup:
        found = []
        for name in "ABC":
            peer = subprocess.Popen(
                [*command, name, how, "3", str(tasks), str(times)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(peer)
            cleanup.callback(peer.kill)
            found.append(peer)
        yield found


def said(peer: subprocess.Popen[str]) -> str:
    assert peer.stdout is not None
    return peer.stdout.readline().strip()


def told(peer: subprocess.Popen[str]) -> None:
    assert peer.stdin is not None
    peer.stdin.write("\n")
    peer.stdin.flush()


@pytest.mark.sockets
@pytest.mark.timeout(120)
@pytest.mark.parametrize("tasks", [1, TASKS])
@pytest.mark.parametrize("how", HOW)
def test_no_increment_is_lost_between_processes(how: str, tasks: int, tmp_path: Path) -> None:
    with peers(tmp_path, how, tasks, TIMES) as found:
        for peer in found:
            assert said(peer) == "ready"
        for peer in found:
            told(peer)
        conflicts = sum(int(said(peer).split()[0]) for peer in found)
        for peer in found:
            told(peer)
        writes = 3 * tasks * TIMES
        assert [said(peer) for peer in found] == [str(writes)] * 3
        assert how not in QUEUED or conflicts <= writes, conflicts
