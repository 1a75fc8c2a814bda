"""Replicas whose links share a medium: one message serves all links."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.maps.messages import Have, OriginChanges, encode
from jgroups_py.maps.table import MemoryTable
from jgroups_py.testing.explorer.maps.schedule import draw, play
from jgroups_py.testing.explorer.maps.world import MapWorld


@pytest.mark.seed("K6")
@pytest.mark.parametrize("seeds", [range(low, low + 15) for low in (0, 15)])
def test_random_histories_over_a_shared_medium_that_loses_end_with_equal_maps(seeds: range) -> None:
    for seed in seeds:
        assert not play(draw(seed, "shared")).problems


@pytest.mark.seed("K2")
def test_a_change_leaves_once_for_all_hosts_that_share_a_medium() -> None:
    world = MapWorld(10, shared=True)
    world.connect_all()
    world.run(1)
    before, one = world.messages, world.hosts[1]
    one.write(b"key", b"value" * 100)
    world.run(1)
    assert all(host.values() == one.values() for host in world.hosts.values())
    assert one.replica.counters["shared_sent"] == one.replica.counters["entries_sent"] == 1
    assert world.messages - before == 9  # each other host acknowledges it once


def test_hosts_on_a_quiet_medium_seldom_report_their_stamps() -> None:
    world = MapWorld(5, shared=True)
    world.connect_all()
    world.hosts[1].write(b"key", b"value")
    world.run(5)
    before = world.multicasts, world.messages
    world.run(50)
    assert world.multicasts - before[0] <= 5 * 11 and world.messages == before[1]


def test_a_peer_that_lags_gets_its_changes_alone_until_it_has_caught_up() -> None:
    world = MapWorld(4, shared=True)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        world.connect(a, b)
    one = world.hosts[1]
    for number in range(50):
        one.write(b"k%d" % number, b"value")
        world.run(0.02)
    world.connect(1, 4)
    for number in range(50):
        one.write(b"l%d" % number, b"value")
        world.run(0.02)
    shared, sent = one.replica.counters["shared_sent"], one.replica.counters["entries_sent"]
    one.write(b"last", b"value")
    world.run(3)
    assert world.hosts[4].values() == one.values()
    assert one.replica.counters["shared_sent"] == shared + 1
    assert one.replica.counters["entries_sent"] == sent + 1


def test_a_peer_whose_window_is_full_holds_up_nobody_else() -> None:
    world = MapWorld(4, shared=True, window=2000)
    world.connect_all()
    world.run(1)
    one, slow = world.hosts[1], world.hosts[4]
    for pipe in slow.links.values():
        pipe.waiting.append((world.now + 5.0, b""))  # the messages of this link come later
    for number in range(30):
        one.write(b"k%d" % number, b"x" * 300)
        world.run(0.1)
    assert world.hosts[2].values() == world.hosts[3].values() == one.values()


def test_a_message_to_all_before_the_greeting_is_ignored() -> None:
    world = MapWorld(2, shared=True)
    one, two = world.hosts.values()
    two.replica.link_opened(7, shared=True)
    two.replica.take()
    two.replica.received(7, encode(Have([(one.origin, 5)], 0)), world.now, shared=True)
    assert two.replica.counters["early"] == 1 and two.replica.take() == []


def test_an_old_report_to_all_does_not_take_back_a_peers_acknowledgement() -> None:
    world = MapWorld(3, shared=True)
    world.connect_all()
    world.run(0.5)
    one = world.hosts[1]
    one.write(b"key", b"value")
    world.run(0.5)
    (link, _) = one.links
    old = encode(Have([], one.clock.wall_time()))
    sent = one.replica.counters["entries_sent"]
    one.replica.received(link, old, world.now, shared=True)
    world.drain(one)
    assert one.replica.lag() == {2: 0, 3: 0}
    world.run(0.5)
    assert one.replica.counters["entries_sent"] == sent


class Later(MemoryTable):
    """A table that applies its changes later, on demand, as a file does."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Any, Any]] = []

    def apply(self, entries: Any, advance: Any) -> Any:
        self.waiting.append((list(entries), dict(advance)))

    def merge(self) -> None:
        for entries, advance in self.waiting:
            super().apply(entries, advance)
        self.waiting.clear()


@pytest.mark.parametrize("shared", [False, True])
def test_a_change_that_its_table_applies_later_is_acknowledged_soon_after_that(
    shared: bool,
) -> None:
    world = MapWorld(3, shared=shared, have_interval=5.0)
    table = world.hosts[2].table = Later()
    world.hosts[2].start()
    world.connect_all()
    world.run(0.5)
    one = world.hosts[1]
    one.write(b"key", b"value")
    world.run(1)
    assert one.replica.lag() == {2: 1, 3: 0} and one.replica.acknowledged(1) == 1
    table.merge()
    world.run(0.2)
    assert one.replica.lag() == {2: 0, 3: 0} and one.replica.acknowledged(1) == 2


def test_an_overheard_change_without_a_gap_before_it_is_taken() -> None:
    world = MapWorld(2)
    one, two = world.hosts.values()
    for key in (b"a", b"b", b"c"):
        one.write(key, b"value")
    entries = [(key, entry.encode()) for _, key, entry in one.table.changes(one.origin, 0, 3, 3)]
    two.replica.overheard(encode(OriginChanges(one.origin, 1, 3, entries[1:])), 0.0)
    assert two.values() == {}
    two.replica.overheard(encode(OriginChanges(one.origin, 0, 1, entries[:1])), 0.0)
    two.replica.overheard(encode(OriginChanges(one.origin, 0, 1, entries[:1])), 0.0)
    two.replica.overheard(encode(OriginChanges(one.origin, 1, 3, entries[1:])), 0.0)
    assert two.values() == one.values() and two.replica.counters["overheard"] == 2


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"x" * 100, encode(OriginChanges(5, 0, 1, [(b"k", b"")]))]
)
def test_bytes_that_are_overheard_harm_nothing(data: bytes) -> None:
    world = MapWorld(1)
    replica = world.hosts[1].replica
    replica.overheard(data, 0.0)
    assert world.hosts[1].values() == {} and replica.counters["garbage"] == 1
