"""Surveys: hosts that missed removals become equal again, even if surveys are cut off, and no other value is
dropped."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.maps import surveys
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.errors import MapFileError
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.merging import SUM, numbers
from jgroups_py.maps.messages import Have
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.sums import ERA_SHIFT, Contents, compared, count, counted
from jgroups_py.maps.surveys import MapDifference, MapSurveys
from jgroups_py.maps.table import MemoryTable
from jgroups_py.testing.explorer.maps.clusters import explore_cluster
from jgroups_py.testing.explorer.maps.world import MapWorld

ONE, TWO = origin_of(1, 1), origin_of(2, 1)


# --- surveys that are cut off


def apart(keys: int = 12, **settings: Any) -> MapWorld:
    """Two hosts that were apart until each had forgotten removals that the other one lacks."""
    world = MapWorld(2, tombstone_age=2.0, **settings)
    world.connect_all()
    one, two = world.hosts.values()
    for number in range(keys):
        one.write(b"one %d" % number, b"value")
        two.write(b"two %d" % number, b"value")
    world.run(0.5)
    world.cut(1, 2)
    for number in range(keys - 2):
        one.write(b"one %d" % number, None)
        two.write(b"two %d" % number, None)
    world.run(4)
    assert len(one.table.entries) == len(two.table.entries) == keys + 2
    return world


def again(world: MapWorld, *crashed: int) -> None:
    for node in crashed:
        world.crash(node)
        world.hosts[node].start()
    world.cut(1, 2)
    world.connect_all()


@pytest.mark.parametrize("crashed", [(), (1,), (2,), (1, 2)])
def test_a_survey_that_was_cut_off_anywhere_begins_again(
    crashed: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "SURVEY_NUMBERS", 1)
    for steps in range(0, 60, 4):  # hundredths of a second; a survey takes about 0.3 s
        world = apart()
        world.connect_all()
        world.run(steps / 100)
        again(world, *crashed)
        world.run(8)
        one, two = world.hosts.values()
        assert one.values() == two.values() and len(one.values()) == 4, steps


def test_a_survey_whose_end_was_lost_twice_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "SURVEY_NUMBERS", 1)
    world = apart()
    for _ in range(2):
        again(world, 1, 2)
        world.run(0.15)
    again(world)
    world.run(8)
    one, two = world.hosts.values()
    assert one.values() == two.values() and len(one.values()) == 4


def test_the_clusters_that_were_found_to_stay_different_end_equal() -> None:
    for seed in (520, 770, 1010, 1170, 1560):
        assert not explore_cluster(seed).problems, seed


def test_hosts_that_are_written_all_the_time_get_a_survey_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such hosts never have equal sets of changes, so they cannot compare."""
    monkeypatch.setattr(surveys, "SURVEY_NUMBERS", 5)
    world = apart(compare_wait=1.0)
    world.connect_all()
    world.run(0.12)
    one, two = world.hosts.values()
    again(world, 1, 2)
    for number in range(500):
        one.write(b"busy 1", b"%d" % number)
        two.write(b"busy 2", b"%d" % number)
        world.run(0.01)
    assert one.replica.counters["differed"] == 0
    assert set(one.values()) == set(two.values()) and len(one.values()) == 6


def test_a_third_host_that_got_a_value_without_its_removal_gives_it_up_though_nobody_tells_it() -> (
    None
):
    """A host that drops a value surveys its peers; the third host is not connected then, and lacks no change later."""
    world = MapWorld(3, tombstone_age=2.0)
    one, two, three = world.hosts.values()
    world.connect(1, 2)
    two.write(b"key", b"value")
    world.run(0.5)
    world.cut(1, 2)
    one.write(b"key", None)
    world.connect(1, 3)
    world.run(0.5)  # host 3 has the removal, but not the removed change, which host 1 left out
    world.run(4)
    world.cut(1, 3)
    assert not one.table.entries and not three.table.entries
    three.table._vector.pop(two.origin, None)  # 3 has never heard of 2
    three.start()
    world.connect(2, 3)
    world.run(0.5)
    assert three.values() == {b"key": b"value"}
    world.cut(2, 3)
    world.connect(1, 2)
    world.run(3)
    world.cut(1, 2)
    assert two.values() == {}
    world.connect(1, 3)
    world.run(12)
    assert three.values() == one.values() == {}


def test_an_old_write_that_some_refuse_and_others_take_is_nowhere_at_the_end() -> None:
    """Host 2 wrote the value before the removal. Host 1 has already forgotten the removal when the write arrives;
    host 3 still has it."""
    world = MapWorld(3, tombstone_age=30.0)
    one, two, three = world.hosts.values()
    world.connect(1, 3)
    two.write(b"key", b"old")
    world.run(0.1)
    one.write(b"key", None)
    world.run(0.5)
    one.offset = 100.0  # the clock of this host makes it forget the removal now
    world.run(1.5)
    assert not one.table.entries and three.table.entries[b"key"].removed
    one.offset = 0.0
    world.connect_all()
    world.run(12)
    assert one.values() == two.values() == three.values() == {}
    assert three.replica.counters["diverged"] == 0


