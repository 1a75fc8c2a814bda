"""ByHost: base of DNS_PING and KUBE_PING, whose list has hosts and mostly no ports.

A host without a port is asked on the transport's bind_port and the ports after it, so bind_port must not be 0. The list
is whole if this host is on it: then it is no older than we are.
"""

from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.protocols.discovery.consulting import Consulting
from jgroups_py.stack.directories import DirectoryRequest
from jgroups_py.stack.ports import Consulted, Endpoint
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import Event, Failed, TransportPorts, TransportReady


class ByHost(Consulting):
    """See the module's docstring."""

    def start(self) -> None:
        super().start()
        self._first_port = 0
        self._last_port = 0

    # --- for subclasses

    @property
    def needs_port(self) -> bool:
        """Return whether the list lacks ports, so that the transport's are needed."""
        return True

    def ports_after(self) -> int:
        """Return the number of ports after bind_port that are asked. Default: the transport's port_range."""
        return self._last_port - self._first_port

    def asking(self) -> DirectoryRequest:
        """Return the request of a look."""
        raise NotImplementedError

    def found_by(self, reply: Consulted) -> list[Endpoint]:
        """Return hosts, with their ports or 0. Count a line that cannot be read."""
        raise NotImplementedError

    # --- looking

    def event_up(self, event: Event) -> None:
        if isinstance(event, TransportReady):
            first, more = self.ask_down(TransportPorts()) or (0, 0)
            if self.needs_port and not first:
                self.pass_event_up(
                    Failed(
                        f"{self.name}: the transport's bind_port must be set, for example to 7800, got {first}: "
                        f"{self.directory_name} tells no ports"
                    )
                )
                return
            self._first_port, self._last_port = first, min(first + more, 65535)
        super().event_up(event)

    def look(self) -> None:
        self.consult(self.asking, self._on_answer)

    def _on_answer(self, reply: Consulted) -> None:
        if reply.problem:
            self.not_listed(self.directory_name, reply.problem)
            return
        found = self.found_by(reply)
        mine = self.physical
        whole = mine is not None and any(
            IpAddress(host, 0).packed_host == mine.packed_host for host, _ in found
        )
        self.listed(self._places(found), whole=whole)

    def _places(self, found: Iterable[Endpoint]) -> list[IpAddress]:
        places: list[IpAddress] = []
        most = self.config.max_hosts + 1  # one more than allowed, so that the excess is counted
        for host, port in found:
            places += [IpAddress(host, number) for number in self.ports_of(port)]
            if len(places) > most:
                break
        return places

    def ports_of(self, port: int) -> list[int]:
        """Return the ports on which to ask a host that the list has with ``port``."""
        if port:
            return [port]
        first = self._first_port
        return list(range(first, min(first + self.ports_after(), 65535) + 1)) if first else []
