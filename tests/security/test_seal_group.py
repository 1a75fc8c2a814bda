"""Whole groups with SEAL, in virtual time: they work as without it, and no stranger is among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sealed import HOSTS, properties, refused, ring_of, seal_of, sealed

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.ring import Ring
from jgroups_py.stack.ports import Datagram
from jgroups_py.testing import Link, SimCluster
from jgroups_py.testing.sim import World
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.member import Member


def start(world: World, names: str, file: str, ring: Ring | None = None) -> list[Member]:
    return [world.start(name, file, "demo", properties=properties(ring)) for name in names]


def group(world: World, names: str, file: str) -> list[Member]:
    members = start(world, names, file)
    assert world.run_until(lambda: world.views_agree(members), limit=60)
    return members


def take(member: Member, ring: Ring) -> None:
    seal = seal_of(member)
    member.act(lambda: seal.take_ring(ring))


def eventful(file: str) -> list[list[bytes]]:
    """Run a group with loss, a crash and large messages; return the messages that each member got."""
    lossy = Link(loss=0.1, jitter=0.01, duplicate=0.05)
    with SimCluster("ABC", file, seed=3, inside=lossy) as cluster:
        for n in range(20):
            for member in cluster.living:
                member.send(b"secret %d of %s" % (n, member.name.encode()))
            cluster.run_for(0.1)
        cluster["A"].send(b"x" * 200_000)
        cluster.crash("C")
        cluster.settle()
        cluster["B"].send(b"last")
        cluster.settle()
        return [[m.payload for m in member.received] for member in cluster.living]


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_a_group_loses_no_message(tmp_path: Path, stack: str) -> None:
    for got in eventful(sealed(tmp_path, stack)):
        assert b"last" in got and b"x" * 200_000 in got
        for name in (b"A", b"B"):
            ours = [p for p in got if p.endswith(b" of " + name)]
            assert ours == [b"secret %d of %s" % (n, name) for n in range(20)]


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    file = sealed(tmp_path)
    assert eventful(file) == eventful(file)


class Tap:
    """Records the datagrams and the bytes of connections that reach hosts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.datagrams: list[tuple[Host, Datagram]] = []
        self.bytes: list[bytes] = []
        receive = Host.receive

        def noting(host: Host, item: Any) -> None:
            if type(item) is Datagram:
                self.datagrams.append((host, item))
            if hasattr(item, "data"):
                self.bytes.append(item.data)
            receive(host, item)

        monkeypatch.setattr(Host, "receive", noting)


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_no_name_no_address_and_no_payload_is_in_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: str
) -> None:
    tap = Tap(monkeypatch)
    world = World(1)
    a, _b = group(world, "AB", sealed(tmp_path, stack))
    a.send(b"secret payload")
    world.run_for(30)
    seen = b"".join(tap.bytes)
    assert len(seen) > 1000
    for hidden in (b"secret", b"demo", b"bela", bytes(a.address)):
        assert hidden not in seen


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_a_member_without_seal_is_alone_and_is_told_apart(tmp_path: Path, stack: str) -> None:
    world = World(2)
    members = group(world, "AB", sealed(tmp_path, stack))
    places = {"jgroups.tcpping.initial_hosts": HOSTS}
    stranger = world.start("C", stack, "demo", properties=places)
    world.run_for(5)  # with TCP it tries again at once, and again
    assert stranger.view_names == ("C",) and set(members[0].view_names) == {"A", "B"}
    assert all(refused(member).keys() == {"unsealed"} for member in members)
    assert stranger.batches == []


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_a_member_with_another_ring_is_alone(tmp_path: Path, stack: str) -> None:
    world = World(3)
    file = sealed(tmp_path, stack)
    members = group(world, "AB", file)
    (stranger,) = start(world, "C", file, ring_of(seed=9))
    world.run_for(40)
    assert stranger.view_names == ("C",) and set(members[0].view_names) == {"A", "B"}
    assert all(refused(member).keys() == {"unknown_key"} for member in members)


def test_two_clusters_with_one_ring_do_not_hear_each_other(tmp_path: Path) -> None:
    world = World(4)
    file = sealed(tmp_path)
    members = group(world, "AB", file)
    other = world.start("C", file, "demo2", properties=properties())
    world.run_for(40)
    assert other.view_names == ("C",) and set(members[0].view_names) == {"A", "B"}
    assert refused(members[0]).keys() == refused(other).keys() == {"altered"}


