"""One client: its frames become operations, deliveries become its frames.

A client's frames are handled in their order: consecutive SENDs that came together are one operation; every other
frame is an operation of its own.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import trio

from examples.broker import operations
from examples.broker.frames import BadFrame, Frame, Parser
from examples.broker.message import Delivery, Message
from examples.broker.objects import Refused
from jgroups_py.livebackup import NotLive, OutcomeUnknown

CONNECT_TIMEOUT: Final = 10.0
LAST_WORDS: Final = 5.0
"""Seconds in which a leaving client may read the rest of its frames."""
REASON_TIMEOUT: Final = 5.0
"""Seconds in which a refused client may read the reason, and the broker reads what the client had sent already."""
SUBSCRIPTIONS_MAX: Final = 100
PREFETCH: Final = 100
PREFETCH_MAX: Final = 1_000
"""The most unacknowledged messages of one subscription. The header prefetch-count gives another number."""
BATCH_MAX: Final = 100
"""The most SENDs of one operation. A SEND to a topic is the last of its operation, because it makes as many
changes as there are subscribers."""
TRANSACTIONS_MAX: Final = 10
TRANSACTION_MAX: Final = 1_000
"""The most frames of one transaction. They are kept here until COMMIT."""
RECEIPTS_MAX: Final = 1_000
"""The most receipts that a client has not read. Beyond this number the broker reads no frames of the client
until the client has read some."""
WRITE_BYTES: Final = 256_000
"""Frames of about this many bytes leave together."""
WRITE_TIMEOUT: Final = 60.0
"""Seconds without reading after which a client is disconnected. Its messages go to others."""
DESTINATION_MAX: Final = 200
OWN_HEADERS: Final = frozenset(
    {"receipt", "transaction", "content-length", "subscription", "message-id", "ack", "redelivered"}
)
"""Headers of a SEND that are not handed on."""
SLACK: Final = 2.0
"""A client may be late with its sign of life by this factor."""

Operation = Callable[..., Awaitable[Any]]


class Running:
    """An operation under way."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None

    async def wait(self) -> None:
        """Wait until the operation is confirmed. Raise the errors of ``Node.run``."""
        await self.done.wait()
        if self.error is not None:
            raise self.error


class Host(Protocol):
    """The part of the broker that a connection needs."""

    counts: Counter[str]

    def start(self, operation: Operation, *arguments: Any) -> Running:
        """Run an operation and send its deliveries, even if no caller waits."""


@dataclass
class Consumer:
    """A subscription as its client sees it. Deliveries leave in the order of their turns."""

    id: str
    key: str
    queue: str
    mode: str
    turn: int = 0
    early: dict[int, Delivery] = field(default_factory=dict)
    unacknowledged: list[int] = field(default_factory=list)


@dataclass
class Transaction:
    sendings: list[Any] = field(default_factory=list)
    acks: list[Any] = field(default_factory=list)


