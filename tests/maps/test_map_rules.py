"""Conflict rules, entries and clocks of maps."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jgroups_py.maps.entry import DamagedEntry, MapEntry, decode_entry, node_of, origin_of, value_at
from jgroups_py.maps.rules import (
    LAST_WRITER,
    RULES,
    ConflictRule,
    Maximum,
    PerField,
    PnCounter,
    Union,
    join,
    merged,
)
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable
from jgroups_py.testing import check_rule

NUMBERS = st.integers(0, 3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "union": st.sets(st.sampled_from(["a", "b", "1"]) | st.just(1.0) | st.just(0.0)).map(
        lambda items: Union().of_values([], items)
    )
    | st.just([1])
    | st.just([-0.0]),
    "maximum": st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, "", "a"]),
    "pn-counter": st.dictionaries(st.sampled_from(["1", "2"]), st.tuples(NUMBERS, NUMBERS)).map(
        lambda d: dict(sorted(d.items()))
    ),
    "per-field": st.dictionaries(
        st.sampled_from(["f", "g"]),
        st.tuples(NUMBERS, NUMBERS, st.text(max_size=2)) | st.tuples(NUMBERS, NUMBERS),
    ).map(lambda d: dict(sorted(d.items()))),
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_shipped_rules_are_commutative_associative_and_idempotent(name: str) -> None:
    check_rule(RULES[name](), VALUES[name], examples=60)


@pytest.mark.parametrize("name", sorted(VALUES))
@settings(max_examples=40)
@given(data=st.data())
def test_bytes_that_are_no_value_give_way_in_any_order(name: str, data: st.DataObject) -> None:
    rule = RULES[name]()
    values = VALUES[name].map(msgspec.json.encode) | st.sampled_from(
        [b"", b"\xff", b'{"f":5}', b"nul"]
    )
    a, b, c = (data.draw(values) for _ in range(3))
    assert merged(rule, a, b) == merged(rule, b, a)
    assert merged(rule, merged(rule, a, b)[0], c)[0] == merged(rule, a, merged(rule, b, c)[0])[0]
    good = msgspec.json.encode(data.draw(VALUES[name]))
    assert merged(rule, good, b"\xff") == (good, True)


def test_a_change_of_a_merging_rule_contains_the_value_of_its_host() -> None:
    table = MemoryTable(Union())
    for number, value in enumerate((b'["a"]', b'["b"]')):
        table.change(7, b"key", MapEntry(value, MapStamp(number, 1)))
    entry = table.entry(b"key")
    assert entry is not None and (entry.value, entry.dots) == (b'["a","b"]', {7: 2})


def test_a_value_that_a_rule_cannot_merge_is_told_and_stops_nobody() -> None:
    good, bad = (
        MapEntry(b'["a"]', MapStamp(5, 1), {1: 1}),
        MapEntry(b"\xff", MapStamp(6, 2), {2: 1}),
    )
    for one, other in ((good, bad), (bad, good)):
        joined, told = join(Union(), one, other)
        assert (joined.value, joined.dots, told) == (b'["a"]', {1: 1, 2: 1}, True)


entries = st.builds(
    MapEntry,
    st.none() | st.binary(max_size=4),
    st.builds(MapStamp, st.integers(0, 2**60), st.integers(1, 127)),
    st.dictionaries(st.integers(1, 2**63), st.integers(1, 2**63), max_size=3),
    st.integers(0, 2**60),
    st.integers(0, 2**60),
)


@given(entries)
def test_an_entry_comes_back_from_its_bytes(entry: MapEntry) -> None:
    data = entry.encode()
    assert decode_entry(data) == entry
    assert value_at(data, lambda: 0) == entry.value
    assert not entry.expires or value_at(data, lambda: entry.expires) is None


@given(entries, st.integers(0, 100), st.binary(max_size=4))
def test_a_damaged_entry_is_another_entry_or_one_kind_of_error(
    entry: MapEntry, at: int, damage: bytes
) -> None:
    whole = entry.encode()
    with suppress(DamagedEntry):
        found = decode_entry((whole[:at] + damage + whole[at + len(damage) :])[:80])
        assert decode_entry(found.encode()) == found


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.none() | st.binary(max_size=1)),
        min_size=1,
        max_size=5,
    ),
    st.randoms(),
)
def test_last_writer_gives_one_entry_in_any_order(changes: list[Any], chance: Any) -> None:
    made = [
        MapEntry(value, MapStamp(time, node), {node: number + 1})
        for number, (time, node, value) in enumerate(changes)
    ]

    def last(order: list[MapEntry]) -> MapEntry:
        mine = None
        for entry in order:
            mine, _ = join(LAST_WRITER, mine, entry)
        assert mine is not None
        return mine

    shuffled = list(made)
    chance.shuffle(shuffled)
    one, other = last(made), last(shuffled)
    assert (one.stamp, one.value) == (other.stamp, other.value)


def test_two_values_of_one_stamp_are_told_and_the_smaller_bytes_win() -> None:
    stamp = MapStamp(5, 1)
    small, large = MapEntry(b"a", stamp, {1: 1}), MapEntry(b"b", stamp, {2: 1})
    assert join(LAST_WRITER, small, large) == (small, True)
    assert join(LAST_WRITER, large, small) == (small, True)
    assert join(LAST_WRITER, small, small) == (small, False)


def test_a_removal_wins_over_unseen_changes_with_merging_rules() -> None:
    rule: ConflictRule = Union()
    value = MapEntry(b'["a"]', MapStamp(9, 2), {2: 1})
    removal = MapEntry(None, MapStamp(5, 1), {1: 2}, 0, 5)
    assert join(rule, value, removal)[0] == join(rule, removal, value)[0] == removal
    after = MapEntry(b'["b"]', MapStamp(10, 2), {2: 2}, 0, 5)
    assert join(rule, removal, after)[0].value == b'["b"]'


def test_a_counter_is_the_sum_of_the_additions_of_all_hosts() -> None:
    rule = PnCounter()
    one = rule.add(rule.add(None, 1, 5), 1, -2)
    two = rule.add(None, 2, 10)
    assert rule.total(rule.merge(one, two)) == 13
    assert rule.total(None) == 0


def test_a_field_written_later_wins_and_other_fields_stay() -> None:
    rule = PerField()
    one = msgspec.json.encode({"bid": [1, 1, 5.0], "ask": [3, 1, 6.0]})
    two = msgspec.json.encode({"bid": [2, 2, 5.5]})
    merged = msgspec.json.decode(rule.merge(one, two))
    assert merged == {"bid": [2, 2, 5.5], "ask": [3, 1, 6.0]}
    assert Maximum().merge(b"3", b"20") == b"20"


def test_times_of_a_clock_grow_though_the_wall_clock_goes_back() -> None:
    wall = [10**18]
    clock = HybridClock(lambda: wall[0], slot=3)
    first = clock.next()
    wall[0] -= 10**9
    second = clock.next()
    assert first < second and first & 255 == second & 255 == 3
    ahead = clock.observe(second + 256_000_000 * 60)
    assert 59 < ahead < 62
    assert clock.next() > second + 256_000_000 * 60


def test_the_slots_of_a_host_never_give_one_time() -> None:
    one, two = (HybridClock(lambda: 10**18, slot=slot) for slot in (1, 2))
    assert len({clock.next() for _ in range(100) for clock in (one, two)}) == 200
    with pytest.raises(ValueError, match="slot must be from 0 to 255, got 256"):
        HybridClock(lambda: 0, slot=256)


def test_an_origin_is_a_host_in_one_life_of_its_file() -> None:
    assert node_of(origin_of(127, 1_700_000_000_000)) == 127
    assert origin_of(1, 5) != origin_of(1, 6)


def test_an_entry_that_one_host_has_buried_and_another_has_not_is_no_divergence() -> None:
    entry = MapEntry(b"value", MapStamp(5, 1), {7: 1}, 1000)
    buried = replace(entry, value=None)
    assert join(LAST_WRITER, entry, buried) == (buried, False)
    assert join(LAST_WRITER, buried, entry) == (buried, False)
    assert join(LAST_WRITER, entry, replace(buried, expires=0))[1]
