"""A map keeps to the limits of its entries: the least recently used entries are removed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py import blocking
from jgroups_py.maps import Evicted, MapChange, MapError, PnCounter, eviction, open_map
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.eviction import MapLimits, Readings
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp

SIZE = 1 << 24


@contextmanager
def by_hand(folder: Path, **settings: Any) -> Iterator[tuple[SharedFile, Callable[[], None]]]:
    """A file, and a function that merges puts."""
    with (
        closing(SharedFile(folder / "m", FileSettings(max_bytes=SIZE, **settings))) as shared,
        shared._merger.lock,
    ):
        while not shared._merger._take():
            time.sleep(0.001)

        def merge() -> None:
            shared._merger._bury_at = 0.0
            while shared._merger._merge():
                pass

        yield shared, merge


def keys(shared: SharedFile) -> list[bytes]:
    return [key for key, _ in shared.items()]


def put(shared: SharedFile, *names: str, value: bytes = b"v") -> None:
    for name in names:
        shared.write(name.encode(), value)


@pytest.mark.parametrize("evict", ["forget", "remove"])
def test_the_least_recently_used_entry_is_evicted(tmp_path: Path, evict: str) -> None:
    with by_hand(tmp_path, max_entries=3, evict=evict) as (shared, merge):
        put(shared, "a", "b", "c")
        merge()
        assert shared.get(b"a") == b"v"  # a is used
        put(shared, "b")  # b is used, too
        put(shared, "d")
        merge()
        assert keys(shared) == [b"a", b"b", b"d"] and shared.evicted() == 1
        assert shared.get(b"c") is None and shared.count() == 3
        assert [key for key, _ in shared.tombstones()] == ([b"c"] if evict == "remove" else [])
        put(shared, "c", "e")
        merge()
        assert keys(shared) == [b"c", b"d", b"e"] and shared.evicted() == 3


def test_an_evicted_entry_is_not_read_from_the_merged_records(tmp_path: Path) -> None:
    with by_hand(tmp_path, max_entries=2) as (shared, merge):
        put(shared, *(f"k{number:04}" for number in range(1500)))
        merge()
        assert keys(shared) == [b"k1498", b"k1499"]  # one pass forgets only 500 merged records
        assert len(shared._overlay) > 500 and shared.count() == 2
        assert shared.get(b"k1400") is None


def test_no_change_of_a_forgotten_entry_is_left(tmp_path: Path) -> None:
    with by_hand(tmp_path, max_entries=1) as (shared, merge):
        put(shared, *"abcdefgh")
        shared.write(b"ends", b"v", shared.clock.wall_time() + (1 << 40))
        put(shared, "last")
        merge()
        assert keys(shared) == [b"last"]
        origin = shared.origin
        assert [key for _, key, _ in shared.changes(origin, 0, 99, 99)] == [b"last"]
        assert shared.vector() == {origin: 10} and not list(shared.tombstones())
        assert not shared.store.has_ended(1 << 61)


def test_a_removal_by_a_limit_is_newer_than_the_removed_value_at_any_host(tmp_path: Path) -> None:
    with by_hand(tmp_path, max_entries=1, evict="remove", identifier=5) as (shared, merge):
        ahead = MapStamp(shared.clock.wall_time() + (1 << 40), 2)
        shared.apply([(b"theirs", MapEntry(b"v", ahead, {7: 1}))], {7: 1})
        shared.apply([(b"newer", MapEntry(b"v", MapStamp(ahead.time + 1, 2), {7: 2}))], {7: 2})
        merge()
        assert keys(shared) == [b"newer"]
        ((key, tombstone),) = shared.tombstones()
        assert key == b"theirs" and tombstone.stamp.is_newer(ahead)
        assert tombstone.stamp.node == 5 and tombstone.stamp.time & 0xFF == 255
        assert [key for _, key, _ in shared.changes(shared.origin, 0, 9, 9)] == [b"theirs"]


def test_bytes_of_keys_and_values_have_a_limit_too(tmp_path: Path) -> None:
    with by_hand(tmp_path, max_live_bytes=1000) as (shared, merge):
        put(shared, "a", "b", "c", value=bytes(299))
        merge()
        assert shared.store.live_bytes() == 900 and shared.evicted() == 0
        put(shared, "a", value=bytes(499))
        merge()
        assert keys(shared) == [b"a", b"c"] and shared.store.live_bytes() == 800
        shared.write(b"a", None)
        merge()
        assert keys(shared) == [b"c"] and shared.store.live_bytes() == 300
        put(shared, "large", value=bytes(2000))  # larger than the whole limit
        merge()
        assert keys(shared) == [] and shared.store.live_bytes() == 0


def test_a_limit_counts_earlier_entries_and_can_be_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("merging", "merger"):
        monkeypatch.setattr(f"jgroups_py.maps.{module}.EVICTED_AT_ONCE", 10)
    with by_hand(tmp_path) as (shared, merge):
        put(shared, *(f"k{number:03}" for number in range(100)))
        put(shared, "k000")
        merge()
        assert shared.count() == 100
    with by_hand(tmp_path, max_entries=5) as (shared, merge):
        merge()
        assert keys(shared) == [b"k000", b"k096", b"k097", b"k098", b"k099"]
        assert shared.evicted() == 95
    with by_hand(tmp_path) as (shared, merge):  # the file stores the limit
        put(shared, *(f"n{number:03}" for number in range(30)), "more")
        merge()  # one transaction cannot evict all of them
        assert shared.count() == 5 and shared.evicted() == 126
    with by_hand(tmp_path, max_entries=0) as (shared, merge):
        put(shared, "a", "b", "c")
        shared.write(b"more", None)
        merge()
        assert shared.count() == 7
    with by_hand(tmp_path, max_entries=6) as (shared, merge):
        merge()  # the limit also counts entries that were written without a limit
        assert shared.count() == 6 and shared.get(b"c") == b"v"


def test_a_reader_tells_a_use_once_in_a_while_and_never_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "USE_INTERVAL", 3600.0)  # the test may take longer than a second
    with by_hand(tmp_path, max_entries=10, inbox_bytes=4096) as (shared, merge):
        put(shared, "a")
        before = shared.waiting()
        for _ in range(100):
            assert shared.get(b"a") == b"v"
        told = shared.waiting() - before
        assert 0 < told < 40
        shared.write(b"a", None)
        merge()
        assert shared.count() == 0 and shared.store.live_bytes() == 0
        with shared.store.merging(shared.rule) as merging:
            assert not merging._uses.knows(b"a")  # it was used, but has been removed
        put(shared, "a")
        put(shared, "b", value=bytes(2000))
        before = shared.waiting()
        assert shared.get(b"b") is not None  # the inbox is half full
        assert shared.waiting() == before
        merge()
    with by_hand(tmp_path, max_entries=0) as (shared, merge):
        shared.get(b"a")
        assert shared.waiting() == 0


def test_a_process_remembers_a_limited_number_of_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "TOLD_MAX", 3)
    readings = Readings()
    assert readings.is_due(b"a", 0.0) and not readings.is_due(b"a", 0.9)
    assert readings.is_due(b"a", 1.0)
    for key in (b"b", b"c", b"d"):
        assert readings.is_due(key, 1.0)
    assert len(readings._told) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove", "get", "ends", "theirs", "limit", "merge"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@pytest.mark.parametrize("evict", ["forget", "remove"])
def test_counted_uses_and_bytes_match_a_recount(evict: str) -> None:
    """After any change each entry has one record of its use, and counters match a recount."""

    @settings(max_examples=15, deadline=None)
    @given(STEPS)
    def check(steps: list[tuple[str, int]]) -> None:
        with (
            tempfile.TemporaryDirectory() as name,
            by_hand(Path(name), max_entries=4, evict=evict) as (shared, merge),
        ):
            told = 0
            for kind, number in [*steps, ("limit", 1)]:
                key, value = b"k%d" % number, bytes(number)
                if kind == "put":
                    shared.write(key, value)
                elif kind == "remove":
                    shared.write(key, None)
                elif kind == "get":
                    shared.get(key)
                elif kind == "ends":
                    shared.write(key, value, shared.clock.wall_time() + 1)
                elif kind == "theirs":
                    told += 1
                    stamp = MapStamp(shared.clock.wall_time() + number - 4, 2)
                    shared.apply([(key, MapEntry(value, stamp, {7: told}))], {7: told})
                elif kind == "limit":
                    shared._set_limits(MapLimits(number, (number * 7) % 20, evict))
                else:
                    merge()
            merge()
            merge()  # removes expired entries
            recount(shared)

    check()


def recount(shared: SharedFile) -> None:
    live = {k: e for k, e in shared.items(removed=True) if not e.removed}
    limits, dbs = shared.limits, shared.store._dbs
    assert len(live) <= (limits.max_entries or len(live))
    size = sum(len(key) + len(entry.value or b"") for key, entry in live.items())
    assert size == shared.store.live_bytes() <= (limits.max_live_bytes or size)
    with shared.store._env.begin() as txn:
        used = {key: time for key, time in txn.cursor(db=dbs.uses)}
        assert {row for row, _ in txn.cursor(db=dbs.times)} == {t + k for k, t in used.items()}
    assert used.keys() == live.keys()


def test_a_counter_that_went_begins_anew(tmp_path: Path) -> None:
    with by_hand(tmp_path, rule=PnCounter(), max_entries=1, evict="remove") as (shared, merge):
        rule = PnCounter()
        shared.write(b"a", rule.add(None, 1, 5))
        shared.write(b"b", rule.add(None, 1, 1))
        merge()
        assert keys(shared) == [b"b"]
        shared.write(b"a", rule.add(shared.get(b"a"), 1, 2))
        merge()
        assert rule.total(shared.get(b"a")) == 2


async def test_a_map_that_forgets_does_not_replicate(tmp_path: Path) -> None:
    class Nobody:
        async def run(self, host: Any) -> None:
            await trio.sleep_forever()

    with pytest.raises(MapError, match=r"forgets entries .* and cannot replicate"):
        async with open_map(
            tmp_path / "m",
            identifier=1,
            network=Nobody(),
            max_entries=5,
            evict="forget",
            max_bytes=SIZE,
        ):
            await trio.sleep(60)
    async with open_map(
        tmp_path / "m", identifier=1, network=Nobody(), evict="remove", max_bytes=SIZE
    ) as m:
        while not m.statistics().replicates:  # noqa: ASYNC110 - it begins by itself
            await trio.sleep(0.01)
        assert m._file.limits.max_entries == 5
        with pytest.raises(MapError, match="replicates, so it cannot forget"):
            m._file._set_limits(MapLimits(max_entries=3))
        assert m._file._replicates
        assert m._file.store.limits().max_entries == 5
    async with open_map(
        tmp_path / "n", identifier=1, network=Nobody(), max_entries=5, max_bytes=SIZE
    ) as m:
        assert m._file.limits.evict == "remove"


def test_a_listener_and_the_statistics_tell_of_it(tmp_path: Path) -> None:
    with blocking.open_map(tmp_path / "m", key=str, value=int, max_entries=2, max_bytes=SIZE) as m:
        listener = m.listen(timeout=60.0)
        m["a"] = 1
        assert isinstance(next(listener), MapChange)
        for number in range(5):
            m[f"k{number}"] = number
        m.wait_merged()
        count = 0
        for heard in listener:
            if isinstance(heard, Evicted):
                count += heard.count
            if count == 4:
                break
        assert m.statistics().evicted == 4 and len(m) == 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_entries": -1}, "max_entries must be at least 1, or 0 for no limit, got -1"),
        ({"max_live_bytes": -1}, "max_live_bytes must be at least 1"),
        ({"evict": "lru"}, 'evict must be forget or remove, got "lru"'),
    ],
)
def test_a_wrong_limit_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(MapError, match=text):
        FileSettings(**given)
