"""SHARED_LOOPBACK: for members in one process, in simulations and tests.

Place: bottom of the stack.

It works as UDP, on a multicast group of its own that does not leave the host (TTL 0). Under the simulator
the datagrams are handed over in memory; on a real machine they go through the loopback device.

Source:  JGroups SHARED_LOOPBACK.java.
Differs: JGroups passes objects by reference; here they are encoded, so that a test sees the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.protocols.transport.udp import UDP


class SHARED_LOOPBACK(UDP):
    """See the module's docstring."""

    @dataclass(frozen=True, kw_only=True)
    class Config(UDP.Config):
        mcast_addr: str = "239.255.0.1"
        """A group that no other program uses."""
        mcast_port: int = 45599
        """See mcast_addr."""
        ip_ttl: int = 0
        """Multicasts stay on this host."""

    config: Config
