"""Files of a map after a loss of power, or after they were truncated or removed: no put is hidden, and no process
hangs or gets a signal."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from forked import code_of, forked

from jgroups_py import blocking
from jgroups_py.maps import MapClosed, MapFileError
from jgroups_py.maps.control import SLOTS
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.inbox import InboxFiles
from jgroups_py.maps.shared import SharedFile

SIZE = 64 * 1024**2


def _opened(folder: Path, **options: Any) -> SharedFile:
    return SharedFile(folder, FileSettings(max_bytes=SIZE, **options))


@contextmanager
def _nobody_merges(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    with (folder / "merger").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The folder of a killed process: one put is merged, 100 are not."""
    folder = tmp_path / "m"
    with closing(_opened(folder)) as shared:
        shared.write(b"merged", b"0")
    with _nobody_merges(folder), closing(_opened(folder)) as shared:
        for number in range(100):
            shared.write(b"k%02d" % number, b"v")
    return folder


def _works(folder: Path) -> SharedFile:
    """Check that the map opens, and that puts are seen and merged."""
    shared = _opened(folder)
    shared.write(b"new", b"1")
    assert shared.get(b"new") == b"1"
    assert shared.wait_merged(20) and shared.get(b"new") == b"1"
    return shared


def test_unmerged_puts_survive_a_kill(left: Path) -> None:
    with closing(_works(left)) as shared:
        assert shared.count() == 102


