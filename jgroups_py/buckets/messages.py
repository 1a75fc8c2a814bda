"""Messages between two components, in msgpack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec

from jgroups_py.buckets.digest import BUCKETS_MAX, KEY_MAX
from jgroups_py.buckets.ends import Cep, Name, ProxyId
from jgroups_py.buckets.plugin import BODY_MAX, FORMAT_MAX

PACKET_MAX: Final = 4 * BODY_MAX
"""The most bytes of one message."""
TEXT_MAX: Final = 2_000

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
BucketId = Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS_MAX)]
Version = Annotated[int, msgspec.Meta(ge=0, le=FORMAT_MAX)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX)]
Body = Annotated[bytes, msgspec.Meta(max_length=BODY_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
RequestId = tuple[Name, Number]
"""The router's member and a number that this router uses once."""
Txn = tuple[Cep, Number]
"""An update of the index: the copy that began it and its number."""
Role = Literal["master", "slave"]
Status = Literal["done", "failed", "moved", "busy"]
Replies = list[tuple[ProxyId, Body]]


class BucketRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The places of a bucket's copies. ``slave_version``: the format that the slave's manager reads."""

    bucket: BucketId
    epoch: Number
    master: Cep
    slave: Cep | None = None
    slave_version: Version = 0

    def role_of(self, cep: Cep) -> Role | None:
        return "master" if cep == self.master else "slave" if cep == self.slave else None


class EntryChange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A change of an entry. ``pieces``: name -> bytes; the whole has the name "". ``whole``: these pieces replace all
    older ones. Without pieces the entry is deleted."""

    key: Key
    pieces: dict[str, Body]
    whole: bool
    version: Version

    @property
    def deletes(self) -> bool:
        return not self.pieces