class Connection:
    def __init__(self, stream: trio.SocketStream, session: str, host: Host) -> None:
        self.session = session
        self.token = secrets.token_hex(8)
        """The names of sessions begin anew with each live node; this number does not."""
        self._stream, self._host = stream, host
        self._parser = Parser()
        self._consumers: dict[str, Consumer] = {}
        """The consumers by key. A key is never used twice."""
        self._running: list[Running] = []
        self._serial = 0
        self._transactions: dict[str, Transaction] = {}
        self._unsent: deque[tuple[Frame, Consumer | None, int]] = deque()
        """Frames; messages with their consumer and turn. There are no more messages than the consumers' prefetch."""
        self._receipts = 0
        """The number of receipts among the waiting frames."""
        self._wake = trio.Event()
        self._written = trio.Event()
        self._ended = False
        self._beat_out = self._beat_in = math.inf

    async def run(self) -> None:
        """Serve the client until it leaves, or is disconnected. Its session is over then, and the broker must
        remove it."""
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                rest = await self._greet()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                await self._read(rest)
                self._ended = True
                self._wake.set()
                nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS
        except* (BadFrame, Refused) as errors:
            reason = str(errors.exceptions[0])
            self._host.counts["errors"] += 1
            gone = (trio.BrokenResourceError, trio.ClosedResourceError)
            with trio.move_on_after(REASON_TIMEOUT), suppress(*gone):
                await self._stream.send_all(error_frame(reason))
                await self._stream.send_eof()
                # A connection that is closed with unread bytes is reset, and the reason is lost.
                while await self._stream.receive_some(65_536):
                    pass
        except* trio.TooSlowError:
            self._host.counts["silent"] += 1
        except* (trio.BrokenResourceError, trio.ClosedResourceError, NotLive, OutcomeUnknown):
            pass
        finally:
            self._ended = True

    async def idle(self) -> None:
        """Wait for operations that are still under way, so that the session's end comes after them."""
        for running in self._running:
            await running.done.wait()

    async def _do(self, operation: Operation, *arguments: Any) -> None:
        running = self._host.start(operation, *arguments)
        self._running = [*(one for one in self._running if not one.done.is_set()), running]
        await running.wait()

    # --- incoming frames

    async def _greet(self) -> list[Frame]:
        """CONNECT must come first. Returns frames that came with it."""
        frames: list[Frame] = []
        while not frames:
            frames = await self._receive()
            if not frames and self._parser.bad is not None:
                raise self._parser.bad
            if not frames and self._ended:
                raise trio.BrokenResourceError
        first = frames[0]
        if first.command not in ("CONNECT", "STOMP"):
            raise BadFrame(f"CONNECT comes first, and not {first.command}")
        (versions,) = first.need("accept-version")
        if "1.2" not in versions.split(","):
            raise BadFrame(f"this broker speaks STOMP 1.2, the client {versions[:40]}")
        self._beat_out, self._beat_in = _beats(first.headers.get("heart-beat", "0,0"))
        await self._do(operations.connect, self.session)
        said = f"{_milliseconds(self._beat_out)},{_milliseconds(self._beat_in)}"
        headers = {"version": "1.2", "session": self.token, "heart-beat": said}
        await self._stream.send_all(Frame("CONNECTED", headers).encode())
        return frames[1:]

    async def _receive(self) -> list[Frame]:
        data = await self._stream.receive_some(65_536)
        if not data:
            self._ended = True
        return self._parser.feed(data)

    async def _read(self, frames: list[Frame]) -> None:
        while True:
            await self._handle(frames)
            if self._parser.bad is not None:
                raise self._parser.bad
            if self._ended:
                return
            while self._receipts > RECEIPTS_MAX:
                await self._written.wait()
            with trio.fail_after(self._beat_in * SLACK):
                frames = await self._receive()

    async def _handle(self, frames: list[Frame]) -> None:
        batch: list[Frame] = []
        for frame in frames:
            if frame.command == "SEND" and "transaction" not in frame.headers:
                batch.append(frame)
                is_topic = not operations.is_queue(frame.headers.get("destination", ""))
                if is_topic or len(batch) == BATCH_MAX:
                    await self._send_batch(batch)
                    batch = []
                continue
            await self._send_batch(batch)
            batch = []
            if self._ended:
                return
            await self._one(frame)
        await self._send_batch(batch)

    async def _send_batch(self, batch: list[Frame]) -> None:
        if batch:
            await self._do(operations.send, [_sending(frame) for frame in batch])
            for frame in batch:
                self._receipt(frame)

    async def _one(self, frame: Frame) -> None:
        match frame.command:
            case "SEND" | "ACK" | "NACK":
                await self._in_transaction_or_now(frame)
            case "SUBSCRIBE":
                await self._subscribe(frame)
            case "UNSUBSCRIBE":
                consumer = self._by_id(*frame.need("id"))
                del self._consumers[consumer.key]
                await self._do(operations.unsubscribe, self.session, consumer.key)
            case "BEGIN" | "COMMIT" | "ABORT":
                await self._transaction(frame)
            case "DISCONNECT":
                self._ended = True
            case _:
                raise BadFrame(f"{frame.command} comes once")
        self._receipt(frame)

    async def _subscribe(self, frame: Frame) -> None:
        name, destination = frame.need("id", "destination")
        _checked(destination)
        mode = frame.headers.get("ack", "auto")
        if mode not in ("auto", "client", "client-individual"):
            raise BadFrame(f"ack must be auto, client or client-individual, got {mode[:40]}")
        if any(consumer.id == name for consumer in self._consumers.values()):
            raise BadFrame(f"there is a subscription with id {name[:40]}")
        if len(self._consumers) >= SUBSCRIPTIONS_MAX:
            raise BadFrame(f"a client may have {SUBSCRIPTIONS_MAX} subscriptions")
        said = frame.headers.get("prefetch-count", str(PREFETCH))
        if not (said.isascii() and said.isdigit()) or not 0 < int(said[:9]) <= PREFETCH_MAX:
            raise BadFrame(f"prefetch-count must be 1 to {PREFETCH_MAX}, got {said[:40]}")
        self._serial += 1
        key = self._key(self._serial)
        own = f"#{self.session}.{self._serial}"  # the queue of a topic's subscription
        queue = destination if operations.is_queue(destination) else own
        self._consumers[key] = Consumer(name, key, queue, mode)
        await self._do(operations.subscribe, self.session, key, destination, queue, int(said))

    def _key(self, serial: int | str) -> str:
        return f"{self.session}/{self.token}-{serial}"

    async def _in_transaction_or_now(self, frame: Frame) -> None:
        name = frame.headers.get("transaction")
        if name is not None and name not in self._transactions:
            raise BadFrame(f"no transaction {name[:40]}")
        if name is not None:
            found = self._transactions[name]
            if len(found.sendings) + len(found.acks) >= TRANSACTION_MAX:
                raise BadFrame(f"a transaction may have {TRANSACTION_MAX} frames")
            if frame.command == "SEND":
                found.sendings.append(_sending(frame))
                return
            if frame.command == "NACK":
                raise BadFrame("NACK is not offered in transactions")
            found.acks.append(self._landing(frame))
            return
        run = operations.acknowledge if frame.command == "ACK" else operations.refuse
        await self._do(run, *self._landing(frame))

    def _landing(self, frame: Frame) -> list[Any]:
        """Queue, key and turns that an ACK or NACK is for."""
        (said,) = frame.need("id")
        serial, _, turn = said.partition("-")
        consumer = self._consumers.get(self._key(serial))
        if consumer is None or not turn.isdecimal() or len(turn) > 18:
            raise BadFrame(f"{frame.command}: no message has the ack {said[:40]}")
        turns = [int(turn)]
        if int(turn) not in consumer.unacknowledged:
            raise BadFrame(f"{frame.command}: {said[:40]} was acknowledged, or was never sent")
        if consumer.mode == "client":  # it acknowledges all earlier messages, too
            turns = [one for one in consumer.unacknowledged if one <= int(turn)]
        consumer.unacknowledged = [n for n in consumer.unacknowledged if n not in set(turns)]
        return [consumer.queue, consumer.key, turns]

    async def _transaction(self, frame: Frame) -> None:
        (name,) = frame.need("transaction")
        if frame.command == "BEGIN":
            if name in self._transactions:
                raise BadFrame(f"transaction {name[:40]} has begun")
            if len(self._transactions) >= TRANSACTIONS_MAX:
                raise BadFrame(f"a client may have {TRANSACTIONS_MAX} transactions")
            self._transactions[name] = Transaction()
            return
        found = self._transactions.pop(name, None)
        if found is None:
            raise BadFrame(f"no transaction {name[:40]}")
        if frame.command == "COMMIT":
            await self._do(operations.commit, found.sendings, found.acks)
            return
        for _, key, turns in found.acks:  # so they can be acknowledged again
            if key in self._consumers:
                consumer = self._consumers[key]
                consumer.unacknowledged = sorted([*consumer.unacknowledged, *turns])

    def _by_id(self, name: str) -> Consumer:
        for consumer in self._consumers.values():
            if consumer.id == name:
                return consumer
        raise BadFrame(f"no subscription with id {name[:40]}")

    # --- outgoing frames

    def deliver(self, delivery: Delivery) -> None:
        """Send a confirmed delivery after the deliveries of earlier turns."""
        consumer = self._consumers.get(delivery.subscription)
        if consumer is None:
            return  # the client unsubscribed meanwhile, and the queue has the message again
        consumer.early[delivery.turn] = delivery
        while consumer.turn + 1 in consumer.early:
            consumer.turn += 1
            self._message(consumer, consumer.early.pop(consumer.turn))

    def _message(self, consumer: Consumer, delivery: Delivery) -> None:
        headers = dict(delivery.message.headers)
        headers["subscription"] = consumer.id
        headers["message-id"] = f"{consumer.queue}-{delivery.born}-{delivery.number}"
        headers["content-length"] = str(len(delivery.message.body))
        if delivery.redelivered:
            headers["redelivered"] = "true"
        if consumer.mode != "auto":
            headers["ack"] = f"{consumer.key.rpartition('-')[2]}-{delivery.turn}"
            consumer.unacknowledged.append(delivery.turn)
        self._say(Frame("MESSAGE", headers, delivery.message.body), consumer, delivery.turn)

    def _receipt(self, frame: Frame) -> None:
        if "receipt" in frame.headers:
            self._receipts += 1
            self._say(Frame("RECEIPT", {"receipt-id": frame.headers["receipt"]}))

    def _say(self, frame: Frame, consumer: Consumer | None = None, turn: int = 0) -> None:
        self._unsent.append((frame, consumer, turn))
        self._wake.set()

    async def _write(self) -> None:
        while not self._ended or self._unsent:
            if not self._unsent:
                with trio.move_on_after(self._beat_out):
                    await self._wake.wait()
            self._wake = trio.Event()
            data, done = self._some()
            with trio.move_on_after(WRITE_TIMEOUT) as patience:
                await self._stream.send_all(data)
            if patience.cancelled_caught:
                self._host.counts["not_read"] += 1
                raise trio.BrokenResourceError
            self._written.set()
            self._written = trio.Event()
            for key, turns in done.items():
                if key in self._consumers:
                    queue = self._consumers[key].queue
                    await self._do(operations.acknowledge, queue, key, turns)

    def _some(self) -> tuple[bytes, dict[str, list[int]]]:
        """Return the bytes that leave next, and by key the turns of messages that count as acknowledged after that
        (mode auto)."""
        data = bytearray()
        done: dict[str, list[int]] = {}
        while self._unsent and len(data) < WRITE_BYTES:
            frame, consumer, turn = self._unsent.popleft()
            data += frame.encode()
            if consumer is None:
                self._receipts -= 1
            elif consumer.mode == "auto":
                done.setdefault(consumer.key, []).append(turn)
        return bytes(data) or b"\n", done