@pytest.mark.parametrize(
    ("at", "what", "kept"),
    [(0, bytes(65_536), 0), (2_000, b"\xff" * 64, 65), (2_000, bytes(30_000), 65)],
    ids=["all", "some", "the rest"],
)
def test_records_behind_a_damaged_one_are_lost_and_told_and_merging_goes_on(
    left: Path, at: int, what: bytes, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    with (left / "inbox.0").open("r+b") as ring:
        ring.seek(at)
        ring.write(what)
    with caplog.at_level(logging.ERROR, "jgroups_py.maps"), closing(_works(left)) as shared:
        assert abs(shared.count() - 2 - kept) <= 2
        assert shared.get(b"merged") == b"0"
    assert "bytes that were put and not merged are damaged, and lost (slot 0)" in caplog.text


def test_records_of_an_earlier_turn_of_the_ring_do_not_pass_for_lost_ones(tmp_path: Path) -> None:
    """A loss of power may keep the offset of new records, but leave older bytes at their place."""
    folder = tmp_path / "m"
    with closing(_opened(folder, inbox_bytes=4096)) as shared:
        while (
            shared.write(b"key", b"old") < 4096
        ):  # all records have one size, so each turn has them at the same places
            assert shared.wait_merged(20)
        assert shared.wait_merged(20)
        many = sum(shared.vector().values())
    before = (folder / "inbox.0").read_bytes()
    with _nobody_merges(folder), closing(_opened(folder)) as shared:
        for _ in range(20):
            shared.write(b"key", b"new")
    (folder / "inbox.0").write_bytes(before)
    with closing(_works(folder)) as shared:
        assert shared.get(b"key") == b"old"
        assert sum(shared.vector().values()) == many + 1


def test_records_left_after_a_damage_have_no_hole(tmp_path: Path) -> None:
    """Bytes that never reached the disk are zeros. Zeros must not be taken for the end of the ring, after which
    it begins anew."""
    folder = tmp_path / "m"
    with closing(_opened(folder, inbox_bytes=4096)) as shared:
        while shared.write(b"key", b"value") < 2048:
            pass
    with _nobody_merges(folder), closing(_opened(folder)) as shared:
        ends = [shared.write(b"%02d" % number, b"v") for number in range(100)]
    assert ends[0] < 3000 and ends[-1] > 4096 + 500  # round the end of the ring
    with (folder / "inbox.0").open("r+b") as ring:
        ring.seek(ends[20])
        ring.write(bytes(4096 - ends[20]))
    with closing(_works(folder)) as shared:
        keys = [key for key, _ in shared.items() if key.isdigit()]
        assert keys == [b"%02d" % number for number in range(21)]


@pytest.mark.parametrize("how", ["removed", "zeroed", "cut"])
def test_a_control_file_that_is_lost_hides_nothing(left: Path, how: str) -> None:
    with closing(_opened(left)) as shared:
        assert shared.wait_merged(20)
    control = left / "control"
    if how == "removed":
        control.unlink()
    else:
        control.write_bytes(bytes(4096 if how == "zeroed" else 0))
    with closing(_works(left)) as shared:
        assert shared.count() == 102


def test_a_damaged_inbox_of_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with _nobody_merges(folder), closing(_opened(folder)) as shared:
        shared.write(b"a", b"1")
        end = shared.control.written(shared.slot)
        shared._inboxes.of(shared.slot).map[9] ^= (
            1  # another processor may see it like this for a moment
        )
        InboxFiles(folder, shared.inbox_bytes).cut_damaged(shared.control)
        assert shared.control.written(shared.slot) == end
        shared._inboxes.of(shared.slot).map[9] ^= 1


@pytest.mark.parametrize("keep", [0.5, 0.9])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, keep: float) -> None:
    folder = tmp_path / "m"
    with closing(_opened(folder)) as shared:
        for number in range(1_000):
            shared.write(b"%d" % number, bytes(1_000))
    data = folder / "data.mdb"
    shutil.copy(data, tmp_path / "whole")
    os.truncate(data, int(data.stat().st_size * keep) // 4096 * 4096)
    with pytest.raises(MapFileError, match=r"is cut off: data.mdb has [\d,]+ of [\d,]+ bytes"):
        _opened(folder)
    shutil.copy(tmp_path / "whole", data)
    _works(folder).close()


# --- durability: the strongest one that any process asks for counts


@pytest.mark.parametrize(
    ("durability", "flags"), [("process", (0, 0)), ("interval", (1, 0)), ("sync", (1, 1))]
)
def test_a_durable_transaction_is_on_the_disk_before_the_page_that_points_to_it(
    tmp_path: Path, durability: str, flags: tuple[int, int]
) -> None:
    for asked in (durability, "process"):  # a later process that asks for less keeps it, too
        with closing(_opened(tmp_path / "m", durability=asked)) as shared:
            is_ = shared.store._env.flags()
            assert (is_["sync"], is_["metasync"]) == tuple(map(bool, flags))


def test_a_merger_keeps_the_stronger_durability_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(_opened(tmp_path / "m", sync_interval=1000.0)) as merges:
        merges.write(b"a", b"1")
        assert merges.wait_merged(20)
        done: list[int] = []
        sync = merges.store.sync

        def synced() -> None:
            done.append(merges.control.merged(merges.slot))  # its space is not free yet
            sync()

        monkeypatch.setattr(merges.store, "sync", synced)
        merges.write(b"b", b"1")
        assert merges.wait_merged(20) and not done
        merges.control.ask_durable(2)  # like another process
        before = merges.control.merged(merges.slot)
        merges.write(b"c", b"1")
        assert merges.wait_merged(20) and done[0] == before


# --- forks


def test_a_forked_child_that_finds_no_place_says_so_and_touches_no_descriptor_of_others(
    tmp_path: Path,
) -> None:
    m = blocking.open_map(tmp_path / "m", key=str, value=int, max_bytes=SIZE)
    with m:
        m["a"] = 1
        files = InboxFiles(tmp_path / "m", m._file.inbox_bytes)
        others = [files.of(slot) for slot in range(SLOTS) if slot != m._file.slot]
        assert all(other.lock() for other in others)  # 125 other processes have it open
        read, write = os.pipe()

        def tell() -> None:
            said = []
            calls: list[Callable[[], object]] = [
                lambda: m["a"],
                lambda: m.increment("a"),
                lambda: m.put("a", 3),
                m.close,
            ]
            for call in calls:
                try:
                    said.append(str(call()))
                except MapClosed as error:
                    said.append(str(error))
                except BaseException as error:
                    said.append(repr(error))
            os.write(write, "\n".join(said).encode())

        assert code_of(forked(tell)) == 0
        said = os.read(read, 10_000).decode().split("\n")
        os.close(read)
        os.close(write)
        files.close()
        why = f"cannot be used in this forked process: {tmp_path / 'm'} is open in 126 processes already"
        assert said[:3] == [f"the map {tmp_path / 'm'} {why}"] * 3 and said[3] == "None"
        assert m["a"] == 1
