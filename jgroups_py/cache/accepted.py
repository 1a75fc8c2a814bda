"""The values that callers may give to a cache: paths, names and values, checked and encoded before any call begins.

This part knows no cache, only its codec and its limit of a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from jgroups_py.cache.codec import Codec, encoded
from jgroups_py.cache.fqn import BACKUP_ROOT, AnyPath, Fqn, as_fqn
from jgroups_py.cache.node import Node, checked_key
from jgroups_py.errors import CacheError, CacheRefused
from jgroups_py.stack.raised import text_of


def writable(path: AnyPath, *, root: bool = False) -> Fqn:
    """Return an Fqn that applications may write. CacheRefused: the path is a backup or the root."""
    fqn = as_fqn(path)
    if fqn[:1] == BACKUP_ROOT:
        raise CacheRefused(f"{BACKUP_ROOT} is the cache's own: {fqn} cannot be written")
    if not fqn and not root:
        raise CacheRefused("the root holds no attributes; put them at a path such as /a")
    return fqn


def is_number(value: Any) -> bool:
    """Is it a number that can be added to? A bool is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def close_unrun(awaitable: Any) -> None:
    """Close a coroutine that will not run, so that Python does not warn of it."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()


class Values:
    """``limit``: the bytes that one encoded value may have."""

    def __init__(self, codec: Codec, limit: int) -> None:
        self.codec = codec
        self._limit = limit

    def encode(self, value: Any) -> bytes:
        """Encode one value. CacheRefused: the value cannot be stored."""
        return encoded(self.codec, value, self._limit)

    def encode_all(self, attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Check the names and encode the values."""
        codec, limit = self.codec, self._limit
        found = {}
        for key, value in attributes.items():
            found[checked_key(key)] = encoded(codec, value, limit)
        return found

    def decode(self, data: bytes) -> Any:
        """Decode stored bytes. CacheError: the codec cannot read them, because another codec wrote them."""
        try:
            return self.codec.decode(data)
        except Exception as error:
            raise CacheError(
                f"a stored value cannot be read by this codec: {text_of(error)}"
            ) from error

    def decode_all(self, node: Node) -> dict[str, Any]:
        """Decode all attributes of a node."""
        return {key: self.decode(data) for key, data in node.attributes.items()}

    def checked(self, node: Node) -> Mapping[str, bytes]:
        """Return the attributes of an encoded node. CacheRefused: a name or a size is not allowed."""
        for key, value in node.attributes.items():
            checked_key(key)
            if len(value) > self._limit:
                raise CacheRefused(
                    f"a value has at most {self._limit} bytes, got {len(value)} (max_value_bytes)"
                )
        return node.attributes