class Kept(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer of a modification, remembered."""

    id: RequestId
    replies: Replies


class ComponentInfo(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A component: ``kind``, node and zone, and a manager's plug-in formats."""

    name: Name
    kind: Literal["manager", "index", "router", "proxies"]
    node: Name
    zone: Annotated[str, msgspec.Meta(max_length=200)] = ""
    application: Annotated[str, msgspec.Meta(max_length=200)] = ""
    version: Version = 0
    reads: tuple[Version, ...] = ()
    writes: tuple[Version, ...] = ()


class KnownManager(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A bucket manager that the index knows."""

    cep: Cep
    info: ComponentInfo


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """To all members after each view: the components of the sender."""

    parts: list[ComponentInfo]


# --- requests


class Forward(msgspec.Struct, frozen=True, tag="fwd", array_like=True, forbid_unknown_fields=True):
    """Router to manager: a request, and the row by which it was sent. ``puts``: ``body`` is an ``EntryChange``, an
    exported entry that replaces the present one (UnserialiseEntry)."""

    id: RequestId
    row: BucketRow
    key: Key
    body: Body
    modifies: bool
    proxy: ProxyId | None
    puts: bool = False


class Answer(msgspec.Struct, frozen=True, tag="ans", array_like=True, forbid_unknown_fields=True):
    """Manager to router. ``moved``: not done here; look up again. ``row``: with "moved", where the pair is now, if the manager
    knows it."""

    id: RequestId
    status: Status
    text: Text
    replies: Replies
    row: BucketRow | None = None


class Deliver(msgspec.Struct, frozen=True, tag="dlv", array_like=True, forbid_unknown_fields=True):
    """Router to proxy manager: a message for a client."""

    proxy: ProxyId
    body: Body


class Findable(msgspec.Struct, frozen=True, tag="fnd", array_like=True, forbid_unknown_fields=True):
    """Proxy manager to managers: all its proxies with attributes."""

    proxies: list[tuple[ProxyId, dict[str, str]]]


# --- master and slave


class Save(msgspec.Struct, frozen=True, tag="sav", array_like=True, forbid_unknown_fields=True):
    """Master to slave. Sequence numbers begin with 1 in each epoch."""

    bucket: BucketId
    epoch: Number
    sequence: Number
    change: EntryChange
    kept: Kept


class Saved(msgspec.Struct, frozen=True, tag="svd", array_like=True, forbid_unknown_fields=True):
    """Slave to master: it has all up to this number."""

    bucket: BucketId
    epoch: Number
    sequence: Number


class Fenced(msgspec.Struct, frozen=True, tag="fen", array_like=True, forbid_unknown_fields=True):
    """To an old master: your epoch is over."""

    bucket: BucketId
    epoch: Number


class Hold(msgspec.Struct, frozen=True, tag="hld", array_like=True, forbid_unknown_fields=True):
    """Master to a slave that is about to be replaced: stop answering reads of this bucket, or go on. ``transfer``: the
    move for which it is."""

    bucket: BucketId
    epoch: Number
    held: bool
    transfer: Number


class Held(msgspec.Struct, frozen=True, tag="hed", array_like=True, forbid_unknown_fields=True):
    bucket: BucketId
    epoch: Number
    transfer: Number


# --- moves


class Move(msgspec.Struct, frozen=True, tag="mov", array_like=True, forbid_unknown_fields=True):
    """Router to the master's manager: move the copy of this role to ``to``; a slave that is missing is created."""

    ask: Number
    row: BucketRow
    role: Role
    to: Cep
    version: Version
    lock_first: bool = False


class Cancel(msgspec.Struct, frozen=True, tag="can", array_like=True, forbid_unknown_fields=True):
    """Router to the master's manager: give up the move of this bucket, unless the index was asked."""

    ask: Number
    bucket: BucketId


class Told(msgspec.Struct, frozen=True, tag="told", array_like=True, forbid_unknown_fields=True):
    """The answer to Move, Cancel and SetLocation. ``busy``: another bucket may be tried."""

    ask: Number
    ok: bool
    text: Text
    row: BucketRow | None = None
    busy: bool = False


class Parcel(msgspec.Struct, frozen=True, tag="pcl", array_like=True, forbid_unknown_fields=True):
    """Source to destination: a part of a bucket; numbers begin with 0. ``last``: the number of entries of the complete
    copy."""

    bucket: BucketId
    transfer: Number
    number: Number
    epoch: Number
    changes: list[EntryChange]
    kept: list[Kept]
    last: Number | None = None


class Taken(msgspec.Struct, frozen=True, tag="tkn", array_like=True, forbid_unknown_fields=True):
    """Destination to source: it has all parcels up to this number. ``refused``: why it takes no more."""

    bucket: BucketId
    transfer: Number
    number: Number
    refused: Text = ""


class Drop(msgspec.Struct, frozen=True, tag="drp", array_like=True, forbid_unknown_fields=True):
    """Source to destination: the move was given up."""

    bucket: BucketId
    transfer: Number


# --- exports


class AskEntries(
    msgspec.Struct, frozen=True, tag="aen", array_like=True, forbid_unknown_fields=True
):
    """To the master's manager: send entries of a bucket after this key, in order, about ``size`` bytes."""

    ask: Number
    row: BucketRow
    after: Annotated[str, msgspec.Meta(max_length=KEY_MAX)]
    size: Annotated[int, msgspec.Meta(ge=1, le=BODY_MAX)]


class Entries(msgspec.Struct, frozen=True, tag="ent", array_like=True, forbid_unknown_fields=True):
    """A page of entries. ``moved``: the master is not here or may not answer; ask again by a newer row."""

    ask: Number
    changes: list[EntryChange]
    more: bool
    moved: bool = False


# --- index


class IndexState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """``copies``: the registered index copies by their name in the static set. ``exempted``: managers that this version took out."""

    version: Number
    rows: dict[BucketId, BucketRow]
    copies: dict[Name, Cep]
    managers: list[KnownManager]
    exempted: list[Cep] = []
    whole: bool = True
    """False: ``rows`` are those that differ from the version before."""


EMPTY: Final = IndexState(0, {}, {}, [])
"""No state is decided yet."""


class Follow(msgspec.Struct, frozen=True, tag="fol", array_like=True, forbid_unknown_fields=True):
    """Mirror to index copy: I have this version; send me yours, and each change from now on."""

    version: Number


class Rows(msgspec.Struct, frozen=True, tag="row", array_like=True, forbid_unknown_fields=True):
    """Index copy to mirror: the decided state. ``before``: for a state that is not whole, the version from which it
    differs."""

    before: Number
    state: IndexState


class Lock(msgspec.Struct, frozen=True, tag="lck", array_like=True, forbid_unknown_fields=True):
    txn: Txn
    version: Number


class LockAnswer(
    msgspec.Struct, frozen=True, tag="lka", array_like=True, forbid_unknown_fields=True
):
    """``newest``: this copy's state, decided or proposed, if it is newer than the asker's."""

    txn: Txn
    granted: bool
    version: Number
    newest: IndexState | None = None


class Propose(msgspec.Struct, frozen=True, tag="pro", array_like=True, forbid_unknown_fields=True):
    """AdoptBucketLocation, Register, DeRegister and Initialize in one message. ``reserved_for``: keep the state, but it
    is no proposal before this manager redeems it."""

    txn: Txn
    state: IndexState
    reserved_for: Cep | None = None


class Proposed(msgspec.Struct, frozen=True, tag="prd", array_like=True, forbid_unknown_fields=True):
    txn: Txn
    version: Number


class Unlock(msgspec.Struct, frozen=True, tag="ulk", array_like=True, forbid_unknown_fields=True):
    """``decided``: the version that is valid from now on, or 0."""

    txn: Txn
    decided: Number


class SetLocation(
    msgspec.Struct, frozen=True, tag="set", array_like=True, forbid_unknown_fields=True
):
    """SetBucketLocation, if the epoch is the one before ``row.epoch``."""

    ask: Number
    row: BucketRow


class Reserve(msgspec.Struct, frozen=True, tag="rsv", array_like=True, forbid_unknown_fields=True):
    """Manager to index copy: a move will ask for this row. Lock the copies and let them keep the row, so that a message
    to each copy decides it."""

    ask: Number
    row: BucketRow


class Reserved(msgspec.Struct, frozen=True, tag="rsd", array_like=True, forbid_unknown_fields=True):
    """Index copy to manager: these copies are locked and keep the row. Without copies: the reservation is over."""

    ask: Number
    txn: Txn
    copies: Annotated[list[Cep], msgspec.Meta(max_length=1_000)]


class Redeem(msgspec.Struct, frozen=True, tag="rdm", array_like=True, forbid_unknown_fields=True):
    """Manager to each index copy: the reserved row is a proposal from now on. If ``wanted`` is false, it goes to the
    initiator: the move is given up."""

    txn: Txn
    wanted: bool


class Placed(msgspec.Struct, frozen=True, tag="pla", array_like=True, forbid_unknown_fields=True):
    """Index to manager: decided rows that concern it."""

    rows: list[BucketRow]


class Ping(msgspec.Struct, frozen=True, tag="png", array_like=True, forbid_unknown_fields=True):
    """Manager to index copy: renew my lease. ``sent``: the time by the sender's clock."""

    sent: float


class Pong(msgspec.Struct, frozen=True, tag="pon", array_like=True, forbid_unknown_fields=True):
    sent: float


# --- statistics


class ComponentCounts(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Counters and sizes of one component."""

    name: Name
    kind: Literal["manager", "index", "router", "proxies", "member"]
    counts: dict[Name, int]


class BucketLoad(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The load of one copy. ``requests``: those since it came here."""

    bucket: BucketId
    role: Role
    epoch: Number
    entries: Number
    requests: Number


class NodeStatistics(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The statistics of one member."""

    node: Name
    zone: Annotated[str, msgspec.Meta(max_length=200)]
    member: Name
    components: list[ComponentCounts]
    buckets: list[BucketLoad] = []


class AskStatistics(
    msgspec.Struct, frozen=True, tag="ast", array_like=True, forbid_unknown_fields=True
):
    """To the census of each member. ``buckets``: with a list of copies."""

    ask: Number
    buckets: bool


class Statistics(
    msgspec.Struct, frozen=True, tag="sta", array_like=True, forbid_unknown_fields=True
):
    ask: Number
    statistics: NodeStatistics


Message = (
    Hello | Forward | Answer | Deliver | Findable | Save | Saved | Fenced | Hold | Held | Move | Cancel | Told | Parcel | Taken | Drop
    | AskStatistics | Statistics | AskEntries | Entries | Follow | Rows | Lock | LockAnswer | Propose | Proposed | Unlock | SetLocation | Reserve | Reserved | Redeem | Placed | Ping | Pong
)  # fmt: skip


class BucketPacket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message from one component to another one. The channel knows the sender and the receiver."""

    frm: Name
    to: Name
    message: Message


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[BucketPacket]] = msgspec.msgpack.Decoder(BucketPacket)

encode = _encoder.encode
_change: Final[msgspec.msgpack.Decoder[EntryChange]] = msgspec.msgpack.Decoder(EntryChange)
encode_change: Final[Callable[[EntryChange], bytes]] = _encoder.encode
"""Encodes a change in ``Forward.puts``."""


def decode_change(data: bytes) -> EntryChange:
    """Decode a change. Raises ValueError."""
    change = _change.decode(data)
    if change.deletes or not change.whole:
        raise ValueError("it is no whole entry")
    return change


class BadMessage(ValueError):
    """Bytes that are no message."""


def decode(data: bytes | bytearray | memoryview) -> BucketPacket:
    """Decode a message. Raises BadMessage."""
    if len(data) > PACKET_MAX:
        raise BadMessage(f"{len(data)} bytes, at most {PACKET_MAX} are taken")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)[:200]) from None
