"""The header catalogue: one frozen dataclass per class of header on the wire.

``magic_id`` is the class of the header, ``PROTOCOL_IDS`` the protocol it belongs to; the reader finds
the class by magic id and a protocol its header by protocol id. Bodies are read and written by
header_codec.py.

Source: WIRE.md section 10; JGroups jg-magic-map.xml, jg-protocol-ids.xml and the header classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar, Final, Self

from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.counted_iv import iv_after
from jgroups_py.values.header import Header
from jgroups_py.values.light import light
from jgroups_py.values.payloads import MergeId, Streamable
from jgroups_py.values.view import Digest, ViewId

PROTOCOL_IDS: Final[dict[str, int]] = {
    "FRAG2": 4,
    "PING": 5,
    "MPING": 6,
    "FILE_PING": 8,
    "TCPPING": 9,
    "TCPGOSSIP": 10,
    "VERIFY_SUSPECT": 11,
    "GMS": 12,
    "STABLE": 13,
    "STATE_TRANSFER": 14,
    "COMPRESS": 15,
    "SEQUENCER": 19,
    "FD_ALL": 20,
    "FD_ALL2": 21,
    "AUTH": 23,
    "STATE": 24,
    "STATE_SOCK": 25,
    "MFC": 30,
    "UFC": 31,
    "JDBC_PING": 32,
    "BPING": 34,
    "MERGE3": 38,
    "RSVP": 39,
    "RACKSPACE_PING": 40,
    "NAKACK2": 41,
    "SWIFT_PING": 43,
    "RELAY2": 44,
    "RELAY3": 45,
    "UNICAST3": 48,
    "SHARED_LOOPBACK_PING": 50,
    "TP": 57,
    "SYM_ENCRYPT": 58,
    "ASYM_ENCRYPT": 59,
    "DNS_PING": 61,
    "FRAG3": 62,
    "DH_KEY_EXCHANGE": 65,
    "LOCAL_PING": 68,
    "FRAG4": 69,
    "FD_ALL3": 70,
    "FD_SOCK2": 71,
    "VERIFY_SUSPECT2": 72,
    "BATCH2": 74,
    "JDBC_PING2": 75,
    "NAKACK3": 76,
    "NAKACK4": 77,
    "UNICAST4": 78,
    "REQUEST_CORRELATOR": 200,
    "FORK": 203,
    # Ours: ids from 1024 on are free for users; the headers are of classes that Java members know.
    "RELAY": 1060,
    "RELAY_INFO": 1061,
}
"""Protocol ids by protocol name. ``TP`` is every transport."""

TP_ID: Final = PROTOCOL_IDS["TP"]


class PingType(IntEnum):
    GET_MBRS_REQ = 1
    GET_MBRS_RSP = 2


class GmsType(IntEnum):
    JOIN_REQ = 1
    JOIN_RSP = 2
    LEAVE_REQ = 3
    LEAVE_RSP = 4
    VIEW = 5
    MERGE_REQ = 6
    MERGE_RSP = 7
    INSTALL_MERGE_VIEW = 8
    CANCEL_MERGE = 9
    VIEW_ACK = 10
    JOIN_REQ_WITH_STATE_TRANSFER = 11
    GET_DIGEST_REQ = 13
    GET_DIGEST_RSP = 14
    INSTALL_DIGEST = 15
    GET_CURRENT_VIEW = 16


class NakAckType(IntEnum):
    MSG = 1
    XMIT_REQ = 2
    XMIT_RSP = 3
    HIGHEST_SEQNO = 4
    ACK = 5
    """NAKACK3 and NAKACK4 only."""


class UnicastType(IntEnum):
    DATA = 0
    ACK = 1
    SEND_FIRST_SEQNO = 2
    XMIT_REQ = 3
    CLOSE = 4


class StableType(IntEnum):
    STABLE_GOSSIP = 1
    STABILITY = 2


class FdType(IntEnum):
    SUSPECT = 1
    UNSUSPECT = 2
    CONNECT = 3
    CONNECT_RSP = 4


class VerifyType(IntEnum):
    ARE_YOU_DEAD = 1
    I_AM_NOT_DEAD = 2


class MergeType(IntEnum):
    INFO = 0
    VIEW_REQ = 1
    VIEW_RSP = 2


class FcType(IntEnum):
    REPLENISH = 1
    CREDIT_REQUEST = 2


class StateType(IntEnum):
    STATE_REQ = 1
    STATE_RSP = 2
    STATE_EX = 3


class StreamingStateType(IntEnum):
    STATE_REQ = 1
    STATE_RSP = 2
    STATE_PART = 3
    STATE_EOF = 4
    STATE_EX = 5


class RsvpType(IntEnum):
    REQ = 1
    REQ_ONLY = 2
    RSP = 3


class SequencerType(IntEnum):
    FORWARD = 1
    FLUSH = 2
    BCAST = 3
    WRAPPED_BCAST = 4


class CorrelatorType(IntEnum):
    REQ = 0
    RSP = 1
    EXC_RSP = 2


class EncryptType(IntEnum):
    DATA = 0
    INSTALL_KEYS = 1
    FETCH_SHARED_KEY = 2


class DhType(IntEnum):
    SECRET_KEY_REQ = 0
    SECRET_KEY_RSP = 1


class RelayType(IntEnum):
    DATA = 1
    SITE_UNREACHABLE = 2
    MBR_UNREACHABLE = 3
    SITES_UP = 4
    SITES_DOWN = 5
    TOPO_REQ = 6
    TOPO_RSP = 7


@dataclass(frozen=True, slots=True)
class TpHeader(Header):
    """The cluster that a message is for. The packet codec puts it on every message.

    ``flag`` 1, 2: round-trip-time request, response; only then ``index`` is on the wire.
    """

    magic_id: ClassVar[int] = 60
    cluster: str | None
    flag: int = 0
    index: int | None = None


@dataclass(frozen=True, slots=True)
class PingHeader(Header):
    """Discovery request or response; ``cluster`` in requests only."""

    magic_id: ClassVar[int] = 53
    type: PingType
    cluster: str | None = None
    initial_discovery: bool = False


@dataclass(frozen=True, slots=True)
class GmsHeader(Header):
    """Membership. ``member`` in JOIN, LEAVE and MERGE_REQ; ``other_flags``: bits without meaning
    here (5.3 sets 8 in JOIN and LEAVE requests), kept as they came."""

    magic_id: ClassVar[int] = 55
    type: GmsType
    member: Address | None = None
    merge_id: MergeId | None = None
    rejected: bool = False
    other_flags: int = 0


@light
@dataclass(frozen=True, slots=True)
class NakAckHeader2(Header):
    """NAKACK2. ``sender`` (the original one) in XMIT_REQ only, ``seqno`` in all others."""

    magic_id: ClassVar[int] = 78
    sequence: ClassVar[str | None] = "seqno"
    type: NakAckType
    seqno: int = 0
    sender: Address | None = None

    def at(self, index: int) -> Self:
        return type(self)(self.type, self.seqno + index, self.sender)


@dataclass(frozen=True, slots=True)
class NakAckHeader(Header):
    """NAKACK3, NAKACK4: as NakAckHeader2, plus ACK."""

    magic_id: ClassVar[int] = 99
    sequence: ClassVar[str | None] = "seqno"
    type: NakAckType
    seqno: int = 0
    sender: Address | None = None


@light
@dataclass(frozen=True, slots=True)
class UnicastHeader3(Header):
    """UNICAST3. DATA: seqno, conn_id, first. ACK: seqno, conn_id, timestamp.
    SEND_FIRST_SEQNO: timestamp. XMIT_REQ: nothing. CLOSE: conn_id."""

    magic_id: ClassVar[int] = 82
    sequence: ClassVar[str | None] = "seqno"
    type: UnicastType
    seqno: int = 0
    conn_id: int = 0
    first: bool = False
    timestamp: int = 0

    def at(self, index: int) -> Self:
        return type(self)(self.type, self.seqno + index, self.conn_id, self.first, self.timestamp)


@dataclass(frozen=True, slots=True)
class UnicastHeader(Header):
    """UNICAST4: the same fields as UnicastHeader3."""

    magic_id: ClassVar[int] = 100
    sequence: ClassVar[str | None] = "seqno"
    type: UnicastType
    seqno: int = 0
    conn_id: int = 0
    first: bool = False
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class StableHeader(Header):
    magic_id: ClassVar[int] = 56
    type: StableType
    view_id: ViewId | None = None


@dataclass(frozen=True, slots=True)
class FdHeader(Header):
    """FD_SOCK2. ``members`` in SUSPECT and UNSUSPECT, ``server`` in CONNECT and CONNECT_RSP,
    ``cluster`` in CONNECT_RSP."""

    magic_id: ClassVar[int] = 93
    type: FdType
    members: tuple[Address | None, ...] = ()
    cluster: str | None = None
    server: Address | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatHeader(Header):
    magic_id: ClassVar[int] = 62


@dataclass(frozen=True, slots=True)
class VerifyHeader2(Header):
    """VERIFY_SUSPECT2."""

    magic_id: ClassVar[int] = 94
    type: VerifyType
    sender: Address | None = None


@dataclass(frozen=True, slots=True)
class VerifyHeader(Header):
    """VERIFY_SUSPECT."""

    magic_id: ClassVar[int] = 54
    type: VerifyType
    sender: Address | None = None


@dataclass(frozen=True, slots=True)
class MergeHeader(Header):
    """MERGE3. All but ``type`` in INFO only."""

    magic_id: ClassVar[int] = 75
    type: MergeType
    view_id: ViewId | None = None
    name: str | None = None
    physical: Address | None = None


@dataclass(frozen=True, slots=True)
class FcHeader(Header):
    """MFC and UFC; the amount is the LongMessage's payload."""

    magic_id: ClassVar[int] = 59
    type: FcType


