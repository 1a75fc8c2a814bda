"""One process at a time writes to the data file. A stopped process keeps no other process from opening, reading
and putting."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from jgroups_py.maps import store, write_lock
from jgroups_py.maps.errors import MapFileError
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.ranges import is_locked
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.write_lock import WriteLock

SIZE = 1 << 26


def opened(folder: Path, **settings: Any) -> closing[SharedFile]:
    return closing(SharedFile(folder / "m", FileSettings(**{"max_bytes": SIZE, **settings})))


@contextmanager
def stopped_writer(folder: Path) -> Iterator[None]:
    """A process that was stopped inside a transaction."""
    with closing(WriteLock(folder / "m" / "writing")) as lock:
        assert lock.take(60.0)
        yield


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "OPEN_WAIT", 0.02)


@pytest.mark.seed("K7", "K14")
@pytest.mark.usefixtures("wait")
def test_a_map_opens_beside_a_process_that_was_stopped_while_it_wrote(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        shared.write(b"before", b"1")
    with stopped_writer(tmp_path), opened(tmp_path, max_bytes=None) as shared:
        # A process would wait for LMDB's own lock without end.
        assert shared.store._env.flags()["readonly"]
        assert shared.get(b"before") == b"1"
        shared.write(b"key", b"2")
        assert shared.get(b"key") == b"2" and shared.count() == 2
        with pytest.raises(MapFileError, match="is it stopped"):
            shared.store.make_writable()
        assert not shared.wait_merged(0.05)
        assert shared.get(b"before") == b"1"
    with opened(tmp_path) as shared:  # it merges the puts that the other process could not merge
        assert shared.get(b"key") == b"2" and shared.wait_merged()


@pytest.mark.usefixtures("wait")
def test_a_process_merges_once_the_other_one_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with stopped_writer(tmp_path):
        shared = SharedFile(tmp_path / "m", FileSettings(merge_interval=0.001))
        shared.write(b"key", b"1")
        assert shared.get(b"key") == b"1"
    with closing(shared):
        assert shared.wait_merged()
        assert shared.get(b"key") == b"1" and shared.vector() == {shared.origin: 1}
        shared.write(b"key", b"2")
        assert shared.wait_merged() and shared.get(b"key") == b"2"


@pytest.mark.usefixtures("wait")
def test_a_reader_goes_on_when_its_process_may_write(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        shared.write(b"key", b"1")
    with stopped_writer(tmp_path):
        shared = SharedFile(tmp_path / "m", FileSettings(merge_interval=60.0))
    with closing(shared):
        assert shared.get(b"key") == b"1"
        shared.store.make_writable()
        assert shared.get(b"key") == b"1"  # without a search: nothing has changed


@pytest.mark.usefixtures("wait")
def test_settings_of_a_file_with_a_stopped_writer_cannot_be_changed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with stopped_writer(tmp_path):
        for settings in (FileSettings(max_bytes=SIZE * 2), FileSettings(max_entries=5)):
            with pytest.raises(MapFileError, match=r"another process has been writing .* stopped"):
                SharedFile(tmp_path / "m", settings)
    with opened(tmp_path, max_entries=5) as shared:
        assert shared.limits.max_entries == 5


@pytest.mark.usefixtures("wait")
def test_a_map_that_another_process_makes_is_not_made_twice(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with stopped_writer(tmp_path), pytest.raises(MapFileError, match="is it stopped"):
        SharedFile(tmp_path / "m")
    with opened(tmp_path) as shared:
        shared.write(b"key", b"1")


def test_a_transaction_has_the_lock_until_it_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as shared, closing(WriteLock(tmp_path / "m" / "writing")) as other:
        for fails in (False, True):
            try:
                with shared.store.merging(shared.rule):
                    assert not other.take(0.0)
                    if fails:
                        raise KeyError
            except KeyError:
                pass
            assert other.take(60.0)  # the merger of this process may hold it for a moment
            other.release()


def test_a_process_that_was_stopped_while_it_waited_tries_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would say that the other process is stopped."""
    with closing(WriteLock(tmp_path / "w")) as other, closing(WriteLock(tmp_path / "w")) as mine:
        assert other.take(0.0)
        looks: list[int] = []

        class Time:
            sleep = staticmethod(time.sleep)

            @staticmethod
            def monotonic() -> float:
                looks.append(1)
                if len(looks) == 2:
                    other.release()
                return 100.0 * len(looks)

        monkeypatch.setattr(write_lock, "time", Time)
        assert mine.take(1.0)


