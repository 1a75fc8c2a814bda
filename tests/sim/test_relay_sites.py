"""Two whole sites on the shipped stacks in virtual time: the cost of the link between them (none at home), the
transports, and leaves that lose no more than crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.stack.stack import Stack
from jgroups_py.stacks import __file__ as stacks_file
from jgroups_py.testing.sim import Member, World
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.values.batch import Batch

NAMES = {"NYC": "EDC", "SFO": "TSU"}
PATIENT = {  # a bridge with a round trip of 20 s once it is connected
    '<FD_ALL3 timeout="5s"': '<FD_ALL3 timeout="90s"',
    '<VERIFY_SUSPECT2 timeout="0.5s"': '<VERIFY_SUSPECT2 timeout="30s"',
    '<FD_SOCK2 prove_death="false"/>': "",
}


class Sites:
    """NYC and SFO, complete; their relays have met."""

    def __init__(self, bridge: str = "relay-bridge-tcp.xml", stack: str = "relay-udp.xml") -> None:
        self.world = world = World(7)
        self.heard: dict[str, list[tuple[float, bytes]]] = {}
        hosts = [world.host_address(site, n) for site, names in NAMES.items() for n in names]
        for site, names in NAMES.items():
            near = ",".join(f"{world.host_address(site, name)}[7800]" for name in names)
            for name in names:
                address = world.host_address(site, name)
                member = world.start(
                    name,
                    stack,
                    site,
                    site=site,
                    attributes={"RELAY.sites": "NYC,SFO"},
                    properties={
                        "relay.site": site,
                        "relay.bridge": bridge,
                        "relay.bridge.bind_addr": address,
                        "relay.bridge.hosts": ",".join(f"{host}[7950]" for host in hosts),
                        "jgroups.bind_addr": address,
                        "jgroups.tcpping.initial_hosts": near,
                    },
                )
                member.on_batch = self._hear
                world.run_for(1.0)
        assert world.run_until(lambda: self.on_bridge() == ["E", "T"] and self.met(), limit=30)

    def __getitem__(self, name: str) -> Member:
        return next(m for m in self.world.everybody if m.name == name)

    def _hear(self, member: Member, batch: Batch) -> None:
        heard = self.heard.setdefault(member.name, [])
        heard += [(self.world.now, bytes(p)) for p in batch.payloads if p is not None]

    def bridge(self, member: Member) -> Stack | None:
        found = list(member.stack.children)
        return found[0] if found else None

    def on_bridge(self) -> list[str]:
        return [m.name for m in self.world.everybody if m.alive and self.bridge(m) is not None]

    def met(self) -> bool:
        relays = [self[name].stack.find(RELAY) for name in ("E", "T")]
        return all(r is not None and len(r.status().bridge) == len(NAMES) for r in relays)


def local_delays(between: float, bridge: str) -> tuple[list[float], float]:
    """Return the delays from C to E, D and C itself in a second of traffic, and the longest delay to SFO."""
    sites = Sites(bridge)
    world = sites.world
    world.network.between = LinkSettings(latency=between)
    begun = world.now
    sent = {f"{n}".encode(): begun + n * 0.01 for n in range(100)}
    for payload, at in sent.items():
        world.at(at, sites["C"].send, payload)
    world.run_for(1.0 + 5 * between + 2.0)
    home = [t - sent[p] for name in "EDC" for t, p in sites.heard[name]]
    away = [t - sent[p] for name in "TSU" for t, p in sites.heard[name]]
    assert len(home) == len(away) == 300
    assert not sites["C"].blocked
    return home, max(away)


@pytest.mark.seed("R1")
def test_a_link_of_ten_seconds_delays_nothing_at_home(tmp_path: Path) -> None:
    text = (Path(stacks_file).parent / "relay-bridge-tcp.xml").read_text()
    for old, new in PATIENT.items():
        assert old in text
        text = text.replace(old, new)
    bridge = tmp_path / "patient.xml"
    bridge.write_text(text)
    near, _ = local_delays(0.001, str(bridge))
    far, longest = local_delays(10.0, str(bridge))
    assert longest > 10.0, "the link really is that slow"
    assert max(far) == pytest.approx(max(near), abs=0.001)
    assert sum(far) / len(far) == pytest.approx(sum(near) / len(near), abs=0.0005)


@pytest.mark.seed("R5")
@pytest.mark.parametrize(("stack", "inside"), [("relay-udp.xml", "UDP"), ("relay-tcp.xml", "TCP")])
def test_sites_run_their_transport_and_relays_tcp_between_them(stack: str, inside: str) -> None:
    sites = Sites(stack=stack)
    for member in sites.world.everybody:
        assert member.stack.protocols[0].name == inside
        bridge = sites.bridge(member)
        coordinator = member.view is not None and member.view.coordinator == member.address
        assert (bridge is not None) == coordinator
        assert bridge is None or bridge.protocols[0].name == "TCP"


@pytest.mark.seed("R6")
@pytest.mark.seed("R11")
@pytest.mark.parametrize("how", ["crash", "leave"])
def test_the_next_member_joins_the_bridge_when_the_relay_crashes_or_leaves(how: str) -> None:
    sites = Sites()
    world = sites.world
    for n in range(200):
        world.at(world.now + n * 0.02, sites["C"].send, f"{n}".encode())
    world.run_for(1.5)
    getattr(sites["E"], how)()
    assert world.run_until(lambda: sites.on_bridge() == ["D", "T"], limit=world.now + 5)
    world.run_for(15)
    expected = [f"{n}".encode() for n in range(200)]
    for name in "DCTSU":
        assert [p for _, p in sites.heard[name]] == expected, name


def test_a_joiner_whose_first_questions_get_lost_founds_no_second_group() -> None:
    world = World(1)
    properties = {"relay.site": "NYC", "jgroups.bind_addr": world.host_address("local", "E")}
    first = world.start("E", "relay-udp.xml", "NYC", properties=properties)
    world.run_for(2.0)
    properties = {"relay.site": "NYC", "jgroups.bind_addr": world.host_address("local", "D")}
    second = world.start("D", "relay-udp.xml", "NYC", properties=properties)
    token = world.partition([first], [second])
    world.run_for(0.3)  # shorter than the 0.5 s after which D would continue alone
    world.heal(token)
    world.run_for(1.0)
    assert first.view_names == second.view_names == ("E", "D")


def test_messages_of_another_site_in_a_state_are_not_delivered_again() -> None:
    """U lacks a relayed multicast that T has. The state that it fetches from T contains it, and
    RELAY's digests, which come right behind the state, report that."""
    sites = Sites()
    world, taker, relay = sites.world, sites["U"], sites["T"]
    relay.provide_state = lambda: b" ".join(p for _, p in sites.heard["T"])
    states: list[bytes | None] = []
    taker.on_state = lambda _, state: states.append(state)
    sites["C"].send(b"1")
    world.run_for(1.0)
    token = world.partition([relay], [taker])
    sites["C"].send(b"2")
    assert world.run_until(lambda: len(sites.heard["T"]) == 2, limit=0.5)
    world.heal(token)
    taker.fetch_state(relay)
    assert world.run_until(lambda: bool(states), limit=2)
    assert states == [b"1 2"]
    sites["C"].send(b"3")
    world.run_for(10)
    assert [p for _, p in sites.heard["U"]] == [b"1", b"3"]
    assert [p for _, p in sites.heard["S"]] == [b"1", b"2", b"3"]