@light
@dataclass(frozen=True, slots=True)
class FragHeader(Header):
    """FRAG2 and FRAG4: fragment ``index`` of ``count`` of the sender's fragmented message ``id``.

    ``id`` advances within a run. Fragments of one message never form a run. Messages of RELAY do: RELAY numbers them
    with this header under an id of its own.
    """

    magic_id: ClassVar[int] = 52
    sequence: ClassVar[str | None] = "id"
    id: int
    index: int
    count: int
    needs_deserialization: bool = False
    original_type: int = 0


@dataclass(frozen=True, slots=True)
class Frag3Header(Header):
    """FRAG3; lengths in bytes."""

    magic_id: ClassVar[int] = 91
    id: int
    index: int
    count: int
    original_length: int
    offset: int
    needs_deserialization: bool = False


@dataclass(frozen=True, slots=True)
class StateHeader(Header):
    """STATE_TRANSFER; ``digest`` in STATE_RSP."""

    magic_id: ClassVar[int] = 57
    type: StateType
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class StreamingStateHeader(Header):
    """STATE and STATE_SOCK; ``bind_address`` where the state can be fetched (STATE_SOCK)."""

    magic_id: ClassVar[int] = 65
    type: StreamingStateType
    digest: Digest | None = None
    bind_address: IpAddress | None = None


