"""A user's protocol with a header of its own; ``interop/java/Stamp.java`` is the same in Java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.stack import Batch, Header, Protocol, register_header
from jgroups_py.values.address import Address


@register_header
@dataclass(frozen=True, slots=True)
class StampHeader(Header):
    magic_id = 2002
    sequence: ClassVar[str | None] = "number"
    number: int
    big: int
    share: float
    yes: bool
    text: str
    note: str | None
    data: bytes
    more: bytes | None
    who: Address | None


class STAMPS(Protocol):
    """Stamps outgoing messages, and keeps the stamps of incoming ones."""

    protocol_id = 2001
    opened: ClassVar[list[STAMPS]] = []

    def start(self) -> None:
        self.opened.append(self)
        self.next = 0
        self.found: list[StampHeader] = []

    def down(self, batch: Batch) -> None:
        first = self.next
        self.next += len(batch)
        header = StampHeader(first, -7, 0.5, False, "Łódź", None, b"abc", b"", self.stack.address)
        self.pass_down(batch.with_header(self.protocol_id, header))

    def up(self, batch: Batch) -> None:
        header = batch.header(self.protocol_id, StampHeader)
        if header is not None:
            self.found += [header.at(index) for index in range(len(batch))]
        self.pass_up(batch)