# --- values that are not dropped


class Loses(MemoryTable):
    """A table with a bug: it loses one key."""

    def apply(self, entries: Any, advance: Any) -> Any:
        return super().apply([e for e in entries if e[0] != b"lost"], advance)


def test_a_difference_that_no_removal_explains_is_told_and_nothing_is_dropped() -> None:
    world = MapWorld(2)
    one, two = world.hosts.values()
    two.table = Loses()
    two.start()
    world.connect_all()
    for key in (b"lost", b"kept"):
        one.write(key, b"value")
    world.run(15)
    assert one.values() == {b"lost": b"value", b"kept": b"value"}
    for host in (one, two):
        assert "differs" in [told.kind for told in host.told]
        assert "stale" not in [told.kind for told in host.told]
        assert host.replica.counters["dropped"] == 0
        assert 2 <= host.replica.counters["differed"] <= 6  # at growing intervals


def test_removals_that_all_hosts_have_confirmed_explain_nothing() -> None:
    world = MapWorld(2, peers=frozenset({1, 2}), tombstone_age=20.0)
    world.connect_all()
    one, two = world.hosts.values()
    one.write(b"key", b"value")
    world.run(1)
    two.write(b"key", None)
    world.run(5)
    assert not one.table.entries and one.table.forgotten
    assert not one.table.contents().lacking and not two.table.contents().lacking


def test_all_hosts_and_their_files_know_that_a_host_may_lack_removals() -> None:
    world = MapWorld(3, peers=frozenset({1, 2, 3}), tombstone_age=2.0)
    one, two, three = world.hosts.values()
    world.connect(1, 2)
    one.write(b"key", None)
    world.run(1)
    assert not one.table.contents().lacking
    world.run(4)  # host 3 has not confirmed it
    assert one.table.contents().lacking and two.table.contents().lacking
    world.connect(2, 3)
    world.run(2)
    assert three.table.contents().lacking


def test_a_key_that_another_host_has_replaced_meanwhile_is_no_difference_for_long() -> None:
    """Host 4 gets changes of host 3, except the one that host 2 has replaced; host 1 got that one earlier."""
    world = MapWorld(4, have_interval=0.05, repair_wait=0.5)
    one, two, three, four = world.hosts.values()
    for host in world.hosts.values():
        host.table.note_lacking()
    world.connect(1, 3)
    three.write(b"key", b"value")
    world.run(0.3)
    world.cut(1, 3)
    world.connect(2, 3)
    world.run(0.3)
    two.write(b"key", b"newer")
    world.run(0.3)
    world.connect(1, 4)
    changes = list(three.table.changes(three.origin, 0, 9, 9))
    assert not changes
    four.table.apply([], {three.origin: 1})  # the changes that host 3 still passes on
    four.start()
    again_linked = [(1, 4), (3, 4)]
    world.cut(1, 4)
    for pair in again_linked:
        world.connect(*pair)
    world.run(0.4)
    assert all(b"key" in host.values() for host in (one, three))
    world.connect_all()
    world.run(5)
    assert [host.values() for host in world.hosts.values()] == [{b"key": b"newer"}] * 4
    assert not any(host.replica.counters["dropped"] for host in world.hosts.values())


# --- comparing


def told(contents: Contents, clock: int = 0, *, lacking: bool = False) -> Have:
    return Have(list(contents.vector.items()), clock, compared(contents.sums, clock), lacking)


def table_with(*numbers_: int, to: int = 9) -> MemoryTable:
    table = MemoryTable()
    entries = [(b"k%d" % n, MapEntry(b"value", MapStamp(n << 8, 1), {ONE: n})) for n in numbers_]
    table.apply(entries, {ONE: to})
    return table


def test_a_difference_counts_when_it_is_seen_twice_and_is_looked_for_less_and_less_often() -> None:
    mine, theirs = table_with(1, 2), table_with(1)
    settings = ReplicaSettings(map="m", node=2, origin=TWO, file=b"", repair_wait=1.0)
    machine = MapSurveys(settings, mine)
    machine.opened(7, 0.0)
    have = told(theirs.contents(), lacking=True)
    found = {}
    for tick in range(1000):
        now = tick / 10
        if difference := machine.compare(7, have, now):
            found[now] = difference
            while machine.following(7, theirs.vector(), now):
                pass
    assert list(found)[:5] == [0.0, 0.5, 1.5, 3.5, 7.5]
    assert list(found.values()) == [MapDifference.FIRST] + [MapDifference.SURVEYED] * (
        len(found) - 1
    )
    assert machine.compare(7, told(mine.contents()), 1e6) is None
    assert machine.compare(7, have, 1e6) is MapDifference.FIRST