@dataclass(frozen=True, slots=True)
class RsvpHeader(Header):
    magic_id: ClassVar[int] = 76
    type: RsvpType
    id: int


@dataclass(frozen=True, slots=True)
class SequencerHeader(Header):
    magic_id: ClassVar[int] = 61
    type: SequencerType
    seqno: int
    flush_ack: bool = False


@light
@dataclass(frozen=True, slots=True)
class CorrelatorHeader(Header):
    """Remote calls. ``request_id`` 0: no answer is wanted; in a run of those the number does not advance."""

    magic_id: ClassVar[int] = 67
    sequence: ClassVar[str | None] = "request_id"
    type: CorrelatorType
    request_id: int
    correlator_id: int = 200

    def at(self, index: int) -> Self:
        if not self.request_id or index == 0:
            return self
        if type(self) is CorrelatorHeader:
            return type(self)(self.type, self.request_id + index, self.correlator_id)
        return Header.at(self, index)

    def is_followed_by(self, other: Header, distance: int = 1) -> bool:
        return Header.is_followed_by(self, other, distance) if self.request_id else self == other


@dataclass(frozen=True, slots=True)
class MultiDestinationHeader(CorrelatorHeader):
    """A CorrelatorHeader with the members that must ignore the request."""

    magic_id: ClassVar[int] = 68
    excluded: tuple[Address | None, ...] | None = ()


@dataclass(frozen=True, slots=True)
class AuthHeader(Header):
    magic_id: ClassVar[int] = 66
    token: Streamable | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class EncryptHeader(Header):
    """SYM_ENCRYPT, ASYM_ENCRYPT. ``version`` names the key (MD5 of its bytes). Within a run a counting ``iv`` advances
    (counted_iv.py)."""

    magic_id: ClassVar[int] = 88
    type: EncryptType
    needs_deserialization: bool = False
    version: bytes | None = None
    server: Address | None = None
    iv: bytes | None = None

    def at(self, index: int) -> Self:
        if index == 0 or self.iv is None:
            return self
        iv = iv_after(self.iv, index)
        return self if iv is None else replace(self, iv=iv)

    def is_followed_by(self, other: Header, distance: int = 1) -> bool:
        if type(other) is not EncryptHeader:
            return False
        if self.iv is None or other.iv is None:
            return self == other
        return (
            other.iv == iv_after(self.iv, distance)
            and other.type == self.type
            and other.needs_deserialization == self.needs_deserialization
            and other.version == self.version
            and other.server == self.server
        )


@dataclass(frozen=True, slots=True)
class DhHeader(Header):
    """DH_KEY_EXCHANGE. The last two fields are in SECRET_KEY_RSP only."""

    magic_id: ClassVar[int] = 92
    type: DhType
    dh_key: bytes = b""
    encrypted_secret_key: bytes = b""
    secret_key_version: bytes = b""


@dataclass(frozen=True, slots=True)
class CompressHeader(Header):
    magic_id: ClassVar[int] = 58
    original_size: int
    needs_deserialization: bool = False


@dataclass(frozen=True, slots=True)
class RelayHeader(Header):
    """RELAY2 and RELAY3 of JGroups (not our RELAY)."""

    magic_id: ClassVar[int] = 80
    type: RelayType
    return_entire_cache: bool = False
    final_dest: Address | None = None
    original_sender: Address | None = None
    sites: tuple[str | None, ...] = ()
    visited: tuple[str | None, ...] = ()
    original_headers: tuple[tuple[int, Header], ...] = ()
    original_flags: int = 0


@dataclass(frozen=True, slots=True)
class ForkHeader(Header):
    magic_id: ClassVar[int] = 83
    stack_id: str | None
    channel_id: str | None


@dataclass(frozen=True, slots=True)
class Batch2Header(Header):
    magic_id: ClassVar[int] = 96


@dataclass(frozen=True, slots=True)
class InfoHeader(Header):
    """Key/value strings. Unknown before 5.4."""

    magic_id: ClassVar[int] = 101
    info: tuple[tuple[str | None, str | None], ...] = ()
