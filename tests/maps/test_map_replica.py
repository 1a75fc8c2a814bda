"""Replicas of maps in virtual time."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.messages import (
    VERSION,
    Have,
    Hello,
    OriginChanges,
    Refused,
    Want,
    decode,
    encode,
)
from jgroups_py.maps.orders import CloseLink, SendToPeer, Told
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.rules import ConflictRule
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.table import MemoryTable
from jgroups_py.maps.telling import LEVELS
from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.explorer.maps.schedule import RULES, draw, judge, play
from jgroups_py.testing.explorer.maps.world import MapWorld


@pytest.mark.seed("K1", "K6")
def test_a_change_of_any_host_is_soon_at_all() -> None:
    world = MapWorld(3)
    world.connect_all()
    for node, host in world.hosts.items():
        host.write(b"key%d" % node, b"value")
    world.run(1)
    expected = {b"key1": b"value", b"key2": b"value", b"key3": b"value"}
    assert [host.values() for host in world.hosts.values()] == [expected] * 3


@pytest.mark.seed("K3")
def test_a_thousand_updates_of_one_key_between_two_flushes_are_one_entry() -> None:
    world = MapWorld(2)
    world.connect_all()
    world.run(1)
    one, two = world.hosts.values()
    for number in range(1000):
        one.write(b"key", b"%d" % number)
    world.run(1)
    assert one.replica.counters["entries_sent"] == 1
    assert two.values() == {b"key": b"999"}


def test_a_host_that_connects_again_gets_missing_changes_only() -> None:
    world = MapWorld(2)
    world.connect_all()
    one, two = world.hosts.values()
    for number in range(20):
        one.write(b"one %d" % number, b"value")
        two.write(b"two %d" % number, b"value")
    world.run(1)
    world.cut(1, 2)
    one.write(b"meanwhile", b"value")
    sent = [host.replica.counters["entries_sent"] for host in (one, two)]
    world.connect_all()
    world.run(1)
    now = [host.replica.counters["entries_sent"] for host in (one, two)]
    assert now == [sent[0] + 1, sent[1]]
    assert one.values() == two.values()


@pytest.mark.seed("K6", "K10", "K11")
@pytest.mark.parametrize("seeds", [range(low, low + 15) for low in range(0, 60, 15)])
def test_random_histories_end_with_equal_maps(seeds: range) -> None:
    for seed in seeds:
        assert not play(draw(seed, "links")).problems


def kinds(world: MapWorld, node: int) -> list[str]:
    return [told.kind for told in world.hosts[node].told]


@pytest.mark.seed("K11")
def test_at_equal_times_the_smaller_identifier_wins_everywhere() -> None:
    world = MapWorld(3, hybrid=False)
    for node, host in world.hosts.items():
        host.write(b"key", b"of %d" % node)  # no time passes
    world.connect_all()
    world.run(1)
    assert [host.values() for host in world.hosts.values()] == [{b"key": b"of 1"}] * 3


@pytest.mark.seed("K10")
def test_an_older_change_that_comes_later_is_ignored() -> None:
    world = MapWorld(2)
    one, two = world.hosts.values()
    one.write(b"key", b"old")
    world.run(0.5)
    two.write(b"key", b"new")
    world.connect_all()
    world.run(1)
    assert one.values() == two.values() == {b"key": b"new"}


def test_with_hybrid_clocks_a_change_of_a_value_that_was_seen_wins_whatever_the_clock() -> None:
    world = MapWorld(2)
    world.connect_all()
    world.hosts[1].offset = 100.0
    world.hosts[1].write(b"key", b"from the future")
    world.run(1)
    world.hosts[2].write(b"key", b"seen and changed")
    world.run(1)
    assert world.hosts[1].values() == {b"key": b"seen and changed"}
    assert kinds(world, 2).count("skew") == 1


def test_with_wall_clocks_a_clock_that_is_behind_loses() -> None:
    world = MapWorld(2, hybrid=False)
    world.connect_all()
    world.hosts[1].offset = 100.0
    world.hosts[1].write(b"key", b"from the future")
    world.run(1)
    world.hosts[2].write(b"key", b"seen and changed")
    world.run(1)
    assert world.hosts[1].values() == world.hosts[2].values() == {b"key": b"from the future"}


@pytest.mark.seed("K18")
def test_an_identifier_that_is_given_twice_is_told_at_both_hosts() -> None:
    world = MapWorld(2)
    second = world.hosts[2]
    second.node, second.origin, second.file = 1, world.hosts[1].origin + 5, b"another"
    second.start()
    world.hosts[1].write(b"key", b"value")
    world.connect_all()
    world.run(1)
    assert "same identifier" in kinds(world, 1) and "same identifier" in kinds(world, 2)
    assert second.values() == {}
    assert not world.connected(1, 2)


def test_a_tombstone_is_forgotten_when_all_hosts_have_it_and_not_before() -> None:
    world = MapWorld(3, peers=frozenset({1, 2, 3}))
    world.connect_all()
    world.hosts[1].write(b"key", b"value")
    world.run(2)
    world.cut(1, 3)
    world.cut(2, 3)
    world.hosts[1].write(b"key", None)
    world.run(30)
    assert world.hosts[1].table.entries[b"key"].removed
    world.connect_all()
    world.run(5)
    assert [dict(host.table.entries) for host in world.hosts.values()] == [{}, {}, {}]


def test_a_tombstone_that_all_have_is_kept_for_readers_of_changes_as_long_as_they_were_promised() -> (
    None
):
    world = MapWorld(2, peers=frozenset({1, 2}), tombstone_min_age=20.0)
    world.connect_all()
    world.hosts[1].write(b"key", b"value")
    world.run(2)
    world.hosts[1].write(b"key", None)
    world.run(15)
    assert all(host.table.entries[b"key"].removed for host in world.hosts.values())
    world.run(10)
    assert [dict(host.table.entries) for host in world.hosts.values()] == [{}, {}]


def test_a_host_that_was_away_longer_than_tombstones_last_begins_anew() -> None:
    world = MapWorld(2, tombstone_age=5.0)
    world.connect_all()
    one, two = world.hosts.values()
    one.write(b"removed", b"value")
    two.write(b"kept", b"value")
    world.run(2)
    world.cut(1, 2)
    one.write(b"removed", None)
    two.write(b"unseen", b"value")
    world.run(20)
    assert b"removed" not in one.table.entries
    world.connect_all()
    world.run(5)
    assert one.values() == two.values() == {b"kept": b"value", b"unseen": b"value"}
    assert "stale" in kinds(world, 2)


def parted(world: MapWorld, seconds: float = 20.0) -> None:
    """At first all hosts are equal; then none is connected for longer than tombstones last."""
    world.connect_all()
    for node, host in world.hosts.items():
        host.write(b"all %d" % node, VALUES[world.rule.name])
        host.write(b"gone %d" % node, VALUES[world.rule.name])
    world.run(2)
    for node, host in world.hosts.items():
        for other in world.hosts:
            world.cut(node, other)
        host.write(b"gone %d" % node, None)
        host.write(b"new %d" % node, VALUES[world.rule.name])
    world.run(seconds)


VALUES = {
    "last-writer": b"value",
    "union": b'["a"]',
    "maximum": b"5",
    "pn-counter": b'{"1":[1,0]}',
}


@pytest.mark.seed("K6")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("shared", "hosts"), [(False, 2), (True, 3), (False, 4)])
def test_hosts_that_were_apart_and_have_all_forgotten_removals_lose_nothing_and_bring_nothing_back(
    hosts: int, shared: bool, rule: ConflictRule
) -> None:
    """Each has removals that the others lack, so each must drop values because of the others, all at the same time."""
    world = MapWorld(hosts, tombstone_age=5.0, max_ahead=1.0, shared=shared, rule=rule)
    parted(world)
    assert all(not any(e.removed for e in h.table.entries.values()) for h in world.hosts.values())
    world.connect_all()
    world.run(5)
    expected = {b"%s %d" % (what, node) for node in world.hosts for what in (b"all", b"new")}
    for host in world.hosts.values():
        assert set(host.values()) == expected
        assert "stale" in kinds(world, host.node)


def test_a_host_gives_up_a_value_from_a_host_that_lacked_its_removal() -> None:
    world = MapWorld(3, tombstone_age=5.0)
    one, two, three = world.hosts.values()
    world.connect(1, 2)
    one.write(b"key", b"value")
    world.run(1)
    world.cut(1, 2)
    one.write(b"key", None)
    world.run(20)
    world.connect(2, 3)
    world.run(3)
    assert three.values() == two.values() == {b"key": b"value"}
    world.connect(1, 2)
    world.run(3)
    assert three.values() == two.values() == {}


def test_a_host_that_is_connected_and_lags_while_removals_are_forgotten_gives_the_values_up() -> (
    None
):
    world = MapWorld(2, tombstone_age=5.0, max_ahead=20.0)
    world.connect_all()
    one, two = world.hosts.values()
    one.write(b"key", b"value")
    world.run(1)
    one.offset = 60.0  # from now on its changes wait at the other host
    one.write(b"key", None)
    one.write(b"more", b"value")
    world.run(10)
    assert two.values() == {b"key": b"value"} and b"key" not in one.table.entries
    one.offset = 0.0
    world.now += 60.0
    world.run(5)
    assert two.values() == one.values() == {b"more": b"value"}


def test_a_survey_of_many_changes_is_cut_and_drops_the_right_ones() -> None:
    world = MapWorld(2, tombstone_age=5.0)
    world.connect_all()
    one, two = world.hosts.values()
    for number in range(2500):
        one.write(b"k%d" % number, b"value")
    world.run(1)
    world.cut(1, 2)
    for number in range(0, 2500, 3):
        one.write(b"k%d" % number, None)
    world.run(6)
    while one.table.forgotten.get(one.origin, 0) < 2500 + 834:
        world.run(0.5)
    world.connect_all()
    world.run(2)
    assert two.values() == one.values() and len(one.values()) == 1666
    assert two.replica.counters["dropped"] == 834


def test_a_survey_waits_until_the_peer_has_the_changes_that_replaced_its_values() -> None:
    """A reader never sees a rewritten key as absent."""
    world = MapWorld(2, tombstone_age=5.0, max_bandwidth=2000.0)
    world.connect_all()
    one, two = world.hosts.values()
    for key in (b"kept", b"gone"):
        one.write(key, b"old")
    world.run(2)
    world.cut(1, 2)
    one.write(b"gone", None)
    for number in range(20):
        one.write(b"big%d" % number, bytes(300))
    one.write(b"kept", b"new")
    world.run(20)
    world.connect_all()
    while b"gone" in two.values():
        world.run(0.01)
        assert b"kept" in two.values()
    assert two.values() == one.values()


def test_a_host_that_is_gone_is_stood_in_for_by_one_that_has_its_changes() -> None:
    world = MapWorld(3)
    world.connect(1, 2)
    world.hosts[1].write(b"key", b"value")
    world.run(1)
    world.crash(1)
    world.connect(2, 3)
    world.run(3)
    assert world.hosts[3].values() == {b"key": b"value"}


@pytest.mark.seed("K4")
def test_a_slow_link_delays_and_only_the_latest_values_wait() -> None:
    world = MapWorld(2, max_bandwidth=1000.0)
    world.connect_all()
    world.run(1)
    one = world.hosts[1]
    before = world.bytes
    for round_ in range(50):
        for key in range(10):
            one.write(b"k%d" % key, b"%0100d" % round_)
        world.run(0.1)
    assert world.bytes - before < 5.0 * 1000 + 10_000  # with the overhead of messages
    world.run(5)
    assert world.hosts[2].values() == one.values()
    assert one.replica.counters["entries_sent"] < 200


@pytest.mark.parametrize("window", [1, 500])
def test_a_window_that_is_full_opens_when_the_peer_has_acknowledged(window: int) -> None:
    world = MapWorld(2, window=window)
    world.connect_all()
    world.run(0.5)
    for key in range(10):
        world.hosts[1].write(b"k%d" % key, b"x" * 300)
    world.run(2.5)
    assert world.hosts[2].values() == world.hosts[1].values()


def test_changes_behind_a_gap_are_asked_for() -> None:
    world = MapWorld(2)
    world.connect_all()
    world.run(0.5)
    one, two = world.hosts.values()
    one.write(b"lost", b"value")
    (link,) = one.replica._links
    one.replica._links[link].sent[one.origin] = 1  # as if it had been sent and lost
    one.write(b"key", b"value")
    world.run(0.2)
    assert two.values() == {} and two.replica.counters["gaps"] == 1
    world.run(3)
    assert two.values() == {b"lost": b"value", b"key": b"value"}


@pytest.mark.seed("K5", "K12")
@pytest.mark.slow
def test_127_hosts_have_one_map() -> None:
    world = MapWorld(127, have_interval=1.0, repair_wait=0.2)
    for node in range(2, 128):
        world.connect(1, node)
    for other in range(3, 128):
        world.connect(2, other)
    for host in world.hosts.values():
        host.write(b"k%d" % host.node, b"v")
    world.run(2)
    assert all(len(host.values()) == 127 for host in world.hosts.values())


@settings(max_examples=30)
@given(data=st.lists(st.binary(max_size=60), min_size=1, max_size=5))
def test_any_bytes_are_survived(data: list[bytes]) -> None:
    world = MapWorld(2)
    world.connect_all()
    world.run(0.1)
    host = world.hosts[2]
    (link,) = host.links
    for some in data:
        host.replica.received(link, some, world.now)
    assert host.replica.counters["garbage"] == 1
    host.write(b"key", b"value")
    world.drain(host)
    world.cut(1, 2)
    world.heal()
    assert world.hosts[1].values() == {b"key": b"value"}


FAR = MapEntry(b"value", MapStamp(2**63, 1), {}).encode()
NOW = MapEntry(b"value", MapStamp(2**58, 1), {}).encode()


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (lambda origin: OriginChanges(origin, 0, 1, [(b"key", FAR)]), "an entry of the time"),
        (lambda origin: OriginChanges(origin, 0, 1, [(b"", NOW)]), "a key of 0 bytes"),
        (lambda origin: OriginChanges(origin, 0, 1, [(bytes(512), NOW)]), "a key of 512 bytes"),
        (lambda origin: Want(origin, -1), "cannot be read"),
        (lambda origin: Have([(origin, 1)], 2**63), "the time"),
    ],
)
def test_a_message_that_would_harm_a_table_or_a_clock_is_refused(
    message: Any, problem: str
) -> None:
    world = MapWorld(2)
    world.connect_all()
    world.run(0.1)
    one, two = world.hosts.values()
    (link,) = two.links
    before = two.clock.next()
    two.replica.received(link, encode(message(one.origin)), world.now)
    world.drain(two)
    assert problem in two.told[-2].text
    assert two.values() == {} and two.clock.next() - before < 256_000_000


class Planted(MemoryTable):
    """A table that loses its latest changes."""

    def apply(self, entries: Any, advance: Any) -> Any:
        return super().apply(list(entries)[:-1], advance)


def test_the_judge_finds_a_table_that_loses_changes() -> None:
    world = MapWorld(2)
    world.hosts[2].table = Planted()
    world.hosts[2].start()
    world.connect_all()
    world.hosts[1].write(b"key", b"value")
    world.run(1)
    with pytest.raises(Violated, match="other values"):
        judge(list(world.hosts.values()))


@pytest.mark.seed("K5")
def test_a_host_refuses_links_above_its_limit_and_says_so() -> None:
    assert ReplicaSettings(map="m", node=1, origin=1, file=b"").peers_max == 126
    world = MapWorld(5, peers_max=3)
    world.connect_all()
    world.run(1)
    assert [len(host.links) for host in world.hosts.values()] == [3, 3, 3, 3, 0]
    assert kinds(world, 5) == ["refused"] * 4
    assert "3 hosts are connected already" in world.hosts[5].told[0].text


@pytest.mark.seed("K18")
def test_a_host_that_is_told_that_its_identifier_is_given_twice_tells_so_itself() -> None:
    world = MapWorld(1)
    replica = world.hosts[1].replica
    replica.link_opened(1)
    replica.received(1, encode(Refused("identifier 1 is given twice: host 1 has it")), 0.0)
    replica.link_opened(2)
    replica.received(2, encode(Refused("version 9")), 0.0)
    told = [out.kind for out in replica.take() if isinstance(out, Told)]
    assert told == ["same identifier", "refused"]
    assert replica.counters["same_identifier"] == replica.counters["refused"] == 1


@pytest.mark.seed("K18")
def test_two_hosts_with_copies_of_one_folder_are_told_when_they_take_turns() -> None:
    world = MapWorld(1)
    replica, mine = world.hosts[1].replica, world.hosts[1].replica.settings
    hello = Hello(VERSION, mine.map, 2, origin_of(2, 7), b"one file", mine.rule, "", "", "copy")

    def connects(link: int, now: float) -> list[str]:
        replica.link_opened(link)
        replica.received(link, encode(hello), now)
        return [out.kind for out in replica.take() if isinstance(out, Told)]

    for link in range(5):  # a host that is restarted from time to time
        assert "same identifier" not in connects(link, 20.0 * link)
    said = [connects(link, 100.0 + link) for link in range(5, 12)]
    assert ["same identifier" in kinds for kinds in said] == [False] * 2 + [True] * 5
    assert replica.counters["same_identifier"] == 5


@pytest.mark.seed("K18")
def test_the_connected_one_of_two_hosts_with_copies_of_one_folder_stays() -> None:
    world = MapWorld(1)
    replica, mine = world.hosts[1].replica, world.hosts[1].replica.settings
    hello = Hello(VERSION, mine.map, 2, origin_of(2, 7), b"one file", mine.rule, "", "", "copy")
    for link in range(10):
        replica.link_opened(link)
        replica.received(link, encode(hello), float(link))
    out = replica.take()
    assert [one.link for one in out if isinstance(one, CloseLink)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert list(replica._links) == [4]
    reasons = [decode(one.data) for one in out if isinstance(one, SendToPeer) and one.link == 9]
    assert isinstance(reasons[-1], Refused) and "given twice" in reasons[-1].reason
    replica.link_closed(4)  # the link has ended: the other host may connect
    replica.link_opened(10)
    replica.received(10, encode(hello), 11.0)
    assert list(replica._links) == [10] and 2 in replica.peers


@pytest.mark.parametrize(("key", "value"), [("str", "int"), ("int", "json")])
def test_hosts_with_other_codecs_are_not_linked_and_both_say_so_loudly(
    key: str, value: str
) -> None:
    world = MapWorld(2, key="str", value="json")
    one, two = world.hosts.values()
    world.settings |= {"key": key, "value": value}
    two.start()
    one.write(b"key", b"value")
    world.connect_all()
    world.run(1)
    assert two.values() == {} and not world.connected(1, 2)
    for host in (one, two):
        assert kinds(world, host.node) == ["other codecs"]
        assert f"{key} and {value}" in host.told[0].text and "str and json" in host.told[0].text
        assert host.replica.counters["other_codecs"] == 1
    assert LEVELS["other codecs"] == logging.ERROR
