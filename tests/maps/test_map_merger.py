"""A process of its own merges the puts of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jgroups_py.maps.control import Control
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.errors import MapError
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.inbox import CHANGE, Inbox, InboxFiles, keyed
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp

SIZE = 1 << 28
PROCESS = FileSettings(max_bytes=SIZE, merger="process")


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def pid_of(shared: SharedFile) -> int:
    assert shared._child is not None
    until(lambda: shared._child is not None and shared._child.pid is not None)
    pid = shared._child.pid
    assert pid is not None
    return pid


def test_a_process_merges_another_one_takes_its_place_and_it_ends_with_the_map(
    tmp_path: Path,
) -> None:
    with closing(SharedFile(tmp_path / "m", PROCESS)) as shared:
        shared.write(b"a", b"1")
        first = pid_of(shared)
        assert shared.wait_merged(40) and shared.vector() == {shared.origin: 1}
        os.kill(first, signal.SIGKILL)
        shared.write(b"b", b"2")
        assert shared.get(b"b") == b"2"
        assert shared.wait_merged(40) and shared.vector() == {shared.origin: 2}
        second = pid_of(shared)
        assert second != first
        shared.write(b"c", b"3")
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        assert shared.vector() == {shared.origin: 3}


def test_the_process_that_merges_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
shared = SharedFile(Path(sys.argv[1]), FileSettings(max_bytes={SIZE}, merger="process"))
shared.write(b"a", b"1")
assert shared.wait_merged(40)
print(shared._child.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "m")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    def is_gone() -> bool:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"  # its new parent has not asked for its end

    try:
        until(is_gone)
    finally:
        if not is_gone():
            os.kill(child, signal.SIGKILL)
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        shared.write(b"b", b"2")
        assert shared.wait_merged(40) and shared.get(b"a") == b"1"


def test_the_merger_must_be_a_thread_or_a_process() -> None:
    with pytest.raises(MapError, match='merger must be thread or process, got "both"'):
        FileSettings(merger="both")


def test_a_put_is_seen_though_it_is_merged_while_a_reader_takes_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        shared.write(b"a", b"0")
        assert shared.wait_merged() and shared.get(b"a") == b"0"
        refresh, merging = shared.store.refresh, shared._merger.lock
        merging.acquire()
        shared.write(b"a", b"1")

        def merged_just_after() -> None:
            refresh()
            merging.release()
            until(lambda: shared.waiting() == 0)
            merging.acquire()

        with monkeypatch.context() as patch:
            patch.setattr(shared.store, "refresh", merged_just_after)
            shared.control.next_generation()
            assert shared.get(b"a") == b"1"
        merging.release()
        assert shared.get(b"a") == b"1"


def test_a_call_forgets_a_limited_share_of_the_merged_records(tmp_path: Path) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        with shared._merger.lock:
            for number in range(1200):
                shared.write(b"k%d" % number, b"v")
        assert shared.wait_merged()
        before = len(shared._overlay)
        assert shared.get(b"k0") == b"v"
        assert before - len(shared._overlay) <= 500
        until(lambda: shared.get(b"k1199") == b"v" and not shared._overlay)


def test_a_put_does_not_hide_the_put_of_another_process_just_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        inboxes = InboxFiles(shared.folder, shared.inbox_bytes)
        slot = inboxes.take()
        shared.control.use(slot, {})
        other, mine = Inbox(inboxes.of(slot), shared.control, slot), shared._inbox.append
        entry = MapEntry(b"theirs", MapStamp(shared.clock.next(), 1))

        def append(kind: int, data: bytes) -> int:
            other.append(CHANGE, keyed(b"other", entry.encode()))
            return mine(kind, data)

        with shared._merger.lock:
            assert shared.get(b"other") is None
            monkeypatch.setattr(shared._inbox, "append", append)
            shared.write(b"key", b"value")
            assert shared.get(b"other") == b"theirs"
        inboxes.close()


def test_a_process_that_comes_later_is_seen_by_earlier_ones(tmp_path: Path) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=SIZE))) as shared:
        with shared._merger.lock:
            shared.write(b"a", b"1")
            for number in range(3):
                inboxes = InboxFiles(shared.folder, shared.inbox_bytes)
                slot = inboxes.take()
                assert shared.get(b"a") == b"1" and shared.get(b"b%d" % number) is None
                shared.control.use(slot, {})
                entry = MapEntry(b"theirs", MapStamp(shared.clock.next(), 1))
                inbox = Inbox(inboxes.of(slot), shared.control, slot)
                inbox.append(CHANGE, keyed(b"b%d" % number, entry.encode()))
                assert shared.get(b"b%d" % number) == b"theirs"
                inboxes.close()  # its slot is free for the next process
        assert shared.wait_merged(40)


def test_inboxes_of_a_file_that_does_not_say_which_are_in_use_are_read(tmp_path: Path) -> None:
    control = Control(tmp_path / "control", 4096)
    control.set_written(5, 70)
    control.use(0, {})
    before = control.mark_anew()
    control.set_written(5, 80)
    assert control.mark() != before
    before = control.mark_anew()
    control.set_written(6, 70)  # written by a process that has not registered its inbox
    assert control.mark() == before
    control.close()
    assert control.mark() != before
