"""A member that gets arbitrary bytes stays alive, does not grow, and still works with its group.

Any sender can bring a packet of these tests to the member's transport. Unauthenticated messages can be forged: a
forger in a member's name can disturb a group (``FORGED``), but cannot end a process or fill its memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from jgroups_py.testing.explorer.bytes.attacks import FORGED, HARMLESS, RELAY_FORGED, Attack
from jgroups_py.testing.explorer.bytes.cluster import Cluster
from jgroups_py.testing.sim import World

STACKS = ("udp.xml", "tcp.xml")
ALLOWED = 20_000_000
"""Bytes by which a member may grow: messages of strangers, whose number is limited and which are short here."""

AT_A_TIME = 6
"""One group suffers several attacks in turn: making a group takes longer than an attack."""


def tcp_hosts(world: World, member: str) -> dict[str, str]:
    hosts = ",".join(f"10.0.0.{n}[7800]" for n in (1, 2, 3))
    return {"jgroups.tcpping.initial_hosts": hosts}


def cluster_on(stack: str, seed: int) -> Cluster:
    return Cluster(seed, stack, properties=tcp_hosts if stack == "tcp.xml" else None)


def two_sites(seed: int) -> Cluster:
    def properties(world: World, member: str) -> dict[str, str]:
        site, _, name = member.partition("/")
        hosts = [world.host_address(s, f"{n}{s}") for s in ("NYC", "SFO") for n in "ABC"]
        return {
            "relay.site": site,
            "relay.bridge.bind_addr": world.host_address(site, name),
            "jgroups.bind_addr": world.host_address(site, name),
            "relay.bridge.hosts": ",".join(f"{host}[7900]" for host in hosts),
        }

    attributes = {"RELAY.sites": "NYC,SFO"}
    return Cluster(
        seed, "relay-udp.xml", attributes=attributes, properties=properties, sites=("NYC", "SFO")
    )


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("first", range(0, len(HARMLESS), AT_A_TIME))
def test_friends_understand_each_other_after_each_attack(first: int, stack: str) -> None:
    cluster = cluster_on(stack, 1)
    for attack in HARMLESS[first : first + AT_A_TIME]:
        try:
            cluster.strike(attack, 175, talk=True)
            cluster.world.run_for(2)
            cluster.talk()
            cluster.once_in_order()
            cluster.assert_small(ALLOWED)
        except BaseException as error:
            error.add_note(f"the attack: {attack.__name__}")
            raise


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("attack", FORGED, ids=lambda attack: attack.__name__)
def test_a_forged_member_ends_nobody(attack: Attack, stack: str) -> None:
    cluster = cluster_on(stack, 2)
    cluster.strike(attack, 175)
    cluster.world.run_for(10)
    cluster.assert_small(ALLOWED)


@pytest.mark.parametrize("attack", RELAY_FORGED[-2:], ids=lambda attack: attack.__name__)
def test_forged_relay_messages_end_nobody(attack: Attack) -> None:
    cluster = two_sites(3)
    cluster.strike(attack, 250, talk=True)
    cluster.world.run_for(10)
    cluster.assert_small(ALLOWED)


@pytest.mark.parametrize("stack", STACKS)
def test_noise_on_connections(stack: str) -> None:
    cluster = cluster_on(stack, 4)
    for number in range(300):
        cluster.connect(cluster.random.choice(cluster.members), cluster.stream_noise())
        if number % 10 == 0:
            cluster.world.run_for(0.02)
    cluster.talk()
    cluster.assert_small(ALLOWED)


@pytest.mark.parametrize("stack", STACKS)
def test_connections_that_say_nothing_are_closed(stack: str) -> None:
    cluster = cluster_on(stack, 5)
    for _ in range(500):
        cluster.connect(cluster.random.choice(cluster.members), [b"x"], close=False)
    cluster.world.run_for(60)
    cluster.talk()
    cluster.assert_small(2_000_000)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", range(2))
def test_turmoil_is_survived(stack: str, seed: int) -> None:
    cluster = cluster_on(stack, seed)
    cluster.turmoil(HARMLESS, 500)
    cluster.talk()
    cluster.once_in_order()
    cluster.assert_small(ALLOWED)


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", range(100, 120))
def test_much_turmoil_is_survived(stack: str, seed: int) -> None:
    cluster = cluster_on(stack, seed)
    cluster.turmoil(HARMLESS, 3000)
    cluster.talk()
    cluster.once_in_order()
    forged = cluster_on(stack, seed)
    forged.turmoil((*HARMLESS, *FORGED), 3000)
    forged.world.run_for(30)
    forged.assert_small(ALLOWED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 220))
def test_much_turmoil_at_two_sites(seed: int) -> None:
    cluster = two_sites(seed)
    cluster.turmoil((*HARMLESS, *RELAY_FORGED), 3000)
    cluster.world.run_for(30)
    cluster.assert_small(ALLOWED)
