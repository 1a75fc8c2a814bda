"""Audit files of maps, and digests that find which keys differ."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.maps.audit import START, AuditLog, files_of, read_audit
from jgroups_py.maps.digests import BUCKETS, bucket_of, differences, digests
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.errors import MapError, MapFileError
from jgroups_py.maps.orders import Arrived, Sent, Told
from jgroups_py.maps.stamp import TICKS_PER_S, MapStamp

NOW = 1_000_000_000_000_000_000
ENTRY = MapEntry(b"value", MapStamp((NOW // 10**9 - 2) * TICKS_PER_S, 1), {1: 1})
SENT = Sent(2, 1, [(b"key", ENTRY.encode())])


def log(folder: Path, **options: int) -> AuditLog:
    return AuditLog(folder, wall=lambda: NOW, **options)


@pytest.mark.seed("K23", "K9")
def test_the_audit_gives_sent_and_arrived_changes_with_the_peer_and_its_lag(
    tmp_path: Path,
) -> None:
    audit = log(tmp_path / "logs")
    removed = MapEntry(None, MapStamp(5, 3), {3: 1})
    audit.watch(SENT)
    audit.watch(Arrived(3, 3, [(b"gone", removed)], None))
    audit.watch(Told("skew", 3, "its clock is ahead"))
    audit.close()
    sent, arrived, told = read_audit(tmp_path / "logs")
    assert (sent.kind, sent.node, sent.key, sent.entry) == ("sent", 2, b"key", ENTRY.encode())
    assert sent.age_s == pytest.approx(2.0)
    assert sent.line() == (
        "2001-09-09 01:46:40.000000 sent to   host 2: b'key' 5 bytes, a change of host 1, 2.000 s old"
    )
    assert "came from host 3: b'gone' removed" in arrived.line()
    assert told.line().endswith("host 3: skew: its clock is ahead") and told.age_s is None
    (file,) = files_of(tmp_path / "logs")
    assert file.stat().st_mode & 0o777 == 0o600


def test_old_audit_files_make_room(tmp_path: Path) -> None:
    audit = log(tmp_path, file_max=200, files_max=3)
    for _ in range(50):
        audit.watch(SENT)
    audit.close()
    names = [file.name for file in files_of(tmp_path)]
    assert len(names) == 3 and names[0] != "audit-000001.log"
    assert audit.counters["records"] == 50 and audit.counters["files_deleted"] > 5
    assert 3 <= len(list(read_audit(tmp_path))) < 50


def test_the_end_of_a_record_whose_writer_was_killed_is_passed_by(tmp_path: Path) -> None:
    audit = log(tmp_path)
    audit.watch(SENT)
    audit.watch(SENT)
    audit.close()
    (file,) = files_of(tmp_path)
    whole = file.read_bytes()
    for end in range(8, len(whole)):
        file.write_bytes(whole[:end])
        assert len(list(read_audit(tmp_path))) == (end - 8) // ((len(whole) - 8) // 2)
    file.write_bytes(whole[:-1] + b"x")
    assert len(list(read_audit(tmp_path))) == 1
    second = log(tmp_path)
    second.watch(SENT)
    second.close()
    assert len(list(read_audit(tmp_path))) == 2


def test_a_folder_without_audit_files_and_a_file_that_is_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(MapFileError, match="has no audit files"):
        list(read_audit(tmp_path))
    (tmp_path / "audit-000001.log").write_bytes(b"something else")
    with pytest.raises(MapFileError, match=r"audit-000001\.log is no audit file"):
        list(read_audit(tmp_path))
    with pytest.raises(MapError, match="cannot be a folder"):
        AuditLog(tmp_path / "audit-000001.log")
    with pytest.raises(MapError, match="at least 1"):
        AuditLog(tmp_path, files_max=0)


def test_a_disk_that_is_full_is_counted_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = log(tmp_path)
    audit.watch(SENT)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(os, "write", full)
        audit.watch(SENT)
        audit.watch(SENT)
    audit.watch(SENT)
    audit.close()
    assert audit.counters["failed"] == 2 and len(caplog.records) == 1
    assert len(list(read_audit(tmp_path))) == 2


def test_a_full_disk_costs_no_earlier_file_and_leaves_no_partial_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = log(tmp_path, files_max=2)
    audit.watch(SENT)
    write = os.write

    for starts in (True, False):  # whether there is room for the beginning of another file

        def full(handle: int, data: Any, starts: bool = starts) -> int:
            if data == START and starts:
                return write(handle, data)
            if data == START or len(data) < 10:
                raise OSError(28, "No space left on device")
            return write(handle, data[: len(data) // 2])

        if not starts:
            audit.close()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            for _ in range(4):
                audit.watch(SENT)
        assert len(list(tmp_path.iterdir())) == 1
    audit.watch(SENT)
    audit.close()
    assert audit.counters["failed"] == 8 and audit.counters["files_deleted"] == 0
    assert len(list(read_audit(tmp_path))) == 2


class Side:
    key_codec = "bytes"

    def __init__(self, entries: dict[bytes, MapEntry]) -> None:
        self.entries = entries
        self.reads = 0

    def items(
        self, *, after: bytes = b"", removed: bool = False
    ) -> Iterator[tuple[bytes, MapEntry]]:
        self.reads += 1
        found = sorted(self.entries.items())
        return ((k, e) for k, e in found if k > after and (removed or not e.removed))


def entries(count: int) -> dict[bytes, MapEntry]:
    return {b"k%d" % n: MapEntry(b"v%d" % n, MapStamp(n + 1, 1), {1: n + 1}) for n in range(count)}


def test_digests_do_not_depend_on_the_order_and_change_with_every_part_of_an_entry() -> None:
    items = list(entries(100).items())
    expected = digests(items)
    random.Random(1).shuffle(items)
    assert digests(items) == expected and len(expected) == BUCKETS
    key, entry = items[0]
    for other in (
        MapEntry(b"other", entry.stamp),
        MapEntry(entry.value, MapStamp(entry.stamp.time + 1, 1)),
        MapEntry(entry.value, MapStamp(entry.stamp.time, 2)),
        MapEntry(entry.value, entry.stamp, {}, 5),
    ):
        assert digests([(key, other), *items[1:]]) != expected


def test_values_that_are_swapped_between_keys_change_the_digests() -> None:
    one, other = MapEntry(b"one", MapStamp(5, 1)), MapEntry(b"two", MapStamp(6, 1))
    a, b = [b"%05d" % n for n in range(40_000) if bucket_of(b"%05d" % n) == 0][:2]
    assert digests([(a, one), (b, other)]) != digests([(a, other), (b, one)])


def test_each_key_that_differs_is_named_with_the_reason() -> None:
    here, there = entries(500), entries(500)
    del here[b"k1"], there[b"k2"]
    here[b"k3"] = MapEntry(b"new", MapStamp(1000, 2))
    there[b"k4"] = MapEntry(None, MapStamp(1000, 3))
    there[b"k5"] = MapEntry(b"twin", here[b"k5"].stamp)
    found = {one.key: one.why for one in differences(Side(here), Side(there))}
    assert found == {
        b"k1": "only there",
        b"k2": "only here",
        b"k3": "older there: a change of host 2 is missing",
        b"k4": "older here: a removal of host 3 is missing",
        b"k5": "one stamp and two values",
    }


def test_equal_maps_are_read_once() -> None:
    here, there = Side(entries(50)), Side(entries(50))
    assert list(differences(here, there)) == []
    assert here.reads == there.reads == 1
