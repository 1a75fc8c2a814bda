"""Callers wait until other hosts have all puts, with trio, threads and asyncio."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import aio, blocking
from jgroups_py.errors import WaitTimeout
from jgroups_py.maps import MapError, MemoryLinks, open_map

SIZE = 64 * 1024**2


def options(number: int, links: MemoryLinks) -> dict[str, Any]:
    return {"name": "fx", "key": str, "identifier": number, "network": links, "max_bytes": SIZE}


async def test_a_wait_ends_when_enough_hosts_have_the_change_or_names_those_that_lack_it(
    tmp_path: Path,
) -> None:
    links = MemoryLinks()
    async with AsyncExitStack() as exits:
        one, two, three = [
            await exits.enter_async_context(open_map(tmp_path / str(n), **options(n, links)))
            for n in (1, 2, 3)
        ]
        one.put("a", b"1")
        await one.wait_replicated(2)
        assert two["a"] == three["a"] == b"1"
        for other in (1, 2):  # host 2 would pass the change on
            links.cut(other, 3)
        one.put("a", b"2")
        await one.wait_replicated(1)
        assert two["a"] == b"2" and three["a"] == b"1"
        with pytest.raises(WaitTimeout, match=r"after 0\.2 s 1 of 2 hosts have it"):
            await one.wait_replicated(2, timeout=0.2)
        links.heal()
        await one.wait_replicated(2)
        assert three["a"] == b"2"


async def test_a_map_that_does_not_replicate_says_so(tmp_path: Path) -> None:
    async with open_map(tmp_path / "m", key=str, max_bytes=SIZE) as alone:
        alone.put("a", b"1")
        with pytest.raises(WaitTimeout, match="does not replicate"):
            await alone.wait_replicated(1, timeout=0.1)
        with pytest.raises(MapError, match="at least 1"):
            await alone.wait_replicated(0)


def test_threads_and_asyncio_wait_in_the_same_way(tmp_path: Path) -> None:
    links = MemoryLinks()
    with (
        blocking.open_map(tmp_path / "1", **options(1, links)) as one,
        blocking.open_map(tmp_path / "2", **options(2, links)) as two,
    ):
        one.put("a", b"1")
        one.wait_replicated(1)
        assert two["a"] == b"1"
        with pytest.raises(WaitTimeout, match="1 of 2"):
            one.wait_replicated(2, timeout=0.1)

    async def main() -> None:
        async with (
            aio.open_map(tmp_path / "1", **options(1, links)) as one,
            aio.open_map(tmp_path / "2", **options(2, links)) as two,
        ):
            one.put("b", b"2")
            await one.wait_replicated(1)
            assert two["b"] == b"2"
            with pytest.raises(WaitTimeout, match="1 of 2"):
                await one.wait_replicated(2, timeout=0.1)

    asyncio.run(main())


async def test_the_number_that_is_waited_for_is_that_of_the_moment_of_the_call(
    tmp_path: Path,
) -> None:
    links = MemoryLinks()
    async with AsyncExitStack() as exits:
        one, _ = [
            await exits.enter_async_context(open_map(tmp_path / str(n), **options(n, links)))
            for n in (1, 2)
        ]
        with trio.fail_after(60):
            for number in range(5):
                one.put("a", b"%d" % number)
                await one.wait_replicated(1)
        assert one.statistics().lag == {2: 0}
