"""RELAY on the wire: the headers of its messages, and its control records.

    FragHeader(id=seqno, index=kind, count=epoch) under ``ID``     on everything of RELAY
    RelayHeader(DATA, original_sender) under ``SOURCE_ID``          on RELAYED and COPY

Both are classes that Java members know, so they parse them and deliver the message. ``id`` advances within
a run: a run of multicasts stays one batch everywhere.

    DATA      a multicast of this member, numbered; an ordinary message to everybody else
    RELAYED   a run of another site's member: over the bridge, and multicast by the relay at its site
    COPY      a run out of a buffer, to a member that collects
    CONTROL   the payload is one record of this module
    POST      over the bridge: for the block on top of the other relay's channel (posts.py)

Records are msgpack arrays (tag, fields ...), decoded into typed structs only; numbers and lengths are
checked. Digests ("numbers") map the 16 bytes of an origin to a number; views are (creator, id).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta, Struct

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader

ID: Final = PROTOCOL_IDS["RELAY"]
SOURCE_ID: Final = PROTOCOL_IDS["RELAY_INFO"]
SEQNO_MAX: Final = 2**63 - 1
RECORD_MAX: Final = 16_000_000
"""Bytes of a control record; a digest entry has about 24, a buffered range about 20."""
_NAME_MAX: Final = 255


class MessageKind(IntEnum):
    DATA = 1
    RELAYED = 2
    COPY = 3
    CONTROL = 4
    POST = 5


CONTROL_HEADER: Final = FragHeader(0, MessageKind.CONTROL, 0)
CONTROL_FLAGS: Final = int(Flag.NO_RELAY)
PAYLOAD_FLAGS: Final = int(Flag.SERIALIZED)
"""Flags that belong to the payload and travel to other sites with it."""
UNNUMBERED: Final = int(Flag.NO_RELAY | Flag.NO_RELIABILITY)
OOB: Final = int(Flag.OOB)
DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)

Origin = Annotated[bytes, Meta(min_length=16, max_length=16)]
Seqno = Annotated[int, Meta(ge=0, le=SEQNO_MAX)]
Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# No character that ends a line or steers a terminal: names of sites get into logs.
Name = Annotated[
    str,
    Meta(
        max_length=_NAME_MAX,
        pattern=r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*\Z",
    ),
]
Numbers = dict[Origin, Seqno]
SiteNumbers = dict[Name, Numbers]
ViewKey = tuple[Annotated[bytes, Meta(max_length=64)], Seqno]
Epoch = tuple[Small, Name]
Ranges = dict[Origin, list[tuple[Seqno, Seqno]]]


class Known(Struct, frozen=True, array_like=True):
    """The knowledge of a member, sent to joiners, to collecting members and with a state."""

    delivered: Numbers
    trimmed: Numbers
    site_digest: SiteNumbers
    sites: list[Name]
    forgotten: Numbers
    """Seconds since it was forgotten."""
    epoch: Epoch
    base: Numbers
    serial: Seqno
    left: dict[Name, dict[Origin, tuple[Seqno, Seqno]]] = {}
    """Forgotten origins of other sites: the number, and the seconds since."""


# --- inside a site, member to member


class CollectAsk(Struct, frozen=True, array_like=True, tag=1):
    view: ViewKey


class CollectAnswer(Struct, frozen=True, array_like=True, tag=2):
    view: ViewKey
    known: Known
    ranges: Ranges


class Fetch(Struct, frozen=True, array_like=True, tag=3):
    """Send copies of these runs. The answer is some COPY runs and then Fetched."""

    view: ViewKey
    ranges: Ranges


class Fetched(Struct, frozen=True, array_like=True, tag=4):
    """The end of one Fetch. ``rest``: ranges left for another Fetch."""

    view: ViewKey
    rest: Ranges


class Report(Struct, frozen=True, array_like=True, tag=5):
    """One member's site digest to the relay: changes since the last report in this view."""

    view: ViewKey
    serial: Seqno
    complete: bool
    digest: SiteNumbers


class Snapshot(Struct, frozen=True, array_like=True, tag=6):
    """The knowledge for members that joined with ``view``."""

    view: ViewKey
    known: Known


class Need(Struct, frozen=True, array_like=True, tag=7):
    """I joined with ``view`` and have no Snapshot yet."""

    view: ViewKey


