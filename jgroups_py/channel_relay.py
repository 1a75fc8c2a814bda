"""What a channel shows of RELAY."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jgroups_py.driver import Driver
    from jgroups_py.protocols.relay import RELAY
    from jgroups_py.protocols.relay_status import RelayStatus
    from jgroups_py.stack import Stack


class RelayControl:
    """State and operations of the RELAY protocol of one channel."""

    def __init__(self, stack: Stack, protocol: RELAY, driver: Driver) -> None:
        self._stack = stack
        self._protocol = protocol
        self._driver = driver

    def status(self) -> RelayStatus:
        """Role, site, buffer fill: what RELAY says of itself."""
        return self._protocol.status()

    def promote(self) -> None:
        """This site becomes primary: relaying starts in its direction. Any member may be told.

        Raises:
            LocalProtocolError: every site relays, or there is no view yet; nothing was changed.
        """
        with self._step():
            self._protocol.promote()

    def give_up(self, site: str) -> None:
        """``site`` no longer holds messages back; what it then lacks is listed as out of sync."""
        with self._step():
            self._protocol.give_up(site)

    @contextmanager
    def _step(self) -> Iterator[None]:
        machine = self._stack.machine
        machine.enter()
        try:
            yield
        finally:
            machine.leave()
            self._driver.wake()
