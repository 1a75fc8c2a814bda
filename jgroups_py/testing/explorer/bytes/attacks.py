"""Kinds of hostile packets. Each makes one packet for a Cluster under attack.

``HARMLESS``: honest members must understand each other afterwards. ``FORGED``: attacks in a member's name, with control
messages that could be true; members need only survive them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay import wire as records
from jgroups_py.testing.explorer.bytes.cluster import Cluster
from jgroups_py.values.address import UUID, Address, IpAddress, SiteUUID
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import MergeId, SeqnoList, Streamable, ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FcHeader,
    FcType,
    FdHeader,
    FdType,
    FragHeader,
    GmsHeader,
    GmsType,
    HeartbeatHeader,
    MergeHeader,
    MergeType,
    NakAckHeader2,
    NakAckType,
    PingHeader,
    PingType,
    RelayHeader,
    RelayType,
    StableHeader,
    StableType,
    StateHeader,
    StateType,
    UnicastHeader3,
    UnicastType,
    VerifyHeader2,
    VerifyType,
)
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_digest

Attack = Callable[[Cluster], bytes]

HUGE: Final = (2**62, 2**63 - 1, 2**40, 2**31 - 1)
ODD: Final = (0, 1, 2, -1, -(2**63), *HUGE)
_OOB: Final = int(Flag.OOB)
_RELIABLE: Final = (PROTOCOL_IDS["NAKACK2"], PROTOCOL_IDS["UNICAST3"])


def _digest(rng: random.Random, members: Iterable[Address]) -> Digest:
    """Return seqnos without sense, as far as a digest can hold them."""
    wild = [n for n in ODD if n >= 0]
    pairs = {m: sorted((rng.choice(wild), rng.choice(wild))) for m in members}
    return Digest({m: (low, high) for m, (low, high) in pairs.items()})


# --- bytes


def noise(c: Cluster) -> bytes:
    return c.random.randbytes(c.random.choice((0, 1, 2, 3, 10, 60, 500)))


def mutated(c: Cluster) -> bytes:
    """Return an honest packet with flipped bits, other numbers, inserted, moved and missing bytes."""
    rng = c.random
    data = bytearray(rng.choice(c.packets))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2 if at < len(data):
                data[at] = rng.randrange(256)
            case 3:
                data[at : at + 8] = (rng.choice(ODD) % 2**64).to_bytes(8, "big")
            case 4:
                data[at : at + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff" * 4, bytes(4)))
            case 5:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 6:
                del data[at : at + rng.randrange(1, 9)]
            case _:
                other = rng.choice(c.packets)
                data[at:] = other[min(at, len(other)) :]
    return bytes(data)


def truncated(c: Cluster) -> bytes:
    data = c.random.choice(c.packets)
    return data[: c.random.randrange(len(data) + 1)]


def replayed(c: Cluster) -> bytes:
    """Return an honest packet again, perhaps one of a member that is gone."""
    return c.random.choice(c.packets)


def of_another_version(c: Cluster) -> bytes:
    """Return a packet of an unknown version. (Before its join a member adopts a version that could exist.)"""
    data = c.random.choice(c.packets)
    return c.random.choice((b"\x00\x00", b"\x21\x00", b"\x29\xc0", b"\xff\xff")) + data[2:]


def of_another_cluster(c: Cluster) -> bytes:
    packet = c.decoded()
    packet.cluster = c.random.choice(("elsewhere", "cluster", "x" * 200))
    return _safely(c, lambda: c.reencoded(packet))


def of_a_stranger(c: Cluster) -> bytes:
    """Return a message of a member under the name of a stranger: one of ours, or of Java's."""
    packet = c.decoded()
    rng = c.random
    packet.src = c.stranger() if rng.random() < 0.5 else UUID(rng.randbytes(16))
    return _safely(c, lambda: c.reencoded(packet))


def _safely(c: Cluster, make: Callable[[], bytes]) -> bytes:
    """Make a packet; if it cannot be encoded again, replay another packet."""
    try:
        return make()
    except LocalProtocolError:
        return replayed(c)


# --- numbers out of every range, in a member's name


def _some(rng: random.Random, c: Cluster) -> Address:
    return rng.choice((rng.choice(c.members).address, c.stranger()))


