"""How large a map's file may get, and what happens when it is full."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from jgroups_py.maps.errors import MapError, MapFull
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.store import MAX_BYTES

SMALL, LARGE = 1 << 20, 1 << 26
OTHER = """
import sys
from pathlib import Path
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
shared = SharedFile(Path(sys.argv[1]), FileSettings(max_bytes=int(sys.argv[2])))
shared.write(sys.argv[3].encode(), b"value")
print(shared.max_bytes(), shared.get(b"k0"))
shared.close()
"""


def other(folder: Path, max_bytes: int, key: str = "other") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER, str(folder), str(max_bytes), key]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def fill(shared: SharedFile) -> int:
    """How many puts returned before the map was full."""
    for count in range(1000):
        try:
            shared.write(b"k%d" % count, bytes(3000))
        except MapFull as error:
            assert "is full: " in str(error) and "of 1,048,576 bytes (max_bytes) are used" in str(
                error
            )
            return count
        time.sleep(0.0002)
    raise AssertionError("it was never full")


def until_merged(shared: SharedFile) -> None:
    end = time.monotonic() + 40
    while shared.waiting() > 0:
        assert time.monotonic() < end, shared.problem
        time.sleep(0.005)


def test_a_full_map_goes_on_when_another_process_opens_it_with_more_room(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=SMALL, inbox_bytes=1 << 18)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        count = fill(shared)
        assert shared.waiting() > 0 and isinstance(shared.problem, MapFull)
        assert shared.get(b"k0") == bytes(3000)
        said, _ = other(tmp_path / "m", LARGE).communicate(timeout=40)
        assert said.startswith(str(LARGE))
        until_merged(shared)
        assert shared.max_bytes() == LARGE and shared.problem is None
        assert shared.get(b"other") == b"value"
        shared.write(b"more", b"value")
        until_merged(shared)
        assert shared.count() == count + 2


def test_two_that_give_it_more_room_at_once_harm_nothing(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=SMALL, inbox_bytes=1 << 18)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        fill(shared)
        sizes = [LARGE, LARGE // 2, LARGE // 4, LARGE]
        others = [other(tmp_path / "m", s, f"o{n}") for n, s in enumerate(sizes)]
        for one in others:
            one.communicate(timeout=60)
            assert one.returncode == 0
        until_merged(shared)
        assert all(shared.get(b"o%d" % number) == b"value" for number in range(4))
    with closing(SharedFile(tmp_path / "m")) as shared:
        assert shared.max_bytes() == LARGE


def test_the_largest_size_that_was_given_counts(tmp_path: Path) -> None:
    for given, is_ in ((None, MAX_BYTES), (SMALL, MAX_BYTES)):
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
        end = time.monotonic() + 20
        while durability != "process" and not synced and time.monotonic() < end:
            time.sleep(0.005)
        assert bool(synced) == (durability != "process")
