"""RelayControl: the part of RELAY that a channel shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.state import ALL

if TYPE_CHECKING:
    from jgroups_py.driver import Driver
    from jgroups_py.protocols.relay.posts import PostListener
    from jgroups_py.protocols.relay.protocol import RELAY
    from jgroups_py.protocols.relay.status import RelayStatus
    from jgroups_py.stack.stack import Stack


class RelayControl:
    """State and operations of the RELAY protocol of one channel."""

    def __init__(self, stack: Stack, protocol: RELAY, driver: Driver) -> None:
        self._stack = stack
        self._protocol = protocol
        self._driver = driver

    def status(self) -> RelayStatus:
        """Return RELAY's own report: role, site, fill of the buffer."""
        return self._protocol.status()

    def promote(self) -> None:
        """Make this site primary, so that its traffic is relayed. Any member may be asked.

        Raises:
            LocalProtocolError: every site relays, or there is no view yet; nothing was changed.
        """
        with self._step():
            self._protocol.promote()

    def give_up(self, site: str) -> None:
        """Keep no messages for ``site`` any more. The messages that it then lacks are listed as out of sync."""
        with self._step():
            self._protocol.give_up(site)

    @property
    def site(self) -> str:
        """The name of this site."""
        return self._protocol.config.site

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that the stack file names, without this one."""
        config = self._protocol.config
        return tuple(name for name in dict.fromkeys(config.sites) if name != config.site)

    @property
    def epoch(self) -> tuple[int, str]:
        """(number, site) of the latest promotion that this member has heard of."""
        return self._protocol.state.epoch

    @property
    def active(self) -> bool:
        """True when every site relays to the others. Then no site is promoted."""
        return self._protocol.config.first_primary == ALL

    def listen(self, listener: PostListener | None) -> None:
        """Set the functions that get news of links to other sites, and posts of their relays. Blocks on top call it
        before the channel joins."""
        self._protocol.posts.listener = listener

    def post(self, site: str, payload: bytes) -> bool:
        """Send from this relay to the relay of a site, in order. Return False if there is no link or no room. A post
        that was sent may be lost when the link breaks."""
        with self._step():
            return self._protocol.posts.send(site, payload)

    @contextmanager
    def _step(self) -> Iterator[None]:
        machine = self._stack.machine
        machine.enter()
        try:
            yield
        finally:
            self._driver.guarded(machine.leave)
            self._driver.wake()
