"""The largest size of a map's file, and a map that is full."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from full_maps import LARGE, SMALL, fill, other, until_merged

from jgroups_py.maps import store
from jgroups_py.maps.errors import MapError, MapFull
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile


@pytest.mark.usefixtures("patient_puts")
def test_a_full_map_goes_on_when_another_process_opens_it_with_more_room(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=SMALL, inbox_bytes=1 << 18, full_timeout=60.0)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        count = fill(shared)
        assert shared.waiting() > 0 and isinstance(shared.problem, MapFull)
        assert shared.get(b"k0") == bytes(3000)
        said, _ = other(tmp_path / "m", LARGE).communicate(timeout=120)
        assert said.startswith(str(LARGE))
        until_merged(shared)
        assert shared.max_bytes() == LARGE and shared.problem is None
        assert shared.get(b"other") == b"value"
        shared.write(b"more", b"value")
        until_merged(shared)
        assert shared.count() == count + 2


def test_the_largest_size_that_was_given_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_BYTES", 2 * LARGE)
    for given, is_ in ((None, 2 * LARGE), (SMALL, 2 * LARGE)):
        with closing(SharedFile(tmp_path / "a", FileSettings(max_bytes=given))) as shared:
            assert shared.max_bytes() == is_
    for given, is_ in ((SMALL, SMALL), (None, SMALL), (LARGE, LARGE), (SMALL, LARGE)):
        with closing(SharedFile(tmp_path / "b", FileSettings(max_bytes=given))) as shared:
            assert shared.max_bytes() == is_


def test_a_size_that_is_too_small_is_refused() -> None:
    with pytest.raises(MapError, match="max_bytes must be at least 1 MB, got 1000"):
        FileSettings(max_bytes=1000)
    with pytest.raises(MapError, match="inbox_bytes must be at least 4 KB, got 1000"):
        FileSettings(inbox_bytes=1000)


@pytest.mark.parametrize(("durability", "calls"), [("process", 0), ("interval", 0), ("sync", 1)])
def test_a_put_waits_for_the_disk_with_sync_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, calls: int
) -> None:
    settings = FileSettings(max_bytes=LARGE, durability=durability, sync_interval=0.01)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        flushed: list[str] = []
        synced: list[str] = []
        monkeypatch.setattr(shared._inbox, "flush", lambda: flushed.append("inbox"))
        monkeypatch.setattr(shared.store, "sync", lambda: synced.append("file"))
        shared.write(b"key", b"value")
        assert len(flushed) == calls
        end = time.monotonic() + 60
        while durability != "process" and not synced and time.monotonic() < end:
            time.sleep(0.005)
        assert bool(synced) == (durability != "process")
