"""Small values of headers and payloads, besides views and digests.

Source: WIRE.md sections 4 and 5; JGroups PingData, JoinRsp, MergeId, SeqnoList, GMS.readViewAndDigest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from jgroups_py.values.address import Address
from jgroups_py.values.view import DeltaView, Digest, View


@dataclass(frozen=True, slots=True)
class MergeId:
    """The name of one run of the merge protocol."""

    initiator: Address | None
    id: int

    def __str__(self) -> str:
        return f"{self.initiator}::{self.id}"


@dataclass(frozen=True, slots=True)
class PingData:
    """The data of a member in discovery. ``members`` are those that are searched for; None means all."""

    SERVER: ClassVar[int] = 1
    COORDINATOR: ClassVar[int] = 2

    address: Address | None
    flags: int = 0
    name: str | None = None
    physical: Address | None = None
    members: tuple[Address | None, ...] | None = None

    @property
    def is_server(self) -> bool:
        """True if the member has joined a group."""
        return bool(self.flags & self.SERVER)

    @property
    def is_coordinator(self) -> bool:
        return bool(self.flags & self.COORDINATOR)


@dataclass(frozen=True, slots=True)
class JoinRsp:
    """The coordinator's answer to a joiner: view and digest, or the reason of a refusal.

    ``digest`` covers exactly the members of ``view``, in its order.
    """

    view: View | None = None
    digest: Digest | None = None
    fail_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ViewDigest:
    """Payload of most membership messages: a view, a digest, or both."""

    view: View | DeltaView | None = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class SeqnoList:
    """A set of seqnos within ``offset .. offset+size-1``, as a bit set.

    Bit i of ``bits`` is seqno ``offset + i``. No bit at or above ``size`` is set.
    """

    offset: int
    size: int
    bits: int

    @classmethod
    def of(cls, seqnos: Iterable[int]) -> SeqnoList:
        """Return the list of these seqnos in the smallest range that holds them. It needs at least one."""
        wanted = list(seqnos)
        if not wanted:
            raise ValueError("a seqno list needs at least one seqno")
        low, high = min(wanted), max(wanted)
        bits = 0
        for seqno in wanted:
            bits |= 1 << (seqno - low)
        return cls(low, high - low + 1, bits)

    @classmethod
    def range(cls, first: int, last: int) -> SeqnoList:
        """Return all seqnos from ``first`` to ``last``, both included."""
        if last < first:
            raise ValueError(f"empty range {first}..{last}")
        size = last - first + 1
        return cls(first, size, (1 << size) - 1)

    def __iter__(self) -> Iterator[int]:
        """Yield the seqnos, ascending."""
        raw = self.bits.to_bytes((self.size + 7) // 8, "little")
        for index, byte in enumerate(raw):
            base = self.offset + index * 8
            for bit in range(8):
                if byte >> bit & 1:
                    yield base + bit

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __contains__(self, seqno: object) -> bool:
        if not isinstance(seqno, int):
            return False
        index = seqno - self.offset
        return 0 <= index < self.size and bool(self.bits >> index & 1)


@dataclass(frozen=True, slots=True)
class Streamable:
    """A value with its class on the wire: the payload of an OBJECT message, a token, an argument.

    ``magic`` is -1 for a class that is not registered; ``class_name`` tells the class then. objects.py has the type of
    ``value`` for each magic.
    """

    magic: int
    value: Any
    class_name: str | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """A boxed value with its type code (WIRE.md section 5), as in method calls."""

    code: int
    value: Any
