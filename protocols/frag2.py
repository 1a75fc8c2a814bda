"""FRAG2: cut messages that are larger than ``frag_size``, and put them together again.

Place: above MFC and UFC, below STATE_TRANSFER.

    message from above          larger than frag_size: fragments, each an ordinary message
    fragment from below         keep it; all there: the message, as it was sent
    ViewChange                  drop incomplete messages of members that left
    stranger_timeout            drop those of senders outside the view that stay silent
    the next message in order   drop incomplete ones before it: a merge, a state or a join has
                                moved the window of its sender into them

Only the large messages of a run are cut; the others stay together, in order. A
message of bytes is sliced; any other is serialised first. The credits of the fragments are those of
the message, so its sender is held back until it was consumed. Flow control hears of the bytes of incomplete messages
(IncompleteBytes) and gives them back in advance, because a message larger than the credits could otherwise never arrive.

Source:  JGroups FRAG2.java; WIRE.md 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.frag2_config import Frag2Config
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import FRAGMENTATION
from jgroups_py.stack.windows import compact
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Consumed,
    Event,
    IncompleteBytes,
    Query,
    SharedAttribute,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, NakAckHeader2, UnicastHeader3
from jgroups_py.wire.single import decode_nested, encode_nested

_ID: Final = PROTOCOL_IDS["FRAG2"]
_NAKACK: Final = PROTOCOL_IDS["NAKACK2"]
_UNICAST: Final = PROTOCOL_IDS["UNICAST3"]
_OVERHEAD: Final = 200
"""Bytes that a fragment costs besides its payload."""
_UNORDERED: Final = int(Flag.OOB | Flag.NO_FC | Flag.NO_RELIABILITY)
"""Messages with one of these may overtake others, also fragments that wait for credits."""
_SLICED: Final = (MessageType.BYTES, MessageType.NIO)


def _stream(batch: Batch) -> bool | None:
    """Return the ordered stream of a batch: True for its sender's multicasts, False for its sender's unicasts to this
    member. None: its messages may overtake others."""
    return None if batch.flags & _UNORDERED else batch.dest is None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a message among those of its sender: its seqno on a connection (None: multicasts)."""

    conn: int | None
    seqno: int


def _place(batch: Batch) -> _Place | None:
    """Return the batch's place in the order of its sender; None where it has no number."""
    number = batch.headers.get(_NAKACK if batch.dest is None else _UNICAST)
    if type(number) is NakAckHeader2:
        return _Place(None, number.seqno)
    if type(number) is UnicastHeader3:
        return _Place(number.conn_id, number.seqno)
    return None


def _longest(payloads: Sequence[Any]) -> int:
    """Return the bytes of the longest payload. Null has none."""
    try:
        return max(map(len, payloads))
    except TypeError:
        return max([len(one) for one in payloads if one is not None], default=0)


class _Puzzle:
    """A message of which some fragments have come. Sizes are in bytes."""

    __slots__ = (
        "count",
        "got",
        "held",
        "parts",
        "place",
        "refused",
        "serialised",
        "size",
        "stream",
    )

    def __init__(self, header: FragHeader, batch: Batch) -> None:
        self.stream = _stream(batch)
        self.place = _place(batch)
        """The place of the fragment that came first."""
        self.count = header.count
        self.serialised = header.needs_deserialization
        self.parts: dict[int, Batch] = {}
        """Index -> fragment. It is empty if ``refused``."""
        self.got = 0
        self.size = 0
        self.held: dict[bool, int] = {}
        """Credits: of multicasts (True), of unicasts."""
        self.refused = False

    def is_before(self, place: _Place | None) -> bool:
        """Return whether the message was sent before the one at ``place``: then its other fragments will not come."""
        mine = self.place
        if mine is None or place is None or (mine.conn is None) != (place.conn is None):
            return False
        return mine.conn != place.conn or mine.seqno < place.seqno


class _Puzzles:
    """Incomplete messages of one sender, by fragmentation id. Sizes are in bytes."""

    __slots__ = ("at", "held", "open", "size")

    def __init__(self) -> None:
        self.at = 0.0
        """The time when the last fragment came."""
        self.open: dict[int, _Puzzle] = {}
        self.size = 0
        self.held = {True: 0, False: 0}
        """Credits: of multicasts (True), of unicasts."""


