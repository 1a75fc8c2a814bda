"""A reader of changes that keeps its place: the changes that it gets, and the error when it would miss some."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from jgroups_py import blocking
from jgroups_py.errors import ConfigError
from jgroups_py.maps import PerField, PnCounter, following
from jgroups_py.maps.described import open_described
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.following import Place
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp

SIZE = 1 << 28
"""The size of the files of these tests: their processes may have little address space."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SharedFile]:
    file = SharedFile(tmp_path / "m", FileSettings(identifier=1, max_bytes=SIZE))
    yield file
    file.close()


def put(file: SharedFile, *keys: bytes, value: bytes | None = b"v") -> None:
    """Put the keys one after another, so that each put has a number."""
    for key in keys:
        file.write(key, value)
        assert file.wait_merged()


def told(file: SharedFile, start: Place, end: Place) -> list[tuple[int, bytes]]:
    return [
        (number, key)
        for origin, to in end.origins.items()
        for number, key, _ in following.changes(file, origin, start.origins.get(origin, 0), to)
    ]


def test_between_two_places_the_latest_change_of_each_key_is_told_once(file: SharedFile) -> None:
    start = following.place_now(file)
    put(file, b"a", b"b", b"a")
    middle = following.place_now(file)
    put(file, b"c", b"b")
    end = following.place_now(file)
    assert told(file, start, end) == [(3, b"a"), (4, b"c"), (5, b"b")]
    assert told(file, middle, end) == [(4, b"c"), (5, b"b")]
    assert told(file, following.beginning(file), middle) == [(3, b"a")]
    assert msgspec.json.decode(msgspec.json.encode(end), type=Place) == end


def test_the_changes_of_a_batch_are_limited_and_the_next_batch_goes_on(
    file: SharedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "CHANGES_AT_ONCE", 2)
    put(file, *(b"k%d" % n for n in range(7)), b"k0")
    other = origin_of(2, 1)
    of_other = [(b"o%d" % n, MapEntry(b"v", MapStamp(n, 2), {other: n})) for n in (1, 2, 3, 4, 5)]
    file.apply(of_other, {other: 5})
    assert file.wait_merged()
    place, found = following.beginning(file), []
    for _ in range(9):
        end = following.after(file, place, 3)
        some = told(file, place, end)
        assert len(some) <= 3
        found += some
        place = end
    keys = [key for _, key in found]
    assert [key for key in keys if key < b"o"] == [b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"k0"]
    assert [key for key in keys if key > b"o"] == [b"o1", b"o2", b"o3", b"o4", b"o5"]
    assert place.origins == following.place_now(file).origins


def test_removals_that_were_forgotten_before_they_were_read_are_missed(file: SharedFile) -> None:
    put(file, b"a", b"b")
    before, nothing = following.place_now(file), following.beginning(file)
    put(file, b"a", value=None)
    after = following.place_now(file)
    assert following.missed(file, before) == ""
    file.forget([b"a"])
    assert file.wait_merged()
    assert "forgotten" in following.missed(file, before)
    assert following.missed(file, after) == ""  # it has read the removal
    assert following.missed(file, nothing) == ""  # the reader never had the value
    half = Place({"1": 0}, following.place_now(file).forgotten)
    assert following.missed(file, half) == ""  # the change was forgotten before this place was made


def test_a_place_of_another_map_is_missed(file: SharedFile) -> None:
    put(file, b"a")
    other = Place({**following.place_now(file).origins, "77": 1})
    assert "another one" in following.missed(file, other)


def test_cuts_part_the_keys(file: SharedFile) -> None:
    put(file, *(b"k%d" % n for n in range(9)))
    cuts = file.cuts(4)
    assert cuts == [b"k3", b"k7"]
    assert [key for key, _ in file.items(after=cuts[0])] == [b"k4", b"k5", b"k6", b"k7", b"k8"]
    assert file.cuts(9) == [b"k8"] and file.cuts(10) == []


def test_the_text_of_a_stamp_is_higher_for_the_newer_change() -> None:
    stamps = [
        MapStamp(255, 1),
        MapStamp(256, 127),
        MapStamp(256, 2),
        MapStamp(256, 1),
        MapStamp(1 << 61, 9),
    ]
    texts = [following.stamp_text(stamp) for stamp in stamps]
    assert texts == sorted(texts)
    assert all(b.is_newer(a) for a, b in pairwise(stamps))


class Quote(msgspec.Struct):
    bid: float = 0.0


def test_a_map_is_read_as_its_file_describes_it(tmp_path: Path) -> None:
    with blocking.open_map(tmp_path / "n", key=int, rule=PnCounter(), max_bytes=SIZE) as numbers:
        numbers.increment(7, 5)
    with blocking.open_map(
        tmp_path / "f", key=str, value=Quote, rule=PerField(), max_bytes=SIZE
    ) as fields:
        fields["EUR"] = Quote(1.5)
    with blocking.open_map(tmp_path / "s", key="json", value=Quote, max_bytes=SIZE) as structs:
        structs[[1]] = Quote(2.5)
    with blocking.open_map(tmp_path / "o", value=(bytes, bytes), max_bytes=SIZE) as own:
        own[b"k"] = b"v"
    found = []
    for name in "nfso":
        with open_described(tmp_path / name) as described:
            key, entry = next(described.file.items())
            assert entry.value is not None
            forms = described.key_form, described.value_form
            found.append((*forms, described.key(key), described.value(entry.value)))
    assert found == [
        ("number", "number", 7, 5),
        ("text", "json", "EUR", {"bid": 1.5}),
        ("json", "json", [1], {"bid": 2.5}),
        ("bytes", "bytes", b"k", b"v"),
    ]
    with pytest.raises(ConfigError, match="no map in this folder"), open_described(tmp_path):
        pass
