"""A bounded buffer of home multicasts that other sites have not acknowledged.

Entries are runs by origin and first number; a run is cut only where it must be. Beyond one of the limits
``max_messages``, ``max_bytes``, ``max_age`` the oldest entry leaves. With a spill file its payloads move there and the
entry stays.

Bytes are payloads plus ``OVERHEAD`` a message and ``RUN_OVERHEAD`` a run. Entries of spilled runs may need half of
``max_bytes`` in addition; then nothing more is spilled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jgroups_py.protocols.relay.home.spill import SpillFile
from jgroups_py.values.message import MessageType

OVERHEAD: Final = 64
"""Bytes a message costs beyond its payload (object header and its place in a list)."""
RUN_OVERHEAD: Final = 280
"""Bytes a run costs beyond its messages (the entry, its numbers, its list, its place in three lists)."""
_VIEW_MIN: Final = 1024
"""Payloads shorter than this on average are copied: a memoryview costs some 200 bytes by itself."""


class BufferedRun:
    """Messages ``first .. last`` of one origin. ``payloads`` None: in the spill file at ``place``."""

    __slots__ = (
        "at",
        "count",
        "first",
        "flags",
        "gone",
        "origin",
        "payloads",
        "place",
        "size",
        "skip",
        "type",
    )

    def __init__(
        self,
        origin: bytes,
        first: int,
        payloads: Sequence[Any],
        flags: int,
        type: int,
        at: float,
    ) -> None:
        self.origin = origin
        self.first = first
        self.count = len(payloads)
        self.payloads: Sequence[Any] | None = payloads
        self.flags = flags
        self.type = type
        self.at = at
        self.size = 0
        self.place: tuple[int, int] | None = None
        self.skip = 0
        """The number of messages of the file's run before ``first``."""
        self.gone = False

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class _Origin:
    """The runs of one origin, ascending; those before ``head`` are gone."""

    __slots__ = ("firsts", "head", "looked", "runs", "sums")

    def __init__(self) -> None:
        self.looked: tuple[int, ...] = ()
        """``look`` when the runs were last counted; ``sums`` has the result."""
        self.sums = (0, 0, 0, 0)
        self.firsts: list[int] = []
        self.runs: list[BufferedRun] = []
        self.head = 0

    def index(self, number: int) -> int:
        """Return the index of the run that holds ``number``, or of the last one before it; it may be head - 1."""
        return bisect_right(self.firsts, number, self.head) - 1

    def compact(self) -> None:
        if self.head > 64 and self.head * 2 > len(self.runs):
            del self.runs[: self.head]
            del self.firsts[: self.head]
            self.head = 0

    def look(self) -> tuple[int, ...]:
        """Return values that change when runs come, go or are cut."""
        assert self.head < len(self.runs), "an origin without runs stays"
        first, last = self.runs[self.head], self.runs[-1]
        return (self.head, len(self.runs), first.first, last.last, first.size, last.size)

    def count(self) -> None:
        """Count, for ``check``, messages, bytes, spilled messages and spilled runs."""
        messages = size = spilled = spilled_runs = 0
        end = 0
        for first, run in zip(self.firsts[self.head :], self.runs[self.head :], strict=True):
            assert first == run.first > end and run.count > 0 and not run.gone
            end = run.last
            messages += run.count
            if run.payloads is None:
                spilled += run.count
                spilled_runs += 1
            else:
                assert len(run.payloads) == run.count
                size += run.size
        self.looked = self.look()
        self.sums = (messages, size, spilled, spilled_runs)


