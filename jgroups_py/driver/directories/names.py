"""The DNS, for DNS_PING. It uses the system's look-up of addresses, or dnspython where more is wanted."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.stack.directories import QueryDns
from jgroups_py.stack.ports import Endpoint

if TYPE_CHECKING:
    from dns.resolver import Resolver

DNS_PORT: Final = 53
_FAMILIES: Final = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}
_UNKNOWN: Final = tuple(
    getattr(socket, name)
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if hasattr(socket, name)
)
"""Codes of getaddrinfo that say that there is no such name, or that it has no address."""


def answer(request: QueryDns) -> tuple[Endpoint, ...]:
    """Return addresses and ports, without repetitions; none for an unknown name."""
    if request.kind in _FAMILIES and not request.server:
        found = [place for name in request.names for place in _of_system(name, request.kind)]
    else:
        found = _of_server(request)
    return tuple(dict.fromkeys(found))[: request.max_records]


def _of_system(name: str, kind: str) -> list[Endpoint]:
    try:
        entries = socket.getaddrinfo(name, None, _FAMILIES[kind], socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _UNKNOWN:
            return []
        raise DirectoryProblem(f"{name}: {error.strerror}") from None
    return [(str(entry[4][0]), 0) for entry in entries]


# --- with dnspython


def _of_server(request: QueryDns) -> list[Endpoint]:
    try:
        import dns.exception
        import dns.resolver
    except ImportError:
        asked = (
            f"dns_address {request.server}" if request.server else f"dns_record_type {request.kind}"
        )
        raise DirectoryProblem(
            f"{asked} needs dnspython: pip install 'jgroups_py[dns]'", final=True
        ) from None
    deadline = time.monotonic() + request.timeout
    try:
        resolver = _resolver(request.server)
        found: list[Endpoint] = []
        for name in request.names:
            if request.kind == "SRV":
                found += _services(resolver, name, deadline, request.max_records)
            else:
                found += [
                    (host, 0) for host in _addresses(resolver, name, (request.kind,), deadline)
                ]
        return found
    except dns.exception.Timeout:
        raise DirectoryProblem("no name server has answered") from None
    except dns.exception.DNSException as error:
        raise DirectoryProblem(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _resolver(server: str) -> Resolver:
    import dns.resolver

    if not server:
        return dns.resolver.Resolver()
    host, port = _host_and_port(server)
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][4][0]]
    resolver.port = port
    return resolver


def _host_and_port(server: str) -> Endpoint:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        return server.strip("[]"), DNS_PORT
    return host.strip("[]"), int(port)


def _ask(resolver: Resolver, name: str, kind: str, deadline: float) -> Any:
    """Return the answer, or None if there is no such name or record."""
    import dns.exception
    import dns.resolver

    left = deadline - time.monotonic()
    if left <= 0:
        raise dns.exception.Timeout
    try:
        return resolver.resolve(name, kind, lifetime=left, search=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return None


def _addresses(resolver: Resolver, name: str, kinds: Iterable[str], deadline: float) -> list[str]:
    answers = [_ask(resolver, name, kind, deadline) for kind in kinds]
    return [record.address for found in answers if found is not None for record in found]


def _services(resolver: Resolver, name: str, deadline: float, most: int) -> list[Endpoint]:
    """Return the addresses of the targets of SRV records. Addresses that did not come along are looked up."""
    found = _ask(resolver, name, "SRV", deadline)
    if found is None:
        return []
    along: dict[str, list[str]] = {}
    for rrset in found.response.additional:
        hosts = [record.address for record in rrset if hasattr(record, "address")]
        along.setdefault(str(rrset.name), []).extend(hosts)
    places: list[Endpoint] = []
    for record in sorted(found, key=lambda r: (r.priority, -r.weight, str(r.target), r.port)):
        target = str(record.target)
        if target not in along:
            along[target] = _addresses(resolver, target, ("A", "AAAA"), deadline)
        places += [(host, record.port) for host in along[target]]
        if len(places) >= most:
            break
    return places
