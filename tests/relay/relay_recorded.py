"""``RelayOut`` without a stack: it records the output of a part."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.status import OutOfSync, RelayCounters
from jgroups_py.protocols.relay.wire import Record
from jgroups_py.values.address import UUID, Address


class RecordedTimer:
    """A timer; the test decides when it fires."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.fire = callback
        self.deadline: float | None = None

    def start_at(self, deadline: float) -> None:
        self.deadline = deadline

    def cancel(self) -> None:
        self.deadline = None


class Recorded(RelayOut):
    """``clock`` is the time. ``told``: records to one member. ``said``: records to all. ``traces``: by name."""

    def __init__(self, me: UUID) -> None:
        self.me = me
        self.name = "RELAY"
        self.log = logging.LoggerAdapter(logging.getLogger("relay.parts"), {})
        self.counters = RelayCounters()
        self.out_of_sync = OutOfSync()
        self.clock = 0.0
        self.woken = 0
        self.told: list[tuple[Address, Record]] = []
        self.said: list[Record] = []
        self.copies: list[tuple[Address, bytes, int, int]] = []
        self.traces: list[tuple[str, dict[str, Any]]] = []

    @property
    def now(self) -> float:
        return self.clock

    @property
    def watched(self) -> bool:
        return True

    def trace(self, what: str, **details: Any) -> None:
        self.traces.append((what, details))

    def name_of(self, member: Address | None) -> str:
        return "" if member is None else member.hex()[:2]

    def shown(self, origin: bytes) -> str:
        return origin.hex()[:2]

    def timer(self, callback: Callable[[], None], name: str) -> Any:
        return RecordedTimer(callback)

    def wake(self) -> None:
        self.woken += 1

    def tell(self, dest: Address, record: Record) -> None:
        self.told.append((dest, record))

    def multicast(self, make: Callable[[int], Record]) -> int:
        self.said.append(make(len(self.said) + 1))
        return len(self.said)

    def send_copy(
        self, dest: Address, origin: bytes, first: int, payloads: Any, flags: int, type: int
    ) -> None:
        self.copies.append((dest, origin, first, len(payloads)))
