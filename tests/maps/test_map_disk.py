"""A full disk gives an error and ends no process: mapped pages are allocated on the disk before they are written."""

from __future__ import annotations

import errno
import gc
import os
from mmap import PAGESIZE
from pathlib import Path

import pytest

from jgroups_py.maps.control import Control
from jgroups_py.maps.errors import MapFileError, MapFull
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.inbox import RESERVED_AT_ONCE
from jgroups_py.maps.shared import SharedFile


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def on_disk(file: Path) -> int:
    """Return the bytes on the disk; the file system may need some more for its own data."""
    return file.stat().st_blocks * 512


def test_mapped_bytes_have_a_place_on_the_disk(tmp_path: Path) -> None:
    shared = SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 28))
    try:
        inbox = tmp_path / "m" / "inbox.0"
        shared.write(b"key", b"value")
        assert RESERVED_AT_ONCE <= on_disk(inbox) < 2 * RESERVED_AT_ONCE
        shared.write(b"key", bytes(RESERVED_AT_ONCE))
        assert 2 * RESERVED_AT_ONCE <= on_disk(inbox) < 3 * RESERVED_AT_ONCE
        for name in ("control", "lock.mdb"):
            file = tmp_path / "m" / name
            assert on_disk(file) >= file.stat().st_size
    finally:
        shared.close()


@pytest.mark.usefixtures("patient_puts")
def test_the_whole_of_a_ring_is_reserved_before_it_begins_anew(tmp_path: Path) -> None:
    shared = SharedFile(
        tmp_path / "m", FileSettings(max_bytes=1 << 28, inbox_bytes=1 << 20, full_timeout=60.0)
    )
    try:
        for number in range(30):
            shared.write(b"key", bytes(100_000 + number))
        assert on_disk(tmp_path / "m" / "inbox.0") >= 1 << 20
    finally:
        shared.close()


def test_a_put_without_a_place_on_the_disk_raises_and_later_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 28))
    try:
        shared.write(b"key", b"value")
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", no_space)
            with pytest.raises(MapFull, match="no place on the disk: No space left on device"):
                shared.write(b"large", bytes(RESERVED_AT_ONCE))
            assert shared.get(b"key") == b"value" and shared.get(b"large") is None
            shared.write(b"key", b"fits")
        shared.write(b"large", bytes(RESERVED_AT_ONCE))
        assert shared.get(b"key") == b"fits" and shared.get(b"large") is not None
    finally:
        shared.close()


def test_a_map_that_cannot_be_made_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(MapFileError, match=r"/m cannot be opened: .*No space left"):
        SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 28))
    with pytest.raises(MapFileError, match=r"control cannot be made: .*No space left"):
        Control(tmp_path / "control", 1 << 20)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MapFileError, match=r"file cannot be opened: .*"):
        SharedFile(tmp_path / "file", FileSettings(max_bytes=1 << 28))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_that_cannot_be_made_says_why_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RLIMIT_FSIZE has this effect."""

    def too_large(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    settings = FileSettings(max_bytes=1 << 26)
    gc.collect()  # what earlier tests have left does not end meanwhile
    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", too_large)
        with pytest.raises(MapFileError, match=r"m cannot be opened: .*File too large"):
            SharedFile(tmp_path / "m", settings)
        assert descriptors() == before
    shared = SharedFile(tmp_path / "m", settings)
    shared.write(b"key", b"value")
    shared.close()
    assert descriptors() == before


def test_a_data_file_that_was_half_made_is_made_anew(tmp_path: Path) -> None:
    """The disk had room for only one of its first two pages."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "data.mdb").write_bytes(bytes(PAGESIZE))
    shared = SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 26))
    shared.write(b"key", b"value")
    shared.close()
    (tmp_path / "m" / "data.mdb").write_bytes(
        bytes(PAGESIZE)
    )  # a map that lost its data is not a new map
    with pytest.raises(MapFileError):
        SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 26))


def test_reading_goes_on_where_a_use_has_no_place_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 26, max_entries=100))
    try:
        shared.write(b"key", b"value")
        shared._inboxes.of(shared.slot)._reserved = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", no_space)
            assert shared.get(b"key") == b"value"
            with pytest.raises(MapFull):
                shared.write(b"key", b"more")
        assert shared.get(b"key") == b"value"
    finally:
        shared.close()


def test_a_system_that_cannot_reserve_a_place_has_maps_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no posix_fallocate."""
    monkeypatch.delattr(os, "posix_fallocate")
    shared = SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 28))
    try:
        shared.write(b"key", b"value")
        assert shared.get(b"key") == b"value"
    finally:
        shared.close()
