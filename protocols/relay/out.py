"""The stack as the parts of RELAY see it: records to members, traces, the log, timers.

A part gets ``RelayOut`` and the parts below it, never RELAY itself. ``RelayOut`` gives no data that another part owns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from jgroups_py.protocols.relay.status import OutOfSync, RelayCounters
from jgroups_py.protocols.relay.wire import (
    CONTROL_FLAGS,
    CONTROL_HEADER,
    ID,
    PAYLOAD_FLAGS,
    SOURCE_ID,
    MessageKind,
    Record,
    encode,
)
from jgroups_py.stack.protocol import Protocol, Timer
from jgroups_py.values.address import UUID, Address, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType


class RelayOut:
    """``protocol``: whose stack it is. ``receive`` takes a record of this member to itself. If a part asks for it,
    ``on_tick`` runs after ``ack_interval`` and ``on_retry`` after ``retry_interval``."""

    def __init__(
        self,
        protocol: Protocol,
        receive: Callable[[Address, Record], None],
        on_tick: Callable[[], None],
        on_retry: Callable[[], None],
    ) -> None:
        self.me: UUID = protocol.local_address
        self.log: logging.LoggerAdapter[logging.Logger] = protocol.log
        self.name = protocol.name
        self.counters = RelayCounters()
        self.out_of_sync = OutOfSync()
        self.ticks = protocol.timer(on_tick)
        self.retry = protocol.timer(on_retry)
        self._protocol = protocol
        self._receive = receive
        self._serial = 0

    @property
    def now(self) -> float:
        return self._protocol.machine.now

    @property
    def watched(self) -> bool:
        """Return whether traces are read."""
        return self._protocol.machine.trace is not None

    @property
    def stack_name(self) -> str:
        return self._protocol.stack.name

    def trace(self, what: str, **details: Any) -> None:
        self._protocol.trace(what, **details)

    def name_of(self, member: Address | None) -> str:
        return self._protocol.name_of(member)

    def shown(self, origin: bytes) -> str:
        return self._protocol.name_of(UUID(origin))

    def soon(self, call: Callable[[], None]) -> None:
        """Run ``call`` when the running handlers have returned."""
        self._protocol.machine.soon(call)

    def timer(self, callback: Callable[[], None], name: str) -> Timer:
        return self._protocol.timer(callback, name)

    def wake(self) -> None:
        """Ask for the next tick."""
        if self.ticks.deadline is None:
            self.ticks.start(self._protocol.config.ack_interval)

    def ask_again(self) -> None:
        """Ask for a repetition of an unanswered question."""
        if not self.retry.armed:
            self.retry.start(self._protocol.config.retry_interval)

    # --- to members of this site

    def tell(self, dest: Address, record: Record) -> None:
        """Send a record to one member, which may be this member."""
        if dest == self.me:
            self._protocol.machine.soon(lambda: self._receive(dest, record))
            return
        self._pass(dest, (encode(record),), {ID: CONTROL_HEADER}, CONTROL_FLAGS, 0)

    def multicast(self, make: Callable[[int], Record]) -> int:
        """Multicast a record with the next serial number. Return the number."""
        serial = self._serial = self._serial + 1
        self._pass(None, (encode(make(serial)),), {ID: CONTROL_HEADER}, CONTROL_FLAGS, 0)
        return serial

    def multicast_run(self, batch: Batch, first: int, epoch: int, source: RelayHeader) -> None:
        """Multicast a run of another site."""
        headers = {ID: FragHeader(first, MessageKind.RELAYED, epoch), SOURCE_ID: source}
        self._pass(None, batch.payloads, headers, batch.flags & PAYLOAD_FLAGS, batch.type)

    def send_copy(
        self, dest: Address, origin: bytes, first: int, payloads: Any, flags: int, type: int
    ) -> None:
        """Send a run of a buffer to a member that collects."""
        source = RelayHeader(RelayType.DATA, original_sender=UUID(origin))
        headers = {ID: FragHeader(first, MessageKind.COPY, 0), SOURCE_ID: source}
        self._pass(dest, payloads, headers, flags | CONTROL_FLAGS, type)

    def _pass(
        self,
        dest: Address | None,
        payloads: Any,
        headers: dict[int, Header],
        flags: int,
        type: int,
    ) -> None:
        self._protocol.pass_down(Batch(dest, payloads, headers, self.me, flags, 0, type))

    # --- problems

    def refuse(self, src: Address | None, problem: object) -> None:
        """Count and trace an impossible record, which is dropped."""
        self.counters.malformed += 1
        self.trace("malformed", src=str(src), problem=str(problem))

    def turn_away(self, cause: str, source: Address) -> None:
        """Count and log the refusal of a peer on the bridge."""
        self._protocol.turn_away(cause, source)

    def dropped_duplicates(self, sender: SiteUUID, first: int, count: int) -> None:
        self.counters.duplicates_dropped += count
        if self.watched:
            self.trace("dup_dropped", origin=str(sender), seqno=first, count=count)

    def lost(self, site: str, origin: str, first: int, last: int, how: str) -> None:
        """Report numbers that one of two sites will never get."""
        self.counters.gaps += 1
        self.out_of_sync.add(site, origin, first, last)
        self.log.warning("out of sync with %s: %s %d..%d are lost", site, origin, first, last)
        count = last + 1 - first
        self.trace("gap", origin=origin, seqno=first, count=count, site=site, how=how)
