"""Key -> digest -> bucket id (A29): the same in every process and version.

Bucket ``b`` of ``n`` has the digests from ``b * 2**64 / n`` to ``(b + 1) * 2**64 / n``, so a bucket is one range of digests, and a lost
bucket can be reported as a range. Doubling ``n`` splits each range in two.
"""

from __future__ import annotations

import hashlib
from typing import Final

from jgroups_py.buckets.errors import BadKey

DIGESTS: Final = 2**64
"""A digest is at least 0 and less than this."""
KEY_MAX: Final = 1_000
"""The most bytes of a key in UTF-8."""
BUCKETS_MAX: Final = 65_536
"""The most bucket pairs of an instance."""


def digest_of(key: str) -> int:
    """Return the first eight bytes, big-endian, of BLAKE2b of the key's UTF-8. Raises BadKey."""
    return int.from_bytes(hashlib.blake2b(checked_key(key), digest_size=8).digest(), "big")


def bucket_of(digest: int, buckets: int) -> int:
    """Return the bucket id, from 0 to ``buckets - 1``."""
    return digest * buckets // DIGESTS


def range_of(bucket: int, buckets: int) -> tuple[int, int]:
    """Return the first digest of the bucket, and the first one after it."""
    return -(-bucket * DIGESTS // buckets), -(-(bucket + 1) * DIGESTS // buckets)


def checked_key(key: str) -> bytes:
    """Return the key in UTF-8. Raises BadKey."""
    if not isinstance(key, str):
        raise BadKey(f"key {str(key)[:80]!r}: a text is expected, not {type(key).__name__}")
    try:
        data = key.encode()
    except UnicodeEncodeError:
        raise BadKey(f"key {key[:80]!a}: it cannot be written in UTF-8") from None
    if not 1 <= len(data) <= KEY_MAX:
        raise BadKey(f"key {key[:80]!r}: 1 to {KEY_MAX} bytes of UTF-8 are taken, not {len(data)}")
    return data