def test_a_recording_of_a_whole_group_changes_nothing_at_a_later_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views, joins, heartbeats, messages: every datagram of a group that has ended is replayed to a group with the same
    key."""
    tap = Tap(monkeypatch)
    world = World(5)
    file = sealed(tmp_path)
    members = group(world, "ABC", file)
    members[0].send(b"old")
    world.run_for(20)
    for member in members:
        member.leave()
        world.run_for(2)
    recording = tap.datagrams[:]
    monkeypatch.undo()

    (fresh,) = start(world, "D", file)
    world.run_for(10)
    handles = list(fresh.host.datagram_ports.values()) + list(fresh.host.memberships)
    for _, item in recording:
        for handle in handles:
            fresh.host.receive(Datagram(handle, item.data, item.source))
        world.run_for(0.01)
    world.run_for(20)
    assert len(recording) > 50
    assert fresh.view_names == ("D",) and fresh.batches == []
    assert refused(fresh).keys() == {"unproved"}
    counts = seal_of(fresh).statistics()
    assert counts["senders_known"] == counts["senders_pending"] == 0
    assert counts["datagrams_opened"] == 0


def test_a_recording_of_a_living_group_comes_in_at_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Tap(monkeypatch)
    world = World(6)
    a, b, c = group(world, "ABC", sealed(tmp_path))
    a.send(b"once")
    world.run_for(5)
    for host, item in tap.datagrams[:]:
        host.receive(item)
    world.run_for(5)
    for member in (b, c):
        assert [bytes(p) for batch in member.batches for p in batch.payloads] == [b"once"]
        assert refused(member).keys() == {"replayed"}
    assert world.views_agree([a, b, c])


# --- keys


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_a_group_changes_its_key_as_it_runs_and_loses_nothing(tmp_path: Path, stack: str) -> None:
    world = World(7)
    members = group(world, "ABC", sealed(tmp_path, stack))
    one = ring_of()
    two = ring_of(2)
    turned = two.rotated(2)
    last = Ring(turned.keys[:1])
    sent = 0
    for ring in (two, turned, last):
        for member in members:  # one after the other, while traffic goes on
            take(member, ring)
            for source in members:
                source.send(b"%d" % sent)
                sent += 1
            world.run_for(0.3)
    world.run_for(5)
    for member in members:
        got = [bytes(p) for batch in member.batches for p in batch.payloads]
        assert sorted(got, key=int) == [b"%d" % n for n in range(sent)]
        assert len(member.views) <= 3 and refused(member) == {}
    assert one.writer not in last.keys


def test_a_dropped_key_shuts_out_members_without_another(tmp_path: Path) -> None:
    world = World(8)
    a, b, c = group(world, "ABC", sealed(tmp_path, "tcp.xml"))
    two = ring_of(2)
    last = Ring(two.rotated(2).keys[:1])
    for member in (a, b):
        take(member, two)
    for member in (a, b):
        take(member, last)
    world.run_for(120)
    assert set(a.view_names) == {"A", "B"} and world.views_agree([a, b])
    assert c.view_names == ("C",)
    assert {"retired_key", "unknown_key"} <= refused(a).keys()


# --- settings


def test_settings_that_make_no_sense_are_reported(tmp_path: Path) -> None:
    for line, problem in (
        ("<SEAL/>", "key_file: is not given; it must name a key ring"),
        ('<SEAL key_file="a" keys="b"/>', "key_file and keys are both given"),
        ('<SEAL keys="key 12"/>', "keys:1: is not a line of a key ring"),
        ('<SEAL key_file="a" cipher="AES"/>', "cipher must be AES-256-GCM or ChaCha20-Poly1305"),
        ('<SEAL key_file="a" freshness="0"/>', "freshness must be > 0 and <= 30 s"),
        ('<SEAL key_file="a" replay_window="1"/>', "replay_window must be >= 64"),
    ):
        with pytest.raises(ConfigError) as caught:
            World(1).start("A", sealed(tmp_path, "udp.xml", line), "demo")
        assert problem in str(caught.value)


def test_no_key_is_in_a_repr_or_a_trace(tmp_path: Path) -> None:
    traces: list[str] = []
    world = World(1, trace=lambda *told: traces.append(repr(told)))
    members = group(world, "AB", sealed(tmp_path))
    seal = seal_of(members[0])
    members[0].act(lambda: seal.take_ring(ring_of(2)))
    shown = "".join(traces) + repr(seal) + repr(seal.config) + repr(seal.statistics())
    for key in ring_of(2).keys:
        assert key.secret.hex() not in shown and repr(key.secret)[2:-1] not in shown
        assert len(traces) > 10
