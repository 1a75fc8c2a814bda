"""Links: they carry the messages of a map between two hosts, over TCP, a channel or memory.

A driver of links calls the host of a map, and the host sends through the link. Nothing here waits. The window of the
replica and a limit of the driver bound a link's unsent bytes.
"""

from __future__ import annotations

from typing import Protocol

from jgroups_py.maps.digests import Side


class Link(Protocol):
    """One connection of one map with one peer."""

    def send(self, data: bytes) -> None:
        """Send one message, in the order of calls. After the end of the link it is ignored."""

    def close(self) -> None:
        """End the link when all sent messages have left. The host gets no more calls for it."""


class Medium(Protocol):
    """A medium of several links of one map: one message reaches all of them."""

    def send_all(self, data: bytes) -> None:
        """Send one message to all its links. Their peers take it with ``shared=True``."""


class LinkHost(Protocol):
    """The host of one map, for a driver of links. It is called from the driver's loop only."""

    def link_opened(self, link: Link, medium: Medium | None = None) -> int:
        """Begin a link with a connected peer. Return its number for the calls below. Messages may be sent before this
        returns."""

    def received(self, number: int, data: bytes, *, shared: bool = False) -> None:
        """Take one message of the peer. ``shared``: it was sent to all of the medium. Any bytes may come."""

    def overheard(self, data: bytes) -> None:
        """Take a message to all from a host without a link (of another site). Any bytes may come."""

    def link_closed(self, number: int) -> None:
        """End a link that the peer or the network has ended."""

    @property
    def compared(self) -> Side | None:
        """Return the map for comparisons by others. None: there is none."""
