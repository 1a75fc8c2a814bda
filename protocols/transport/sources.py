"""Sources: the places of the view's members, and whether a packet in a member's name comes from such a place.

A table without a stack; the transport asks it for each packet and counts refusals.

    a member's place          the address that it told before it was in the view, and the network end from which it told
                              that (behind address translation it is another one)
    a packet of a member      comes from the place of a member. Members repeat each other's messages, so it need not be
                              the sender's own
    a packet of others        is not checked: a sender outside the view has no place yet
    another place             of a member that has one is not believed: a process keeps its place as long as its address

Limits:  one end of each sender outside the view whose address the transport remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.values.address import Address, IpAddress

End = tuple[str, int]
"""A network end: host and port."""


class Sources:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._last: tuple[Address, End] | None = None
        """The sender of the packet that is being read, and its end, if the sender has no place yet."""
        self._told_from: dict[Address, End] = {}
        """Sender outside the view -> the first end from which it told its place."""
        self._ends: dict[Address, dict[End, None]] = {}
        """The ends of each member of the view whose place is known."""
        self._all: dict[End, None] = {}
        """The same ends."""

    def admits(self, src: Address, source: End) -> bool:
        """Return whether a packet of ``src`` may come from ``source``."""
        if src not in self._ends:
            self._last = src, source
            return True
        self._last = None
        return source in self._all or _plain(source) in self._all

    def packet_read(self) -> None:
        """Note that the packet has been handed up."""
        self._last = None

    def is_of_member(self, end: End) -> bool:
        """Return whether a member of the view is at ``end``."""
        return end in self._all

    def learned(self, member: Address, physical: IpAddress, *, present: bool) -> None:
        """Note that the packet that is being read tells the place of ``member``. ``present``: it is in the view."""
        if self._last is not None and self._last[0] == member:
            self._told_from.setdefault(member, _plain(self._last[1]))
        if present and member not in self._ends:
            self._set(member, physical)

    def forget(self, member: Address) -> None:
        """Forget the place of ``member``, which is not in the view, because the transport does."""
        self._told_from.pop(member, None)

    def view_installed(
        self, members: Iterable[Address], places: Mapping[Address, IpAddress]
    ) -> None:
        """Note the members of a new view. ``places``: those that are known."""
        kept, self._ends, self._all = self._ends, {}, {}
        self._last = None
        for member in members:
            ends = kept.pop(member, None)
            if ends is not None:
                self._ends[member] = ends
                self._all.update(ends)
            elif (physical := places.get(member)) is not None:
                self._set(member, physical)
        for former, ends in kept.items():
            self._told_from[former] = next(reversed(ends))

    def _set(self, member: Address, physical: IpAddress) -> None:
        ends: dict[End, None] = {}
        if physical.host is not None:
            ends[physical.host, physical.port] = None
        told_from = self._told_from.pop(member, None)
        if told_from is not None:
            ends[told_from] = None
        if ends:
            self._ends[member] = ends
            self._all.update(ends)

    def check(self, places: Mapping[Address, IpAddress]) -> None:
        assert self._told_from.keys() <= places.keys() - self._ends.keys()
        assert self._all.keys() == {end for ends in self._ends.values() for end in ends}


def _plain(end: End) -> End:
    """Return ``end`` without the scope of IPv6 (``fe80::1%eth0``)."""
    return end[0].partition("%")[0], end[1]
