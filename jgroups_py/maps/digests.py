"""Digests of maps: whether two are equal, and which keys differ and why, without comparing all values.

Keys are spread over ``BUCKETS`` buckets. The digest of a bucket is the sum of hashes of its entries, so their order does not matter. Only
buckets that differ are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from jgroups_py.maps.entry import Entry

BUCKETS: Final = 4096
_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _BYTES)


class Side(Protocol):
    """One of two maps that are compared (``SharedFile`` is one)."""

    def items(self) -> Iterator[tuple[bytes, Entry]]: ...
    def entry(self, key: bytes) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs. ``why``: for people."""

    key: bytes
    why: str
    here: Entry | None
    there: Entry | None


def bucket_of(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=4).digest(), "little") % BUCKETS


def digests(items: Iterable[tuple[bytes, Entry]]) -> list[int]:
    """One number for each bucket; equal for equal entries in any order."""
    found = [0] * BUCKETS
    for key, entry in items:
        bucket = bucket_of(key)
        found[bucket] = (found[bucket] + _hash(key, entry)) % _MODULUS
    return found


def _hash(key: bytes, entry: Entry) -> int:
    head = b"%d %d %d %d " % (len(key), entry.stamp.time, entry.stamp.node, entry.expires)
    data = blake2b(head, digest_size=_BYTES)
    data.update(key)
    data.update(entry.value or b"")
    return int.from_bytes(data.digest(), "little")


def differences(here: Side, there: Side) -> Iterator[Difference]:
    """The keys that differ, in their order. Both are read twice if they differ at all."""
    mine, theirs = digests(here.items()), digests(there.items())
    buckets = {number for number in range(BUCKETS) if mine[number] != theirs[number]}
    if not buckets:
        return
    one, other = _in(here, buckets), _in(there, buckets)
    for key in sorted(one.keys() | other.keys()):
        a, b = one.get(key), other.get(key)
        if a is None or b is None or (a.stamp, a.value, a.expires) != (b.stamp, b.value, b.expires):
            yield _difference(key, a or here.entry(key), b or there.entry(key))


def _in(side: Side, buckets: set[int]) -> dict[bytes, Entry]:
    return {key: entry for key, entry in side.items() if bucket_of(key) in buckets}


def _difference(key: bytes, here: Entry | None, there: Entry | None) -> Difference:
    if here is None or there is None:
        return Difference(key, "only here" if there is None else "only there", here, there)
    if here.stamp == there.stamp:
        why = "one stamp and two values"
    else:
        older, newer = ("here", there) if there.stamp.is_newer(here.stamp) else ("there", here)
        what = "a removal" if newer.removed else "a change"
        why = f"older {older}: {what} of host {newer.stamp.node} is missing"
    return Difference(key, why, here, there)
