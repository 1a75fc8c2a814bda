"""Two caches on one file of SQLite: the second one is refused, also in another process; a killed process holds no
lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.cache import SqliteStore, StoreError, open_tree_cache

HOLDER = """
import sys, time
from jgroups_py.blocking import open_tree_cache
with open_tree_cache("passivation.xml", properties={"cache.file": sys.argv[1]}) as cache:
    print(cache.increment("/a", "k"), flush=True)
    time.sleep(600)
"""


async def count(file: Path, times: int) -> int:
    async with open_tree_cache("passivation.xml", properties={"cache.file": str(file)}) as cache:
        for _ in range(times):
            total = await cache.increment("/a", "k")
    return int(total)


async def test_a_second_cache_of_one_process_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "two.db"
    other_name = tmp_path / "link.db"
    other_name.symlink_to(file)
    async with open_tree_cache("passivation.xml", properties={"cache.file": str(file)}) as cache:
        assert await cache.increment("/a", "k") == 1
        for name in (file, other_name):
            with pytest.raises(StoreError, match=rf"{name}.*another store of this process"):
                await count(name, 1)
        assert await cache.increment("/a", "k") == 2
    assert await count(file, 1) == 3


def holder(file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_a_cache_of_another_process_is_refused_until_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "two.db"
    process = holder(file)
    try:
        assert first_line(process) == "1"
        with pytest.raises(StoreError, match=rf"{file}.*process {process.pid} has it open"):
            await count(file, 1)
    finally:
        process.kill()
        process.communicate()  # a busy machine may take longer to end it than a store waits
    # With passivation, values that were only in memory are lost with the process.
    assert await count(file, 3) == 3


def test_restarts_right_after_kills(tmp_path: Path) -> None:
    file = tmp_path / "two.db"
    for _ in range(5):
        process = holder(file)
        try:
            assert first_line(process) == "1"
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()


async def test_a_store_that_could_not_be_opened_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("no database at all " * 100)
    for _ in range(3):
        store = SqliteStore(file)
        with pytest.raises(StoreError, match="not a database"):
            await store.open()
        await store.aclose()
    file.unlink()
    store = SqliteStore(file)
    await store.open()
    await store.open()
    await store.aclose()
    await store.aclose()
    await store.open()
    await store.aclose()


def test_a_store_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name of a file"):
        SqliteStore("")
