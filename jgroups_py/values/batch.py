"""Batch: a run of messages of one sender to one destination. The unit of every layer.

A single message is a run of one. All messages of a run share type, flags, source, destination and
headers; headers with a ``sequence`` field advance by one from message to message, so a run is
``first seqno + payloads``. Per-message work is a slice, made when asked for.

A batch is not changed once it has been passed on: layers make a new one (cheap: the payload list
is shared unless it is cut).

``payloads`` by ``type``: BYTES, FRAGMENT and NIO: bytes, a read-only memoryview, or None (null);
EMPTY: None; LONG: int; OBJECT: a value of objects.py; COMPOSITE and BATCH: see packets.py. Runs
longer than one occur for BYTES only.

``number``: which of the application's messages to ``dest`` the first one is, from 1; 0: it is none of the
application's. It stays in this member (``jgroups_py.values.lost``); the fragments of a message share it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from typing import Protocol as Interface

from jgroups_py.values.address import Address
from jgroups_py.values.header import Header
from jgroups_py.values.message import Message, MessageType

H = TypeVar("H", bound=Header)
Headers = dict[int, Header]


@dataclass(frozen=True, slots=True)
class Credit:
    """Flow-control bytes that are owed to ``sender`` until the batch was consumed."""

    sender: Address
    multicast: bool
    amount: int


@dataclass(slots=True)
class Batch:
    """See the module's docstring. ``dest`` None = to the group; ``src`` None = not yet set."""

    dest: Address | None
    payloads: Sequence[Any]
    headers: Headers
    src: Address | None = None
    flags: int = 0
    transient: int = 0
    type: int = MessageType.BYTES
    credits: tuple[Credit, ...] = ()
    number: int = field(default=0, compare=False)
    _length: int = field(default=-1, init=False, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        dest: Address | None,
        protocol_id: int,
        header: Header,
        *,
        payload: Any = None,
        type: int | None = None,
        flags: int = 0,
        transient: int = 0,
    ) -> Batch:
        """One message with one header; EMPTY unless a payload or a type is given."""
        if type is None:
            type = MessageType.EMPTY if payload is None else MessageType.BYTES
        return cls(dest, (payload,), {protocol_id: header}, None, flags, transient, type)

    def __len__(self) -> int:
        return len(self.payloads)

    def header(self, protocol_id: int, cls: builtins.type[H]) -> H | None:
        """The first message's header of that protocol, None if absent or of another class."""
        header = self.headers.get(protocol_id)
        return header if isinstance(header, cls) else None

    def with_header(self, protocol_id: int, header: Header) -> Batch:
        """A copy that carries one more header (which stands for the first message)."""
        batch = Batch(
            self.dest,
            self.payloads,
            {**self.headers, protocol_id: header},
            self.src,
            self.flags,
            self.transient,
            self.type,
            self.credits,
            self.number,
        )
        batch._length = self._length
        return batch

    def without_header(self, protocol_id: int) -> Batch:
        headers = {key: value for key, value in self.headers.items() if key != protocol_id}
        return replace(self, headers=headers)

    def slice(self, start: int, stop: int) -> Batch:
        """Messages ``start`` (inclusive) to ``stop`` (exclusive), headers advanced.

        The credits stay with the part that holds the last message, so that they are returned once.
        """
        if start == 0 and stop == len(self.payloads):
            return self
        headers, number = self.headers, self.number
        if start:
            headers = {key: value.at(start) for key, value in headers.items()}
            number += start if number else 0
        credits = self.credits if stop == len(self.payloads) else ()
        return replace(
            self,
            payloads=self.payloads[start:stop],
            headers=headers,
            credits=credits,
            number=number,
        )

    @property
    def length(self) -> int:
        """Payload bytes of the run as flow control counts them (WIRE.md section 6)."""
        length = self._length
        if length < 0:
            if self.type == MessageType.BYTES:
                try:
                    length = sum(map(len, self.payloads))
                except TypeError:  # null payloads
                    length = sum([len(p) for p in self.payloads if p is not None])
            else:
                length = sum(_on_the_wire.length(self.type, p) for p in self.payloads)
            self._length = length
        return length

    def messages(self) -> Iterator[Message]:
        """The run as single messages, payloads copied to bytes."""
        assert self.src is not None
        for payload in self.payloads:
            yield Message(self.src, self.bytes_of(payload), self.dest, self.flags)

    def bytes_of(self, payload: Any) -> bytes:
        """One of the payloads as bytes: null is empty, and what is not bytes (OBJECT, LONG,
        COMPOSITE, BATCH) is encoded as it stands on the wire."""
        if payload is None:
            return b""
        if isinstance(payload, (bytes, memoryview, bytearray)):
            return bytes(payload)
        return _on_the_wire.encode(self, payload)


class OnTheWire(Interface):
    """What a payload that is not bytes is on the wire. The room ``wire`` knows; it is above this one."""

    def length(self, type: int, payload: Any) -> int:
        """Bytes as flow control counts them (WIRE.md section 6)."""

    def encode(self, batch: Batch, payload: Any) -> bytes:
        """The payload as it stands behind the headers."""


_on_the_wire: OnTheWire


def measure_with(codec: OnTheWire) -> None:
    """Sets what measures and encodes such payloads. ``wire.packet`` calls it when it is imported, which
    ``jgroups_py.stack`` does."""
    global _on_the_wire
    _on_the_wire = codec