@pytest.mark.parametrize(
    ("have", "differs"),
    [
        (Have([(ONE, 9)], 0, 1, True), True),
        (Have([(ONE, 9), (TWO, 0)], 0, 1, True), True),
        (Have([(ONE, 9)], 0, None, True), False),  # the peer does not report it
        (Have([(ONE, 8)], 0, 1, True), False),
        (Have([(ONE, 9), (TWO, 1)], 0, 1, True), False),
        (told(table_with(1, 2).contents(), lacking=True), False),
    ],
)
def test_hosts_are_compared_once_they_have_the_same_changes(have: Have, differs: bool) -> None:
    machine = MapSurveys(ReplicaSettings(map="m", node=2, origin=TWO, file=b""), table_with(1, 2))
    machine.opened(7, 0.0)
    assert (machine.compare(7, have, 0.0) is MapDifference.FIRST) is differs


# --- sums


def test_sums_of_neighbouring_changes_do_not_cancel_out() -> None:
    found = set()
    for begin in range(40):
        for end in range(begin, 40):
            found.add(counted(table_with(*range(begin, end), to=40).entries.values()).get(0, 0))
    assert len(found) == 40 * 39 // 2 + 1  # and one for an empty map


def entry(number: int, expires: int = 0, value: bytes | None = b"v") -> MapEntry:
    return MapEntry(value, MapStamp(1 << 8, 1), {ONE: number}, expires)


def test_entries_that_end_soon_and_removed_ones_are_not_compared() -> None:
    clock = 5 << ERA_SHIFT
    plain = compared(counted([entry(1)]), clock)
    for era, counts in ((4, False), (5, False), (6, False), (7, True), (9, True)):
        sums = counted([entry(1), entry(2, era << ERA_SHIFT)])
        assert (compared(sums, clock) != plain) is counts
    assert compared(counted([entry(1), entry(2, value=None)]), clock) == plain
    sums = counted([entry(1), entry(2)])
    count(sums, entry(2))
    assert compared(sums, clock) == plain


# --- in a file


def filled(folder: Path) -> Contents:
    with closing(SharedFile(folder, FileSettings(max_bytes=1 << 24))) as file:
        for number in range(50):
            file.write(b"k%d" % number, b"value", (10**18 if number % 3 else 0) * (number % 2))
        for number in range(0, 50, 5):
            file.write(b"k%d" % number, None)
        until(lambda: file.contents().vector == {file.origin: 60})
        contents = file.contents()
        assert contents.sums == counted(e for _, e in file.items(removed=True))
    return contents


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_a_file_notes_for_good_that_removals_were_forgotten_too_early(tmp_path: Path) -> None:
    filled(tmp_path / "m")
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 24))) as file:
        assert not file.contents().lacking
        file.note_lacking()
        until(lambda: file.contents().lacking)
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 24))) as file:
        assert file.contents().lacking


def test_a_file_without_values_has_no_sums(tmp_path: Path) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 24))) as file:
        file.write(b"key", b"value")
        until(lambda: len(file.contents().sums) == 1)
        file.write(b"key", None)
        until(lambda: file.contents().vector == {file.origin: 2})
        assert file.contents().sums == {}


def make_old(file: SharedFile) -> None:
    """Make the file as version 1 wrote it, without sums."""
    with file.store._writing() as txn:
        for era in numbers(txn, file.store._facts, SUM):
            txn.delete(SUM + b"%x" % era, db=file.store._facts)
        txn.put(b"version", b"1", db=file.store._facts)


def test_a_file_of_version_1_is_counted_when_it_is_opened_by_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    contents = filled(folder)
    with closing(SharedFile(folder, FileSettings(max_bytes=1 << 24))) as file:
        make_old(file)
    with closing(SharedFile(folder, FileSettings(max_bytes=1 << 24))) as file:
        assert file.contents() == contents and len(contents.sums) == 2
    with closing(SharedFile(folder, FileSettings(max_bytes=1 << 24))) as file:
        assert file.contents() == contents


def test_a_file_of_version_1_that_an_old_process_has_open_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    filled(folder)
    with closing(SharedFile(folder, FileSettings(max_bytes=1 << 24))) as file:
        make_old(file)
    # A process that has the map open holds the lock of its inbox. The lock of another handle plays the lock of
    # another process.
    with (folder / "inbox.3").open("a+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(MapFileError, match="is of version 1 and open in another process"):
            SharedFile(folder, FileSettings(max_bytes=1 << 24))
    SharedFile(folder, FileSettings(max_bytes=1 << 24)).close()
