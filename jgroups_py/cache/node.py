"""Node: the attributes of one path, as stored. It never changes; a write makes a new one.

A reader, a store's thread and a listener may therefore keep one while others write. A comparison shows whether it has
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from jgroups_py.errors import CacheRefused

MAX_KEY_BYTES: Final = 1024
"""The most UTF-8 bytes of an attribute's name."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """``attributes``: name -> value in bytes. ``size``: bytes of names and values (left out: counted).

    Nodes cannot be part of a cycle, so the garbage collector skips the millions of them.
    """

    attributes: Mapping[str, bytes]
    size: int = -1

    def __post_init__(self) -> None:
        if self.size < 0:
            size = 0
            for key, value in self.attributes.items():
                size += len(value) + (len(key) if key.isascii() else len(key.encode()))
            msgspec.structs.force_setattr(self, "size", size)

    def with_attributes(self, more: Mapping[str, bytes]) -> Node:
        """Return a node with these attributes added."""
        if self.attributes.keys() <= more.keys():
            return Node(more)
        return Node({**self.attributes, **more})

    def without(self, keys: Iterable[str]) -> Node:
        """Return a node without these attributes."""
        gone = frozenset(keys)
        return Node({k: v for k, v in self.attributes.items() if k not in gone})


EMPTY: Final = Node({})

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, bytes]).decode


def node_bytes(node: Node) -> bytes:
    """Encode the attributes as one msgpack map, for stores and messages."""
    return _encode(node.attributes)


def node_from_bytes(data: bytes) -> Node:
    """Decode ``node_bytes``. ValueError: the bytes are something else."""
    try:
        attributes = _decode(data)
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"not a node: {error}") from None
    return Node(attributes)


def key_size(key: str) -> int:
    """Return the bytes of an attribute's name."""
    return len(key) if key.isascii() else len(key.encode())


def checked_key(key: object) -> str:
    """Return the name of an attribute as given. CacheRefused: the key cannot be such a name."""
    if type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES:
        return key  # most are so
    if not isinstance(key, str):
        raise CacheRefused(f"the name of an attribute is a text, got {type(key).__name__}")
    try:
        size = key_size(key)
    except UnicodeEncodeError:
        raise CacheRefused("the name of an attribute is not Unicode") from None
    if not 0 < size <= MAX_KEY_BYTES:
        raise CacheRefused(f"the name of an attribute has 1 to {MAX_KEY_BYTES} bytes, got {size}")
    return key