def multicast_far_ahead(c: Cluster) -> bytes:
    kind = c.random.choice((NakAckType.MSG, NakAckType.XMIT_RSP))
    seqno = c.random.choice((*HUGE, 0, -1, -(2**63)))
    header = NakAckHeader2(kind, seqno)
    flags = c.random.choice((0, _OOB))
    return c.forged({PROTOCOL_IDS["NAKACK2"]: header}, flags=flags)


def highest_seqno(c: Cluster) -> bytes:
    header = NakAckHeader2(NakAckType.HIGHEST_SEQNO, c.random.choice(ODD))
    return c.forged({PROTOCOL_IDS["NAKACK2"]: header}, payload=None, type=MessageType.EMPTY)


def request_for_all(c: Cluster) -> bytes:
    """Return a request to retransmit all messages, existing or not."""
    rng = c.random
    offset = rng.choice((0, 1, -5, 2**62))
    size = rng.choice((1, 1000, 60_000))
    seqnos = SeqnoList(offset, size, (1 << size) - 1)
    victim = rng.choice(c.members)
    headers: dict[int, Any]
    if rng.random() < 0.7:
        headers = {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.XMIT_REQ, 0, _some(rng, c))}
    else:
        headers = {PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.XMIT_REQ)}
    return c.forged(
        headers, dest=victim.address, payload=Streamable(15, seqnos), type=MessageType.OBJECT
    )


def wrong_payload(c: Cluster) -> bytes:
    """Return control messages whose payload, or whose subject, is missing or of another class."""
    rng = c.random
    headers: dict[int, Any] = rng.choice(
        (
            {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.XMIT_REQ, 0, _some(rng, c))},
            {PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.XMIT_REQ)},
            {PROTOCOL_IDS["MFC"]: FcHeader(FcType.REPLENISH)},
            {PROTOCOL_IDS["UFC"]: FcHeader(FcType.CREDIT_REQUEST)},
            {PROTOCOL_IDS["STABLE"]: StableHeader(StableType.STABILITY, None)},
            {PROTOCOL_IDS["GMS"]: GmsHeader(rng.choice(list(GmsType)))},
            {PROTOCOL_IDS["FRAG2"]: FragHeader(1, 0, 2)},
            {PROTOCOL_IDS["STATE_TRANSFER"]: StateHeader(rng.choice(list(StateType)))},
        )
    )
    payload, kind = rng.choice(
        (
            (None, MessageType.EMPTY),
            (b"", MessageType.BYTES),
            (rng.randbytes(40), MessageType.BYTES),
            (2**62, MessageType.LONG),
            (Streamable(10, Digest({c.stranger(): (1, 2)})), MessageType.OBJECT),
        )
    )
    dest = rng.choice((None, rng.choice(c.members).address))
    return c.forged(headers, dest=dest, payload=payload, type=kind, src=_some(rng, c))


def unknown_connection(c: Cluster) -> bytes:
    """Return unicasts and acknowledgements of connections that never existed."""
    rng = c.random
    dest = rng.choice(c.members).address
    header = rng.choice(
        (
            UnicastHeader3(UnicastType.DATA, rng.choice(ODD), 32767),
            UnicastHeader3(UnicastType.ACK, rng.choice(HUGE), rng.choice((0, 1)), False, 2**30),
            UnicastHeader3(UnicastType.SEND_FIRST_SEQNO, timestamp=0),
            UnicastHeader3(UnicastType.CLOSE, conn_id=rng.choice((-1, 32767, -32768))),
        )
    )
    src = rng.choice((c.stranger(), c.stranger(), rng.choice(c.members).address))
    if header.type == UnicastType.DATA:
        src = c.stranger()
    return c.forged({PROTOCOL_IDS["UNICAST3"]: header}, dest=dest, src=src)


def connection_of_a_stranger(c: Cluster) -> bytes:
    """Return a new connection with each packet, with content beyond a gap."""
    rng = c.random
    header = UnicastHeader3(
        UnicastType.DATA, rng.choice((1, 7, 2**62)), rng.randrange(32768), rng.random() < 0.7
    )
    dest = rng.choice(c.members).address
    return c.forged(
        {PROTOCOL_IDS["UNICAST3"]: header}, dest=dest, src=c.stranger(), payload=bytes(1000)
    )


def fragments_without_end(c: Cluster) -> bytes:
    rng = c.random
    header = FragHeader(rng.randrange(2**31), 0, rng.choice((2, 1000, 2**31 - 1)), False)
    src = rng.choice((None, c.stranger()))
    dest = rng.choice((None, rng.choice(c.members).address))
    return c.forged({PROTOCOL_IDS["FRAG2"]: header}, payload=bytes(2000), src=src, dest=dest)


