"""Many tasks at every member increment the README's counter at once: no acknowledged increment is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from cache_peers import cache_file, go_on, peers, said
from counting import HOW, KEY, PATH

from jgroups_py import MemoryNetwork
from jgroups_py.cache import TreeCache, open_tree_cache

IN_MEMORY = {"cache.stack": "sim.xml"}
TASKS, TIMES = 10, 30


QUEUED = ("update", "increment", "retried")
"""With contention these take at most twice the work."""


@pytest.mark.timeout(300)
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
def counting(folder: Path, how: str, tasks: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Three processes."""
    program, file = Path(__file__).parent / "counting_peer.py", cache_file(folder, 3)
    rest = [how, "3", str(tasks), str(TIMES)]
    with peers({name: [str(program), str(file), name, *rest] for name in "ABC"}) as found:
        yield list(found.values())


@pytest.mark.sockets
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tasks", [1, TASKS])
@pytest.mark.parametrize("how", HOW)
def test_no_increment_is_lost_between_processes(how: str, tasks: int, tmp_path: Path) -> None:
    with counting(tmp_path, how, tasks) as found:
        for peer in found:
            assert said(peer) == "ready"
        for peer in found:
            go_on(peer)
        conflicts = sum(int(said(peer).split()[0]) for peer in found)
        for peer in found:
            go_on(peer)
        writes = 3 * tasks * TIMES
        assert [said(peer) for peer in found] == [str(writes)] * 3
        assert how not in QUEUED or conflicts <= writes, conflicts
