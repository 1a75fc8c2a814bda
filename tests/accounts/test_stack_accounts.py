"""The cost of the life of a group on whole stacks in virtual time: messages by protocol and kind, traces, counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from account import Account, check, kept

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.wire.headers import PROTOCOL_IDS
from jgroups_py.wire.packet import Packet, decode_packet

PROTOCOLS: Final = {number: name for name, number in PROTOCOL_IDS.items()}
SETTINGS: Final = {
    "FD_ALL3.timeout": "2s",
    "FD_ALL3.interval": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "3s",
    "STABLE.desired_avg_gossip": "2s",
    "FRAG2.frag_size": "2K",
    "MFC.max_credits": "20K",
    "UFC.max_credits": "20K",
}
HOSTS: Final = {"jgroups.tcpping.initial_hosts": "10.0.0.1[7800],10.0.0.2[7800]"}


class Group:
    """Members of one stack, and the account of what reaches them."""

    def __init__(self, stack: str, names: str = "ABC", **settings: str) -> None:
        self.account = Account()
        self.stack = stack
        self._sent = 0
        self.settings = {**SETTINGS, **{k.replace("__", "."): v for k, v in settings.items()}}
        self.world = World(11, trace=self._on_trace)
        self.world._decode = self._decoded  # type: ignore[assignment]
        self.world.on_record.append(self._on_record)
        for name in names:
            self.start(name)
            self.world.run_for(1.5)

    def __getitem__(self, name: str) -> Member:
        return self.world.member(name)

    def start(self, name: str, with_state: bool = False) -> None:
        member = self.world.start(
            name,
            self.stack,
            "accounts",
            attributes=self.settings,
            properties=HOSTS if "tcp" in self.stack else None,
            with_state=with_state,
        )
        member.provide_state = lambda: b"s" * 3000

    def talk(self, names: str = "ABC") -> None:
        """Send runs, single messages and fragments, to all and to each."""
        for name in names:
            member = self[name]
            member.send(*[self._text("run") for _ in range(10)])
            for _ in range(3):
                member.send(self._text("one by one"))
                self.world.run_for(0.005)
            member.send(self._text("fragments " * 700))
            for other in names:
                member.send(self._text("to one"), to=self[other])
                member.send(self._text("to one in fragments " * 250), to=self[other])
            self.world.run_for(0.05)

    def _text(self, text: str) -> bytes:
        """Return a payload that differs from all others: the oracle of RELAY identifies messages by their payload."""
        self._sent += 1
        return b"%06d %b" % (self._sent, text.encode())

    def _decoded(self, data: bytes) -> Packet:
        packet = decode_packet(data)
        now = self.world.now
        for batch in packet.batches:
            kinds = [_named(number, header) for number, header in batch.headers.items()]
            for kind in kinds or ["plain"]:
                self.account.add("came", kind, now, len(batch))
        return packet

    def _on_trace(
        self, at: float, member: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        self.account.add("told", f"{protocol} {what}", at)

    def _on_record(self, at: float, member: Member, what: str, details: dict[str, Any]) -> None:
        self.account.add("told", what, at)

    def finished(self) -> Account:
        """Return the account with the counters of all members and the messages that applications got."""
        for member in self.world.everybody:
            for protocol, counters in member.statistics().items():
                self.account.add_all(protocol, counters)
            self.account.add_all("kept", kept(member.host.machine))
            self.account.add("applications", "messages", times=len(member.payloads))
            self.account.add("applications", "views", times=len(member.views))
        self.world.close()
        return self.account


class Sites(Group):
    """NYC with A, B, C and SFO with S, T, each on a stack with RELAY; a TCP stack between their relays."""

    def __init__(self, stack: str, **settings: str) -> None:
        self._site: dict[str, str] = {"A": "NYC", "B": "NYC", "C": "NYC", "S": "SFO", "T": "SFO"}
        super().__init__(stack, "ABCST", RELAY__sites="NYC,SFO", **settings)

    def __getitem__(self, name: str) -> Member:
        return self.world.member(name, self._site[name])

    def start(self, name: str, with_state: bool = False) -> None:
        site, address = self._site[name], self.world.host_address
        near = [address(site, other) for other, at in self._site.items() if at == site]
        every = [address(at, other) for other, at in self._site.items()]
        member = self.world.start(
            name,
            self.stack,
            site,
            site=site,
            attributes=self.settings,
            properties={
                "relay.site": site,
                "relay.bridge": "relay-bridge-tcp.xml",
                "relay.bridge.bind_addr": address(site, name),
                "relay.bridge.hosts": ",".join(f"{host}[7950]" for host in every),
                "jgroups.bind_addr": address(site, name),
                "jgroups.tcpping.initial_hosts": ",".join(f"{host}[7800]" for host in near),
            },
            with_state=with_state,
        )
        member.provide_state = lambda: b"s" * 3000

    def cut(self, seconds: float) -> None:
        sides = [[m for m in self.world.everybody if m.site == s] for s in ("NYC", "SFO")]
        self.world.partition(*sides)
        self.world.run_for(seconds / 2)
        self.talk("BC")
        self.world.run_for(seconds / 2)
        self.world.heal()


def _named(number: int, header: Any) -> str:
    kind = getattr(header, "type", None)
    name = PROTOCOLS.get(number, str(number))
    return f"{name} {type(header).__name__ if kind is None else kind.name}"


def _joins_talks_and_leaves(stack: str) -> Account:
    group = Group(stack)
    group.talk()
    group.world.run_for(3)
    group.start("D", with_state=True)
    group.world.run_for(3)
    group["B"].leave()
    group.world.run_for(2)
    group["A"].leave()
    group.world.run_for(3)
    group.talk("CD")
    group["D"].fetch_state()
    group.world.run_for(3)
    return group.finished()


def _crash_and_silence(stack: str) -> Account:
    group = Group(stack, "ABCD")
    group.talk()
    group["A"].crash()
    group.talk("BC")
    group.world.run_for(4)
    group["C"].vanish()
    group.talk("BD")
    group.world.run_for(6)
    group.start("A")
    group.world.run_for(3)
    group.talk("ABD")
    group.world.run_for(2)
    return group.finished()


def _split_and_merge(stack: str) -> Account:
    group = Group(stack, "ABCD")
    members = {name: group[name] for name in "ABCD"}
    group.world.partition([members["A"], members["B"]], [members["C"], members["D"]])
    group.talk("AC")
    group.world.run_for(6)
    group.talk("BD")
    group.world.heal()
    group.world.run_for(10)
    group.talk("ABCD")
    group.world.run_for(3)
    return group.finished()


def _lossy(stack: str) -> Account:
    group = Group(stack)
    group.world.network.inside = LinkSettings(
        latency=0.001, jitter=0.002, loss=0.1, duplicate=0.05, reorder=0.1
    )
    group.talk()
    group.talk()
    group.start("D")
    group.world.run_for(2)
    group["A"].leave()
    group.world.run_for(3)
    group.world.network.inside = LinkSettings()
    group.world.run_for(3)
    group.talk("BCD")
    group.world.run_for(3)
    return group.finished()


def _slow(stack: str) -> Account:
    """Pause one member twice: the first time it is asked in time, the second time it is expelled and comes back."""
    group = Group(stack, VERIFY_SUSPECT2__timeout="2s")
    group["B"].pause()
    group.talk("AC")
    group.world.run_for(3)
    group["B"].resume()
    group.world.run_for(3)
    group["B"].pause()
    group.world.run_for(8)
    group.talk("AC")
    group["B"].resume()
    group.world.run_for(10)
    group["C"].reading = False
    group.talk("ABC")
    group.talk("ABC")
    group.world.run_for(2)
    group["C"].read_again()
    group.world.run_for(3)
    return group.finished()


def _sites_lose_relays(stack: str) -> Account:
    group = Sites(stack, RELAY__max_bytes="60KB", RELAY__overflow="block")
    group.world.run_for(3)
    group.talk("ABC")
    group["A"].crash()
    group.talk("BC")
    group.world.run_for(8)
    group.cut(6.0)
    group.world.run_for(8)
    group.start("A", with_state=True)
    group.world.run_for(3)
    group["S"].leave()
    group.talk("ABC")
    group.world.run_for(8)
    return group.finished()


def _both_sites_write(stack: str) -> Account:
    group = Sites(
        stack, RELAY__primary="all", RELAY__overflow="drop_oldest", RELAY__max_messages="20"
    )
    group.world.run_for(3)
    group.talk("AT")
    group.world.run_for(1)
    group.cut(12.0)
    group.talk("ST")
    group.world.run_for(15)
    group["T"].vanish()
    group.talk("BS")
    group.world.run_for(8)
    return group.finished()


SCENES: Final[dict[str, Callable[[str], Account]]] = {
    "joins, talks and leaves": _joins_talks_and_leaves,
    "crash and silence": _crash_and_silence,
    "split and merge": _split_and_merge,
    "lossy": _lossy,
    "slow": _slow,
}


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
@pytest.mark.parametrize("scene", SCENES)
def test_the_life_of_a_group_costs_the_recorded_messages(scene: str, stack: str) -> None:
    name = f"{scene} on {stack.partition('.')[0]}"
    check(name.replace(",", "").replace(" ", "_"), {name: SCENES[scene](stack)})


@pytest.mark.parametrize(
    ("scene", "play", "stack"),
    [
        ("sites lose relays on udp", _sites_lose_relays, "relay-udp.xml"),
        ("both sites write on tcp", _both_sites_write, "relay-tcp.xml"),
    ],
)
def test_the_life_of_sites_costs_the_recorded_messages(
    scene: str, play: Callable[[str], Account], stack: str
) -> None:
    check(scene.replace(" ", "_"), {scene: play(stack)})