def test_a_merger_lets_those_go_first_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    opened = threading.Event()

    class Time:
        """A merger that yields goes on when the other one has had its turn."""

        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def sleep(seconds: float) -> None:
            if seconds == write_lock.YIELD:
                opened.wait(60.0)
            else:
                time.sleep(seconds)

    monkeypatch.setattr(write_lock, "time", Time)

    def wait() -> None:
        assert opener.take(60.0)
        order.append("opener")
        opener.release()
        opened.set()

    with closing(WriteLock(tmp_path / "w")) as merger, closing(WriteLock(tmp_path / "w")) as opener:
        assert merger.take(0.0)
        thread = threading.Thread(target=wait)
        thread.start()
        while not is_locked(merger._handle, write_lock._WANTED):
            time.sleep(0.0001)
        merger.release()
        assert merger.take(60.0, yields=True)
        order.append("merger")
        merger.release()
        thread.join()
    assert order == ["opener", "merger"]


@pytest.mark.parametrize("error", [lmdb.DiskError("full"), lmdb.Error("Input/output error")])
def test_a_disk_that_takes_nothing_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Broken:
        def begin(self, **_: object) -> None:
            raise error

    with (
        opened(tmp_path) as shared,
        shared._merger.lock,
        shared._lock,
        monkeypatch.context() as patch,
    ):
        patch.setattr(shared.store, "_env", Broken())
        with pytest.raises(MapFileError, match=r"m cannot be written: .*(no space|Input)"):
            shared.store.set_limits(shared.rule, shared.limits)


# --- snapshots


def reads(shared: SharedFile) -> bool:
    """Return whether LMDB keeps the pages of a snapshot."""
    lines = shared.store._env.readers().splitlines()[1:]
    return any(line.split()[2] != "-" for line in lines)


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot ends before the test lets it."""
    monkeypatch.setattr("jgroups_py.maps.shared.SNAPSHOT_MAX", 3600.0)


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("merger", ["thread", "process"])
def test_the_snapshot_of_a_process_that_does_nothing_ends(tmp_path: Path, merger: str) -> None:
    """Otherwise the file would grow with each merge, up to ``max_bytes``."""
    with opened(tmp_path) as shared:
        shared.write(b"key", b"1")
    with (tmp_path / "m" / "merger").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)  # no child is started
        with opened(tmp_path, merger=merger) as shared:
            assert shared.get(b"key") == b"1" and reads(shared)
            shared._snapshot_due = 0.0
            limit = time.monotonic() + 60
            while reads(shared):
                assert time.monotonic() < limit
                time.sleep(0.001)
            assert shared.get(b"key") == b"1" and reads(shared)
            shared.write(b"key", b"2")
            shared._snapshot_due = 0.0
            while reads(shared):
                assert time.monotonic() < limit
                time.sleep(0.001)
            assert shared.get(b"key") == b"2" and shared.count() == 1
            assert [key for key, _ in shared.items()] == [b"key"]


@pytest.mark.usefixtures("lasting")
def test_a_snapshot_in_use_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        shared.get(b"key")
        with shared._lock:
            shared._snapshot_due = 0.0
            thread = threading.Thread(target=shared._end_snapshot)
            thread.start()
            thread.join()
            assert reads(shared) and shared._snapshot_due == 0.0
