"""Places of hosts, HOST:PORT: reading them, connecting, and whether they are on this machine."""

from __future__ import annotations

import ipaddress

import trio

from jgroups_py.errors import ConfigError


async def connect(host: str, port: int) -> trio.abc.Stream:
    """Connect. OSError: no connection was made."""
    stream = await trio.open_tcp_stream(host, port)
    if stream.socket.getsockname() == stream.socket.getpeername():
        await trio.aclose_forcefully(stream)
        raise ConnectionRefusedError("nobody listens, and the system has picked that very port")
    return stream


def check_clear(host: str, what: str) -> None:
    """Raise ConfigError if a host is not on this machine."""
    if not _is_loopback(host):
        raise ConfigError(
            f"{what} is not of this machine, and nothing encrypts the map's messages: give tls, or insecure=True if "
            "everybody in that network may read and change the map"
        )


def place_from(place: str, what: str) -> tuple[str, int]:
    """Read HOST:PORT or [IPV6]:PORT. Raises ConfigError that begins with ``what``."""
    host, colon, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not is_number or int(port) > 65_535:
        raise ConfigError(f'{what} must be HOST:PORT, port 0 to 65535, got "{place:.100}"')
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
