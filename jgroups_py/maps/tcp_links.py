"""TcpLinks: TCP as the network of a map. The port is opened by the process that replicates, and no sooner."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.maps.host import MapHost
from jgroups_py.maps.tcp import open_port
from jgroups_py.maps.tcp_places import check_clear, place_from
from jgroups_py.maps.tcp_settings import TcpSettings
from jgroups_py.tls import TlsSettings


@dataclass(frozen=True, kw_only=True)
class TcpLinks:
    """Errors: ConfigError."""

    listen: str | None = None
    """HOST:PORT. None: this host only dials."""
    peers: tuple[str, ...] = ()
    """HOST:PORT of others. One of two hosts must dial the other one; both may."""
    tls: TlsSettings | None = None
    """All hosts need credentials of the same authority."""
    insecure: bool = False
    """Allow hosts beyond this machine without ``tls``."""
    settings: TcpSettings | None = None

    def __post_init__(self) -> None:
        places = [] if self.listen is None else [("listen", self.listen)]
        for what, place in (*places, *(("a peer", peer) for peer in self.peers)):
            host, _ = place_from(place, what)
            if self.tls is None and not self.insecure:
                check_clear(host, f"{what} at {place}")

    async def run(self, host: MapHost) -> None:
        """See ``Network``."""
        async with open_port(
            host.settings.node,
            listen=self.listen,
            tls=self.tls,
            insecure=self.insecure,
            settings=self.settings,
        ) as port:
            await port.network(host.settings.map, self.peers).run(host)
