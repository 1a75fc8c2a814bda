"""Unchecked data from a peer: identifiers, origins, times, entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jgroups_py.maps.entry import TIME_MAX, MapEntry, origin_of
from jgroups_py.maps.messages import (
    Got,
    Have,
    Hello,
    MapSurvey,
    Message,
    OriginChanges,
    Want,
    encode,
)
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.rules import RULES, PerField, PnCounter
from jgroups_py.maps.stamp import TICKS_PER_S, MapStamp
from jgroups_py.testing.explorer.maps.world import ExploredHost, MapWorld

S = TICKS_PER_S
HOUR = 3600.0


def linked(hosts: int = 2, **settings: Any) -> MapWorld:
    world = MapWorld(hosts, **settings)
    world.connect_all()
    world.run(0.2)
    return world


def say(world: MapWorld, message: Message, to: int = 2) -> None:
    """Host 1 sends changes that a correct host would not send."""
    host = world.hosts[to]
    link = next(link for link, pipe in host.links.items() if pipe.to == 1)
    host.replica.received(link, encode(message), world.now)
    world.drain(host)


def change(
    host: ExploredHost, seconds: float = 0.0, number: int = 1, **more: Any
) -> tuple[bytes, bytes]:
    """Return an entry of a host whose clock is ``seconds`` fast."""
    time = host.clock.wall_time() + int(seconds * S)
    given: dict[str, Any] = {"value": b"value", "dots": {host.origin: number}, **more}
    given.setdefault("stamp", MapStamp(time, host.node))
    return b"key", MapEntry(**given).encode()


def told(world: MapWorld, node: int, kind: str) -> list[str]:
    return [one.text for one in world.hosts[node].told if one.kind == kind]


# --- times


@pytest.mark.seed("K6")
def test_changes_of_a_clock_that_is_far_ahead_wait_and_both_hosts_say_so_and_hosts_end_equal() -> (
    None
):
    world = linked(3)
    one, two, three = world.hosts.values()
    one.write(b"early", b"one")
    world.run(1)
    one.offset = HOUR + 100
    one.write(b"key", b"from the future")
    two.write(b"of two", b"two")
    world.run(10)
    assert two.values() == three.values() == {b"early": b"one", b"of two": b"two"}
    assert one.values() == {**two.values(), b"key": b"from the future"}
    assert len(told(world, 2, "future")) == len(told(world, 3, "future")) == 1
    assert "a change of host 1 is 3,700 s ahead" in told(world, 2, "future")[0]
    assert len(told(world, 1, "ahead")) == 2
    assert one.replica.lag() == {2: 1, 3: 1}
    # No host follows that clock, so hosts do not refuse each other's changes afterwards.
    two.write(b"key", b"today")
    world.run(1)
    assert three.values()[b"key"] == b"today" and not told(world, 3, "ahead")
    one.offset = 0.0
    world.now += 200.0
    world.run(3)
    assert one.values() == two.values() == three.values()
    assert two.values()[b"key"] == b"from the future"


def test_changes_that_wait_are_not_sent_again_and_again() -> None:
    world = linked()
    one = world.hosts[1]
    one.offset = HOUR + 1000
    one.write(b"key", bytes(10_000))
    world.run(1)
    before = world.bytes
    world.run(60)
    assert world.bytes - before < 10_000
    assert world.hosts[2].replica.counters["asked"] == 0


def test_changes_before_one_that_waits_are_taken() -> None:
    world = linked()
    one, two = world.hosts.values()
    entries = [
        (b"a", change(one, 0, 1)[1]),
        (b"b", change(one, 0, 3)[1]),
        (b"c", change(one, HOUR + 5, 5)[1]),
        (b"d", change(one, 0, 6)[1]),
    ]
    say(world, OriginChanges(one.origin, 0, 7, entries))
    assert set(two.values()) == {b"a", b"b"}
    assert two.table.vector()[one.origin] == 4
    world.now += 10.0
    say(world, OriginChanges(one.origin, 4, 7, entries[2:]))
    assert set(two.values()) == {b"a", b"b", b"c", b"d"}
    assert two.table.vector()[one.origin] == 7


def test_a_change_that_waits_at_one_host_is_taken_of_another_that_says_it_truly() -> None:
    """A peer that forges a change of another host cannot keep a host from getting the true one."""
    world = MapWorld(3)
    world.connect(1, 2)
    world.run(0.2)
    two, three = world.hosts[2], world.hosts[3]
    say(world, OriginChanges(three.origin, 0, 9, [change(three, 10**9)]))
    say(world, Have([(three.origin, 9)], 0))
    world.run(3)
    assert two.values() == {} and two.replica.counters["asked"] == 0
    three.write(b"key", b"true")
    world.connect(2, 3)
    world.run(3)
    assert two.values() == {b"key": b"true"}


@pytest.mark.parametrize("hybrid", [True, False])
def test_a_stamp_at_the_end_of_time_neither_wins_nor_stops_the_map(hybrid: bool) -> None:
    world = linked(hybrid=hybrid)
    one, two = world.hosts.values()
    before = two.clock.next()
    forged = change(one, stamp=MapStamp(TIME_MAX, 1))
    say(world, OriginChanges(one.origin, 0, 1, [forged]))
    say(world, Have([], TIME_MAX))
    two.replica.overheard(encode(OriginChanges(one.origin, 0, 1, [forged])), world.now)
    assert two.values() == {} and two.clock.next() - before < S
    two.write(b"key", b"mine")
    world.run(1)
    assert one.values() == two.values() == {b"key": b"mine"}


@pytest.mark.parametrize(
    ("rule", "forged"),
    [
        (PnCounter(), {"value": b'{"1":[1,0]}', "life": TIME_MAX}),
        (PerField(), {"value": b'{"bid":[%d,1,9]}' % TIME_MAX}),
        (PerField(), {"value": b'{"bid":[1,1,9]}', "life": TIME_MAX}),
    ],
)
def test_times_inside_an_entry_are_bounded_too(rule: Any, forged: dict[str, Any]) -> None:
    world = linked(rule=rule)
    one, two = world.hosts.values()
    say(world, OriginChanges(one.origin, 0, 1, [change(one, **forged)]))
    assert two.values() == {} and two.replica.counters["future_waits"] == 1
    fine = {**forged, "value": forged["value"].replace(b"%d" % TIME_MAX, b"1"), "life": 0}
    say(world, OriginChanges(one.origin, 0, 1, [change(one, **fine)]))
    assert two.values() == {b"key": fine["value"]}


def test_values_that_are_no_fields_are_left_to_the_rule() -> None:
    world = linked(rule=RULES["per-field"]())
    one, two = world.hosts.values()
    for number, value in enumerate((b"no JSON", b'{"bid":[]}', b'{"bid":["late",1]}'), 1):
        say(
            world,
            OriginChanges(one.origin, number - 1, number, [change(one, 0, number, value=value)]),
        )
        assert two.table.vector()[one.origin] == number


# --- identifiers and origins


@pytest.mark.seed("K5")
def test_a_host_with_an_identifier_above_those_that_are_configured_is_refused_at_both_hosts() -> (
    None
):
    world = MapWorld(2)
    wide = world.hosts[2]
    wide.node, wide.origin = 128, origin_of(128, 1)
    world.hosts[128] = world.hosts.pop(2)
    world.settings = {"identifier_max": 65_535}
    wide.start()
    wide.write(b"key", b"value")
    world.connect(1, 128)
    world.run(1)
    assert world.hosts[1].values() == {}
    for node in (1, 128):
        assert "identifier 128 is not from 1 to 127" in told(world, node, "refused")[0]


def test_changes_of_such_a_host_that_another_one_passes_on_are_not_taken() -> None:
    world = linked()
    one, two = world.hosts.values()
    for far in (origin_of(128, 1), origin_of(0, 1)):
        say(world, Have([(far, 5), (one.origin, 0)], 0))
        stamp = MapStamp(one.clock.wall_time(), far >> 48)
        entry = MapEntry(b"value", stamp, {far: 5}).encode()
        say(world, OriginChanges(far, 0, 5, [(b"key", entry)]))
        two.replica.overheard(encode(OriginChanges(far, 0, 5, [(b"key", entry)])), world.now)
    world.run(3)
    assert two.values() == {} and far not in two.table.vector()
    assert two.replica.counters["asked"] == 0 and two.replica.counters["identifiers_refused"] >= 4
    assert len(told(world, 2, "refused")) == 1
    mixed = change(one, dots={one.origin: 1, origin_of(200, 1): 1})
    say(world, OriginChanges(one.origin, 0, 1, [mixed]))
    assert two.values() == {}


def test_with_wide_identifiers_they_are_taken() -> None:
    world = linked(identifier_max=65_535)
    far = origin_of(500, 1)
    entry = MapEntry(b"value", MapStamp(1, 500), {far: 1}).encode()
    say(world, OriginChanges(far, 0, 1, [(b"key", entry)]))
    assert world.hosts[2].values() == {b"key": b"value"}


def test_origins_are_bounded_wherever_they_are_named() -> None:
    world = linked(origins_max=10)
    one, two = world.hosts.values()
    replica = two.replica
    for life in range(2, 60):
        origin = origin_of(1, life)
        say(world, Have([(origin_of(1, life * 100 + n), 1) for n in range(50)], 0))
        say(world, Got([(origin_of(2, life * 100 + n), 1) for n in range(50)]))
        say(world, Want(origin_of(3, life), 0))
        entry = MapEntry(b"value", MapStamp(life, 1), {origin: 1, origin_of(1, life + 100): 1})
        say(world, OriginChanges(origin, 0, 1, [(b"key%d" % life, entry.encode())]))
        say(world, OriginChanges(origin_of(5, life), 3, 4, []))
        world.run(0.01)
    (peer,) = replica._links.values()
    assert len(two.table.vector()) <= 10
    assert len(replica._repairs) <= 10
    for kept in (peer.has, peer.sent, peer.owes, peer.wants, replica._admission.known):
        assert len(kept) <= 20
    assert not peer.wants
    assert replica.counters["origins_refused"] > 50
    assert len(told(world, 2, "refused")) == 1
    assert "10 are known (origins_max)" in told(world, 2, "refused")[0]
    # Known hosts are accepted as before.
    one.write(b"mine", b"value")
    world.run(2)
    assert two.values()[b"mine"] == b"value"


def test_a_host_with_one_file_too_many_is_refused_with_advice() -> None:
    world = linked(origins_max=2)
    world.crash(1)
    world.hosts[1].origin = origin_of(1, 7)
    world.hosts[1].start()
    world.hosts[2].table.apply([], {origin_of(1, 1): 1})
    world.hosts[2].start()
    world.connect_all()
    world.run(1)
    for node in (1, 2):
        (text,) = told(world, node, "refused")
        assert "changes of 2 files of hosts are known here already (origins_max)" in text
        assert "keep the folders of maps" in text


def test_confirmations_are_kept_of_configured_hosts_only() -> None:
    world = linked(peers=frozenset({1, 2}))
    stranger = ExploredHost(world, 9)
    world.hosts[9] = stranger
    world.connect(2, 9)
    world.run(2)
    assert set(world.hosts[2].replica._confirmations._confirmed) == {1}


# --- entries


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (lambda host: change(host, dots={}), "change 0 of its origin, where 1 to 9"),
        (lambda host: change(host, 0, 10), "change 10 of its origin"),
        (lambda host: change(host, stamp=MapStamp(5, 0)), "a stamp of host 0, 1 to 127"),
        (lambda host: change(host, stamp=MapStamp(5, 128)), "a stamp of host 128"),
    ],
)
def test_an_entry_that_no_honest_host_sends_ends_the_link(
    entry: Callable[[ExploredHost], tuple[bytes, bytes]], problem: str
) -> None:
    world = linked()
    one, two = world.hosts.values()
    say(world, OriginChanges(one.origin, 0, 9, [entry(one)]))
    assert problem in told(world, 2, "garbage")[0]
    assert two.values() == {} and one.origin not in two.table.vector()


def test_entries_come_in_the_order_of_their_numbers() -> None:
    world = linked()
    one = world.hosts[1]
    entries = [(b"a", change(one, 0, 5)[1]), (b"b", change(one, 0, 4)[1])]
    say(world, OriginChanges(one.origin, 0, 9, entries))
    assert "change 4 of its origin, where 6 to 9" in told(world, 2, "garbage")[0]


@pytest.mark.parametrize(
    "message",
    [
        Have([(origin, 1) for origin in range(65_537)], 0),
        MapSurvey(1, 0, 9, list(range(1001))),
        Hello(2, "m" * 256, 1, 1, b"", "", "", "", ""),
        Hello(2, "m", 1, 1, bytes(65), "", "", "", ""),
        Hello(2, "m", 1, 1, b"", "", "", "", "n" * 256),
        Hello(2, "m", 1, 1, b"", "r" * 256, "", "", ""),
    ],
)
def test_kept_texts_of_a_peer_are_short(message: Message) -> None:
    world = linked()
    say(world, message)
    assert "cannot be read" in told(world, 2, "garbage")[0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_ahead": 0.0}, "max_ahead must be more than 0 and at most 31622400 seconds, got 0.0"),
        ({"max_ahead": 4e7}, "max_ahead must be more than 0"),
        (
            {"rule": "union", "tombstone_age": 60.0},
            r"rule union tombstone_age must be more than max_ahead \(3600 s\), got 60",
        ),
        ({"origins_max": 1}, "origins_max must be from 2 to 65536, got 1"),
        ({"origins_max": 65_537}, "origins_max must be from 2"),
    ],
)
def test_bounds_that_cannot_be_are_reported(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ReplicaSettings(map="m", node=1, origin=1, file=b"", **settings)