def odd_fragments(c: Cluster) -> bytes:
    rng = c.random
    index, count = rng.choice(((-1, 2), (5, 5), (0, 0), (2**31 - 1, -5), (0, -1)))
    header = FragHeader(rng.randrange(4), index, count, rng.random() < 0.5)
    return c.forged({PROTOCOL_IDS["FRAG2"]: header}, payload=rng.choice((b"", b"xy")))


def credits(c: Cluster) -> bytes:
    rng = c.random
    name = rng.choice(("MFC", "UFC"))
    header = FcHeader(rng.choice((FcType.REPLENISH, FcType.CREDIT_REQUEST)))
    dest = rng.choice(c.members).address
    src = rng.choice((None, c.stranger()))
    return c.forged(
        {PROTOCOL_IDS[name]: header},
        dest=dest,
        src=src,
        payload=rng.choice(ODD),
        type=MessageType.LONG,
    )


def stability_nonsense(c: Cluster) -> bytes:
    """Return STABLE of other views, and of the current view with members that are missing or too many."""
    rng = c.random
    member, view = c.joined()
    members = rng.choice((view.members[1:], (c.stranger(),) * 3, ()))
    digest = Digest({m: (rng.choice(ODD[:3]), rng.choice(HUGE)) for m in members})
    view_id = rng.choice((None, view.view_id, ViewId(c.stranger(), 2**62)))
    header = StableHeader(rng.choice(list(StableType)), view_id)
    return c.forged(
        {PROTOCOL_IDS["STABLE"]: header},
        payload=Streamable(10, digest),
        type=MessageType.OBJECT,
        site=member.site,
    )


def view_of_a_stranger(c: Cluster) -> bytes:
    rng = c.random
    stranger = c.stranger()
    number = rng.choice((2**62, 2**31 - 1, 9, -1, -(2**63)))
    members = rng.choice(((stranger,), (stranger, *(m.address for m in c.members)), ()))
    view = View(ViewId(stranger, number), members)
    payload = encode_whole(write_view_digest, ViewDigest(view, Digest()))
    header = GmsHeader(GmsType.VIEW)
    return c.forged({PROTOCOL_IDS["GMS"]: header}, src=stranger, payload=payload)


def odd_announcement(c: Cluster) -> bytes:
    """Return MERGE3, discovery, failure detection: of strangers, in thousands of names."""
    rng = c.random
    stranger = c.stranger()
    name = rng.choice((None, "", "x" * 300))
    headers: dict[int, Any] = rng.choice(
        (
            {
                PROTOCOL_IDS["MERGE3"]: MergeHeader(
                    rng.choice(list(MergeType)),
                    ViewId(rng.choice((stranger, rng.choice(c.members).address)), -1),
                    name,
                    IpAddress("10.99.0.1", 1),
                )
            },
            {PROTOCOL_IDS["FD_ALL3"]: HeartbeatHeader()},
            {PROTOCOL_IDS["VERIFY_SUSPECT2"]: VerifyHeader2(VerifyType.I_AM_NOT_DEAD, stranger)},
            {PROTOCOL_IDS["FD_SOCK2"]: FdHeader(FdType.SUSPECT, (stranger, None))},
            {PROTOCOL_IDS["FD_SOCK2"]: FdHeader(FdType.UNSUSPECT, ())},
            {PROTOCOL_IDS["PING"]: PingHeader(PingType.GET_MBRS_RSP, name)},
        )
    )
    return c.forged(headers, src=stranger, payload=rng.randbytes(30))


HARMLESS: Final[tuple[Attack, ...]] = (
    noise,
    truncated,
    replayed,
    of_another_version,
    of_another_cluster,
    of_a_stranger,
    multicast_far_ahead,
    highest_seqno,
    request_for_all,
    wrong_payload,
    unknown_connection,
    connection_of_a_stranger,
    fragments_without_end,
    odd_fragments,
    credits,
    stability_nonsense,
    view_of_a_stranger,
    odd_announcement,
)


# --- messages that could be true


def of_a_neighbouring_version(c: Cluster) -> bytes:
    """Return a packet of 5.3, 5.4 or 5.6."""
    data = c.random.choice(c.packets)
    return c.random.choice((b"\x28\xc0", b"\x29\x00", b"\x29\x80")) + data[2:]


