"""A put that finds its process's inbox full waits for the merger, no longer than its limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import blocking
from jgroups_py.maps import MapClosed, MapError, MapFull, PerField, room
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile

VALUE = bytes(1000)


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[SharedFile]:
    """A file that is not merged while its merger's lock is held."""
    given = {"max_bytes": 1 << 24, "inbox_bytes": 1 << 14, **settings}
    shared = SharedFile(folder / "m", FileSettings(**given))
    try:
        yield shared
    finally:
        shared.close()


def fill(write: Callable[[bytes], object], reason: str = "") -> int:
    """Put until MapFull is raised for this reason, and return the number of puts before that."""
    number = 0
    try:
        while number < 100:
            write(b"k%d" % number)
            number += 1
    except MapFull as error:
        full = str(error)
    assert reason in full
    return number


def at_a_pause(
    monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], *, step: float = 0.001
) -> list[float]:
    """Call a function whenever a put waits. The returned list gets an item each time. A pause takes ``step`` seconds for the put,
    however busy the machine is."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        action()

    class Time:
        sleep = staticmethod(pause)

        @staticmethod
        def monotonic() -> float:
            return len(pauses) * step

    monkeypatch.setattr(room, "time", Time)
    return pauses


def test_a_put_that_outruns_the_merger_goes_on_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as shared:
        lock = shared._merger.lock
        lock.acquire()

        def merge() -> None:
            while not shared._merger._take():
                time.sleep(0.001)
            shared._merger._merge()

        pauses = at_a_pause(monkeypatch, merge)
        for number in range(100):
            shared.write(b"k%d" % number, VALUE)
        lock.release()
        assert 5 <= len(pauses) <= 20
        assert shared.count() == 100


def test_a_put_beside_a_merger_that_works_waits_for_its_time_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STALLED_TIMEOUT", 0.02)
    with opened(tmp_path, full_timeout=0.05) as shared, shared._merger.lock:
        pauses = at_a_pause(monkeypatch, shared.control.worked)
        fill(
            lambda key: shared.write(key, VALUE),
            "had no room within 0.05 s (full_timeout): the process that merges works, but",
        )
        assert len(pauses) == 50
        before = shared._room.waits
        fill(lambda key: shared.write(b"again", VALUE))
        assert shared._room.waits == before + 1


def test_a_put_beside_a_stopped_merger_waits_once_and_the_next_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STALLED_TIMEOUT", 0.03)
    with opened(tmp_path, full_timeout=30.0) as shared:
        with shared._merger.lock:
            pauses = at_a_pause(monkeypatch, lambda: None)
            written = fill(
                lambda key: shared.write(key, VALUE),
                "nobody has merged anything for 0.03 s: is the process that merges stopped?",
            )
            assert pauses
            pauses.clear()
            for _ in range(10):
                fill(lambda key: shared.write(key, VALUE), "is the process that merges stopped?")
            assert not pauses
            assert shared.count() == written
        assert shared.wait_merged()
        for number in range(written):
            shared.write(b"k%d" % number, VALUE)


def test_a_process_that_was_stopped_gives_the_merger_time_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merger may be a thread of this process, and has stood still as long."""
    with opened(tmp_path, full_timeout=3600.0) as shared, shared._merger.lock:
        while not shared._merger._take():
            time.sleep(0.001)

        def merges_at_the_fifth() -> None:
            if len(pauses) % 5 == 0:
                shared._merger._merge()

        pauses = at_a_pause(monkeypatch, merges_at_the_fifth, step=60.0)
        for number in range(30):
            shared.write(b"k%d" % number, VALUE)
        assert len(pauses) >= 5


def test_with_no_time_to_wait_a_put_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, full_timeout=0.0) as shared, shared._merger.lock:
        pauses = at_a_pause(monkeypatch, lambda: None)
        fill(lambda key: shared.write(key, VALUE), "had no room within 0 s")
        assert not pauses
    with pytest.raises(MapError, match="full_timeout must be 0 seconds or more, got -1"):
        FileSettings(full_timeout=-1)


def test_a_file_that_cannot_be_merged_says_why_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, full_timeout=30.0) as shared:
        with shared._merger.lock:
            shared.problem = OSError("the disk is on fire")
            fill(lambda key: shared.write(key, VALUE), "cannot be merged: the disk is on fire")
        assert shared.wait_merged()
        with shared._merger.lock:  # the merger has ended its turn
            assert shared.problem is None


def test_a_map_that_is_closed_while_a_put_waits_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, full_timeout=30.0) as shared, shared._merger.lock:
        at_a_pause(monkeypatch, shared.closing.set)
        with pytest.raises(MapClosed):
            fill(lambda key: shared.write(key, VALUE))
        shared.closing.clear()


def test_a_put_that_has_waited_returns_the_value_that_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with blocking.open_map(
        tmp_path / "m", key=str, value=bytes, max_bytes=1 << 24, inbox_bytes=1 << 14
    ) as m:
        file = m._file
        merging = file._merger.lock
        merging.acquire()
        m["a"] = b"first"

        def meanwhile() -> None:
            # Another thread puts while this one waits, because the lock is free.
            thread = threading.Thread(target=lambda: file.write_now(b"a", b"second"))
            thread.start()
            thread.join(60)
            merging.release()
            assert file.wait_merged()
            merging.acquire()

        at_a_pause(monkeypatch, meanwhile)
        while file._inbox.has_room(1100):
            m["b"] = VALUE
        assert m.put("a", VALUE) == b"second"
        merging.release()


def test_values_by_fields_wait_for_room_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with blocking.open_map(
        tmp_path / "m", key=str, value="json", rule=PerField(), max_bytes=1 << 24, inbox_bytes=4096
    ) as m:
        file = m._file
        merging = file._merger.lock
        merging.acquire()

        def merge() -> None:
            merging.release()
            assert file.wait_merged()
            merging.acquire()

        pauses = at_a_pause(monkeypatch, merge)
        for number in range(50):
            m["a"] = {"b": number, "c": "d" * 500}
        merging.release()
        assert pauses and m["a"] == {"b": 49, "c": "d" * 500}
