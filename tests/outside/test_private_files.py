"""Files with values of the application are readable by their owner alone, for any umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run_here

from jgroups_py.blocking import open_tree_cache


def modes_in(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_no_umask")
def test_stores_locks_and_output_are_readable_for_their_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    monkeypatch.chdir(tmp_path)
    with open_tree_cache("passivation.xml", properties={"cache.file": "link.db"}) as cache:
        cache.put("/users/7", "name", "Ada")
        cache.evict("/users/7")
        modes = modes_in(tmp_path)
    put = ("put", "/a", "b", "c")
    assert run_here("cache", "--cache", "local.xml", "--json", "out.json", *put).code == 0
    modes |= modes_in(tmp_path)
    assert {"store.db", "store.db-wal", "store.db-lock", "out.json"} <= set(modes)
    assert {name for name, mode in modes.items() if mode != 0o600} == set()


def test_the_mode_of_a_store_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    file.touch()
    file.chmod(0o640)
    with open_tree_cache("passivation.xml", properties={"cache.file": str(file)}):
        pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
