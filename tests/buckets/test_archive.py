"""Archives: written entries are read; any damage is found, reported with its place, and bounded."""

from __future__ import annotations

import os
import random
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from jgroups_py.buckets import BadKey
from jgroups_py.buckets.archive import (
    ArchiveReader,
    ArchiveWriter,
    BadArchive,
    Damage,
    Record,
    merged,
    reader,
    writer,
)
from jgroups_py.buckets.archive.frames import FRAME_MAX, Head, encode, framed
from jgroups_py.buckets.messages import EntryChange


def entries(count: int) -> list[Record]:
    found = []
    for number in range(count):
        pieces = {"": f"value {number}".encode() * (number % 7)}
        if number % 5 == 0:
            pieces["seat/4"] = b"\x00\xff"
        found.append(Record(f"key-{number:06}", 73, pieces))
    return found


def write(file: Path, records: Iterable[Record], application: str = "seats") -> Path:
    with ArchiveWriter(
        file, instance="shop", application=application, created=5.0, buckets=9
    ) as archive:
        for record in records:
            archive.add(record)
    return file


def read(file: Path) -> tuple[list[Record], list[Damage]]:
    damages: list[Damage] = []
    with ArchiveReader(file) as archive:
        return list(archive.records(damages.append)), damages


@pytest.mark.seed("A22")
def test_an_archive_gives_the_records_that_were_written(tmp_path: Path) -> None:
    records = [*entries(500), Record("schlüssel €", 1, {"": b""})]
    file = write(tmp_path / "a.jgb", records)
    with ArchiveReader(file) as archive:
        assert archive.head == Head(1, "shop", "seats", 5.0, 9)
        assert list(archive) == records
        end = archive.check()
        assert (end.entries, end.size) == (501, sum(r.size for r in records))
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))
    change = EntryChange("k", {"": b"1", "p": b"2"}, True, 81)
    assert Record.of(change).as_change() == change
    empty = write(tmp_path / "none.jgb", [])
    assert read(empty) == ([], [])


def test_the_bytes_are_those_of_the_note(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jgb", [Record("k", 73, {"": b"v"})]).read_bytes()
    assert data[:8] == b"JGBUCKET"
    length, crc = struct.unpack(">II", data[8:16])
    assert crc == zlib.crc32(data[16 : 16 + length])
    head = b"\x96\xa4head\x01\xa4shop\xa5seats\xcb" + struct.pack(">d", 5.0) + b"\x09"
    assert data[16 : 16 + length] == head
    record = b"\x94\xa5entry\xa1k\x49\x81\xa0\xc4\x01v"
    assert struct.pack(">II", len(record), zlib.crc32(record)) + record in data
    assert data.endswith(b"JGBUCEND")


def test_a_writer_that_fails_leaves_nothing_and_keeps_the_old_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jgb", entries(3))
    before = file.read_bytes()
    with pytest.raises(BadArchive, match="key 'a' comes after 'b'"):
        write(file, [Record("b", 1, {"": b""}), Record("a", 1, {"": b""})])
    with pytest.raises(BadArchive, match="key 'b' comes after 'b'"):
        write(file, [Record("b", 1, {"": b""}), Record("b", 1, {"": b""})])
    with pytest.raises(BadKey):
        write(file, [Record("", 1, {"": b""})])
    with pytest.raises(BadArchive, match=f"more than FRAME_MAX .{FRAME_MAX}."):
        write(file, [Record("a", 1, {str(n): b"x" * 2**24 for n in range(5)})])
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["a.jgb"]
    with pytest.raises(BadArchive, match="cannot be written: No such file or directory"):
        write(tmp_path / "none" / "a.jgb", [])


@pytest.mark.seed("A22")
def test_every_damaged_byte_is_found_and_costs_one_entry_at_most(tmp_path: Path) -> None:
    records = entries(5)
    file = write(tmp_path / "a.jgb", records)
    good = file.read_bytes()
    head = len(framed(encode(Head(1, "shop", "seats", 5.0, 9)))) + 8
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 0x41
        file.write_bytes(data)
        with pytest.raises(BadArchive) as caught, ArchiveReader(file) as archive:
            archive.check()
        assert str(caught.value).startswith(f"{file}: "), at
        if at < head:
            continue
        found, damages = read(file)
        assert len(damages) == 1, (at, damages)
        assert len(found) >= 4 and (len(found) == 5 or damages[0].until), at
        assert all(record in records for record in found), at


@pytest.mark.seed("A22")
def test_a_cut_file_gives_the_entries_before_the_cut(tmp_path: Path) -> None:
    records = entries(40)
    file = write(tmp_path / "a.jgb", records)
    good = file.read_bytes()
    heads = 0
    for length in range(0, len(good), 31):
        file.write_bytes(good[:length])
        try:
            found, damages = read(file)
        except BadArchive:
            heads += 1
            continue
        assert found == records[: len(found)]
        assert len(damages) == 1 and damages[0].until is None
        with (
            ArchiveReader(file) as archive,
            pytest.raises(BadArchive, match="it has no end: it was cut"),
        ):
            archive.end()
    assert heads == 2, "files of which not even the head is left"
    file.write_bytes(good + b"x")
    with ArchiveReader(file) as archive, pytest.raises(BadArchive, match="it has no end"):
        archive.end()


@pytest.mark.parametrize(("search", "least"), [(1 << 20, 99), (30, 90)])
def test_a_length_that_cannot_be_believed_costs_one_entry_or_up_to_the_next_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: int, least: int
) -> None:
    monkeypatch.setattr(writer, "POINT_BYTES", 200)
    monkeypatch.setattr(reader, "SEARCH_MAX", search)
    records = entries(100)
    file = write(tmp_path / "a.jgb", records)
    data = bytearray(file.read_bytes())
    at = data.index(b"key-000050") - 8 - 8  # length, checksum, "entry" before it
    data[at : at + 4] = b"\xff\xff\xff\xff"
    file.write_bytes(data)
    found, (damage,) = read(file)
    assert damage.number == 50 and damage.after == "key-000049" and damage.until is not None
    assert least <= len(found) < 100 and found[-1] == records[-1]
    assert (
        str(damage)
        == f"offset {at}, after entry 50 (key 'key-000049'): a record of 4294967295 bytes, more than FRAME_MAX (67108864)"
    )