def forged_multicast(c: Cluster) -> bytes:
    """Return a member's next messages, sent by another process."""
    kind = c.random.choice((NakAckType.MSG, NakAckType.XMIT_RSP))
    header = NakAckHeader2(kind, c.random.randrange(1, 5000))
    return c.forged({PROTOCOL_IDS["NAKACK2"]: header}, flags=c.random.choice((0, _OOB)))


def forged_view(c: Cluster) -> bytes:
    """Return a view in a member's name; numbers up to the highest there is."""
    rng = c.random
    member, now = c.joined()
    number = rng.choice((now.id + 1, 2**62, 2**31, 2**63 - 1, -1))
    members = list(now.members)
    rng.shuffle(members)
    members = members[: rng.randrange(len(members) + 1)] + [c.stranger()] * rng.randrange(3)
    view_id = ViewId(rng.choice(now.members), number)
    view: View = View(view_id, tuple(members))
    if rng.random() < 0.4:
        view = MergeView(view_id, tuple(members), (now, View(view_id, tuple(members[:1]))))
    digest = _digest(rng, members)
    payload = encode_whole(write_view_digest, ViewDigest(view, rng.choice((None, digest))))
    kind = rng.choice((GmsType.VIEW, GmsType.INSTALL_MERGE_VIEW, GmsType.JOIN_RSP))
    header = GmsHeader(kind, merge_id=MergeId(now.members[0], 1))
    return c.forged(
        {PROTOCOL_IDS["GMS"]: header},
        src=rng.choice(now.members),
        payload=payload,
        site=member.site,
    )


def forged_membership(c: Cluster) -> bytes:
    """Return joins, leaves, merges, suspicions."""
    rng = c.random
    member = rng.choice(c.members)
    about = _some(rng, c)
    merge_id = rng.choice((None, MergeId(about, rng.choice(ODD[:4]))))
    headers: dict[int, Any] = rng.choice(
        (
            {PROTOCOL_IDS["GMS"]: GmsHeader(rng.choice(list(GmsType)), about, merge_id)},
            {PROTOCOL_IDS["FD_SOCK2"]: FdHeader(FdType.SUSPECT, (about, member.address))},
            {
                PROTOCOL_IDS["MERGE3"]: MergeHeader(
                    rng.choice(list(MergeType)),
                    ViewId(about, rng.choice(ODD)),
                    "A",
                    IpAddress("10.0.0.1", 7),
                )
            },
        )
    )
    payload: Any = rng.choice((b"", None, rng.randbytes(20)))
    if rng.random() < 0.5:
        view = View(ViewId(about, rng.choice(ODD)), (about, member.address))
        digest = _digest(rng, view.members)
        payload = encode_whole(write_view_digest, ViewDigest(view, digest))
    kind = MessageType.EMPTY if payload is None else MessageType.BYTES
    dest = rng.choice((None, rng.choice(c.members).address))
    return c.forged(headers, payload=payload, type=kind, dest=dest, src=_some(rng, c))


def forged_connection(c: Cluster) -> bytes:
    """Return unicasts that take over, close and acknowledge connections between members."""
    rng = c.random
    header = UnicastHeader3(
        rng.choice(list(UnicastType)),
        rng.choice((1, 2, 3, 50, 2**62)),
        rng.randrange(4),
        rng.random() < 0.5,
        rng.choice((1, 1000, 2**31 - 1)),
    )
    return c.forged({PROTOCOL_IDS["UNICAST3"]: header}, dest=rng.choice(c.members).address)


def forged_stability(c: Cluster) -> bytes:
    rng = c.random
    member, view = c.joined()
    digest = _digest(rng, view.members)
    header = StableHeader(rng.choice(list(StableType)), view.view_id)
    return c.forged(
        {PROTOCOL_IDS["STABLE"]: header},
        src=rng.choice(view.members),
        payload=Streamable(10, digest),
        type=MessageType.OBJECT,
        site=member.site,
    )


def forged_state(c: Cluster) -> bytes:
    rng = c.random
    digest = _digest(rng, (_some(rng, c),))
    header = StateHeader(rng.choice(list(StateType)), rng.choice((None, digest)))
    payload, kind = rng.choice(((None, MessageType.EMPTY), (bytes(500), MessageType.BYTES)))
    dest = rng.choice(c.members).address
    return c.forged({PROTOCOL_IDS["STATE_TRANSFER"]: header}, dest=dest, payload=payload, type=kind)


