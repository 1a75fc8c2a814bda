"""Sizes of messages in a stack without FRAG2.

A write that no packet takes is refused where it is made, as a send on the channel is. Messages that the buddy machine makes of
itself have no caller who could make them smaller: state for a new buddy, nodes that move, the list of what a member holds. They
go in pieces. The pieces of a message leave one after the other in the ordered stream for one member.

    piece    one byte PIECE, one byte of marks (FIRST, LAST), then bytes of the message
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, TypeGuard

from jgroups_py.cache.node import Node
from jgroups_py.errors import CacheRefused, RemoteProtocolError
from jgroups_py.values.address import Address

PIECE: Final = 0xB2
FIRST: Final = 1
LAST: Final = 2
HEAD: Final = 2
JOINED_MAX: Final = 100_000_000
"""The most bytes of one message in pieces; a larger one is dropped."""
PIECE_COST: Final = 100
"""Bytes that it costs to keep a piece, beside its own."""


def refuse_larger(what: object, size: int, most: int) -> None:
    """Raise CacheRefused if ``size`` bytes are more than ``most``, which a packet of the stack takes."""
    if size > most:
        raise CacheRefused(
            f"{what}: {size} bytes are more than a packet of this stack takes (at most {most} bytes): put FRAG2 into the "
            "stack, which cuts large messages; nothing was changed"
        )


def size_of_node(path: Collection[str], node: Node) -> int:
    """Return the bytes of a node with its path, as far as they depend on what the caller has given."""
    return node.size + sum([len(part.encode("utf-8", "replace")) for part in path])


def pieces_of(message: bytes, most: int) -> Iterator[bytes]:
    """Cut a message into pieces of at most ``most`` bytes."""
    step = most - HEAD
    for start in range(0, len(message), step):
        marks = (0 if start else FIRST) | (LAST if start + step >= len(message) else 0)
        yield bytes((PIECE, marks)) + message[start : start + step]


def is_piece(payload: object) -> TypeGuard[bytes | memoryview]:
    return isinstance(payload, bytes | memoryview) and len(payload) > HEAD and payload[0] == PIECE


class JoinedPieces:
    """The messages of which some pieces have come, one for each member. A member that joins may send before its view is here: all
    senders outside the view have the room of one message together."""

    def __init__(self, joined_max: int = JOINED_MAX) -> None:
        self._max = joined_max
        self._members: Collection[Address] = ()
        self._parts: dict[Address, list[bytes]] = {}
        self._size: dict[Address, int] = {}
        self._strangers_size = 0

    def add(self, src: Address, piece: bytes | memoryview) -> bytes | None:
        """Take a piece. Return the message if this was its last one.

        Raises:
            RemoteProtocolError: the piece continues nothing, or the message is too large. What had come is dropped.
        """
        marks, data = piece[1], bytes(piece[HEAD:])
        if marks & FIRST:
            self._forget(src)
            self._parts[src], self._size[src] = [], 0
        elif src not in self._parts:
            raise RemoteProtocolError("a piece without the first one of its message")
        self._count(src, len(data) + PIECE_COST)
        if self._size[src] > self._max:
            self._forget(src)
            raise RemoteProtocolError(f"a message in pieces has more than {self._max} bytes")
        self._parts[src].append(data)
        if marks & LAST:
            whole = b"".join(self._parts[src])
            self._forget(src)
            return whole
        while self._strangers_size > self._max:
            self._forget(next(src for src in self._parts if src not in self._members))
        return None

    def view_installed(self, members: Collection[Address]) -> None:
        """Forget the pieces of members that are gone."""
        for src in [src for src in self._parts if src in self._members and src not in members]:
            self._forget(src)
        self._members = members
        self._strangers_size = sum([size for src, size in self._size.items() if src not in members])

    def _count(self, src: Address, size: int) -> None:
        self._size[src] += size
        if src not in self._members:
            self._strangers_size += size

    def _forget(self, src: Address) -> None:
        if src in self._parts:
            self._count(src, -self._size[src])
            del self._parts[src], self._size[src]
