"""Counters: messages that one end counts as sent are counted as received by the others, and events show in them."""

from __future__ import annotations

from collections import Counter

import pytest

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World

FAST = {
    "FD_ALL3.timeout": "3s",
    "FD_ALL3.interval": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "3s",
    "STABLE.desired_avg_gossip": "1s",
    "FRAG2.frag_size": "5K",
    "MFC.max_credits": "20K",
    "UFC.max_credits": "20K",
}
N = 4
HOSTS = {"jgroups.tcpping.initial_hosts": "10.0.0.1[7800]"}


def group(world: World, stack: str, **more: str) -> list[Member]:
    members: list[Member] = []
    attributes = {**FAST, **{key.replace("__", "."): value for key, value in more.items()}}
    properties = HOSTS if stack == "tcp.xml" else None
    for name in "ABCDEF"[:N]:
        members.append(
            world.start(name, stack, "test", attributes=attributes, properties=properties)
        )
        assert world.run_until(lambda: world.views_agree(members), limit=30)
    world.run_for(20)
    return members


def sums(members: list[Member]) -> Counter[str]:
    """Return the sums over all members, by PROTOCOL.counter."""
    total: Counter[str] = Counter()
    for member in members:
        for protocol, counters in member.statistics().items():
            total.update({f"{protocol}.{name}": value for name, value in counters.items()})
    return total


def talk(world: World, members: list[Member], count: int = 50) -> None:
    """Each member sends to all and to each, partly in fragments."""
    for member in members:
        for _ in range(count):
            member.send(b"x" * 1000)
            world.run_for(0.01)
        member.send(b"y" * 30_000)
        for other in members:
            for _ in range(20):
                member.send(b"z" * 1000, to=other)
            world.run_for(0.05)
    world.run_for(20)


def test_sent_messages_are_received() -> None:
    world = World(5)
    members = group(world, "tcp.xml")
    before = sums(members)
    talk(world, members)
    members[2].fetch_state()
    world.run_for(20)
    now = sums(members)
    did = {name: now[name] - before[name] for name in now}

    assert did["TCP.packets_sent"] == did["TCP.packets_received"] + did["TCP.dropped_unreachable"]
    assert did["TCP.bytes_sent"] >= did["TCP.bytes_received"] > N * (N - 1) * 50_000
    for one, other, times in [
        ("TCPPING.responses_sent", "TCPPING.responses_received", 1),
        ("MERGE3.announcements_sent", "MERGE3.announcements_received", 1),
        ("NAKACK2.sent", "NAKACK2.delivered", N),
        ("UNICAST3.sent", "UNICAST3.delivered", 1),
        ("UNICAST3.acks_sent", "UNICAST3.acks_received", 1),
        ("STABLE.gossips_sent", "STABLE.gossips_received", 1),
        ("MFC.bytes_sent", "MFC.bytes_received", N),
        ("MFC.bytes_received", "MFC.bytes_consumed", 1),
        ("MFC.replenishments_sent", "MFC.replenishments_received", 1),
        ("UFC.bytes_sent", "UFC.bytes_received", 1),
        ("UFC.bytes_received", "UFC.bytes_consumed", 1),
        ("UFC.replenishments_sent", "UFC.replenishments_received", 1),
        ("FRAG2.fragments_sent", "FRAG2.fragments_received", N),
        ("FRAG2.messages_cut", "FRAG2.messages_assembled", N),
        ("STATE_TRANSFER.states_sent", "STATE_TRANSFER.states_received", 1),
    ]:
        assert times * did[one] == did[other] > 0, (one, did[one], other, did[other])
    told, again = (
        did["STABLE.stability_sent"],
        did["STABLE.stability_repeated"],
    )  # to all, or to one
    assert 0 < N * told + again <= did["STABLE.stability_received"] <= N * (told + again)
    assert did["NAKACK2.sent"] == N * (50 + 6), "fragments are messages of their own"
    assert did["MFC.bytes_sent"] == N * 80_000 and did["UFC.bytes_sent"] == N * N * 20_000
    assert (did["FRAG2.messages_cut"], did["FRAG2.fragments_sent"]) == (N, 6 * N)
    assert did["MFC.times_blocked"] > 0, "30,000 bytes are more than all credits"
    assert did["TCP.messages_received"] >= did["NAKACK2.delivered"] + did["UNICAST3.delivered"]
    assert did["GMS.views_installed"] == 0 and now["GMS.views_installed"] == N * (N + 1) // 2
    assert now["FD_ALL3.heartbeats_sent"] > 0


def test_lost_messages_are_asked_for_and_sent_again() -> None:
    world = World(6)
    members = group(world, "udp.xml")
    before = sums(members)
    world.network.inside = LinkSettings(latency=0.001, jitter=0.01, loss=0.1)
    talk(world, members, 100)
    world.network.inside = LinkSettings(latency=0.001)
    world.run_for(20)
    now = sums(members)
    did = {name: now[name] - before[name] for name in now}
    assert N * did["NAKACK2.sent"] == did["NAKACK2.delivered"]
    assert did["UNICAST3.sent"] == did["UNICAST3.delivered"]
    for protocol in ("NAKACK2", "UNICAST3"):
        assert did[f"{protocol}.gaps_seen"] > 0
        assert did[f"{protocol}.requests_sent"] >= did[f"{protocol}.requests_received"] > 0
        assert did[f"{protocol}.retransmitted"] > 0
    assert did["NAKACK2.last_sent"] > 0 and did["UNICAST3.last_resent"] > 0
    assert did["UNICAST3.acks_sent"] >= did["UNICAST3.acks_received"] > 0


@pytest.mark.parametrize("how", ["crash", "vanish"])
def test_leavers_show_in_the_counters(how: str) -> None:
    world = World(7)
    members = group(world, "udp.xml")
    *rest, gone = members
    before = sums(rest)
    getattr(gone, how)()
    assert world.run_until(lambda: world.views_agree(rest), limit=30)
    now = sums(rest)
    did = {name for name in now if now[name] > before[name]}
    assert {"VERIFY_SUSPECT2.suspected", "GMS.views_installed", "GMS.agreements"} <= did
    proved = {
        "FD_SOCK2.suspicions",
        "FD_SOCK2.deaths_checked",
        "FD_SOCK2.deaths_proved",
        "FD_SOCK2.suspect_messages_sent",
        "VERIFY_SUSPECT2.confirmed_gone",
    }
    silent = {"FD_ALL3.suspected", "VERIFY_SUSPECT2.confirmed"}
    expected = proved if how == "crash" else silent
    assert expected <= did, expected - did
    never = "FD_ALL3.suspected" if how == "crash" else "FD_SOCK2.deaths_proved"
    assert never not in did


def test_slow_members_show_in_the_counters() -> None:
    world = World(8)
    members = group(world, "udp.xml", VERIFY_SUSPECT2__timeout="5s")
    before = sums(members)
    members[1].pause()
    world.run_for(6)
    members[1].resume()
    world.run_for(10)
    assert world.views_agree(members)
    now = sums(members)
    did = {name for name in now if now[name] > before[name]}
    assert {"FD_ALL3.suspected", "VERIFY_SUSPECT2.suspected", "FD_ALL3.delays_forgiven"} <= did
    assert not did & {"VERIFY_SUSPECT2.confirmed", "GMS.views_installed"}