# --- RELAY


def _numbers(rng: random.Random, c: Cluster) -> dict[bytes, int]:
    wild = [n for n in ODD if n >= 0]
    return {bytes(_some(rng, c)): rng.choice(wild) for _ in range(rng.randrange(4))}


def _ranges(rng: random.Random, c: Cluster) -> dict[bytes, list[tuple[int, int]]]:
    wild = [n for n in ODD if n >= 0]
    return {
        bytes(_some(rng, c)): [
            (rng.choice(wild), rng.choice(wild)) for _ in range(rng.randrange(4))
        ]
        for _ in range(rng.randrange(3))
    }


def _record(rng: random.Random, c: Cluster) -> records.Record:
    """Return a control record with numbers of every size, of a view that is or never was."""
    serial = rng.choice((0, 1, 2**62))
    site = rng.choice(("NYC", "SFO", "", "X" * 50))
    _, view = c.joined()
    key = rng.choice((records.key_of(view), (b"", 0), (bytes(c.stranger()), 2**62)))
    epoch = (rng.choice((0, 1, 2, 2**31 - 1)), site)
    site_numbers = {site: _numbers(rng, c)}
    origins = [bytes(_some(rng, c)) for _ in range(rng.randrange(3))]
    known = records.Known(
        _numbers(rng, c),
        _numbers(rng, c),
        site_numbers,
        [site],
        _numbers(rng, c),
        epoch,
        _numbers(rng, c),
        serial,
        {site: {o: (n, n) for o, n in _numbers(rng, c).items()}},
    )
    makers: tuple[Callable[[], records.Record], ...] = (
        lambda: records.CollectAsk(key),
        lambda: records.CollectAnswer(key, known, _ranges(rng, c)),
        lambda: records.Fetch(key, _ranges(rng, c)),
        lambda: records.Fetched(key, _ranges(rng, c)),
        lambda: records.Report(key, serial, True, site_numbers),
        lambda: records.Snapshot(key, known),
        lambda: records.Need(key),
        lambda: records.StateMark(known),
        lambda: records.Lack(site, _numbers(rng, c)),
        lambda: records.PromoteAsk(),
        lambda: records.Trim(serial, _numbers(rng, c), [site]),
        lambda: records.Gap(serial, site, _numbers(rng, c), rng.random() < 0.5),
        lambda: records.Forget(serial, site, origins),
        lambda: records.Cut(serial, epoch, _numbers(rng, c)),
        lambda: records.Block(serial, rng.random() < 0.5),
        lambda: records.Begun(serial, origins),
    )
    return rng.choice(makers)()


def forged_relay_record(c: Cluster) -> bytes:
    """Return control records of RELAY, some with changed bytes, to one member or all."""
    rng = c.random
    data = bytearray(records.encode(_record(rng, c)))
    if rng.random() < 0.3:
        data[rng.randrange(len(data))] = rng.randrange(256)
    dest = rng.choice((None, rng.choice(c.members).address))
    return c.forged({records.ID: records.CONTROL_HEADER}, payload=bytes(data), dest=dest)


def forged_relay_run(c: Cluster) -> bytes:
    """Return multicasts of this site or another site, and copies, with numbers of every size."""
    rng = c.random
    kind = rng.choice((*records.MessageKind, 0, 9))
    number = rng.choice((*ODD, 5, 20))
    header = FragHeader(number, kind, rng.choice((0, 1, 9, -1)))
    headers: dict[int, Any] = {records.ID: header}
    if rng.random() < 0.7:
        name = rng.choice(("NYC", "SFO", "", "X" * 50))
        source = rng.choice((SiteUUID(rng.randbytes(16), name), _some(rng, c), None))
        headers[records.SOURCE_ID] = RelayHeader(
            rng.choice(list(RelayType)), original_sender=source
        )
    dest = rng.choice((None, rng.choice(c.members).address))
    return c.forged(headers, payload=rng.randbytes(30), dest=dest)


FORGED: Final[tuple[Attack, ...]] = (
    mutated,
    of_a_neighbouring_version,
    forged_multicast,
    forged_view,
    forged_membership,
    forged_connection,
    forged_stability,
    forged_state,
)

RELAY_FORGED: Final[tuple[Attack, ...]] = (*FORGED, forged_relay_record, forged_relay_run)
