"""A file that merges many records in one transaction equals a table in memory that applies them one after another."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.maps import merger
from jgroups_py.maps.control import SLOTS, Control
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.file_settings import DEFAULTS, FileSettings
from jgroups_py.maps.inbox import CHANGE, Inbox, InboxFiles, keyed
from jgroups_py.maps.rules import LAST_WRITER, ConflictRule, Union
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.store import MapStore
from jgroups_py.maps.sums import counted
from jgroups_py.maps.table import MemoryTable

KEYS = [b"a", b"b", b"c"]
OTHERS = [2 << 48 | 7, 3 << 48 | 7]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["change", "change", "change", "remove", "join", "drop", "end"]),
        st.sampled_from(KEYS),
        st.integers(1, 30),
    ),
    max_size=30,
)


@contextmanager
def merging_by_hand(folder: Path) -> Iterator[SharedFile]:
    """A file that is merged by ``shared._merger._merge()`` only."""
    with closing(SharedFile(folder / "m", FileSettings(max_bytes=1 << 24))) as shared:
        with shared._merger.lock:
            while not shared._merger._take():
                time.sleep(0.001)
        with shared._merger.lock:
            yield shared


def stored(folder: Path) -> MapStore:
    return MapStore(
        folder, max_bytes=1 << 22, settings=dict.fromkeys(DEFAULTS), defaults={**DEFAULTS}
    )


def play(
    store: MapStore, rule: ConflictRule, steps: list[tuple[str, bytes, int]]
) -> tuple[MapStore, MemoryTable]:
    """Plays it in both. ``end`` ends a transaction."""
    table = MemoryTable(rule)
    store_of = store.merging(rule)
    merging = store_of.__enter__()
    for number, (kind, key, at) in enumerate(steps):
        value = b"[%d]" % number
        if kind == "end":
            store_of.__exit__(None, None, None)
            store_of = store.merging(rule)
            merging = store_of.__enter__()
        elif kind == "drop":
            dots = [(origin, at % 8 + 1) for origin in (store.origin, *OTHERS)]
            merging.settle()
            merging.drop(dots)
            table.drop(dots)
        elif kind == "join":
            origin = OTHERS[at % 2]
            told = table.vector().get(origin, 0) + 1
            entry = MapEntry(value, MapStamp(at << 8, 2 + at % 2), {origin: told})
            merging.settle()
            merging.join(key, entry)
            merging.advance(origin, told)
            table.apply([(key, entry)], {origin: told})
        else:
            time = (at << 8) + number * 10  # the keys mostly grow
            removed = kind == "remove"
            life = time if removed and rule is not LAST_WRITER else 0
            mine = table.entry(key)
            if rule is not LAST_WRITER and not removed and mine is not None:
                life = mine.life
            entry = MapEntry(None if removed else value, MapStamp(time, 1), {}, 0, life)
            merging.change(key, entry.encode())
            table.change(store.origin, key, entry)
    store_of.__exit__(None, None, None)
    return store, table


@pytest.mark.parametrize("rule", [LAST_WRITER, Union()], ids=lambda rule: rule.name)
def test_many_records_of_one_transaction_end_as_one_after_another(rule: ConflictRule) -> None:
    @settings(max_examples=30, deadline=None)
    @given(STEPS)
    def check(steps: list[tuple[str, bytes, int]]) -> None:
        with tempfile.TemporaryDirectory() as name, closing(stored(Path(name) / "m")) as store:
            _, table = play(store, rule, steps)
            store.refresh()
            found = dict(store.some(b"", 100))
            assert found == {key: entry.encode() for key, entry in table.entries.items()}
            assert store.vector() == table.vector()
            assert store.forgotten == table.forgotten
            assert store.contents() == table.contents()
            assert store.contents().sums == counted(table.entries.values())
            for origin in (store.origin, *OTHERS):
                assert list(store.changes(origin, 0, 99, 99)) == list(
                    table.changes(origin, 0, 99, 99)
                )
            assert dict(store.tombstones()) == dict(table.tombstones())

    check()


@pytest.mark.seed("K3")
def test_the_index_has_one_of_many_changes_of_a_key_in_one_transaction(tmp_path: Path) -> None:
    with closing(stored(tmp_path / "m")) as store:
        steps = [("change", b"a", 1)] * 1000
        play(store, LAST_WRITER, steps)
        ((number, key, entry),) = store.changes(store.origin, 0, 2000, 2000)
        assert (number, key, entry.value) == (1000, b"a", b"[999]")


def test_a_process_that_writes_more_than_can_be_merged_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "RECORDS_MAX", 10)
    with merging_by_hand(tmp_path) as shared:
        inboxes = InboxFiles(shared.folder, shared.inbox_bytes)
        slot = inboxes.take()
        other = Inbox(inboxes.of(slot), shared.control, slot)
        for number in range(1000):
            shared.write(b"k%d" % number, b"v")
        entry = MapEntry(b"theirs", MapStamp(shared.clock.next(), 1))
        end = other.append(CHANGE, keyed(b"other", entry.encode()))
        for _ in range(2):
            shared._merger._merge()
        assert shared.control.merged(slot) == end
        assert shared.waiting() > 0
        inboxes.close()


def test_a_transaction_takes_no_more_bytes_than_its_limit_and_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "BYTES_MAX", 10_000)
    with merging_by_hand(tmp_path) as shared:
        for number in range(10):
            shared.write(b"k%d" % number, bytes(4_000))
        before = shared.waiting()
        shared._merger._merge()
        assert 12_000 <= before - shared.waiting() <= 13_000


def test_a_waiting_process_sees_work_within_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "RECORDS_A_SIGN", 10)
    with merging_by_hand(tmp_path) as shared:
        for number in range(100):
            shared.write(b"k%d" % number, b"v")
        before = shared.control.work()
        shared._merger._merge()
        assert shared.control.work() == before + 11
        shared.problem = OSError("a merge that fails is no work")
        for number in range(100):
            shared.write(b"k%d" % number, b"v")
        before = shared.control.work()
        shared._merger._merge()
        assert shared.control.work() == before + 1


def test_a_control_file_of_before_has_no_work_yet(tmp_path: Path) -> None:
    with closing(Control(tmp_path / "control", 4096)) as control:
        assert control.work() == 0
        control.set_merged(SLOTS - 1, 7)
        control.worked()
        assert (control.work(), control.merged(SLOTS - 1)) == (1, 7)
