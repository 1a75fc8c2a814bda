"""The world: clock, network, hosts and members of one simulated run."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jgroups_py.driver.directories.in_memory import MemoryDirectories
from jgroups_py.driver.lookup import Resolver, knows_none
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.transport.base import TP
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Endpoint, Handle
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack, make_protocols
from jgroups_py.testing.check.relay_oracle import RelayOracle
from jgroups_py.testing.sim.clock import Clock
from jgroups_py.testing.sim.host import Host, Pipe
from jgroups_py.testing.sim.key_pairs import seeded_key_pair
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings, Network
from jgroups_py.testing.sim.touched import CheckedMachine
from jgroups_py.values.address import Address
from jgroups_py.values.view import View
from jgroups_py.wire.packet import Packet, decode_packet

DECODED_KEPT = 256
"""Decoded packets kept. A multicast is decoded once for all receivers, because batches never change."""

MakeProtocols = Callable[[Mapping[str, str] | None, Mapping[str, str] | None], Sequence[Protocol]]
"""New protocols of one stack, bottom first, from attributes and properties."""

Watch = Callable[[float, Member, str, dict[str, Any]], None]
Watcher = Callable[[float, str, str, str, dict[str, Any]], None]


def _share_decoding(protocols: Sequence[Protocol], decode: Callable[[bytes], Packet]) -> None:
    """Let the transports of this run decode through ``decode``."""
    for protocol in protocols:
        if isinstance(protocol, TP):
            protocol.decode = decode


class World:
    """See the package's docstring.

    ``seed``: all random numbers of the run come from it. ``check``: run every protocol's
    invariants after each step, and RELAY's across members (``oracle``). ``trace``: called with (time, member, protocol, what, details).
    """

    def __init__(
        self,
        seed: int | str = 0,
        *,
        inside: LinkSettings | None = None,
        between: LinkSettings | None = None,
        grid: float = 0.0001,
        check: bool = True,
        trace: Watcher | None = None,
    ) -> None:
        self.seed = str(seed)
        self.clock = Clock(grid)
        self.network = Network(self.seed, inside, between)
        self.random = random.Random(f"{self.seed}/world")
        self.hosts: dict[str, Host] = {}
        self.groups: dict[tuple[str, Endpoint], dict[Host, Handle]] = {}
        self.stalled: dict[Pipe, None] = {}
        self.packets = 0
        """Inputs handled by machines."""
        self.members: dict[str, Member] = {}
        self.everybody: list[Member] = []
        self.check = check
        self.trace = trace
        self.on_record: list[Watch] = []
        self.after_each_step: list[Callable[[Host], None]] = []
        self.resolver: Resolver = knows_none
        """Looks up names in ``initial_hosts``."""
        self.directory = MemoryDirectories()
        """The folders, tables and servers that FILE_PING and its like ask."""
        self.directory_delay = 0.004
        """Seconds from a request to its answer."""
        self.is_one_machine = False
        """Are the members of a site processes of one machine, whose kernel knows the listeners of a group?"""
        self.receive_buffer = 0
        """Bytes of datagrams that wait at a paused or slow host, as its sockets report them. 0: only ``Host.held_limit`` counts."""
        self.oracle: RelayOracle | None = None
        """RELAY's oracle. Made with the first member with RELAY if ``check`` is on, or set by hand."""
        self._decode = functools.lru_cache(maxsize=DECODED_KEPT)(decode_packet)
        self._names: dict[Address, str] = {}
        self._incarnations: dict[str, int] = {}
        self._site_numbers: dict[str, int] = {}
        self._host_numbers: dict[str, int] = {}

    @property
    def now(self) -> float:
        return self.clock.now

    @property
    def events(self) -> int:
        """Count the packets handled and timers fired so far."""
        return self.packets + sum(m.host.machine.timers_fired for m in self.everybody)

    # --- members

    def host_address(self, site: str, name: str) -> str:
        """Return the network address of the host of ``name`` of ``site`` (always the same)."""
        number = self._site_numbers.setdefault(site, len(self._site_numbers))
        key = f"{site}/{name}"
        if key not in self._host_numbers:
            self._host_numbers[key] = 1 + sum(k.startswith(f"{site}/") for k in self._host_numbers)
        host = self._host_numbers[key]
        return f"10.{number}.{host >> 8}.{host & 255}"

    def start(
        self,
        name: str,
        stack: str | MakeProtocols,
        cluster: str,
        *,
        site: str = "local",
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        with_state: bool = False,
    ) -> Member:
        """Start a member now; it joins as time goes on. A name may be used again when its former
        bearer is gone: the new one is a new incarnation at the same network address.

        ``stack``: a stack file, or a function that makes the protocols."""
        key = f"{site}/{name}"
        former = self.members.get(key)
        assert former is None or not former.alive, f"{name} is still running"
        incarnation = self._incarnations.get(key, 0) + 1
        self._incarnations[key] = incarnation
        address = self.host_address(site, name)
        # Note entered protocols only if a check reads them: the list would grow for ever.
        kind = CheckedMachine if self.check else Machine
        machine = kind(
            name,
            random=random.Random(f"{self.seed}/member/{key}#{incarnation}"),
            now=self.clock.now,
            host=address,
            trace=self.trace,
            secrets=random.Random(f"{self.seed}/secrets/{key}#{incarnation}").randbytes,
            key_pairs=functools.partial(seeded_key_pair, f"member {len(self.everybody)}"),
        )
        host = Host(self, address, site, machine)
        self.hosts[address] = host
        self.network.sites[address] = site
        member = Member(self, name, host, incarnation)
        make = functools.partial(make_protocols, stack) if isinstance(stack, str) else stack
        protocols = make(attributes, properties)
        _share_decoding(protocols, self._decode)
        member.stack = Stack(machine, protocols, member, name=name, properties=properties)
        self._names[member.stack.address] = name
        self.members[key] = member
        self.everybody.append(member)
        relay = member.stack.find(RELAY)
        if relay is not None and (self.check or self.oracle is not None):
            if self.oracle is None:
                self.oracle = RelayOracle(self)
            self.oracle.watch(member, relay)
        member.act(lambda: member.stack.connect(cluster, with_state=with_state))
        return member

    def member(self, name: str, site: str = "local") -> Member:
        """Return the newest incarnation of that name."""
        return self.members[f"{site}/{name}"]

    def name_of(self, member: Address) -> str:
        return self._names.get(member, str(member))

    # --- time

    def run_for(self, seconds: float) -> None:
        self.run(self.clock.now + seconds)

    def run(self, until: float) -> None:
        """Run all actions up to and including ``until``."""
        clock = self.clock
        while (instant := clock.next_instant()) is not None and instant <= until + 1e-12:
            clock.step()
        clock.now = max(clock.now, until)

    def run_until(self, condition: Callable[[], bool], *, limit: float) -> bool:
        """Run until ``condition`` holds, checked after each instant. False after ``limit`` s."""
        end = self.clock.now + limit
        while not condition():
            instant = self.clock.next_instant()
            if instant is None or instant > end:
                self.clock.now = max(self.clock.now, end)
                return condition()
            self.clock.step()
        return True

    def at(self, when: float, action: Callable[..., None], *args: Any) -> None:
        """Run a test's action at ``when``."""
        self.clock.at(when, action, *args)

    def after_step(self, host: Host) -> None:
        """Called after each step of each host."""
        machine = host.machine
        if isinstance(machine, CheckedMachine):
            machine.check_step()
        for watch in self.after_each_step:
            watch(host)

    def close(self) -> None:
        """End every member at once, and close the files of protocols."""
        for member in self.everybody:
            member.stack.close()

    def forget_ended(self) -> None:
        """Free the data of ended members and the items of living applications, in runs of many hours. With RELAY only while all
        members are at rest."""
        for member in self.everybody:
            member.views = member.views[-1:]
            member.events.clear()
            member.excluded.clear()
            if not member.alive:
                member.host.forget()
        self.stalled = {pipe: None for pipe in self.stalled if pipe.dest.alive}
        self.everybody = [m for m in self.everybody if m.alive]
        living = {m.stack.address: m.name for m in self.everybody}
        self._names = {address: name for address, name in self._names.items() if address in living}
        if self.oracle is not None:
            self.oracle.forget_ended()

    # --- faults between members

    def partition(self, *groups: Iterable[Member], one_way: bool = False) -> int:
        """Cut groups of members off from each other; return a token for ``heal``."""
        self.clock.end_turns()
        hosts = [[m.host.address for m in group] for group in groups]
        return self.network.cut(hosts, one_way=one_way)

    def heal(self, token: int | None = None) -> None:
        """Undo one partition, or all; held streams go on."""
        self.clock.end_turns()
        self.network.heal(token)
        self._go_on()

    def reset(self, a: Host, b: Host, *, one_way: bool = False) -> None:
        """Break connections between two hosts; their processes live on. ``one_way``: only ``a`` notices, ``b`` when it
        sends."""
        self.clock.end_turns()
        a.reset(b, one_way=one_way)

    def clog(self, source: Host, dest: Host) -> None:
        """Hold all packets from one host to another; see ``unclog``."""
        self.clock.end_turns()
        self.network.clog(source.address, dest.address)

    def unclog(self, source: Host, dest: Host) -> None:
        """Let the held packets arrive, in order."""
        self.clock.end_turns()
        for deliver in self.network.clogs.pop((source.address, dest.address), ()):
            self.clock.at(self.clock.now, deliver)
        self._go_on()

    def _go_on(self) -> None:
        """Let held streams go on, unless another cause holds them up."""
        stalled, self.stalled = self.stalled, {}
        for pipe in stalled:
            self.clock.at(self.clock.now, pipe.dest.release, pipe)

    # --- telling

    def record(self, member: Member, what: str, **details: Any) -> None:
        """Report an action of an application or the test to watchers."""
        for watch in self.on_record:
            watch(self.clock.now, member, what, details)

    def views_agree(self, members: Iterable[Member]) -> bool:
        """Do exactly these members share one view?"""
        wanted = list(members)
        views = {m.view.view_id if m.view else None for m in wanted}
        view: View | None = wanted[0].view if wanted else None
        return len(views) == 1 and view is not None and len(view) == len(wanted)
