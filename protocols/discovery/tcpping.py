"""TCPPING: discovery by asking a list of hosts.

Place: above TCP.

Every host of initial_hosts is asked on its port and the port_range ports after it, and so is every
address learned since. An address that refuses the connection has no member: when all have refused or answered,
the search ends. If no member has answered, this member is certain that it is alone.

A host may be a name that cannot be resolved yet: it is looked up again at later searches (host_names.py has the
intervals), and all its addresses are asked. A search with an unresolved name lasts its full time.

Source:  JGroups TCPPING.java; WIRE.md section 9.1.
Differs: JGroups waits for the time-out even when all connections were refused.
         Java looks names up once.
Limits:  max_dynamic_hosts addresses learned; max_resolved addresses of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jgroups_py.config.settings import HostPorts, Seconds
from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.protocols.discovery.host_names import HostName
from jgroups_py.stack.exposure import DISCOVERY, PortUse, TransportPlace
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.ports import In, Resolve, Resolved
from jgroups_py.values.address import IpAddress, is_numeric_host
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, FindMembers, Unreachable
from jgroups_py.wire.headers import PROTOCOL_IDS

WARN_EVERY: Final = 60.0
"""Seconds between two lines about one name."""


class TCPPING(Discovery):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["TCPPING"]

    @dataclass(frozen=True, kw_only=True)
    class Config(Discovery.Config):
        initial_hosts: HostPorts = ()
        """Hosts to ask: numeric addresses, or names that may become known later."""
        port_range: int = 1
        """The number of ports after each host's port that are asked, too."""
        max_dynamic_hosts: int = 2000
        """The most learned addresses that are asked, too."""
        resolve_interval: Seconds = 5.0
        """The least seconds between two look-ups of a name, while we are alone or it is unresolved."""
        resolve_max_interval: Seconds = 60.0
        """The least seconds between two look-ups otherwise; after failures the time doubles up to this."""
        max_resolved: int = 100
        """Addresses of one name that are asked."""
        send_cache_on_join: bool = True
        """As coordinator, tell joiners and the others of each other."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(0, "port_range", "max_dynamic_hosts")
            self._at_least(1, "max_resolved")
            self._above(0, "resolve_interval", "resolve_max_interval")

    config: Config

    @classmethod
    def port_uses(cls, config: TCPPING.Config, place: TransportPlace) -> Sequence[PortUse]:
        return [
            PortUse(
                "tcp",
                "out",
                port,
                min(port + config.port_range, 65535),
                place.host,
                host,
                (DISCOVERY,),
                "to hosts of initial_hosts, over the transport",
            )
            for host, port in config.initial_hosts
        ]

    def start(self) -> None:
        super().start()
        self._initial: dict[IpAddress, None] = {}
        """The places of the hosts in a fixed order."""
        self._dynamic: dict[IpAddress, None] = {}
        self._refused: dict[IpAddress, None] = {}
        self._names: list[HostName] = []
        self._lines = LogLimit(lambda: self.now, interval=WARN_EVERY)
        self.lookups = 0
        self.lookups_failed = 0
        self.dropped_addresses = 0
        """Addresses of names beyond ``max_resolved``."""
        for host, port in self.config.initial_hosts:
            if host == "localhost" or is_numeric_host(host):
                continue
            self._names.append(HostName(host, port))
        self._place()

    def _place(self) -> None:
        """Set the addresses that are asked first, in the order of the setting, after a name's addresses have
        changed."""
        names = {(name.host, name.port): name.addresses for name in self._names}
        initial: dict[IpAddress, None] = {}
        for host, port in self.config.initial_hosts:
            numeric = "127.0.0.1" if host == "localhost" else host
            for address in names.get((host, port), (numeric,)):
                for number in range(port, min(port + self.config.port_range, 65535) + 1):
                    initial[IpAddress(address, number)] = None
        self._initial = initial
        self._refused = {host: None for host in self._refused if host in initial}

    # --- names

    def _look_up(self) -> None:
        """Look up the due names."""
        config = self.config
        alone = self.view is None or len(self.view.members) == 1
        for name in self._names:
            if name.is_due(self.now, config.resolve_interval, config.resolve_max_interval, alone):
                name.handle = self.new_handle()
                name.asked, name.asked_at = True, self.now
                self.lookups += 1
                self.open_port(Resolve(name.handle, name.host))

    def on_input(self, item: In) -> None:
        assert isinstance(item, Resolved)
        self.forget_port(item.handle)
        name = next(name for name in self._names if name.handle == item.handle)
        name.handle = 0
        if item.addresses:
            self._found(name, item.addresses)
        else:
            self._not_found(name, item.problem)
        self._check_complete()

    def _found(self, name: HostName, addresses: tuple[str, ...]) -> None:
        most = self.config.max_resolved
        self.dropped_addresses += max(0, len(addresses) - most)
        name.failures = 0
        before, name.addresses = name.addresses, addresses[:most]
        if set(before) == set(name.addresses):
            return
        self.trace("resolved", host=name.host, addresses=name.addresses)
        self.log.info("initial host %s is %s", name.host, ", ".join(name.addresses[:10]))
        self._place()
        for search in list(self._searches.values()):
            self.ask(None, initial=search.request.initial)

    def _not_found(self, name: HostName, problem: str) -> None:
        config = self.config
        name.failures += 1
        self.lookups_failed += 1
        self.trace("unresolved", host=name.host, problem=problem)
        if (left_out := self._lines.admit(name.host)) is not None:
            self.log.warning(
                'initial host "%s" does not resolve: %s; it is looked up again in %g s or later%s%s',
                name.host,
                problem,
                name.pause(config.resolve_interval, config.resolve_max_interval, True),
                f", {len(name.addresses)} former addresses are still asked"
                if name.addresses
                else "",
                left_out,
            )

    # --- searching

    def _targets(self) -> list[IpAddress]:
        return [host for host in {**self._initial, **self._dynamic} if host != self.physical]

    def send_request(self, batch: Batch) -> None:
        self._look_up()
        for host in self._targets():
            self.pass_down(replace(batch, dest=host))

    def searching(self, request: FindMembers) -> None:
        self._refused.clear()
        self._check_complete()

    def event_up(self, event: Event) -> None:
        if isinstance(event, Unreachable):
            if event.physical in self._initial:
                self._refused[event.physical] = None
            else:
                self._dynamic.pop(event.physical, None)
            self._check_complete()
        super().event_up(event)

    def answer_came(self) -> None:
        self._check_complete()

    def _check_complete(self) -> None:
        if not all(name.is_settled for name in self._names):
            return  # a member may be at an unknown address
        answered = self.answered()
        if all(host in self._refused or host in answered for host in self._targets()):
            self.complete()

    def learned(self, physical: IpAddress) -> None:
        if physical == self.physical or physical in self._initial:
            return
        self._dynamic.pop(physical, None)
        self._dynamic[physical] = None
        if len(self._dynamic) > self.config.max_dynamic_hosts:
            del self._dynamic[next(iter(self._dynamic))]

    def check(self) -> None:
        super().check()
        assert len(self._dynamic) <= self.config.max_dynamic_hosts
        for name in self._names:
            assert len(name.addresses) <= self.config.max_resolved
        assert self._refused.keys() <= self._initial.keys()
