"""Windows that work on runs: they store runs, put them in order, and compute the seqnos to ask for.

    RunStore         Runs by first seqno, kept for retransmission, or until the gap before them closes.
    ReceiveWindow    Puts the runs of one sender in order, and hands every message out once.
    GapClock         Times the requests for missing messages: once soon, then at growing intervals.

A run is a ``Batch``; message ``i`` of a run that starts at ``first`` has seqno ``first + i``. Runs that come in order
are neither stored nor cut: one comparison each. Runs are sliced where they overlap.

Source: JGroups Table, RetransmitTable and RetransmitTask (the rule of two ticks); spans of seqnos
instead of a matrix of messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import SeqnoList

Span = tuple[int, int]
"""First and last seqno, both included."""

_OOB: Final = int(Flag.OOB)
_PER_RUN: Final = 400
_PER_MESSAGE: Final = 100
"""Bytes that a stored run, and each of its messages, costs beside the payload."""
_SMALL: Final = 4096
_SHARE: Final = 4
"""A run keeps a packet of more than ``_SMALL`` bytes only if it is at least a ``_SHARE``th of the packet."""
_SPAN_BITS: Final = 64
"""A list of seqnos may span more seqnos than it may name, by this factor."""


def cost(run: Batch) -> int:
    """Return the bytes that it costs to keep a run."""
    return run.length + _PER_RUN + _PER_MESSAGE * len(run.payloads)


class RunStore:
    """Runs by the seqno of their first message: ascending, not overlapping, gaps allowed."""

    __slots__ = ("_checked", "count", "firsts", "runs", "size")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.runs: dict[int, Batch] = {}
        self.count = 0
        """Messages stored."""
        self.size = 0
        """The bytes that it costs to keep them; see ``cost``."""
        self._checked = (0, 0, 0, 0, 0)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    @property
    def first(self) -> int:
        """Return the lowest stored seqno. The store must not be empty."""
        return self.firsts[0]

    @property
    def last(self) -> int:
        """Return the highest stored seqno, 0 if there is none."""
        if not self.firsts:
            return 0
        first = self.firsts[-1]
        return first + len(self.runs[first].payloads) - 1

    def append(self, first: int, run: Batch) -> None:
        """Add a run that begins above all stored messages."""
        self.firsts.append(first)
        self.runs[first] = run
        count = len(run.payloads)
        length = run._length
        if length < 0:
            length = run.length
        self.count += count
        self.size += length + _PER_RUN + _PER_MESSAGE * count

    def insert(self, first: int, run: Batch) -> list[tuple[int, Batch]]:
        """Add those parts of a run that are not stored yet, and return them, ascending."""
        if first > self.last:
            self.append(first, run)
            return [(first, run)]
        stop = first + len(run.payloads)
        pieces = [
            (low, run.slice(low - first, high + 1 - first))
            for low, high in self.missing(first, stop - 1)
        ]
        for low, piece in pieces:
            self.firsts.insert(bisect_left(self.firsts, low), low)
            self.runs[low] = piece
            self.count += len(piece.payloads)
            self.size += cost(piece)
        return pieces

    def pop_at(self, first: int) -> Batch | None:
        """Take out the run that begins exactly there."""
        run = self.runs.pop(first, None)
        if run is not None:
            del self.firsts[bisect_left(self.firsts, first)]
            self.count -= len(run.payloads)
            self.size -= cost(run)
        return run

    def between(self, low: int, high: int) -> Iterator[tuple[int, Batch]]:
        """Return the stored runs of ``low .. high``, ascending, cut to fit."""
        firsts = self.firsts
        for index in range(max(0, bisect_right(firsts, low) - 1), len(firsts)):
            first = firsts[index]
            if first > high:
                return
            run = self.runs[first]
            start = max(low - first, 0)
            stop = min(high + 1 - first, len(run.payloads))
            if start < stop:
                yield first + start, run.slice(start, stop)

    def missing(self, low: int, high: int) -> list[Span]:
        """Return the spans of ``low .. high`` that are not stored, ascending."""
        spans: list[Span] = []
        firsts = self.firsts
        for index in range(max(0, bisect_right(firsts, low) - 1), len(firsts)):
            first = firsts[index]
            if first > high:
                break
            if first > low:
                spans.append((low, first - 1))
            low = max(low, first + len(self.runs[first].payloads))
        if low <= high:
            spans.append((low, high))
        return spans

    def drop_to(self, seqno: int) -> int:
        """Forget the runs that end at or below ``seqno``, and return the number of their messages.

        A run that goes on above it stays whole: cutting it would cost more than it frees.
        """
        firsts, runs = self.firsts, self.runs
        dropped = 0
        length = 0
        index = 0
        for first in firsts:
            run = runs[first]
            size = len(run.payloads)
            if first + size - 1 > seqno:
                break
            del runs[first]
            dropped += size
            length += run._length  # known since the run is stored
            index += 1
        if index:
            del firsts[:index]
            self.count -= dropped
            self.size -= length + _PER_RUN * index + _PER_MESSAGE * dropped
        return dropped

    def clear(self) -> None:
        self.firsts.clear()
        self.runs.clear()
        self.count = self.size = 0

    def check(self) -> None:
        """Check that runs ascend, do not overlap, and are counted. Runs that were checked before, and look the
        same from both ends, are not checked again while the sums agree."""
        firsts = self.firsts
        assert len(self.runs) == len(firsts)
        known, first, last, count, size = self._checked
        if not firsts:
            assert self.count == self.size == 0
        elif not (
            known and known <= len(firsts) and (firsts[0], firsts[known - 1]) == (first, last)
        ):
            self._check_from(0, 0, 0)
        elif known < len(firsts) or (count, size) != (self.count, self.size):
            try:
                self._check_from(known, count, size)
            except AssertionError:
                self._check_from(0, 0, 0)
        if firsts:
            self._checked = (len(firsts), firsts[0], firsts[-1], self.count, self.size)

    def _check_from(self, index: int, count: int, size: int) -> None:
        """Check the runs from ``index`` on. ``count`` and ``size``: of the runs before it."""
        runs = self.runs
        end = 0
        if index:
            first = self.firsts[index - 1]
            end = first + len(runs[first].payloads) - 1
        for first in self.firsts[index:]:
            assert first > end, f"run {first} overlaps the one that ends at {end}"
            run = runs[first]
            end = first + len(run.payloads) - 1
            count += len(run.payloads)
            size += cost(run)
        assert (count, size) == (self.count, self.size)


class ReceiveWindow:
    """The order of one sender's messages, each delivered once.

    In order is the caller's fast path::

        if first == window.delivered + 1 and not window.pending.firsts:
            window.delivered = window.known = first + count - 1     # known: if that is higher
            hand out
        else:
            for run in window.take(first, run): hand out

    ``delivered``: all messages up to this number were delivered. ``known``: the highest seqno known to exist.
    ``pending``: runs that arrived beyond a gap. ``early``: those of them that were handed out already
    (out-of-band messages, and own messages that are not looped back). ``passed``: numbers of early messages that were
    forgotten meanwhile, and may come again.
    """

    __slots__ = ("closed", "delivered", "early", "known", "passed", "pending")

    def __init__(self, delivered: int) -> None:
        self.delivered = delivered
        self.known = delivered
        self.pending = RunStore()
        self.early: dict[int, None] = {}
        self.passed: frozenset[int] = frozenset()
        self.closed = False
        """Set by the owner: no further message is delivered."""

    @property
    def received(self) -> int:
        """The highest received seqno."""
        return max(self.delivered, self.pending.last)

    @property
    def has_gap(self) -> bool:
        """Return whether a message that is known to exist has not come."""
        return self.delivered + self.pending.count < self.known

    def add(self, first: int, run: Batch) -> list[tuple[int, Batch]]:
        """Take a run in and return its new parts. ``next`` returns messages in order.

        The caller delivers new out-of-band messages at once, if they are ``fresh``. They are marked here.
        """
        if first <= self.delivered:
            if first + len(run.payloads) - 1 <= self.delivered:
                return []
            run = run.slice(self.delivered + 1 - first, len(run.payloads))
            first = self.delivered + 1
        pieces = self.pending.insert(first, run)
        if pieces:
            low, piece = pieces[-1]
            self.known = max(self.known, low + len(piece.payloads) - 1)
            if run.flags & _OOB:
                for low, _ in pieces:
                    self.early[low] = None
        return pieces

    def fresh(self, pieces: list[tuple[int, Batch]]) -> list[Batch]:
        """Return the new out-of-band messages. Delivered messages that were forgotten are not among them."""
        if not self.passed:
            return [piece for _, piece in pieces]
        found = []
        for low, piece in pieces:
            start, count = 0, len(piece.payloads)
            for index in range(count + 1):
                if index == count or low + index in self.passed:
                    if start < index:
                        found.append(piece.slice(start, index))
                    start = index + 1
        return found

    def skip(self, first: int, run: Batch) -> None:
        """Take in a run that is never delivered."""
        for low, _ in self.pending.insert(first, run):
            self.early[low] = None
        self.known = max(self.known, first + len(run.payloads) - 1)

    def next(self, last: int | None = None) -> Batch | None:
        """Return the next run in order, to be delivered. None: no run begins up to ``last``."""
        while not self.closed and (last is None or self.delivered < last):
            run = self.pending.pop_at(self.delivered + 1)
            if run is None:
                return None
            first = self.delivered + 1
            self.delivered += len(run.payloads)
            if self.early.pop(first, 0) == 0:
                return run
        return None

    def count_early(self) -> None:
        """Count early messages that are next now as handed out, even while the window is closed."""
        while (first := self.delivered + 1) in self.early:
            run = self.pending.pop_at(first)
            assert run is not None
            del self.early[first]
            self.delivered += len(run.payloads)

    def split_at(self, seqno: int) -> None:
        """Cut the pending run that begins at or below ``seqno`` and goes on beyond it."""
        pending = self.pending
        index = bisect_right(pending.firsts, seqno) - 1
        if index < 0:
            return
        first = pending.firsts[index]
        run = pending.runs[first]
        if first + len(run.payloads) - 1 > seqno:
            at = seqno + 1 - first
            pending.runs[first] = run.slice(0, at)
            pending.runs[seqno + 1] = run.slice(at, len(run.payloads))
            pending.size += _PER_RUN
            pending.firsts.insert(index + 1, seqno + 1)
            if first in self.early:
                self.early[seqno + 1] = None

    def forget_pending(self) -> None:
        """Drop pending runs, as if no message had come after those that were handed out in order."""
        runs = self.pending.runs
        beyond = [
            n for first in self.early for n in range(first, first + len(runs[first].payloads))
        ]
        self.passed = frozenset(n for n in self.passed if n > self.delivered).union(beyond)
        self.pending.clear()
        self.early.clear()
        self.known = self.delivered

    def move_to(self, delivered: int) -> None:
        """Go on after ``delivered``, and forget pending messages up to there."""
        old, early = self.pending, self.early
        self.pending, self.early = RunStore(), {}
        self.delivered = delivered
        self.known = max(self.known, delivered)
        for first in old.firsts:
            run = old.runs[first]
            start = max(0, delivered + 1 - first)
            if start < len(run.payloads):
                self.pending.append(first + start, run.slice(start, len(run.payloads)))
                if first in early:
                    self.early[first + start] = None

    def missing(self, low: int | None = None) -> list[Span]:
        """Return the spans that are known to exist and have not come, from ``low`` on (default: all)."""
        low = self.delivered + 1 if low is None else max(low, self.delivered + 1)
        return self.pending.missing(low, self.known) if low <= self.known else []

    def check(self) -> None:
        assert self.delivered <= self.known
        pending = self.pending
        if not (pending.firsts or pending.runs or self.early):
            assert pending.count == pending.size == 0
            return
        pending.check()
        assert self.pending.last <= self.known
        if self.pending:
            assert self.pending.first > self.delivered
            assert self.closed or self.pending.first > self.delivered + 1, "in order, not taken"
        for first in self.early:
            assert first in self.pending.runs


class GapClock:
    """Times the requests for missing messages of one sender. Each is asked for once, ``delay`` after the gap was
    seen. Then all missing ones are asked for after ``interval``, which doubles with each vain request. After an answer
    that stops, the clock asks again sooner: the rest of the answer was lost as well.

    ``factor_max``: the largest multiple of ``interval``.
    """

    __slots__ = (
        "again_at",
        "asked_at",
        "asked_to",
        "factor_max",
        "interval",
        "new_at",
        "seen_at",
        "took",
        "tries",
    )

    def __init__(self, interval: float, factor_max: int = 8) -> None:
        self.interval = interval
        self.factor_max = factor_max
        self.asked_to = 0
        self.new_at: float | None = None
        self.again_at: float | None = None
        self.tries = 0
        """Requests that were repeated since the last answer."""
        self.seen_at = 0
        self.asked_at: float | None = None
        """The time of the first request that has no answer yet."""
        self.took = 0.0
        """Seconds until an answer began. The value falls by half at most, so that one answer to another member's
        request misleads little."""

    @property
    def deadline(self) -> float | None:
        if self.new_at is None:
            return self.again_at
        return self.new_at if self.again_at is None else min(self.new_at, self.again_at)

    def saw(self, known: int, at: float) -> bool:
        """Note that a message up to ``known`` is missing, to be asked for at ``at``. Return whether the deadline
        changed."""
        if known <= self.asked_to or (self.new_at is not None and self.new_at <= at):
            return False
        self.new_at = at
        return True

    def answered(self, now: float, delay: float) -> None:
        """Note that a missing message came. If no more comes within ``delay`` plus twice the time that an answer takes
        to begin, the rest is asked for again."""
        if self.again_at is None:
            return
        if self.asked_at is not None:
            self.took = max(now - self.asked_at, self.took / 2)
            self.asked_at = None
        self.again_at = now + min(self.interval, 2 * self.took + delay)

    def due(self, window: ReceiveWindow, now: float, delay: float, limit: int) -> SeqnoList | None:
        """Return the seqnos to ask for now, at most ``limit`` of them. None: there are none now."""
        if not window.has_gap:
            self.new_at = self.again_at = None
            self.tries = 0
            self.asked_to = window.delivered
            return None
        if window.delivered > self.seen_at:
            self.tries = 0
        self.seen_at = window.delivered
        if self.again_at is not None and now >= self.again_at:
            # After an answer the count begins anew: the next request is repeated as the first one is.
            self.tries = 0 if self.asked_at is None else self.tries + 1
            self.again_at = now + self.interval * min(2**self.tries, self.factor_max)
            self.asked_to = window.delivered
        elif self.new_at is None or now < self.new_at:
            return None
        elif self.again_at is None:
            self.again_at = now + self.interval
        self.new_at = None
        wanted = span_list(window.missing(self.asked_to + 1), limit)
        if wanted is None:
            self.asked_to = window.known
            return None
        self.asked_to = wanted.offset + wanted.size - 1
        self.asked_at = now
        if window.missing(self.asked_to + 1):
            self.new_at = now + delay
        return wanted


def compact(run: Batch) -> Batch:
    """Return the run. Its payloads are copied when they are a small part of the packet that they came in."""
    payload = run.payloads[0]
    if type(payload) is memoryview:
        held = memoryview(payload.obj).nbytes
        if held > _SMALL and held > _SHARE * run.length:
            return replace(
                run, payloads=[None if one is None else bytes(one) for one in run.payloads]
            )
    return run


def span_list(spans: Iterable[Span], limit: int) -> SeqnoList | None:
    """Return the lowest ``limit`` seqnos of some ascending spans as a list. None: there are none."""
    bits = 0
    offset = top = None
    end = 0
    for low, high in spans:
        if offset is None:
            offset = low
            end = low + limit * _SPAN_BITS - 1
        high = min(high, low + limit - 1, end)
        if limit <= 0 or high < low:
            break
        limit -= high - low + 1
        bits |= ((1 << (high - low + 1)) - 1) << (low - offset)
        top = high
    if offset is None or top is None:
        return None
    return SeqnoList(offset, top - offset + 1, bits)


def spans_of(seqnos: SeqnoList, limit: int) -> list[Span]:
    """Return the spans of a list, ascending, with at most ``limit`` of its seqnos.

    Seqnos too far behind the first are left out, so that no list can be expensive.
    """
    bits = seqnos.bits & ((1 << (limit * _SPAN_BITS)) - 1)
    spans: list[Span] = []
    at = seqnos.offset
    while bits and limit > 0:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        at += zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        spans.append((at, at + min(ones, limit) - 1))
        bits >>= ones
        at += ones
        limit -= ones
    return spans
