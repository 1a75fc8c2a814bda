"""GMS, the way out: all actions of a part outside its own data.

A part sends, tells the protocols above and below, asks below, traces and reads the time. It cannot reach the
protocol or another part. It returns steps that concern other parts, and the protocol does them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, GetDigest, Query
from jgroups_py.values.view import Digest
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, GmsHeader, GmsType

T = TypeVar("T")
GMS_ID = PROTOCOL_IDS["GMS"]


class GmsOut:
    """The output of GMS's parts. It uses only methods that every protocol has."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self.name = protocol.name
        self.log = protocol.log

    @property
    def now(self) -> float:
        return self._protocol.now

    def patience(self, seconds: float) -> float:
        """See ``Protocol.patience``."""
        return self._protocol.patience(seconds)

    def name_of(self, member: Address) -> str:
        return self._protocol.name_of(member)

    def trace(self, what: str, **details: Any) -> None:
        self._protocol.trace(what, **details)

    def turn_away(self, cause: str, source: Address) -> None:
        """See ``Protocol.turn_away``."""
        self._protocol.turn_away(cause, source)

    def up(self, event: Event) -> None:
        self._protocol.pass_event_up(event)

    def down(self, event: Event) -> None:
        self._protocol.pass_event_down(event)

    def ask(self, query: Query) -> Any:
        """Return the first answer of the protocols below. None: no protocol answers."""
        return self._protocol.ask_down(query)

    def soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` when the running handler has returned."""
        self._protocol.machine.soon(callback)

    def delivered(self) -> Digest | None:
        """Return the delivered numbers of all senders; None without NAKACK2."""
        digest: Digest | None = self.ask(GetDigest(None))
        return digest

    def digest_of(self, members: tuple[Address, ...]) -> Digest:
        """Return the delivered numbers of ``members``; unknown members have (0, 0)."""
        known = self.ask(GetDigest(members)) or Digest()
        return Digest({m: known.seqnos.get(m, (0, 0)) for m in members})

    def send(
        self,
        dest: Address | None,
        type: GmsType,
        *,
        payload: bytes | None = None,
        flags: int = 0,
        message: int | None = None,
        transient: int = 0,
        **fields: Any,
    ) -> None:
        """Send one membership message. ``message``: its type; by default EMPTY, or BYTES with a payload."""
        self._protocol.pass_down(
            Batch.of(
                dest,
                GMS_ID,
                GmsHeader(type, **fields),
                payload=payload,
                type=message,
                flags=flags,
                transient=transient,
            )
        )

    def send_round(
        self, dest: Address, kind: RoundKind, number: int, payload: bytes, flags: int
    ) -> None:
        """Send one message of the round of survivors, or of the exchange after an exclusion (wire.py)."""
        header = FragHeader(number, kind, 0)
        self._protocol.pass_down(Batch.of(dest, AGREE_ID, header, payload=payload, flags=flags))
