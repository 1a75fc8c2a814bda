"""exposure: a stack's ports on the network, and the traffic that it encrypts. Each protocol reports its part.

A protocol answers two questions from its settings alone, before any socket is opened:

    port_uses(config, place)   the ports that it listens on, and those that it connects or sends to
    protects(config)           traffic that it encrypts wherever it travels, and how: {MESSAGES: "AES-GCM"}

``exposed`` refuses a stack whose messages leave this machine in clear by accident. A carrier that encrypts the traffic
of its own sockets (TLS) reports it in ``PortUse.sealed``. ``jgroups-py validate`` prints the answers as a list for a
firewall and as a table of traffic in clear.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from jgroups_py.config.model import StackConfig
from jgroups_py.errors import ConfigError

MESSAGES: Final = "messages"
HEADERS: Final = "headers"
DISCOVERY: Final = "discovery"
FAILURES: Final = "failure detection"
DIRECTORY: Final = "directory"
DIAGNOSTICS: Final = "diagnostics"

TRAFFIC: Final[Mapping[str, str]] = {
    MESSAGES: "what applications and caches send",
    HEADERS: "views, acknowledgements, names of members and of the cluster",
    DISCOVERY: "the members and their addresses",
    FAILURES: "connections that break when a process ends",
    DIRECTORY: "questions to a directory outside the group",
    DIAGNOSTICS: "answers to probes: addresses, names, settings, counters",
}
"""Kinds of traffic, with their contents."""
BY_MEMBERS: Final = (MESSAGES, HEADERS)
"""The traffic that a transport carries at least."""

Built = Sequence[tuple[type[Any], Any]]


@dataclass(frozen=True, slots=True)
class TransportPlace:
    """The address and ports at which the transport may be: ``first`` to ``last``, or any port if ``first`` is 0.
    ``sealed``: how the transport encrypts connections, its own and those of protocols that take part."""

    host: str
    first: int = 0
    last: int = 0
    sealed: str = ""


@dataclass(frozen=True, slots=True)
class PortUse:
    """Ports of one protocol, in one direction.

    ``way``: ``in``: traffic to this member; ``out``: traffic that it begins. ``first`` is 0 for any port; then
    ``setting`` is the attribute that fixes it. ``bound`` is the own address. ``address`` is where packets go: the own
    address, a multicast group, or the destination of ``out``; empty means the other members. ``sealed``: how the
    protocol encrypts it itself. ``protocol`` is filled in by ``port_uses``.
    """

    proto: Literal["udp", "tcp"]
    way: Literal["in", "out"]
    first: int
    last: int
    bound: str
    address: str
    carries: tuple[str, ...]
    why: str
    setting: str = ""
    sealed: str = ""
    protocol: str = ""

    @property
    def multicast(self) -> bool:
        """Return whether the address is that of a multicast group."""
        return is_multicast(self.address)

    @property
    def local(self) -> bool:
        """Return whether all of it stays on this machine."""
        return is_loopback(self.bound) or is_loopback(self.address)


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of traffic of one protocol. ``sealed`` has every protocol that encrypts it. Without one it is in clear.
    ``local``: it does not leave this machine."""

    protocol: str
    traffic: str
    sealed: tuple[str, ...]
    local: bool


def port_uses(built: Built, host: str = "127.0.0.1") -> tuple[PortUse, ...]:
    """Return the ports of all protocols of a stack, bottom first. ``host`` is where a stack without ``bind_addr`` binds."""
    place = place_of(built, host)
    return tuple(
        replace(use, protocol=cls.__name__)
        for cls, config in built
        for use in cls.port_uses(config, place)
    )


def place_of(built: Built, host: str = "127.0.0.1") -> TransportPlace:
    """Return the host and the ports that the transport of a stack may have."""
    _, config = built[0]
    first = getattr(config, "bind_port", 0)
    last = min(first + getattr(config, "port_range", 0), 65535) if first else 0
    sealed = getattr(config, "sealed", "")
    return TransportPlace(getattr(config, "bind_addr", "") or host, first, last, sealed)


def flows(built: Built, host: str = "127.0.0.1") -> tuple[Flow, ...]:
    """Return each kind of traffic of each protocol, with the protocols that encrypt it."""
    layers: dict[str, list[str]] = {}
    for cls, config in built:
        for traffic, how in cls.protects(config).items():
            layers.setdefault(traffic, []).append(f"{cls.__name__} ({how})")
    found: dict[tuple[str, str], Flow] = {}
    for use in port_uses(built, host):
        for traffic in use.carries:
            own = [f"{use.protocol} ({use.sealed})"] if use.sealed else []
            flow = Flow(use.protocol, traffic, (*own, *layers.get(traffic, ())), use.local)
            before = found.get((use.protocol, traffic))
            if before is not None:
                # The traffic is in clear if one of its ways is, and leaves the machine if one of them does.
                sealed = min(before.sealed, flow.sealed, key=len)
                flow = replace(flow, sealed=sealed, local=before.local and flow.local)
            found[use.protocol, traffic] = flow
    return tuple(found.values())


def exposed(stack: StackConfig, built: Built, host: str = "127.0.0.1") -> ConfigError | None:
    """Return the problem if messages leave this machine unencrypted, unless ``insecure`` of the transport allows it.
    ``built`` is ``config.build(stack)``."""
    bare = [
        flow
        for flow in flows(built, host)
        if flow.traffic == MESSAGES and not (flow.sealed or flow.local)
    ]
    transport = stack.protocols[0]
    if not bare or getattr(built[0][1], "insecure", False):
        return None
    at = next((a for a in transport.attributes if a.key == "bind_addr"), None)
    return ConfigError(
        f"others could read and forge what members send from {place_of(built, host).host}, because nothing "
        f'encrypts it: add SEAL or SYM_ENCRYPT to the stack, or insecure="true" to {transport.short_name} if everybody in '
        "that network is trusted (JGROUPS_INSECURE=true does it in shipped stacks)",
        file=transport.file if at is None else at.file or transport.file,
        line=transport.line if at is None else at.line,
        column=transport.column if at is None else at.column,
        where=f"{transport.short_name}.bind_addr",
    )


def is_loopback(host: str) -> bool:
    """Return whether a text is a numeric address of this machine alone, or the word loopback."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.strip().lower() in ("loopback", "localhost")


def is_multicast(host: str) -> bool:
    """Return whether a text is a numeric multicast address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_multicast
    except ValueError:
        return False