class StateMark(Struct, frozen=True, array_like=True, tag=8):
    """The digests that belong to the state the receiver has asked for."""

    known: Known


class Lack(Struct, frozen=True, array_like=True, tag=9):
    """I have only these numbers and got something beyond them."""

    site: Name
    numbers: Numbers


class PromoteAsk(Struct, frozen=True, array_like=True, tag=10):
    """Make this site primary."""


# --- inside a site, the relay to everybody. ``serial`` counts them for one relay.


class Trim(Struct, frozen=True, array_like=True, tag=20):
    serial: Seqno
    trimmed: Numbers
    sites: list[Name]


class Gap(Struct, frozen=True, array_like=True, tag=21):
    """Messages at or below these numbers will not come. ``start``: they were never meant for the other site."""

    serial: Seqno
    site: Name
    numbers: Numbers
    start: bool


class Forget(Struct, frozen=True, array_like=True, tag=22):
    """Forget departed members of this site (``site`` empty) or of another site."""

    serial: Seqno
    site: Name
    origins: list[Origin]


class Cut(Struct, frozen=True, array_like=True, tag=23):
    """A new epoch begins here. ``base``: numbers of the new primary that are not relayed."""

    serial: Seqno
    epoch: Epoch
    base: Numbers


class Block(Struct, frozen=True, array_like=True, tag=24):
    """Buffers are nearly full: applications wait (or go on again)."""

    serial: Seqno
    on: bool


class Begun(Struct, frozen=True, array_like=True, tag=25):
    """These members know where they begin: no Need of them will come."""

    serial: Seqno
    members: list[Origin]


# --- between sites, relay to relay


class Ask(Struct, frozen=True, array_like=True, tag=40):
    """Kind 2 of RELAY.md: who I am, what I have, which origins I still know; what do you have?"""

    token: Seqno
    site: Name
    epoch: Epoch
    known: list[Origin]
    have: SiteNumbers
    blind: bool = False
    """I joined and no member could tell me where to begin: send all unacknowledged messages."""


class Have(Struct, frozen=True, array_like=True, tag=41):
    """Kind 2: the answer to Ask(token). Token 0: unasked, go back to these numbers."""

    token: Seqno
    site: Name
    epoch: Epoch
    numbers: Numbers


class Ack(Struct, frozen=True, array_like=True, tag=42):
    """Kind 2: all members of my site have these numbers; changes only."""

    numbers: Numbers


class BridgeGap(Struct, frozen=True, array_like=True, tag=43):
    """Kind 2: see Gap."""

    numbers: Numbers
    start: bool


class StillKnown(Struct, frozen=True, array_like=True, tag=44):
    """Kind 2: the origins of my site that I still know."""

    origins: list[Origin]


class Leaving(Struct, frozen=True, array_like=True, tag=45):
    """Kind 3 of RELAY.md: going down gracefully."""


Multicast = Trim | Gap | Forget | Cut | Block | Begun
Unicast = (
    CollectAsk
    | CollectAnswer
    | Fetch
    | Fetched
    | Report
    | Snapshot
    | Need
    | StateMark
    | Lack
    | PromoteAsk
)
Bridged = Ask | Have | Ack | BridgeGap | StillKnown | Leaving
Record = Multicast | Unicast | Bridged
MULTICASTS: Final = get_args(Multicast)

_ENCODER: Final = msgspec.msgpack.Encoder()
_LOCAL: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Multicast | Unicast)
_BRIDGED: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Bridged)


def encode(record: Record) -> bytes:
    return _ENCODER.encode(record)


def decode_local(payload: Any) -> Any:
    """Decode a record from a member of the own site.

    Raises:
        RemoteProtocolError: the bytes are no such record.
    """
    return _decode(_LOCAL, payload)


def decode_bridged(payload: Any) -> Any:
    """Decode a record from another site's relay. Errors are those of ``decode_local``."""
    return _decode(_BRIDGED, payload)


def _decode(decoder: msgspec.msgpack.Decoder[Any], payload: Any) -> Any:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise RemoteProtocolError("a control record without bytes")
    if len(payload) > RECORD_MAX:
        raise RemoteProtocolError(f"a control record of {len(payload)} bytes")
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"not a control record: {error}") from None


def key_of(view: View) -> ViewKey:
    return (bytes(view.view_id.creator), view.id)
