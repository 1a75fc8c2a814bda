"""Outbox: payloads that were sent and not yet handed to the stack. It batches them and holds senders back.

Payloads wait for the next turn as runs, in order, one list of runs for each destination. A destination that
flow control has blocked keeps its runs, and tasks that send to it wait.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from jgroups_py.channel.given import check_destination
from jgroups_py.channel.values import ChannelLimits
from jgroups_py.errors import LocalProtocolError
from jgroups_py.stack.sizes import refuse_larger
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.events import FlowBlocked
from jgroups_py.values.header import Header
from jgroups_py.values.lost import Numbers
from jgroups_py.values.message import Flag, MessageType, Transient

Payload = bytes | bytearray | memoryview

_UNKNOWN_FLAGS = ~int(sum(Flag))


@dataclass(slots=True)
class OutboxRun:
    """Payloads for one destination with the same flags; ``headers`` and ``type`` as in Batch, ``each`` as its ``size_of_each``."""

    flags: int
    transient: int
    payloads: list[Any]
    size: int = 0
    headers: Headers | None = None
    type: int = MessageType.BYTES
    each: int = -1

    def add(self, payloads: Sequence[bytes], size: int, each: int) -> None:
        """Append payloads of ``size`` bytes together, of ``each`` bytes if they are alike."""
        if each != self.each:
            self.each = -1 if self.payloads else each
        self.payloads += payloads
        self.size += size


class Outbox:
    """See the module's docstring. ``wake`` is called when a payload can be handed down.

    ``warn(to, seconds)`` is called each time a send has waited for another ``limits.warn_after``. ``error`` is set
    at the end; sending raises it.
    """

    def __init__(
        self,
        limits: ChannelLimits,
        wake: Callable[[], None],
        warn: Callable[[Address | None, float], None],
    ) -> None:
        self._limits = limits
        self._wake = wake
        self._warn = warn
        self._runs: dict[Address | None, list[OutboxRun]] = {}
        self._run: OutboxRun | None = None  # the run that was used last, and its destination
        self._run_to: Address | None = None
        self._senders = trio.lowlevel.ParkingLot()
        self.blocked: dict[Address | None, dict[str, FlowBlocked]] = {}
        self.error: Exception | None = None
        self.is_promised = False
        """True while a caller has promised to call ``keep_promise`` in this round of the loop or the next one. Until then payloads wait for
        further payloads, and wake no task."""
        self.numbers = Numbers()
        self.size_max: int | None = None
        """The most bytes of one message of an application; None: any size. A larger one would never leave (stack/sizes.py)."""
        self.buffered = 0
        """The bytes that wait."""
        self.sent = 0
        self.sent_bytes = 0
        self.waits = 0
        self.turn_messages = 0
        """The messages that were put in since a sender last let other tasks run."""
        self.turn_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    # --- putting in

    def put(self, payload: Payload, to: Address | None, flags: int, loopback: bool) -> bool:
        """Append a payload to the run of its destination. Return False if there is no room now."""
        if type(payload) is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if self.size_max is not None:
            refuse_larger(size, self.size_max)
        if (self.blocked and to in self.blocked) or (
            self.buffered and self.buffered + size > self._limits.send_buffer_max
        ):
            if self.error is not None:
                raise self.error
            return False
        run = self._run
        if (
            run is None
            or run.headers is not None
            or to != self._run_to
            or flags != run.flags
            or loopback is (run.transient != 0)
        ):
            run = self._run_for(to, flags, loopback)
        if size != run.each:
            run.each = -1 if run.payloads else size
        run.payloads.append(payload)
        run.size += size
        self.buffered += size
        self.turn_messages += 1
        self.turn_bytes += size
        return True

    def put_headed(
        self,
        payload: Any,
        size: int,
        to: Address | None,
        protocol_id: int,
        header: Header,
        *,
        flags: int = 0,
        type: int = MessageType.BYTES,
        beyond: int = 0,
    ) -> bool:
        """Put a payload of ``size`` bytes under a header of a block above the channel, as ``put_run``."""
        each = size if builtins.type(payload) is bytes else -1
        return self.put_run(
            [payload],
            size,
            to,
            protocol_id,
            header,
            flags=flags,
            type=type,
            beyond=beyond,
            each=each,
        )

    def put_run(
        self,
        payloads: Sequence[Any],
        size: int,
        to: Address | None,
        protocol_id: int,
        header: Header,
        *,
        flags: int = 0,
        type: int = MessageType.BYTES,
        beyond: int = 0,
        each: int = -1,
    ) -> bool:
        """Put payloads of ``size`` bytes together under headers of a block above the channel; ``header`` is the first. Return False
        if there is no room now, and put none.

        Payloads whose headers continue each other become one run. ``beyond`` more bytes than the limit are taken, also
        when the destination is blocked. ``each`` as ``size_of_each`` in Batch."""
        if self.buffered + size > self._limits.send_buffer_max + beyond and self.buffered:
            room = False
        else:
            room = beyond > 0 or not self.blocked or to not in self.blocked
        if not room:
            if self.error is not None:
                raise self.error
            return False
        run = self._run
        if (
            run is None
            or run.headers is None
            or to != self._run_to
            or flags != run.flags
            or type != MessageType.BYTES
            or run.type != type
            or not run.headers[protocol_id].is_followed_by(header, len(run.payloads))
        ):
            run = self._run_for(to, flags, True, {protocol_id: header}, type)
        run.add(payloads, size, each)
        self.buffered += size
        self.turn_messages += len(payloads)
        self.turn_bytes += size
        return True

    def put_next(self, run: OutboxRun, payload: bytes) -> bool:
        """Append a payload to ``run``, whose header continues those of ``run``. Return False if ``run`` is not the one that was used
        last, or there is no room now."""
        size = len(payload)
        if (
            run is not self._run
            or (self.blocked and self._run_to in self.blocked)
            or self.buffered + size > self._limits.send_buffer_max
        ):
            return False
        if size != run.each:
            run.each = -1
        run.payloads.append(payload)
        run.size += size
        self.buffered += size
        self.turn_messages += 1
        self.turn_bytes += size
        return True

    def keep_promise(self) -> None:
        """Wake for what was put in since ``is_promised`` was set."""
        self.is_promised = False
        if self._runs:
            self._wake()

    @property
    def last_run(self) -> OutboxRun | None:
        """The run that was used last, for ``put_next``; None if it was handed down."""
        return self._run

    def alone(
        self,
        payload: Any,
        size: int,
        to: Address,
        headers: Headers,
        flags: int,
        type: int = MessageType.BYTES,
    ) -> Batch | None:
        """Return a message that goes to the stack at once, if nothing waits here, no destination is blocked and it is not too large. It
        counts as sent. ``flags``: an int."""
        if self._runs or self.blocked or self.error is not None:
            return None
        if self.size_max is not None and size > self.size_max:
            return None
        self.sent += 1
        self.sent_bytes += size
        self.turn_messages += 1
        self.turn_bytes += size
        number = self.numbers.take(to, 1)
        batch = Batch(to, [payload], headers, None, flags, 0, type, (), number)
        if type == MessageType.BYTES:
            batch._length = size
        return batch

    @property
    def is_turn_over(self) -> bool:
        """True when enough was put in for other tasks to get their turn."""
        limits = self._limits
        return self.turn_bytes >= limits.turn_bytes or self.turn_messages >= limits.turn_messages

    async def put_many(
        self, payloads: Iterable[Payload], to: Address | None, flags: int, loopback: bool
    ) -> None:
        """Put all payloads, part by part, each part when there is room for it."""
        todo: Sequence[Payload]
        todo = payloads if isinstance(payloads, (list, tuple)) else list(payloads)
        plain: Sequence[bytes] = todo  # type: ignore[assignment]
        if set(map(type, todo)) - {bytes}:
            plain = [as_bytes(payload) for payload in todo]
        if self.size_max is not None:
            refuse_larger(max(map(len, plain), default=0), self.size_max)
        limits, start = self._limits, 0
        while start < len(plain):
            if not self.has_room(to, 0):
                await self.wait(to, 0)
            part, size, each = _first_bytes(plain, start, limits.turn_bytes, limits.turn_messages)
            bytes_after, messages_after = self.turn_bytes + size, self.turn_messages + len(part)
            if self.turn_messages and (
                bytes_after > limits.turn_bytes or messages_after > limits.turn_messages
            ):
                await self.let_others_run()
                continue
            self._run_for(to, flags, loopback).add(part, size, each)
            self.buffered += size
            self.turn_bytes, self.turn_messages = bytes_after, messages_after
            start += len(part)
            if self.is_turn_over:
                await self.let_others_run()

    async def let_others_run(self) -> None:
        self.turn_messages = self.turn_bytes = 0
        await trio.lowlevel.checkpoint()

    def _run_for(
        self,
        to: Address | None,
        flags: int,
        loopback: bool,
        headers: Headers | None = None,
        type: int = MessageType.BYTES,
    ) -> OutboxRun:
        """Return the run to append to; make a new one where the last run of the destination differs."""
        if self.error is not None:
            raise self.error
        check_destination(to)
        # Arithmetic with members of Flag is slow, and every layer looks at them.
        flags = int(operator.index(flags))
        if flags & _UNKNOWN_FLAGS:
            raise LocalProtocolError(f"unknown flags {flags & _UNKNOWN_FLAGS:#x}")
        transient = 0 if loopback else int(Transient.DONT_LOOPBACK)
        runs = self._runs.setdefault(to, [])
        last = runs[-1] if runs else None
        if (
            last is None
            or (last.flags, last.transient, last.type) != (flags, transient, type)
            or type != MessageType.BYTES
            or not _continues(last, headers)
        ):
            last = OutboxRun(flags, transient, [], 0, headers, type)
            runs.append(last)
        self._run, self._run_to = last, to
        if not self.is_promised:
            self._wake()
        return last

    # --- waiting

    def has_room(self, to: Address | None, size: int) -> bool:
        """Return whether a send of this size need not wait."""
        if to in self.blocked:
            return False
        return not self.buffered or self.buffered + size <= self._limits.send_buffer_max

    async def wait(self, to: Address | None, size: int) -> None:
        """Wait until ``size`` bytes for ``to`` may have room. Raise ``error`` at the end."""
        self.waits += 1
        self._wake()
        started = trio.current_time()
        while self.error is None and not self.has_room(to, size):
            with trio.move_on_after(self._limits.warn_after) as scope:
                await self._senders.park()
            if scope.cancelled_caught:
                self._warn(to, trio.current_time() - started)
        if self.error is not None:
            raise self.error

    async def wait_turn(self) -> None:
        """Return after payloads were handed down, or could have been."""
        await self._senders.park()

    def on_blocked(self, event: FlowBlocked) -> None:
        """Hold back runs for ``event.dest`` until ``on_opened`` comes for the same source."""
        self.blocked.setdefault(event.dest, {})[event.source] = event

    def on_opened(self, source: str, dest: Address | None) -> None:
        """Note that one source no longer blocks. A destination is open when none blocks it."""
        sources = self.blocked.get(dest)
        if sources is None:
            return
        sources.pop(source, None)
        if not sources:
            del self.blocked[dest]
            self._senders.unpark_all()
            self._wake()

    # --- taking out

    def hand_down(self, send: Callable[[Batch], None]) -> None:
        """Give every run to ``send``, in order, except those of blocked destinations. Do nothing while ``is_promised``."""
        runs = self._runs
        if not runs or self.is_promised:
            return
        self._run = None
        self._runs = {}
        before = self.buffered
        for to, waiting in runs.items():
            for index, run in enumerate(waiting):
                if to in self.blocked:  # the previous run may have blocked it
                    # A message to this member itself arrives within ``send``. Its receiver may have put in more.
                    self._runs[to] = waiting[index:] + self._runs.get(to, [])
                    break
                self.buffered -= run.size
                self.sent += len(run.payloads)
                self.sent_bytes += run.size
                number = self.numbers.take(to, len(run.payloads))
                headers = run.headers or {}
                batch = Batch(
                    to, run.payloads, headers, None, run.flags, run.transient, run.type, (), number
                )
                if run.type == MessageType.BYTES:
                    batch.sizes_are(run.size, run.each)
                send(batch)
        if self._senders and self.buffered < before:
            self._senders.unpark_all()

    def end(self, error: Exception) -> None:
        """Make each send raise ``error`` from now on, also those that wait."""
        self.error = error
        self._run = None
        self._senders.unpark_all()

    def clear(self) -> None:
        self._runs.clear()


def _continues(run: OutboxRun, headers: Headers | None) -> bool:
    """Return whether a message with these headers can be the next of ``run``."""
    if run.headers is None or headers is None:
        return run.headers is headers
    return list(run.headers) == list(headers) and all(
        first.is_followed_by(headers[key], len(run.payloads)) for key, first in run.headers.items()
    )


def as_bytes(payload: object) -> bytes:
    """Return a payload as bytes. Raise TypeError if it is not bytes-like."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, (bytearray, memoryview)):
        return bytes(payload)
    raise TypeError(f"a payload is bytes, not {type(payload).__name__}")


def _first_bytes(
    payloads: Sequence[bytes], start: int, size_max: int, count_max: int
) -> tuple[Sequence[bytes], int, int]:
    """Return about ``size_max`` bytes of payloads from ``start`` on (at least one), their size, and the size of each if
    all are alike (else -1)."""
    part = payloads[start : start + count_max]
    sizes = list(map(len, part))
    size = sum(sizes)
    while size > size_max and len(part) > 1:
        count = max(1, len(part) * size_max // size)
        part, sizes = part[:count], sizes[:count]
        size = sum(sizes)
    each = sizes[0]
    return part, size, each if sizes.count(each) == len(sizes) else -1