@mypyc_attr(allow_interpreted_subclasses=True)
class FRAG2(Protocol):
    """See the module's docstring."""

    protocol_id: ClassVar[int] = _ID
    provides = (FRAGMENTATION,)

    @classmethod
    def piece_max(cls, config: Any) -> int | None:
        """Return the largest payload of a fragment."""
        return int(config.frag_size)

    Config: TypeAlias = Frag2Config

    config: Frag2Config

    def start(self) -> None:
        self._size = self.config.frag_size
        self._next_id = 1
        self._puzzles: dict[Address, _Puzzles] = {}
        self._view: View | None = None
        self._forgetting = self.timer(self._on_forgetting)

        self.messages_cut = 0
        self.fragments_sent = 0
        self.fragments_received = 0
        self.messages_assembled = 0
        self.duplicates = 0
        self.refused = 0
        """Messages that were too large to be assembled."""
        self.torn = 0
        """Fragments of messages whose beginning this member does not get."""
        self.dropped = 0
        """Incomplete messages that were given up."""
        self.bad = 0

    def stop(self) -> None:
        self._forgetting.cancel()

    # --- cutting

    def down(self, batch: Batch) -> None:
        length = batch._length
        if length < 0:
            length = batch.length
        if length <= self._size:
            self.pass_down(batch)
            return
        if batch.type not in _SLICED:
            self._cut(batch, encode_nested(batch), True)
            return
        payloads = batch.payloads
        each = batch.size_of_each
        if (each if each >= 0 else _longest(payloads)) <= self._size:
            self.pass_down(batch)
            return
        start = 0
        for index, payload in enumerate(payloads):
            if payload is None or len(payload) <= self._size:
                continue
            if start < index:
                self.pass_down(batch.slice(start, index))
            self._cut(batch.slice(index, index + 1), payload, False)
            start = index + 1
        if start < len(payloads):
            self.pass_down(batch.slice(start, len(payloads)))

    def _cut(self, batch: Batch, data: bytes | memoryview, serialised: bool) -> None:
        size = self._size
        count = (len(data) + size - 1) // size
        number = self._next_id
        self._next_id += 1
        self.messages_cut += 1
        self.fragments_sent += count
        view = memoryview(data)
        kind = MessageType.BYTES if serialised else batch.type
        headers = {} if serialised else batch.headers
        for index in range(count):
            header = FragHeader(number, index, count, serialised)
            self.pass_down(
                replace(
                    batch,
                    payloads=(view[index * size : (index + 1) * size],),
                    headers={**headers, _ID: header},
                    type=kind,
                )
            )
            headers = {}

    # --- putting together

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is None:
            if self._puzzles:
                self._end_torn(batch, None)
            self.pass_up(batch)
            return
        for index in range(len(batch.payloads)):
            one = batch.slice(index, index + 1)
            self._on_fragment(one, one.headers[_ID])

    def _on_fragment(self, batch: Batch, header: object) -> None:
        src, part = batch.src, batch.payloads[0]
        if (
            type(header) is not FragHeader
            or src is None
            or not 0 <= header.index < header.count
            or not isinstance(part, bytes | memoryview)
            or not part
        ):
            self._reject(batch)
            return
        self.fragments_received += 1
        self._end_torn(batch, header.id)
        table = self._puzzles.get(src)
        puzzle = None if table is None else table.open.get(header.id)
        if puzzle is None and header.index and not batch.flags & _UNORDERED:
            self._torn(batch)
            return
        if table is None:
            table = self._new_table(src)
        table.at = self.now
        if puzzle is None:
            if len(table.open) >= self.config.max_messages:
                self._drop(src, table, next(iter(table.open)))
            puzzle = table.open[header.id] = _Puzzle(header, batch)
        if puzzle.count != header.count or puzzle.serialised != header.needs_deserialization:
            self._reject(batch)
            return
        if header.index in puzzle.parts:
            self.duplicates += 1
            self.consume(batch)
            return
        puzzle.got += 1
        if not puzzle.refused and not self._fits(src, table, puzzle, header, part):
            self._refuse(src, table, puzzle, header.id)
        if puzzle.refused:
            self.consume(batch)
        else:
            self._keep(src, table, puzzle, batch, header.index, len(part))
        if puzzle.got == puzzle.count:
            self._complete(src, table, puzzle, header.id)

    def _torn(self, batch: Batch) -> None:
        """Drop a fragment whose predecessors will not come: they were sent before a merge or a state."""
        self.torn += 1
        self.consume(batch)

    def _end_torn(self, batch: Batch, number: int | None) -> None:
        """Drop incomplete messages before the next message of an ordered stream, out of band or not: their other
        fragments will not come. Members of ours send all fragments of a message together; others may mix them."""
        src = batch.src
        table = None if src is None else self._puzzles.get(src)
        stream = _stream(batch)
        if table is None or stream is None or not (isinstance(src, UUID) and src.is_ours):
            return
        place = _place(batch)
        old = [
            n
            for n, puzzle in table.open.items()
            if n != number
            and (puzzle.stream == stream or (puzzle.stream is None and puzzle.is_before(place)))
        ]
        for torn in old:
            self._drop(src, table, torn)
        if old and not table.open:
            del self._puzzles[src]

    def _new_table(self, src: Address) -> _Puzzles:
        if self._is_stranger(src):
            strangers = self._strangers()
            if len(strangers) >= self.config.max_strangers:
                self._forget(strangers[0])
            if not self._forgetting.armed:
                self._forgetting.start(self.config.stranger_timeout)
        table = self._puzzles[src] = _Puzzles()
        return table

    def _is_stranger(self, src: Address) -> bool:
        return self._view is None or src not in self._view.members

    def _strangers(self) -> list[Address]:
        return [m for m in self._puzzles if self._is_stranger(m)]

    def _on_forgetting(self) -> None:
        """Drop incomplete messages of silent strangers."""
        for src in self._strangers():
            if self._puzzles[src].at + self.config.stranger_timeout <= self.now:
                self._forget(src)
        left = [self._puzzles[src].at for src in self._strangers()]
        if left:
            self._forgetting.start_at(min(left) + self.config.stranger_timeout)

    def _reject(self, batch: Batch) -> None:
        self.bad += 1
        self.trace("bad_fragment", sender=batch.src)
        self.consume(batch)

    def _fits(
        self,
        src: Address,
        table: _Puzzles,
        puzzle: _Puzzle,
        header: FragHeader,
        part: bytes | memoryview,
    ) -> bool:
        """Return whether the whole message can be kept. All fragments but the last have one size."""
        room = self.config.max_bytes
        if self._view is not None and self._is_stranger(src):
            room //= self.config.max_strangers
        size = len(part) + _OVERHEAD
        expected = size * header.count if header.index < header.count - 1 else size
        return table.size + max(expected - puzzle.size, size) <= room

    def _refuse(self, src: Address, table: _Puzzles, puzzle: _Puzzle, number: int) -> None:
        self.refused += 1
        self.trace("refused", sender=src, id=number, count=puzzle.count)
        if (
            self.refused & (self.refused - 1) == 0
        ):  # warn at powers of two only, because any sender can cause it
            self.log.warning(
                "a message of %s is too large: %d fragments (max_bytes=%d); %d so far",
                self.name_of(src),
                puzzle.count,
                self.config.max_bytes,
                self.refused,
            )
        puzzle.refused = True
        self._empty(src, table, puzzle)

    def _keep(
        self,
        src: Address,
        table: _Puzzles,
        puzzle: _Puzzle,
        batch: Batch,
        index: int,
        length: int,
    ) -> None:
        puzzle.parts[index] = compact(batch)
        puzzle.size += length + _OVERHEAD
        table.size += length + _OVERHEAD
        for credit in batch.credits:
            kind = credit.multicast
            puzzle.held[kind] = puzzle.held.get(kind, 0) + credit.amount
            table.held[kind] += credit.amount
            if puzzle.got < puzzle.count:
                self._tell(src, table, kind)

    def _tell(self, src: Address, table: _Puzzles, multicast: bool) -> None:
        """Tell flow control how many credits incomplete messages hold."""
        self.pass_event_down(IncompleteBytes(src, multicast, table.held[multicast]))

    def _release(self, src: Address, table: _Puzzles, puzzle: _Puzzle) -> tuple[Credit, ...]:
        """Return the credits of a message that is incomplete no more. Flow control is notified before they are given back."""
        table.size -= puzzle.size
        puzzle.size = 0
        held, puzzle.held = puzzle.held, {}
        for kind, amount in held.items():
            table.held[kind] -= amount
            self._tell(src, table, kind)
        return tuple([Credit(src, kind, amount) for kind, amount in held.items()])

    def _empty(self, src: Address, table: _Puzzles, puzzle: _Puzzle) -> None:
        """Free a puzzle's pieces and give their credits back."""
        puzzle.parts.clear()
        credits = self._release(src, table, puzzle)
        if credits:
            self.pass_event_down(Consumed(credits))

    def _remove(self, src: Address, table: _Puzzles, number: int) -> None:
        del table.open[number]
        if not table.open and self._puzzles.get(src) is table:
            del self._puzzles[src]

    def _drop(self, src: Address, table: _Puzzles, number: int) -> None:
        self.dropped += 1
        self.trace("dropped", sender=src, id=number)
        puzzle = table.open.pop(number)
        self._empty(src, table, puzzle)

    def _forget(self, src: Address) -> None:
        table = self._puzzles.pop(src, None)
        if table is not None:
            for number in list(table.open):
                self._drop(src, table, number)

    def _complete(self, src: Address, table: _Puzzles, puzzle: _Puzzle, number: int) -> None:
        self._remove(src, table, number)
        if puzzle.refused:
            return
        credits = self._release(src, table, puzzle)
        # The message takes the place of its last fragment, and has its seqnos.
        first, last = puzzle.parts[0], puzzle.parts[puzzle.count - 1]
        headers = {**first.headers, **last.headers}
        del headers[_ID]
        data = b"".join([puzzle.parts[index].payloads[0] for index in range(puzzle.count)])
        if puzzle.serialised:
            try:
                inner = decode_nested(data)
            except RemoteProtocolError as error:
                self.bad += 1
                self.trace("bad_message", sender=src, problem=str(error))
                if credits:
                    self.pass_event_down(Consumed(credits))
                return
            headers = {**headers, **inner.headers}
            whole = replace(inner, dest=last.dest, src=src, headers=headers, credits=credits)
        else:
            whole = replace(first, payloads=(data,), headers=headers, credits=credits)
        self.messages_assembled += 1
        self.pass_up(whole)

    # --- views

    def event_up(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._view = event.view
            for member in event.view.left_since(event.old):
                self._forget(member)
        self.pass_event_up(event)

    # --- looking

    def answer(self, query: Query) -> Any:
        match query:
            case SharedAttribute("incomplete_multicasts"):
                return frozenset(
                    (src, number)
                    for src, table in self._puzzles.items()
                    for number, puzzle in table.open.items()
                    if puzzle.stream and not puzzle.refused
                )
        return None

    def check(self) -> None:
        for table in self._puzzles.values():
            assert table.open, "an empty table"
            assert len(table.open) <= self.config.max_messages
            puzzles = table.open.values()
            assert table.size == sum(puzzle.size for puzzle in puzzles)
            for kind in (True, False):
                assert table.held[kind] == sum(puzzle.held.get(kind, 0) for puzzle in puzzles)
            assert table.size <= self.config.max_bytes
            for puzzle in puzzles:
                assert puzzle.refused or puzzle.got == len(puzzle.parts) < puzzle.count

    def statistics(self) -> dict[str, int | float]:
        stats = super().statistics()
        stats["incomplete"] = sum(len(table.open) for table in self._puzzles.values())
        stats["incomplete_bytes"] = sum(table.size for table in self._puzzles.values())
        return stats


has_settings(FRAG2, Frag2Config)
