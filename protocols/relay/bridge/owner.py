"""One bridge stack of a relay: it sends messages and passes incoming ones on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jgroups_py.protocols.relay.posts import POST_HEADER
from jgroups_py.protocols.relay.wire import (
    CONTROL_FLAGS,
    CONTROL_HEADER,
    ID,
    SOURCE_ID,
    Bridged,
    encode,
)
from jgroups_py.stack.sides import StackSide
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Disconnected, Event, Expel, Failed
from jgroups_py.wire.headers import FragHeader, RelayHeader


class BridgeLink:
    """The owner of one bridge stack. From a closing stack it passes on only the end."""

    def __init__(
        self,
        deliver: Callable[[Batch], None],
        notify: Callable[[Event], None],
        ended: Callable[[BridgeLink, Event], None],
    ) -> None:
        self.stack: StackSide
        self.is_heard = False
        """Is this the bridge's present link?"""
        self.then: Callable[[], None] | None = None
        """Called at the end of a closing link."""
        self._deliver, self._notify, self._ended = deliver, notify, ended

    # --- from the stack

    def deliver(self, batch: Batch) -> None:
        if self.is_heard:
            self._deliver(batch)
        else:
            self.stack.consumed(batch)

    def notify(self, event: Event) -> None:
        match event:
            case Disconnected() | Expel() | Failed():
                self._ended(self, event)
            case _ if self.is_heard:
                self._notify(event)

    # --- to a peer

    def run(
        self,
        peer: Address,
        payloads: Sequence[Any],
        header: FragHeader,
        source: RelayHeader,
        flags: int,
        type: int,
    ) -> None:
        """Send messages of one origin, the first with the number in ``header``."""
        headers = {ID: header, SOURCE_ID: source}
        self.stack.send(Batch(peer, payloads, headers, None, flags | CONTROL_FLAGS, 0, type))

    def tell(self, peer: Address, record: Bridged) -> None:
        self.stack.send(
            Batch.of(peer, ID, CONTROL_HEADER, payload=encode(record), flags=CONTROL_FLAGS)
        )

    def post(self, peer: Address, payload: bytes) -> None:
        self.stack.send(Batch.of(peer, ID, POST_HEADER, payload=payload, flags=CONTROL_FLAGS))