def _sending(frame: Frame) -> list[Any]:
    (destination,) = frame.need("destination")
    _checked(destination)
    expires = frame.headers.get("expires", "0")
    if not (expires.isascii() and expires.isdigit()) or len(expires) > 15:
        raise BadFrame(f"expires must be milliseconds since 1970, got {expires[:40]}")
    headers = tuple((n, v) for n, v in frame.headers.items() if n not in OWN_HEADERS)
    return [destination, Message(headers, frame.body, int(expires) / 1000).save()]


def _checked(destination: str) -> None:
    kind, _, name = destination[1:].partition("/")
    if destination[:1] != "/" or kind not in ("queue", "topic") or not name:
        raise BadFrame(f"a destination is /queue/NAME or /topic/NAME, got {destination[:40]}")
    if len(destination) > DESTINATION_MAX or "#" in name:
        raise BadFrame(f"a destination has up to {DESTINATION_MAX} letters and no #")


def _beats(said: str) -> tuple[float, float]:
    """Seconds between our heart-beats, and between the client's. The broker can keep any interval that the client
    wants, but sends at most ten heart-beats a second."""
    parts = said.split(",")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 10 for p in parts):
        raise BadFrame(f"heart-beat is two numbers of milliseconds, got {said[:40]}")
    theirs, wanted = (max(int(p), 100) / 1000 if int(p) else math.inf for p in parts)
    return wanted, theirs


def _milliseconds(seconds: float) -> int:
    return 0 if seconds == math.inf else int(seconds * 1000)


def error_frame(reason: str) -> bytes:
    """Return the last frame to a client."""
    body = f"{reason}\n".encode()
    headers = {"message": reason, "content-type": "text/plain", "content-length": str(len(body))}
    return Frame("ERROR", headers, body).encode()
