"""Batch: a run of messages of one sender to one destination. The unit of every layer.

A single message is a run of one. All messages of a run share type, flags, source, destination and headers. Headers with
a ``sequence`` field advance by one from message to message, so a run is ``first seqno + payloads``. Work on one message
takes a slice, which is made when it is asked for.

A batch does not change after it was passed on. Layers make a new one, which is cheap: the payload list is shared unless
it is cut.

``payloads`` by ``type``: BYTES, FRAGMENT and NIO have bytes, a read-only memoryview, or None (null); EMPTY has None;
LONG has an int; OBJECT has a value of objects.py; for COMPOSITE and BATCH see wire/batches.py. Only BYTES has runs longer than
one.

``number`` counts the application's messages to ``dest`` from 1; it is the number of the first message, or 0 if the
message is not the application's. It stays in this member (``jgroups_py.values.lost``). The fragments of a message share
it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from typing import Protocol as Interface

from jgroups_py.values.address import Address
from jgroups_py.values.header import Header
from jgroups_py.values.light import light
from jgroups_py.values.message import Message, MessageType

H = TypeVar("H", bound=Header)
Headers = dict[int, Header]


@light
@dataclass(frozen=True, slots=True)
class Credit:
    """Flow-control bytes that are owed to ``sender`` until the batch was consumed."""

    sender: Address
    multicast: bool
    amount: int


@dataclass(slots=True)
class Batch:
    """A run of messages of one sender to one destination. A single message is a run of one.

    All messages share type, flags, source, destination and headers. A batch does not change after it was passed on: make a
    new one, with ``slice``, ``with_header`` or ``without_header``.

    ``dest`` is None for the group; ``src`` is None until it is set. A payload is bytes, a read-only memoryview or None where
    ``type`` is BYTES. ``credits`` are owed to the sender until the batch was consumed. ``number`` counts the application's
    messages to ``dest``; 0: the message is not the application's.
    """

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
    size_of_each: int = field(default=-1, init=False, compare=False, repr=False)
    """The size of each payload, if all are bytes and alike, and this is known; else -1."""

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
        """Return one message with one header. Its type is EMPTY unless a payload or a type is given."""
        if type is None:
            type = MessageType.EMPTY if payload is None else MessageType.BYTES
        return cls(dest, (payload,), {protocol_id: header}, None, flags, transient, type)

    def __len__(self) -> int:
        return len(self.payloads)

    def header(self, protocol_id: int, cls: builtins.type[H]) -> H | None:
        """Return the first message's header of that protocol, or None if it is absent or of another class."""
        header = self.headers.get(protocol_id)
        return header if isinstance(header, cls) else None

    def with_header(self, protocol_id: int, header: Header) -> Batch:
        """Return a copy with one more header, which is that of the first message."""
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
        batch.size_of_each = self.size_of_each
        return batch

    def without_header(self, protocol_id: int) -> Batch:
        """Return a copy without the header of that protocol."""
        headers = {key: value for key, value in self.headers.items() if key != protocol_id}
        return replace(self, headers=headers)

    def slice(self, start: int, stop: int) -> Batch:
        """Return the messages from ``start`` to before ``stop``, with advanced headers.

        The credits stay with the part that holds the last message, so that they are returned once.
        """
        if start == 0 and stop == len(self.payloads):
            return self
        headers, number = self.headers, self.number
        if start:
            headers = {key: value.at(start) for key, value in headers.items()}
            number += start if number else 0
        credits = self.credits if stop == len(self.payloads) else ()
        part = replace(
            self,
            payloads=self.payloads[start:stop],
            headers=headers,
            credits=credits,
            number=number,
        )
        each = self.size_of_each
        if each >= 0:
            part.sizes_are(each * len(part.payloads), each)
        return part

    @property
    def length(self) -> int:
        """Return the payload bytes of the run as flow control counts them (WIRE.md section 6)."""
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

    def sizes_are(self, length: int, each: int = -1) -> None:
        """Note ``length``, which the caller knows already, and ``size_of_each``."""
        self._length = length
        self.size_of_each = each

    def messages(self) -> Iterator[Message]:
        """Yield the run as single messages, with payloads copied to bytes."""
        assert self.src is not None
        for payload in self.payloads:
            yield Message(self.src, self.bytes_of(payload), self.dest, self.flags)

    def bytes_of(self, payload: Any) -> bytes:
        """Return one of the payloads as bytes. Null is empty. Other values (OBJECT, LONG, COMPOSITE, BATCH) are encoded as on the
        wire."""
        if payload is None:
            return b""
        if isinstance(payload, (bytes, memoryview, bytearray)):
            return bytes(payload)
        return _on_the_wire.encode(self, payload)


class OnTheWire(Interface):
    """Encodes a payload that is not bytes. The folder ``wire`` sets it, because it is above this one."""

    def length(self, type: int, payload: Any) -> int:
        """Return the bytes as flow control counts them (WIRE.md section 6)."""

    def encode(self, batch: Batch, payload: Any) -> bytes:
        """Return the payload as it stands behind the headers."""


_on_the_wire: OnTheWire


def measure_with(codec: OnTheWire) -> None:
    """Set the object that measures and encodes such payloads. ``wire.batches`` calls it when it is imported, and
    ``jgroups_py.stack`` imports it."""
    global _on_the_wire
    _on_the_wire = codec
