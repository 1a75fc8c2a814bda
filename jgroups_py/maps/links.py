"""Links: what carries the messages of a map between two hosts, whatever it is made of (TCP, a channel, memory).

A driver of links tells the host of a map what happens, and the host sends through the link. Nothing here waits: what a link has not sent yet
is bounded by the window of the replica, and by a limit of the driver.
"""

from __future__ import annotations

from typing import Protocol

from jgroups_py.maps.digests import Side


class Link(Protocol):
    """One connection of one map with one peer."""

    def send(self, data: bytes) -> None:
        """Sends one message, in the order of calls. After the end of the link nothing happens."""

    def close(self) -> None:
        """Ends the link as soon as what was sent has left. The host hears nothing more of it."""


class Medium(Protocol):
    """What several links of one map share: one message reaches all of them."""

    def send_all(self, data: bytes) -> None:
        """Sends one message to all its links, the peers of which take it with ``shared=True``."""


class LinkHost(Protocol):
    """The host of one map, as a driver of links sees it. It is called from the driver's loop only."""

    def link_opened(self, link: Link, medium: Medium | None = None) -> int:
        """A peer is connected. Gives the number of the link for the calls below. Messages may be sent before this returns."""

    def received(self, number: int, data: bytes, *, shared: bool = False) -> None:
        """One message of the peer, which it has sent to all of the medium if ``shared``. Any bytes may come."""

    def overheard(self, data: bytes) -> None:
        """A message to all of somebody with whom there is no link (of another site). Any bytes may come."""

    def link_closed(self, number: int) -> None:
        """The peer, or the network, has ended it."""

    @property
    def compared(self) -> Side | None:
        """What others may compare their map with; None: nothing."""