def test_records_that_are_exchanged_or_left_out_are_found(tmp_path: Path) -> None:
    records = entries(10)
    file = write(tmp_path / "a.jgb", records)
    good = file.read_bytes()
    frames = [framed(encode(record)) for record in records]
    exchanged = good.replace(frames[3] + frames[4], frames[4] + frames[3])
    file.write_bytes(exchanged)
    found, (damage,) = read(file)
    assert "key 'key-000003' comes after 'key-000004'" in damage.problem and len(found) == 9
    file.write_bytes(
        good.replace(frames[3], framed(encode(Record(records[3].key, 73, {"": b"?" * 21}))))
    )
    found, (damage,) = read(file)
    assert len(found) == 10 and damage.problem.startswith(("its contents", "10 entries"))
    missing = good.replace(frames[5], b"")
    end = int.from_bytes(missing[-16:-8], "big") - len(frames[5])
    file.write_bytes(missing[:-16] + end.to_bytes(8, "big") + missing[-8:])
    found, (damage,) = read(file)
    assert damage.problem.startswith("9 entries with") and "its end names 10 with" in damage.problem


def test_strange_files_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "a"
    for data, problem in (
        (b"", "it is no archive"),
        (b"PK\x03\x04 something else", "it is no archive (it does not begin with JGBUCKET)"),
        (b"JGBUCKET", "the head: the file ends here"),
        (b"JGBUCKET" + framed(b"\xc1"), "the head: its checksum is right, and it is none of this format"),
        (b"JGBUCKET" + framed(encode(Head(2, "", "", 0.0))), "its format is 2, and this version reads 1 to 1; use a newer one"),
        (b"JGBUCKET" + framed(encode(entries(1)[0])), "the first record is no head"),
    ):  # fmt: skip
        file.write_bytes(data)
        with pytest.raises(BadArchive) as caught, ArchiveReader(file):
            pass
        assert str(caught.value).startswith(f"{file}: ") and problem in str(caught.value)
    with (
        pytest.raises(BadArchive, match="cannot be read: No such file"),
        ArchiveReader(tmp_path / "b"),
    ):
        pass


def test_any_bytes_behind_a_head_end_in_damages_only(tmp_path: Path) -> None:
    r = random.Random(4)
    head = b"JGBUCKET" + framed(encode(Head(1, "", "", 0.0)))
    file = tmp_path / "a"
    for _ in range(60):
        pieces = [
            framed(r.randbytes(r.randint(0, 20))) if r.random() < 0.5 else r.randbytes(9)
            for _ in range(5)
        ]
        file.write_bytes(head + b"".join(pieces))
        found, damages = read(file)
        assert not found and damages


@pytest.mark.seed("A22")
def test_parts_between_points_are_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "POINT_BYTES", 300)
    monkeypatch.setattr(writer, "POINTS_MAX", 8)
    records = entries(300)
    file = write(tmp_path / "a.jgb", records)
    with ArchiveReader(file) as archive:
        points = archive.end().points
        assert 4 <= len(points) <= 8 and points[0].number == 0
        found = []
        for first, after in zip(points, [*points[1:], None], strict=True):
            part = list(archive.records(between=(first, after)))
            assert part[0].key == first.key
            found += part
    assert found == records


@pytest.mark.seed("A22")
def test_archives_of_several_nodes_are_merged(tmp_path: Path) -> None:
    records = entries(90)
    files = [write(tmp_path / f"{n}.jgb", records[n::3]) for n in range(3)]
    files.append(write(tmp_path / "again.jgb", records[10:20]))
    readers = [ArchiveReader(file).__enter__() for file in files]
    assert list(merged(readers)) == records
    other = write(tmp_path / "other.jgb", [Record(records[4].key, 73, {"": b"another"})])
    with (
        ArchiveReader(other) as archive,
        pytest.raises(BadArchive, match=r"entry 'key-000004' differs from that in .*1\.jgb"),
    ):
        list(merged([*readers, archive]))
    strange = write(tmp_path / "strange.jgb", [], application="fares")
    with (
        ArchiveReader(strange) as archive,
        pytest.raises(BadArchive, match="of the application 'fares'"),
    ):
        list(merged([*readers, archive]))
    for one in readers:
        one.close()
    assert list(merged([])) == []
