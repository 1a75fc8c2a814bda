"""Packs small messages that wait long: one buffer for many runs instead of objects for each.

A run of one 10-byte message costs about 800 bytes as a batch (with its headers and the datagram it
points into). The same run, packed, costs 14 bytes and a share of an entry. Headers are dropped, because readers of a
channel have no use for them.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from itertools import accumulate, pairwise

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.message import MessageType

SMALL = 2048
"""Packing saves memory when the average payload is smaller than this."""
FULL = 256 * 1024
"""A new buffer begins after this many bytes of payload, so that read messages are soon freed."""


@dataclass(slots=True)
class _PackedRun:
    src: Address | None
    dest: Address | None
    flags: int
    count: int
    credits: tuple[Credit, ...]


def is_worth_packing(batch: Batch) -> bool:
    return (
        batch.type == MessageType.BYTES
        and batch.length < SMALL * len(batch.payloads)
        and None not in batch.payloads
    )


class PackedRuns:
    """Runs of several senders in one order. It is filled first and then emptied."""

    __slots__ = ("_data", "_offset", "_runs", "_sizes", "_start", "_view")

    def __init__(self) -> None:
        self._data = bytearray()
        self._sizes = array("I")
        self._runs: deque[_PackedRun] = deque()
        self._view: memoryview | None = None
        self._start = 0  # index in _sizes of the next run to be taken
        self._offset = 0  # index in _data of the same run

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def is_full(self) -> bool:
        """True when no run can be added: the buffer is large enough, or it is being read."""
        return len(self._data) >= FULL or self._view is not None

    def add(self, batch: Batch) -> None:
        """Append a run. Join it to the last one where the reader cannot tell them apart."""
        self._data += b"".join(batch.payloads)
        self._sizes.extend(map(len, batch.payloads))
        last = self._runs[-1] if self._runs else None
        if (
            last is not None
            and last.src == batch.src
            and last.dest == batch.dest
            and last.flags == batch.flags
        ):
            last.count += len(batch.payloads)
            last.credits = _added(last.credits, batch.credits)
        else:
            count = len(batch.payloads)
            self._runs.append(_PackedRun(batch.src, batch.dest, batch.flags, count, batch.credits))

    def take(self) -> Batch:
        """Remove and return the first run."""
        if self._view is None:
            self._view = memoryview(bytes(self._data))
            self._data = bytearray()
        run, view = self._runs.popleft(), self._view
        sizes = self._sizes[self._start : self._start + run.count]
        ends = list(accumulate(sizes, initial=self._offset))
        payloads = [view[a:b] for a, b in pairwise(ends)]
        self._start += run.count
        self._offset = ends[-1]
        return Batch(run.dest, payloads, {}, run.src, run.flags, credits=run.credits)


def _added(one: tuple[Credit, ...], other: tuple[Credit, ...]) -> tuple[Credit, ...]:
    """Return both credits; those of one sender are added up."""
    sums: dict[tuple[Address, bool], int] = {}
    for credit in (*one, *other):
        key = (credit.sender, credit.multicast)
        sums[key] = sums.get(key, 0) + credit.amount
    return tuple([Credit(*key, amount) for key, amount in sums.items()])
