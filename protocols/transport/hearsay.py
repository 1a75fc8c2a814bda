"""Hearsay: places of processes outside the view that were reported from another host.

A table without a stack; the transport asks it. Any host may report a place for any member, and a transport with
connections would connect to every place that a stranger names. So it remembers which places are only hearsay:

    told from the place's own host      believed: the sender can harm only its own host
    told by a member of the view        believed
    told before the first view          believed: a joiner knows no member yet
    told by a stranger elsewhere        hearsay: TCP opens no connection to it. A connection from there is used, so
                                        a joiner behind address translation, whose handshake says where it listens,
                                        is answered
    the member is in the view           believed

Limits:  the addresses that the transport remembers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from jgroups_py.values.address import Address, IpAddress


class Hearsay:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._host = ""
        """The host of the stranger whose packet is being read. Empty: there is none."""
        self._members: dict[Address, None] = {}

    def __contains__(self, member: Address) -> bool:
        """Return whether the place of ``member`` that is remembered is hearsay."""
        return member in self._members

    def reading(self, host: str) -> None:
        """Note that a packet of a stranger is being read. It came from ``host``."""
        self._host = host.partition("%")[0]

    def packet_read(self) -> None:
        """Note that the packet has been handed up."""
        self._host = ""

    def is_told(self, physical: IpAddress, host: str = "") -> bool:
        """Return whether ``physical`` is told now by a stranger on another host. ``host``: the origin of a packet that
        did not come through the transport."""
        told_from = host.partition("%")[0] or self._host
        return bool(told_from) and physical.host is not None and physical.host != told_from

    def remember(self, member: Address) -> None:
        self._members[member] = None

    def forget(self, member: Address) -> None:
        """Unmark ``member``, because its place is believed or forgotten."""
        self._members.pop(member, None)

    def view_installed(self, members: Iterable[Address]) -> None:
        for member in members:
            self.forget(member)

    def check(self, known: Container[Address], members: Container[Address]) -> None:
        for member in self._members:
            assert member in known and member not in members
