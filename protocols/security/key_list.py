"""The list of keys that ASYM_ENCRYPT puts before a payload.

    | i32 count | for each: addr member | i32 size, public key | i32 size, group key encrypted for that member |

A size of 0 means that there is no such key. The bytes after the list are the payload.

Source:  JGroups ASYM_ENCRYPT.serializeKeys, unserializeAndInstallKeys; WIRE.md 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from jgroups_py.values.address import Address
from jgroups_py.wire.primitives import Reader, Writer

_LEAST: Final = 10
"""Bytes of the shortest entry."""
KEY_MOST: Final = 4096
"""The most bytes of a key; a longer one is not read."""


class MemberKeys(NamedTuple):
    """The keys of one member; empty: none."""

    member: Address
    public: bytes = b""
    group: bytes = b""


def encode_keys(entries: Iterable[MemberKeys]) -> bytes:
    """Return the list as bytes."""
    entries = tuple(entries)
    w = Writer()
    w.i32(len(entries))
    for entry in entries:
        w.addr(entry.member)
        for key in (entry.public, entry.group):
            w.i32(len(key))
            w.raw(key)
    return w.done()


def read_keys(payload: bytes | memoryview) -> tuple[tuple[MemberKeys, ...], bytes]:
    """Return the list and the payload behind it.

    Raises:
        RemoteProtocolError: the bytes begin with no such list.
    """
    r = Reader(payload)
    entries = tuple(_read_entry(r) for _ in range(r.count(r.i32(), _LEAST, "keys")))
    return entries, bytes(r.rest())


def _read_entry(r: Reader) -> MemberKeys:
    member = r.known_addr("the owner of a key")
    return MemberKeys(member, _read_key(r), _read_key(r))


def _read_key(r: Reader) -> bytes:
    size = r.i32()
    if not 0 <= size <= KEY_MOST:
        r.fail(f"a key of {size} bytes")
    return r.take(size)
