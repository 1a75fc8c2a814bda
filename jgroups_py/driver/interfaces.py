"""``bind_addr`` of a stack file becomes a numeric address, before the member starts.

It may be a numeric address, a host name, or a word; or several of them, separated by
commas: the first one that this machine has is taken.

    loopback                127.0.0.1 or ::1
    global                  an address that is routed everywhere
    site_local              a private one (10.*, 172.16-31.*, 192.168.*, fec0::/10, fc00::/7)
    link_local              169.254.*, fe80::/10
    non_loopback            any but loopback
    match-interface:REGEX   of an interface whose name matches
    match-address:REGEX     an address that matches
    match-host:REGEX        an address whose host name matches

IPv4 addresses are preferred. ``initial_hosts`` may name hosts, too; names stay names here, because they need not be
known yet: TCPPING has them looked up (``Resolve``), by ``resolve_all``.

Source:  JGroups' manual on bind_addr; Util.getAddress, Util.getAddressByPatternMatch.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from jgroups_py.config.model import Attribute, ProtocolConfig, StackConfig, field_name
from jgroups_py.errors import ConfigError
from jgroups_py.units import hosts_text, parse_hosts
from jgroups_py.values.address import is_numeric_host

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_SITE_LOCAL: Final = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fec0::/10", "fc00::/7")
]
WORDS: Final = ("loopback", "global", "site_local", "link_local", "non_loopback")
PATTERNS: Final = ("match-interface", "match-address", "match-host")
_BIND_FIELDS: Final = ("bind_addr", "external_addr", "diag_bind_addr")
ADDRESSES_MAX: Final = 5
"""The most own addresses that one error names."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of this machine."""

    name: str
    address: IP


def interfaces() -> list[Interface]:
    """Return the addresses of interfaces that are up, IPv4 first, in the system's order."""
    import psutil

    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found = [
        Interface(name, ipaddress.ip_address(entry.address.partition("%")[0]))
        for name, entries in psutil.net_if_addrs().items()
        if name in up
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return sorted(found, key=lambda interface: interface.address.version)


def own_addresses() -> str:
    """Return the addresses of this machine, for an error."""
    found = list(dict.fromkeys(str(interface.address) for interface in interfaces()))
    more = f" and {len(found) - ADDRESSES_MAX} more" if len(found) > ADDRESSES_MAX else ""
    return ", ".join(found[:ADDRESSES_MAX]) + more


def resolve_host(host: str) -> str:
    """Return the numeric address of a host name; numeric ones pass through. ValueError if unknown."""
    if host.lower() == "localhost":
        return "127.0.0.1"
    if is_numeric_host(host):
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f'unknown host "{host}": {error.strerror or error}') from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return str(found[0][4][0])


def resolve_all(host: str) -> tuple[str, ...]:
    """Return all numeric addresses of a host's name, IPv4 first. It may take many seconds. OSError if unknown."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve_bind_addr(text: str, known: Callable[[], Iterable[Interface]] | None = None) -> str:
    """Return the numeric address that a ``bind_addr`` means on this machine.

    ``known`` lists the machine's addresses (for tests). ValueError when nothing matches.
    """
    found: list[Interface] | None = None
    for part in text.split(","):
        word = part.strip()
        if not word:
            continue
        if is_numeric_host(word) and not _is_any(word):
            return word
        test = _test_of("non_loopback" if _is_any(word) else word)
        if test is None:
            return resolve_host(word)
        if found is None:
            found = list((known or interfaces)())
        for interface in found:
            if test(interface):
                return str(interface.address)
    raise ValueError(
        f'no address of this machine matches "{text}" (an address, a host, {", ".join(WORDS)}, '
        f"{':..., '.join(PATTERNS)}:...)"
    )


def _is_any(word: str) -> bool:
    """Is the address 0.0.0.0 or ::? Others could not reach us there."""
    return is_numeric_host(word) and ipaddress.ip_address(word.partition("%")[0]).is_unspecified


def _test_of(word: str) -> Callable[[Interface], bool] | None:
    """Return the condition that an interface must fulfil for a word; None: it is not one of the words."""
    kind, colon, pattern = word.partition(":")
    kind = kind.strip().lower().replace("_", "-")
    if colon and kind in PATTERNS:
        try:
            regex = re.compile(pattern.strip())
        except re.error as error:
            raise ValueError(f'not a regular expression: "{pattern}" ({error})') from None
        if kind == "match-interface":
            return lambda i: regex.fullmatch(i.name) is not None
        if kind == "match-address":
            return lambda i: regex.fullmatch(str(i.address)) is not None
        return lambda i: regex.fullmatch(_name_of(i.address)) is not None
    match kind:
        case "loopback":
            return lambda i: i.address.is_loopback
        case "non-loopback":
            return lambda i: not i.address.is_loopback and not i.address.is_link_local
        case "site-local":
            return lambda i: _is_site_local(i.address)
        case "link-local":
            return lambda i: i.address.is_link_local
        case "global":
            return lambda i: (
                not i.address.is_loopback
                and not i.address.is_link_local
                and not _is_site_local(i.address)
            )
    return None


def _is_site_local(address: IP) -> bool:
    return any(address in network for network in _SITE_LOCAL if network.version == address.version)


def _name_of(address: IP) -> str:
    try:
        return socket.gethostbyaddr(str(address))[0]
    except OSError:
        return str(address)


def with_numeric_hosts(
    stack: StackConfig, known: Callable[[], Iterable[Interface]] | None = None
) -> StackConfig:
    """Return a copy of the stack in which ``bind_addr`` is numeric, and ``localhost`` in ``initial_hosts``, too: ::1
    where the transport is bound to an IPv6 address.

    Raises:
        ConfigError: nothing matches, with the place in the file.
    """
    protocols: list[ProtocolConfig] = []
    loopback = "127.0.0.1"
    for protocol in stack.protocols:
        protocols.append(_numeric(protocol, known, loopback))
        if ":" in (protocols[0].get("bind_addr") or ""):  # the transport's address
            loopback = "::1"
    return replace(stack, protocols=tuple(protocols))


def _numeric(
    protocol: ProtocolConfig, known: Callable[[], Iterable[Interface]] | None, loopback: str
) -> ProtocolConfig:
    for attribute in protocol.attributes:
        try:
            text = _numeric_text(attribute, known, loopback)
        except ValueError as error:
            raise ConfigError(
                str(error),
                file=attribute.file or protocol.file,
                line=attribute.line,
                column=attribute.column,
                where=f"{protocol.short_name}.{attribute.key}",
            ) from None
        if text != attribute.text:
            protocol = protocol.with_attribute(replace(attribute, text=text))
    return protocol


def _numeric_text(
    attribute: Attribute, known: Callable[[], Iterable[Interface]] | None, loopback: str
) -> str:
    field = field_name(attribute.key)
    if field in _BIND_FIELDS and attribute.text.strip():
        return resolve_bind_addr(attribute.text, known)
    if field == "initial_hosts":
        hosts = parse_hosts(attribute.text)
        if all(host.lower() != "localhost" for host, _ in hosts):
            return attribute.text
        return hosts_text(
            tuple((loopback if host.lower() == "localhost" else host, port) for host, port in hosts)
        )
    return attribute.text
