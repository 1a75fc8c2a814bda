"""BARRIER: accepted, without effect.

In JGroups it holds messages back while a state and its digest are taken together. Here nothing
runs at the same time: STATE_TRANSFER takes the digest between two messages of the stream, so no message need be held
back. It puts nothing on the wire, so members with and without it get along.

Place: below NAKACK2, where stack files have it.
Source: JGroups BARRIER; WIRE.md section 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.stack.protocol import Protocol


class BARRIER(Protocol):
    """See the module's docstring."""

    protocol_id = 0

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """JGroups' attributes, none of which has an effect."""

        ignored: ClassVar[frozenset[str]] = frozenset({"max_close_time", "flush_timeout"})
