"""Digests of maps: they show whether two maps are equal, and which keys differ and why, without comparing all values.

Keys are spread over ``BUCKETS`` buckets. The digest of a bucket is the sum of hashes of its entries, so their order
does not matter. Only differing buckets are read again, as rows: entries without their values. One of the two maps may
be on another machine (inquiry.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple, Protocol

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.stamp import MapStamp

BUCKETS: Final = 4096
BYTES: Final = 16
"""Bytes of a digest."""
_MODULUS: Final = 1 << (8 * BYTES)
_NO_VALUE: Final = b""


class Side(Protocol):
    """One of two compared maps (``SharedFile`` is one)."""

    @property
    def key_codec(self) -> str: ...

    def items(
        self, *, after: bytes = b"", removed: bool = False
    ) -> Iterator[tuple[bytes, MapEntry]]: ...


class DigestRow(NamedTuple):
    """An entry, with the digest of its value; empty: it was removed. ``stamp``: the last change."""

    stamp: MapStamp
    expires: int
    value: bytes

    @property
    def removed(self) -> bool:
        return self.value == _NO_VALUE


class Difference(NamedTuple):
    """A key that differs. ``why``: for people."""

    key: bytes
    why: str
    here: DigestRow | None
    there: DigestRow | None


def bucket_of(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=4).digest(), "little") % BUCKETS


def digests(items: Iterable[tuple[bytes, MapEntry]]) -> list[int]:
    """Return one number for each bucket; equal for equal entries in any order."""
    found = [0] * BUCKETS
    for key, entry in items:
        bucket = bucket_of(key)
        found[bucket] = (found[bucket] + _hash(key, entry)) % _MODULUS
    return found


def _hash(key: bytes, entry: MapEntry) -> int:
    head = b"%d %d %d %d " % (len(key), entry.stamp.time, entry.stamp.node, entry.expires)
    data = blake2b(head, digest_size=BYTES)
    data.update(key)
    data.update(entry.value or b"")
    return int.from_bytes(data.digest(), "little")


def row_of(entry: MapEntry) -> DigestRow:
    value = entry.value
    digest = _NO_VALUE if value is None else blake2b(value, digest_size=BYTES).digest()
    return DigestRow(entry.stamp, entry.expires, digest)


def rows(
    side: Side, buckets: Collection[int], *, after: bytes = b"", scan: int | None = None
) -> tuple[list[tuple[bytes, DigestRow]], bytes | None]:
    """Return rows of some buckets, removed ones included, in the order of keys above ``after``. At most ``scan``
    entries are read. Also return the last key read, to go on from; None: that is all."""
    found: list[tuple[bytes, DigestRow]] = []
    looked, key = 0, after
    for key, entry in islice(side.items(after=after, removed=True), scan):
        looked += 1
        if bucket_of(key) in buckets:
            found.append((key, row_of(entry)))
    return found, None if scan is None or looked < scan else key


def differing(mine: Sequence[int], theirs: Sequence[int]) -> set[int]:
    """Return the buckets whose digests differ."""
    return {number for number in range(BUCKETS) if mine[number] != theirs[number]}


def differences(here: Side, there: Side) -> Iterator[Difference]:
    """Yield the keys that differ, in order. Both maps are read twice if they differ at all."""
    buckets = differing(digests(here.items()), digests(there.items()))
    if buckets:
        yield from compared(dict(rows(here, buckets)[0]), dict(rows(there, buckets)[0]))


def compared(
    here: Mapping[bytes, DigestRow], there: Mapping[bytes, DigestRow]
) -> Iterator[Difference]:
    """Yield the keys whose rows differ, in order. A key that is removed here and unknown there is equal."""
    for key in sorted(here.keys() | there.keys()):
        a, b = here.get(key), there.get(key)
        if a != b and not ((a is None or a.removed) and (b is None or b.removed)):
            yield Difference(key, _why(a, b), a, b)


def _why(here: DigestRow | None, there: DigestRow | None) -> str:
    if here is None or there is None:
        return "only here" if there is None else "only there"
    if here.stamp == there.stamp:
        return "one stamp and two values"
    older, newer = ("here", there) if there.stamp.is_newer(here.stamp) else ("there", here)
    what = "a removal" if newer.removed else "a change"
    return f"older {older}: {what} of host {newer.stamp.node} is missing"
