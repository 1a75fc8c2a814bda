"""TCPPING: discovery by asking a list of hosts.

Place: above TCP.

Every host of initial_hosts is asked on its port and the port_range ports after it, and so is every
address learned since. Who refuses the connection is not there: when all have refused or answered,
the search ends, and if nobody has answered we are certain to be alone.

Source:  JGroups TCPPING.java; WIRE.md section 9.1.
Differs: JGroups waits out the time-out also when all connections were refused.
Limits:  max_dynamic_hosts addresses learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jgroups_py.address import IpAddress, is_numeric_host
from jgroups_py.batch import Batch
from jgroups_py.config import HostPorts
from jgroups_py.events import Event, FindMembers, Unreachable
from jgroups_py.headers import PROTOCOL_IDS
from jgroups_py.protocols.discovery import Discovery


class TCPPING(Discovery):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["TCPPING"]

    @dataclass(frozen=True, kw_only=True)
    class Config(Discovery.Config):
        initial_hosts: HostPorts = ()
        """Hosts to ask, numeric or localhost (names are resolved when a stack file is loaded)."""
        port_range: int = 1
        """How many ports after each host's port are asked, too."""
        max_dynamic_hosts: int = 2000
        """Addresses learned that are asked, too."""
        send_cache_on_join: bool = True
        """As coordinator, tell joiners and the others of each other."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(0, "port_range", "max_dynamic_hosts")

    config: Config

    def start(self) -> None:
        super().start()
        self._initial: dict[IpAddress, None] = {}
        self._dynamic: dict[IpAddress, None] = {}
        self._refused: dict[IpAddress, None] = {}
        self.unknown_hosts = 0
        for host, port in self.config.initial_hosts:
            self._expand("127.0.0.1" if host == "localhost" else host, port)

    def _expand(self, host: str, port: int) -> None:
        if not is_numeric_host(host):
            self.unknown_hosts += 1
            self.log.error("initial host %s is not a numeric address; it is not asked", host)
            return
        for number in range(port, min(port + self.config.port_range, 65535) + 1):
            self._initial[IpAddress(host, number)] = None

    def _targets(self) -> list[IpAddress]:
        return [host for host in {**self._initial, **self._dynamic} if host != self.physical]

    def send_request(self, batch: Batch) -> None:
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
        assert self._refused.keys() <= self._initial.keys()