class RelayBuffer:
    """See the module's docstring. ``length``: payload bytes of a run that is not of plain bytes."""

    def __init__(
        self,
        max_messages: int,
        max_bytes: int,
        max_age: float,
        spill: SpillFile | None = None,
        length: Callable[[int, Any], int] | None = None,
    ) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.messages = 0
        self.bytes = 0
        """Bytes in memory."""
        self.spilled = 0
        """Messages in the spill file."""
        self.spilled_runs = 0
        self._checked = (0, 0, 0, 0, 0)
        self._spill = spill
        self._length = length
        self._origins: dict[bytes, _Origin] = {}
        self._arrived: deque[BufferedRun] = deque()

    # --- reading

    def __len__(self) -> int:
        return self.messages

    def origins(self) -> list[bytes]:
        """Return the origins with messages here."""
        return [origin for origin, held in self._origins.items() if held.head < len(held.runs)]

    def runs(self, origin: bytes) -> Iterator[BufferedRun]:
        held = self._origins.get(origin)
        if held is not None:
            yield from held.runs[held.head :]

    def ranges(self, origin: bytes) -> list[tuple[int, int]]:
        """Return the ranges of numbers here, neighbours joined."""
        out: list[tuple[int, int]] = []
        for run in self.runs(origin):
            if out and out[-1][1] + 1 == run.first:
                out[-1] = (out[-1][0], run.last)
            else:
                out.append((run.first, run.last))
        return out

    def has(self, origin: bytes, number: int) -> bool:
        return self._find(origin, number) is not None

    def next_above(self, origin: bytes, number: int) -> int | None:
        """Return the lowest number here above ``number``."""
        held = self._origins.get(origin)
        if held is None:
            return None
        index = held.index(number + 1)
        if index >= held.head and held.runs[index].last > number:
            return number + 1
        index += 1
        return held.runs[index].first if index < len(held.runs) else None

    def last(self, origin: bytes) -> int:
        held = self._origins.get(origin)
        return held.runs[-1].last if held is not None and held.head < len(held.runs) else 0

    def get(
        self, origin: bytes, number: int, upto: int, max_bytes: int
    ) -> tuple[BufferedRun, Sequence[Any]] | None:
        """Return the run that holds ``number``, and its payloads from there to ``upto``: those that fit in
        ``max_bytes``, and at least one. None: it is not here."""
        run = self._find(origin, number)
        if run is None:
            return None
        start = number - run.first
        stop = min(run.count, upto + 1 - run.first)
        payloads = self._payloads(run)
        if stop - start > 1 and run.size > max_bytes:
            size = 0
            for index in range(start, stop):
                size += self._size(run.type, payloads[index])
                if size > max_bytes:
                    stop = max(index, start + 1)
                    break
        if start or stop < run.count:
            payloads = payloads[start:stop]
        return run, payloads

    def missing(self, origin: bytes, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges of ``first .. last`` that are not here."""
        out: list[tuple[int, int]] = []
        held = self._origins.get(origin)
        if held is not None:
            for index in range(max(held.head, held.index(first)), len(held.runs)):
                run = held.runs[index]
                if run.first > last or first > last:
                    break
                if run.first > first:
                    out.append((first, run.first - 1))
                first = max(first, run.last + 1)
        if first <= last:
            out.append((first, last))
        return out

    @property
    def fill(self) -> float:
        """Return the larger of the used shares of ``max_messages`` and ``max_bytes``. Messages in the spill file are
        counted, their bytes are not: with a spill file the result may be above 1."""
        return max(self.messages / self.max_messages, self.bytes / self.max_bytes)

    def oldest(self) -> float | None:
        """Return the arrival time of the oldest entry in memory."""
        while self._arrived and self._arrived[0].gone:
            self._arrived.popleft()
        return self._arrived[0].at if self._arrived else None

    # --- changing

    def add(
        self,
        origin: bytes,
        first: int,
        payloads: Sequence[Any],
        flags: int,
        type: int,
        at: float,
    ) -> int:
        """Keep the messages that are not here yet. Return their number."""
        held = self._origins.get(origin)
        if held is None:
            held = self._origins[origin] = _Origin()
        if held.head == len(held.runs) or first > held.runs[-1].last:
            self._insert(
                held, len(held.runs), BufferedRun(origin, first, payloads, flags, type, at)
            )
            return len(payloads)
        added = 0
        for low, high in self.missing(origin, first, first + len(payloads) - 1):
            part = payloads[low - first : high + 1 - first]
            run = BufferedRun(origin, low, part, flags, type, at)
            self._insert(held, held.index(low) + 1, run)
            added += run.count
        return added

    def _insert(self, held: _Origin, index: int, run: BufferedRun) -> None:
        assert run.payloads is not None
        run.payloads, size = self._kept(run.type, run.payloads)
        run.size = RUN_OVERHEAD + size
        held.looked = ()
        held.runs.insert(index, run)
        held.firsts.insert(index, run.first)
        self._arrived.append(run)
        self.messages += run.count
        self.bytes += run.size

    def trim(self, origin: bytes, upto: int) -> int:
        """Drop all messages at or below ``upto``. Return the number of dropped messages."""
        held = self._origins.get(origin)
        if held is None:
            return 0
        before = self.messages
        while held.head < len(held.runs):
            run = held.runs[held.head]
            if run.first > upto:
                break
            if run.last <= upto:
                held.head += 1
                self._drop(run)
            else:
                self._cut_front(held, run, upto + 1 - run.first)
        self._tidy(origin, held)
        return before - self.messages

    def cut(self, origin: bytes, above: int) -> int:
        """Drop all messages above ``above``. Return the number of dropped messages."""
        held = self._origins.get(origin)
        if held is None:
            return 0
        before = self.messages
        while held.head < len(held.runs):
            run = held.runs[-1]
            if run.last <= above:
                break
            if run.first > above:
                held.runs.pop()
                held.firsts.pop()
                self._drop(run)
            else:
                self._keep_part(run, 0, above + 1 - run.first)
        self._tidy(origin, held)
        return before - self.messages

    def clear(self) -> None:
        for origin in self.origins():
            self.cut(origin, -1)

    def overflow(self, now: float) -> tuple[BufferedRun | None, list[tuple[bytes, int, int, str]]]:
        """Bring the buffer back within its limits.

        Return the first run that was spilled, if any, and the dropped ranges: (origin, first, last, limit).
        """
        dropped: list[tuple[bytes, int, int, str]] = []
        spilled: BufferedRun | None = None
        while (reason := self._exceeded(now)) is not None:
            run = self._arrived[0]
            if reason != "max_age" and self._spill is not None and self._to_file(run):
                spilled = spilled or run
                continue
            excess = run.count
            if reason == "max_messages":
                excess = min(excess, self._in_memory - self.max_messages)
            elif reason == "max_bytes":
                excess = self._count_for(run, self.bytes - self.max_bytes)
            dropped.append((run.origin, run.first, run.first + excess - 1, reason))
            self._drop_front(run, excess)
        return spilled, dropped

    def close(self) -> None:
        if self._spill is not None:
            self._spill.close()

    # --- inside

    @property
    def _in_memory(self) -> int:
        return self.messages - self.spilled

    def _exceeded(self, now: float) -> str | None:
        oldest = self.oldest()
        if oldest is None:
            return None
        if self._in_memory > self.max_messages:
            return "max_messages"
        if self.bytes > self.max_bytes:
            return "max_bytes"
        if self.max_age and now - oldest > self.max_age:
            return "max_age"
        return None

    def _find(self, origin: bytes, number: int) -> BufferedRun | None:
        held = self._origins.get(origin)
        if held is None:
            return None
        index = held.index(number)
        if index < held.head:
            return None
        run = held.runs[index]
        return run if number <= run.last else None

    def _payloads(self, run: BufferedRun) -> Sequence[Any]:
        if run.payloads is not None:
            return run.payloads
        assert self._spill is not None and run.place is not None
        return self._spill.read(run.place)[run.skip : run.skip + run.count]

    def _to_file(self, run: BufferedRun) -> bool:
        assert self._spill is not None and run.payloads is not None
        if run.type != MessageType.BYTES or 2 * self.spilled_runs * RUN_OVERHEAD > self.max_bytes:
            return False
        place = self._spill.write(run.payloads)
        if place is None:
            return False
        self._origins[run.origin].looked = ()  # the run may be in the middle
        run.place = place
        run.payloads = None
        self.spilled += run.count
        self.spilled_runs += 1
        self.bytes -= run.size
        self._arrived.popleft()
        return True

    def _count_for(self, run: BufferedRun, excess: int) -> int:
        payloads = self._payloads(run)
        count = 0
        while excess > 0 and count < run.count:
            excess -= self._size(run.type, payloads[count])
            count += 1
        return count

    def _drop_front(self, run: BufferedRun, count: int) -> None:
        held = self._origins[run.origin]
        held.looked = ()  # the run may be in the middle
        index = held.index(run.first)
        if count < run.count:
            self._cut_front(held, run, count, index)
            return
        if index == held.head:
            held.head += 1
        else:
            del held.runs[index]
            del held.firsts[index]
        self._drop(run)
        self._tidy(run.origin, held)

    def _cut_front(
        self, held: _Origin, run: BufferedRun, count: int, index: int | None = None
    ) -> None:
        run.first += count
        held.firsts[held.head if index is None else index] = run.first
        self._keep_part(run, count, run.count)

    def _keep_part(self, run: BufferedRun, start: int, stop: int) -> None:
        """Reduce a run to these payloads. A run in the file stays there."""
        cut = run.count - (stop - start)
        run.count -= cut
        self.messages -= cut
        if run.payloads is None:
            run.skip += start
            self.spilled -= cut
            return
        self.bytes -= run.size
        run.payloads = run.payloads[start:stop]
        run.size = RUN_OVERHEAD + sum([self._size(run.type, p) for p in run.payloads])
        self.bytes += run.size

    def _drop(self, run: BufferedRun) -> None:
        run.gone = True
        self.messages -= run.count
        if run.payloads is None:
            assert self._spill is not None and run.place is not None
            self._spill.free(run.place)
            self.spilled -= run.count
            self.spilled_runs -= 1
        else:
            self.bytes -= run.size
        run.payloads = ()  # its entry may stay in a list

    def _tidy(self, origin: bytes, held: _Origin) -> None:
        if held.head == len(held.runs):
            del self._origins[origin]
        else:
            held.compact()
        arrived = self._arrived
        while arrived and arrived[0].gone:
            arrived.popleft()
        if len(arrived) > 64 and len(arrived) > 2 * sum(
            len(o.runs) - o.head for o in self._origins.values()
        ):
            self._arrived = deque(run for run in arrived if not run.gone)

    def _size(self, type: int, payload: Any) -> int:
        if payload is None:
            return OVERHEAD
        if type == MessageType.BYTES or self._length is None:
            return OVERHEAD + len(payload)
        return OVERHEAD + self._length(type, payload)

    def _kept(self, type: int, payloads: Sequence[Any]) -> tuple[Sequence[Any], int]:
        """Return the payloads as they are kept, and the bytes they hold."""
        if type != MessageType.BYTES:
            return list(payloads), sum([self._size(type, p) for p in payloads])
        size = sum([len(p) for p in payloads if p is not None])
        sample = payloads[0]
        if isinstance(sample, memoryview):
            held = _bases(payloads)
            if size < _VIEW_MIN * len(payloads) or held > 2 * size:
                payloads = [None if p is None else bytes(p) for p in payloads]
                held = size
            size = held
        return payloads, size + OVERHEAD * len(payloads)

    def check(self) -> None:
        """Check that sums match the runs, and that runs ascend without overlap. An origin is counted again only if its
        ends or its middle have changed."""
        state = (self.messages, self.bytes, self.spilled, self.spilled_runs, len(self._origins))
        if state == self._checked:
            return
        messages = size = spilled = spilled_runs = 0
        for held in self._origins.values():
            if held.look() != held.looked:
                held.count()
            messages += held.sums[0]
            size += held.sums[1]
            spilled += held.sums[2]
            spilled_runs += held.sums[3]
        assert (messages, size, spilled) == (self.messages, self.bytes, self.spilled)
        assert spilled_runs == self.spilled_runs
        self._checked = state


def _bases(payloads: Sequence[Any]) -> int:
    """Return the bytes that views keep alive."""
    bases: dict[int, int] = {}
    for payload in payloads:
        if isinstance(payload, memoryview):
            base: Any = payload.obj
            bases[id(base)] = memoryview(base).nbytes
    return sum(bases.values())
