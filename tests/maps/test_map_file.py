"""The file of a map, which several processes share."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.maps.control import Control
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.errors import MapBusy, MapClosed, MapError, MapFileError, MapFull
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.rules import PnCounter
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import TICKS_PER_S, MapStamp

SIZE = 1 << 28
"""The size of the files of these tests: their processes may have little address space."""

PROCESS = """
import sys
from pathlib import Path
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
shared = SharedFile(Path(sys.argv[1]), FileSettings(max_bytes=1 << 28))
for line in sys.stdin:
    word, *rest = line.split()
    if word == "put":
        shared.write(rest[0].encode(), rest[1].encode())
        print("done", flush=True)
    elif word == "get":
        value = shared.get(rest[0].encode())
        print(None if value is None else value.decode(), flush=True)
    elif word == "fill":
        for number in range(10**9):
            shared.write(b"fill%d" % (number % 1000), b"%d" % number)
            print(number, flush=True)
    elif word == "hold":
        with shared.locked(rest[0].encode()):
            print("held", flush=True)
            sys.stdin.readline()
"""


class Process:
    def __init__(self, folder: Path) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> str:
        assert self.popen.stdin is not None and self.popen.stdout is not None
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        said = self.popen.stdout.readline()
        assert said, f"the process has ended instead of answering {line!r}"
        return said.strip()

    def stop(self) -> None:
        """Stop the process, and return when it has stopped."""
        self.popen.send_signal(signal.SIGSTOP)
        os.waitpid(self.popen.pid, os.WUNTRACED)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def process(folder: Path) -> Iterator[Process]:
    started = Process(folder)
    try:
        yield started
    finally:
        started.kill()


def opened(folder: Path, **settings: Any) -> closing[SharedFile]:
    return closing(SharedFile(folder / "map", FileSettings(**{"max_bytes": SIZE, **settings})))


def test_values_are_there_before_and_after_they_are_merged_and_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as shared:
        for number in range(100):
            shared.write(b"k%d" % number, b"%d" % number)
        assert shared.get(b"k7") == b"7"
        shared.write(b"k7", None)
        assert shared.get(b"k7") is None
        assert shared.wait_merged()
        assert shared.get(b"k7") is None and shared.get(b"k8") == b"8"
        assert shared.vector() == {shared.origin: 101}
        assert [key for key, _ in shared.items()] == sorted(
            b"k%d" % number for number in range(100) if number != 7
        )
        shared.write(b"k7", b"last")
    with opened(tmp_path) as shared:
        assert shared.get(b"k7") == b"last" and shared.count() == 100


@pytest.mark.seed("K14", "K15")
def test_another_process_sees_a_change_as_soon_as_put_has_returned(tmp_path: Path) -> None:
    with opened(tmp_path) as shared, process(tmp_path / "map") as other:
        for number in range(50):
            shared.write(b"ours", b"%d" % number)
            assert other.ask("get ours") == str(number)
            other.ask(f"put theirs {number}")
            assert shared.get(b"theirs") == b"%d" % number


@pytest.mark.seed("K7")
def test_a_process_that_is_stopped_while_it_merges_keeps_nobody_from_putting_and_reading(
    tmp_path: Path,
) -> None:
    with process(tmp_path / "map") as merger, process(tmp_path / "map") as reader:
        merger.ask("put a 1")
        with opened(tmp_path) as shared:
            merger.stop()
            try:
                for number in range(200):
                    shared.write(b"b", b"%d" % number)
                assert reader.ask("get b") == "199"
                reader.ask("put c 3")
                assert shared.get(b"c") == b"3" and shared.get(b"a") == b"1"
            finally:
                merger.popen.send_signal(signal.SIGCONT)
            assert shared.wait_merged()


def test_puts_of_a_killed_process_are_there_and_another_one_merges(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        for _ in range(3):
            with process(tmp_path / "map") as writer:
                writer.ask("fill")
                assert writer.popen.stdout is not None
                last = 0
                until = time.monotonic() + 0.3
                while time.monotonic() < until:
                    last = int(writer.popen.stdout.readline())
                writer.popen.send_signal(signal.SIGKILL)
                writer.popen.wait()
                last = max(
                    [last, *(int(line) for line in writer.popen.stdout if line.endswith("\n"))]
                )
            found = shared.get(b"fill%d" % (last % 1000))
            assert found is not None and int(found) >= last
        shared.write(b"key", b"value")
        assert shared.wait_merged()


def test_a_child_of_a_fork_writes_with_a_slot_of_its_own(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
shared = SharedFile(Path({str(tmp_path / "map")!r}), FileSettings(max_bytes=1 << 28))
shared.write(b"before", b"1")
pid = os.fork()
if pid == 0:
    ok = shared.slot == 1 and shared.get(b"before") == b"1"
    shared.write(b"child", b"2")
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert shared.get(b"child") == b"2" and shared.slot == 0
shared.write(b"after", b"3")
assert shared.wait_merged()
shared.close()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_one_process_at_a_time_is_inside_for_a_key(tmp_path: Path) -> None:
    with opened(tmp_path, lock_timeout=0.2) as shared, process(tmp_path / "map") as other:
        assert other.ask("hold key") == "held"
        with (
            pytest.raises(MapBusy, match="somebody changes key b'key'"),
            shared.locked(b"key"),
        ):
            pass
        with shared.locked(b"another"):
            pass
        other.kill()
        with shared.locked(b"key"):
            pass


def test_merging_rules_join_waiting_changes_of_two_processes(tmp_path: Path) -> None:
    rule = PnCounter()
    with opened(tmp_path, rule=rule) as shared:
        for _ in range(20):
            with shared.locked(b"n"):
                shared.write(b"n", rule.add(shared.get(b"n"), 1, 1))
        assert rule.total(shared.get(b"n")) == 20
        assert shared.wait_merged()
        assert rule.total(shared.get(b"n")) == 20


def test_entries_of_another_host_are_joined_and_raise_the_vector(tmp_path: Path) -> None:
    other = origin_of(2, 5)
    with opened(tmp_path) as shared:
        shared.write(b"key", b"ours")
        stamp = MapStamp(shared.clock.next() + 1000, 2)
        shared.apply([(b"key", MapEntry(b"theirs", stamp, {other: 3}))], {other: 4})
        assert shared.get(b"key") == b"theirs"
        assert shared.wait_merged()
        assert shared.get(b"key") == b"theirs"
        assert shared.vector() == {shared.origin: 1, other: 4}
        assert [key for _, key, _ in shared.changes(other, 0, 4, 10)] == [b"key"]
        assert list(shared.changes(shared.origin, 0, 9, 10)) == []
        shared.write(b"key", None)
        assert shared.wait_merged()
        (tombstone,) = shared.tombstones()
        shared.forget([tombstone[0]])
        assert shared.wait_merged()
        assert list(shared.tombstones()) == [] and shared.forgotten == {shared.origin: 2}


def test_changes_that_are_gone_elsewhere_are_dropped_and_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        for number in range(500):
            shared.write(b"k%03d" % number, b"value")
        assert shared.wait_merged()
        shared.drop([(shared.origin, number) for number in range(1, 500)])
        assert shared.wait_merged()
        assert [key for key, _ in shared.items()] == [b"k499"]
        assert shared.count() == 1 and shared.forgotten == {shared.origin: 499}
        assert shared.vector() == {shared.origin: 500}


def test_a_value_is_over_when_its_time_has_passed(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        later = 0
        shared.clock._wall = lambda: time.time_ns() + later
        shared.write(b"key", b"value", shared.clock.wall_time() + 3600 * TICKS_PER_S)
        assert shared.get(b"key") == b"value"
        later = 3600 * 10**9
        assert shared.get(b"key") is None
        assert shared.wait_merged()
        assert shared.get(b"key") is None and list(shared.items()) == []
        until = time.monotonic() + 60
        while shared.count() and time.monotonic() < until:
            time.sleep(0.01)
        assert shared.count() == 0
        ((key, tombstone),) = shared.tombstones()
        assert key == b"key" and tombstone.dots == {shared.origin: 1}
        shared.write(b"key", b"anew")
        assert shared.wait_merged() and shared.get(b"key") == b"anew"


def test_a_value_that_is_given_more_time_is_not_buried(tmp_path: Path) -> None:
    with opened(tmp_path) as shared:
        soon = shared.clock.wall_time() + 256 * 50_000
        shared.write(b"longer", b"1", soon)
        shared.write(b"for ever", b"1", soon)
        shared.write(b"over", b"1", soon)
        assert shared.wait_merged()
        shared.write(b"longer", b"2", soon + 256 * 1_000_000 * 600)
        shared.write(b"for ever", b"2")
        until = time.monotonic() + 60
        while shared.count() != 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert [key for key, _ in shared.items()] == [b"for ever", b"longer"]


def fill(shared: SharedFile) -> None:
    for number in range(100):
        shared.write(b"k%d" % number, bytes(1024 * 1024))


def somebody_merges(folder: Path) -> bool:
    with open(folder / "merger", "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def test_an_inbox_that_is_full_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    with process(tmp_path / "map") as merger:
        merger.ask("put a 1")
        limit = time.monotonic() + 60
        while not somebody_merges(tmp_path / "map"):
            assert time.monotonic() < limit
            time.sleep(0.005)
        with opened(tmp_path) as shared:
            merger.stop()
            try:
                with pytest.raises(MapFull, match="the inbox of this process is full"):
                    fill(shared)
                written = shared.count() - 1
                assert 10 < written < 20
                assert shared.get(b"k%d" % written) is None
                assert shared.get(b"k%d" % (written - 1)) is not None
                with pytest.raises(MapFull, match="more than half an inbox"):
                    shared.write(b"key", bytes(9 * 1024 * 1024))
            finally:
                merger.popen.send_signal(signal.SIGCONT)


def test_an_impossible_value_is_refused_with_the_possible_ones(tmp_path: Path) -> None:
    with pytest.raises(
        MapError,
        match=r"identifier must be from 1 to 127, or up to 65535 with wide_identifiers, got 128",
    ):
        FileSettings(identifier=128)
    FileSettings(identifier=128, wide_identifiers=True)
    with pytest.raises(
        MapError, match='durability must be one of process, interval, sync, got "often"'
    ):
        FileSettings(durability="often")
    with opened(tmp_path) as shared:
        with pytest.raises(MapError, match="a key must have 1 to 511 bytes, got 0"):
            shared.write(b"", b"")
        with pytest.raises(MapFileError, match="already open in this process"):
            SharedFile(tmp_path / "map", FileSettings(max_bytes=SIZE))
    with pytest.raises(MapFileError, match="was made with identifier 1, not 2"):
        SharedFile(tmp_path / "map", FileSettings(identifier=2, max_bytes=SIZE))
    with pytest.raises(MapClosed, match="is closed"):
        shared.get(b"key")
    (tmp_path / "map" / "data.mdb").write_bytes(b"no map" * 10_000)
    with pytest.raises(MapFileError, match="is no map that can be opened"):
        SharedFile(tmp_path / "map", FileSettings(max_bytes=SIZE))


@pytest.mark.parametrize(
    "use",
    [
        lambda shared: shared.entry(b"key"),
        lambda shared: list(shared.items()),
        lambda shared: shared.write(b"key", b"value"),
        lambda shared: shared.apply(
            [(b"key", MapEntry(b"theirs", MapStamp(1, 2), {2: 1}))], {2: 1}
        ),
        lambda shared: shared.forget([b"key"]),
        lambda shared: shared.drop([(2, 1)]),
    ],
    ids=["entry", "items", "write", "apply", "forget", "drop"],
)
def test_a_closed_map_says_so_and_its_files_stay_as_they_are(tmp_path: Path, use: Any) -> None:
    with opened(tmp_path) as shared:
        shared.write(b"key", b"value")
    files = sorted((tmp_path / "map").iterdir())
    content = [file.read_bytes() for file in files]
    with pytest.raises(MapClosed, match="is closed"):
        use(shared)
    assert [file.read_bytes() for file in files] == content


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    with opened(tmp_path):
        modes = {oct(os.stat(file).st_mode & 0o777) for file in (tmp_path / "map").iterdir()}
        assert modes == {"0o600"}
        assert oct(os.stat(tmp_path / "map").st_mode & 0o777) == "0o700"


def test_a_merge_that_fails_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as shared:
        with monkeypatch.context() as patch:
            patch.setattr("jgroups_py.maps.merger._carry_out", lambda *_: 1 // 0)
            shared.write(b"key", b"value")
            limit = time.monotonic() + 60
            while shared.problem is None and time.monotonic() < limit:
                time.sleep(0.001)  # the merger is a thread, and a busy machine may begin it late
            assert not shared.wait_merged(0.2)
            assert shared.get(b"key") == b"value"
            assert isinstance(shared.problem, ZeroDivisionError)
        assert shared.wait_merged()
        assert shared.vector() == {shared.origin: 1}
    assert [record.message.split(":")[0] for record in caplog.records] == [
        f"the map {tmp_path / 'map'} cannot be merged"
    ]


def test_a_merger_that_died_before_it_could_say_how_far_it_was_has_merged_nothing_twice(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as shared:
        for number in range(3):
            shared.write(b"key", b"%d" % number)
        assert shared.wait_merged()
        slot = shared.slot
    control = Control(tmp_path / "map" / "control", 0)
    control.set_merged(slot, 0)
    control.close()
    with opened(tmp_path) as shared:
        shared.write(b"key", b"last")
        assert shared.wait_merged()
        assert shared.vector() == {shared.origin: 4} and shared.get(b"key") == b"last"


def test_processes_that_make_a_map_at_once_agree_on_the_size_of_inboxes(tmp_path: Path) -> None:
    handle = os.open(tmp_path / "control", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    made: list[Control] = []
    thread = threading.Thread(target=lambda: made.append(Control(tmp_path / "control", 8192)))
    thread.start()
    try:
        thread.join(0.2)
        assert not made  # another process is making it
        os.ftruncate(handle, 4096)
        os.pwrite(handle, b"jgroups_py map\0\0" + struct.pack("=IxxxxQ", 1, 4096), 0)
    finally:
        os.close(handle)
        thread.join(60)
    assert [control.inbox_bytes for control in made] == [4096]
    made[0].close()
