"""Views, digests and membership payloads as bytes: one read_ and one write_ function each.

Use ``wire.decode_whole(read_x, data)`` and ``wire.encode_whole(write_x, value)`` for a payload.
A view without members or with one twice, a null member and a digest with a member twice are refused on
reading.

Source: WIRE.md section 4; JGroups View, MergeView, DeltaView, Digest, PingData, JoinRsp, SeqnoList,
GMS.marshal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.payloads import JoinRsp, MergeId, PingData, SeqnoList, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.primitives import V5_6, Reader, Writer

MAX_VIEW_ID: Final = 2**62
"""The highest number a view may have."""

# Views


def read_view_id(r: Reader) -> ViewId:
    return ViewId(r.known_addr("the creator of a view"), r.lz64())


def write_view_id(w: Writer, view_id: ViewId) -> None:
    w.addr(view_id.creator)
    w.lz64(view_id.id)


def read_opt_view_id(r: Reader) -> ViewId | None:
    return read_view_id(r) if r.present() else None


def write_opt_view_id(w: Writer, view_id: ViewId | None) -> None:
    w.flag(view_id is not None)
    if view_id is not None:
        write_view_id(w, view_id)


def _read_number(r: Reader) -> ViewId:
    """Read the id of a view. Views are counted up from 0: an id near the highest number is forged, and no further view
    could follow it."""
    start = r.pos
    view_id = read_view_id(r)
    if not 0 <= view_id.id <= MAX_VIEW_ID:
        r.fail(f"view number {view_id.id}", start)
    return view_id


def read_view(r: Reader) -> View:
    view_id = _read_number(r)
    start = r.pos
    members = r.members()
    if not members:
        r.fail("a view without members", start)
    if len(set(members)) < len(members):
        r.fail("a view with a member twice", start)
    return View(view_id, members)


def write_view(w: Writer, view: View) -> None:
    write_view_id(w, view.view_id)
    w.addrs(view.members)


def read_merge_view(r: Reader) -> MergeView:
    return _read_subgroups(r, read_view(r))


def _read_subgroups(r: Reader, view: View) -> MergeView:
    count = r.count(r.i16(), 12, "subgroups")
    groups = tuple([_read_subgroup(r, view.members) for _ in range(count)])
    return MergeView(view.view_id, view.members, groups)


def _read_subgroup(r: Reader, members: tuple[Address, ...]) -> View:
    creator = _read_indexed(r, members)
    number = r.i64()
    count = r.count(r.i16(), 2, "subgroup members")
    return View(ViewId(creator, number), tuple([_read_indexed(r, members) for _ in range(count)]))


def _read_indexed(r: Reader, members: tuple[Address, ...]) -> Address:
    start = r.pos
    index = r.i16()
    if index == -1:
        return r.known_addr("a subgroup's member")
    if not 0 <= index < len(members):
        r.fail(f"member {index} of a view of {len(members)}", start)
    return members[index]


def write_merge_view(w: Writer, view: View) -> None:
    write_view(w, view)
    groups = view.subgroups if isinstance(view, MergeView) else ()
    w.i16(len(groups))
    for group in groups:
        _write_indexed(w, view.members, group.view_id.creator)
        w.i64(group.view_id.id)
        w.i16(len(group.members))
        for member in group.members:
            _write_indexed(w, view.members, member)


def _write_indexed(w: Writer, members: tuple[Address, ...], member: Address) -> None:
    if member in members:
        w.i16(members.index(member))
    else:
        w.i16(-1)
        w.addr(member)


def read_delta_view(r: Reader) -> DeltaView:
    return DeltaView(_read_number(r), _read_number(r), r.members(), r.members())


def write_delta_view(w: Writer, view: DeltaView) -> None:
    write_view_id(w, view.view_id)
    write_view_id(w, view.reference)
    w.addrs(view.left)
    w.addrs(view.joined)


def read_opt_view(r: Reader) -> View | None:
    """Read MERGE3's view response, at the end of a payload. A merge view is not marked as one: only its subgroups
    follow (JGroups ignores them)."""
    if not r.present():
        return None
    view = read_view(r)
    return _read_subgroups(r, view) if r.left else view


def write_opt_view(w: Writer, view: View | None) -> None:
    w.flag(view is not None)
    if isinstance(view, MergeView):
        write_merge_view(w, view)
    elif view is not None:
        write_view(w, view)


def read_util_view(r: Reader) -> View | None:
    if not r.present():
        return None
    return read_merge_view(r) if r.flag() else read_view(r)


def write_util_view(w: Writer, view: View | None) -> None:
    w.flag(view is not None)
    if view is not None:
        merge = isinstance(view, MergeView)
        w.flag(merge)
        (write_merge_view if merge else write_view)(w, view)


# Digests


def _digest_of(r: Reader, members: Sequence[Address], start: int) -> Digest:
    seqnos = {member: r.seq() for member in members}
    if len(seqnos) != len(members):
        r.fail("a digest with a member twice", start)
    return Digest(seqnos)


def read_digest(r: Reader) -> Digest:
    start = r.pos
    return _digest_of(r, r.members(), start)


def write_digest(w: Writer, digest: Digest) -> None:
    w.addrs(tuple(digest.seqnos))
    for delivered, received in digest.seqnos.values():
        w.seq(delivered, received)


def read_seqnos(r: Reader) -> list[tuple[int, int]]:
    """Return a digest without its members."""
    return [r.seq() for _ in range(r.count(r.i16(), 1, "seqno pairs"))]


def write_seqnos(w: Writer, seqnos: Sequence[tuple[int, int]]) -> None:
    w.i16(len(seqnos))
    for delivered, received in seqnos:
        w.seq(delivered, received)


def read_digest_for(r: Reader, members: Sequence[Address]) -> Digest:
    """Return a digest without members, for ``members``."""
    start = r.pos
    count = r.i16()
    if count != len(members):
        r.fail(f"{count} seqno pairs for {len(members)} members", start)
    return _digest_of(r, members, start)


def write_digest_for(w: Writer, digest: Digest, members: Sequence[Address]) -> None:
    """Write the digest without members; it must have exactly these."""
    if digest.seqnos.keys() != set(members):
        raise LocalProtocolError("the digest and the view have different members")
    write_seqnos(w, [digest.seqnos[member] for member in members])


# Membership payloads

VIEW, DIGEST, MERGE_VIEW, DELTA_VIEW, READ_ADDRS = 1, 2, 4, 8, 16
"""Flags of a view with digest."""


def read_view_digest(r: Reader) -> ViewDigest:
    start = r.pos
    flags = r.i16()
    if not 0 <= flags < 32 or flags & 12 == 12:
        r.fail(f"view and digest with flags {flags}", start)
    view: View | DeltaView | None = None
    if flags & VIEW:
        if flags & MERGE_VIEW:
            view = read_merge_view(r)
        elif flags & DELTA_VIEW:
            view = read_delta_view(r)
        else:
            view = read_view(r)
    digest: Digest | None = None
    if flags & DIGEST:
        if flags & READ_ADDRS:
            digest = read_digest(r)
        elif isinstance(view, View):
            digest = read_digest_for(r, view.members)
        else:
            r.fail("a digest without members needs a view", start)
    return ViewDigest(view, digest)


def view_digest_flags(value: ViewDigest) -> int:
    """Return the flags JGroups would set."""
    view, digest = value.view, value.digest
    flags = 0
    if view is not None:
        flags |= VIEW
        if isinstance(view, MergeView):
            flags |= MERGE_VIEW
        elif isinstance(view, DeltaView):
            flags |= DELTA_VIEW
    if digest is not None:
        flags |= DIGEST
    if (
        digest is None
        or not isinstance(view, View)
        or tuple(digest.seqnos) != view.members  # JGroups: the same members, in the same order
    ):
        flags |= READ_ADDRS
    return flags


def write_view_digest(w: Writer, value: ViewDigest, flags: int | None = None) -> None:
    """``flags`` None: those JGroups would set."""
    if flags is None:
        flags = view_digest_flags(value)
    w.i16(flags)
    view = value.view
    if isinstance(view, MergeView):
        write_merge_view(w, view)
    elif isinstance(view, DeltaView):
        write_delta_view(w, view)
    elif view is not None:
        write_view(w, view)
    if value.digest is not None:
        if flags & READ_ADDRS:
            write_digest(w, value.digest)
        else:
            write_seqnos(w, list(value.digest.seqnos.values()))


def read_join_rsp(r: Reader) -> JoinRsp | None:
    """Return the coordinator's answer, a whole payload. A merge view in it is recognised although 5.5 and
    before do not mark it: then the bytes do not end after view and digest (WIRE.md section 15)."""
    if not r.present():
        return None
    body = r.pos
    try:
        value = read_join_rsp_body(r)
        if r.pos == r.end or not isinstance(value.view, View):
            return value
        problem = RemoteProtocolError(f"{r.left} bytes left over", r.pos)
    except RemoteProtocolError as error:
        problem = error
    r.pos = body
    flags = r.i8()
    if flags < 0 or flags & 9 != 1:
        raise problem
    try:
        return _read_join_body(r, flags, merge=True)
    except RemoteProtocolError:
        raise problem from None


def read_join_rsp_body(r: Reader) -> JoinRsp:
    start = r.pos
    flags = r.i8()
    if not 0 <= flags < 16 or flags & 9 == 9:
        r.fail(f"join response with flags {flags}", start)
    return _read_join_body(r, flags, merge=bool(flags & 8))


def _read_join_body(r: Reader, flags: int, *, merge: bool) -> JoinRsp:
    view: View | None = None
    if flags & 9:
        view = read_merge_view(r) if merge else read_view(r)
    digest: Digest | None = None
    if flags & 2:
        if view is None:
            r.fail("a join response with a digest and no view")
        digest = read_digest_for(r, view.members)
    return JoinRsp(view, digest, r.mutf() if flags & 4 else None)


def write_join_rsp(w: Writer, value: JoinRsp | None) -> None:
    """A merge view is marked for 5.6 readers and written as 5.5 does for others: send those a
    plain View."""
    w.flag(value is not None)
    if value is not None:
        write_join_rsp_body(w, value)


def write_join_rsp_body(w: Writer, value: JoinRsp) -> None:
    view, digest = value.view, value.digest
    merge = isinstance(view, MergeView)
    flags = 0 if view is None else 8 if merge and w.version >= V5_6 else 1
    w.u8(flags | (2 if digest is not None else 0) | (4 if value.fail_reason is not None else 0))
    if view is not None:
        (write_merge_view if merge else write_view)(w, view)
    if digest is not None:
        if view is None:
            raise LocalProtocolError("a join response with a digest needs a view")
        write_digest_for(w, digest, view.members)
    if value.fail_reason is not None:
        w.mutf(value.fail_reason)


def read_merge_id(r: Reader) -> MergeId:
    return MergeId(r.addr(), r.i32())


def write_merge_id(w: Writer, merge_id: MergeId) -> None:
    w.addr(merge_id.initiator)
    w.i32(merge_id.id)


# Discovery


def read_ping_data(r: Reader) -> PingData:
    return PingData(r.addr(), r.i8(), r.ostr(), r.addr(), r.addrs())


def write_ping_data(w: Writer, data: PingData) -> None:
    w.addr(data.address)
    w.i8(data.flags)
    w.ostr(data.name)
    w.addr(data.physical)
    w.addrs(data.members)


def read_ping_data_list(r: Reader) -> list[PingData]:
    return [read_ping_data(r) for _ in range(r.count(r.i32(), 6, "members"))]


def write_ping_data_list(w: Writer, members: Sequence[PingData]) -> None:
    w.i32(len(members))
    for data in members:
        write_ping_data(w, data)


# Retransmission


def read_seqno_list(r: Reader) -> SeqnoList:
    start = r.pos
    size = r.i32()
    offset = r.i64()
    if size < 0:
        r.fail(f"a seqno list of {size} bits", start)
    words = (size + 63) // 64
    r.count(words, 8, "words of seqnos")
    raw = r.take(words * 8)
    # Words are big-endian, the first one holds the lowest seqnos: reversed it is one number.
    bits = int.from_bytes(b"".join([raw[i : i + 8] for i in range(len(raw) - 8, -1, -8)]), "big")
    if bits >> size:
        r.fail(f"a seqno list of {size} bits has bits beyond them", start)
    return SeqnoList(offset, size, bits)


def write_seqno_list(w: Writer, seqnos: SeqnoList) -> None:
    words = (seqnos.size + 63) // 64
    w.i32(seqnos.size)
    w.i64(seqnos.offset)
    raw = seqnos.bits.to_bytes(words * 8, "big")
    w.raw(b"".join([raw[i : i + 8] for i in range(len(raw) - 8, -1, -8)]))
