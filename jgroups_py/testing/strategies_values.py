"""Strategies for plain values: numbers, addresses, views, digests. See strategies.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jgroups_py.testing.needs import st
from jgroups_py.values.address import (
    TAG,
    UUID,
    Address,
    ExtendedUUID,
    FlagsUUID,
    IpAddress,
    SiteMaster,
    SiteUUID,
)
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.values import MAX_VIEW_ID

EDGES: Final = (0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**24 - 1, 2**31 - 1)
INT16: Final = st.integers(-(2**15), 2**15 - 1)
INT32: Final = st.integers(-(2**31), 2**31 - 1) | st.sampled_from(EDGES)
COUNT32: Final = st.integers(0, 600) | st.sampled_from(EDGES)
SEQNOS: Final = COUNT32 | st.sampled_from([2**32 - 1, 2**32, 2**56 - 1, 2**56, MAX_VIEW_ID])
"""Numbers of messages and views: at least 0, at most 2**62."""
TEXTS: Final = st.none() | st.text(max_size=12)
BYTES: Final = st.binary(max_size=40)
MEMBERS_MAX: Final = 6


def uuids(*, ours: bool | None = None) -> st.SearchStrategy[UUID]:
    """Draw members' addresses. ``ours``: made by this library, or not; None: either."""
    fine = st.binary(min_size=12, max_size=12).map(lambda raw: UUID(raw + TAG))
    foreign = st.binary(min_size=16, max_size=16).filter(lambda raw: raw[12:] != TAG).map(UUID)
    if ours is None:
        return fine | foreign
    return fine if ours else foreign


_PAIRS: Final = st.lists(
    st.tuples(BYTES, st.none() | st.binary(min_size=1, max_size=40)), max_size=3
)


def site_addresses() -> st.SearchStrategy[SiteUUID]:
    """Draw members of named sites, and site masters."""
    raw = st.binary(min_size=16, max_size=16)
    member = st.builds(SiteUUID, raw, TEXTS, TEXTS, COUNT32, _PAIRS)
    return member | st.builds(SiteMaster, st.just(bytes(16)), TEXTS)


def ip_addresses() -> st.SearchStrategy[IpAddress]:
    """Draw physical addresses: IPv4, IPv6 with a scope, or a port alone."""
    ports = st.integers(0, 65_535)
    four = st.builds(IpAddress, st.ip_addresses(v=4).map(str), ports)
    six = st.builds(IpAddress, st.ip_addresses(v=6).map(str), ports, st.integers(0, 2**32 - 1))
    return four | six | st.builds(IpAddress, st.none(), ports)


def addresses() -> st.SearchStrategy[Address]:
    """Draw addresses of every class that members send."""
    raw = st.binary(min_size=16, max_size=16)
    return st.one_of(
        uuids(),
        site_addresses(),
        ip_addresses(),
        st.builds(FlagsUUID, raw, COUNT32),
        st.builds(ExtendedUUID, raw, COUNT32, _PAIRS),
    )


def _lists(members: Sequence[Address] | None, least: int) -> st.SearchStrategy[tuple[Address, ...]]:
    if members is None:
        drawn = st.lists(uuids(), min_size=least, max_size=MEMBERS_MAX, unique=True)
    else:
        most = len(members)
        drawn = st.lists(st.sampled_from(members), min_size=least, max_size=most, unique=True)
    return drawn.map(tuple)


def _others(view: View) -> st.SearchStrategy[UUID]:
    """Draw addresses that are not in ``view``."""

    def is_new(address: UUID) -> bool:
        return address not in view

    return uuids().filter(is_new)


def view_ids(creator: Address | None = None) -> st.SearchStrategy[ViewId]:
    """Draw ids of views by any creator, or by ``creator``."""
    return st.builds(ViewId, uuids() if creator is None else st.just(creator), SEQNOS)


@st.composite
def views(draw: st.DrawFn, members: Sequence[Address] | None = None, *, min_size: int = 1) -> View:
    """Draw views of strangers, or of at least ``min_size`` of ``members``. The first member made the view."""
    chosen = draw(_lists(members, max(1, min_size)))
    return View(draw(view_ids(chosen[0])), chosen)


@st.composite
def merge_views(draw: st.DrawFn, members: Sequence[Address] | None = None) -> MergeView:
    """Draw views after a partition: two or more subgroups, each member in exactly one of them. Needs two members at
    least."""
    chosen = draw(_lists(members, 2))
    colours = draw(st.lists(st.integers(0, 2), min_size=len(chosen), max_size=len(chosen)))
    if len(set(colours)) == 1:
        colours[-1] += 1
    groups = [
        tuple(m for m, c in zip(chosen, colours, strict=True) if c == colour)
        for colour in dict.fromkeys(colours)
    ]
    number = draw(SEQNOS.filter(lambda n: n > 0))
    lower = st.integers(0, number - 1)
    subgroups = tuple(View(ViewId(group[0], draw(lower)), group) for group in groups)
    return MergeView(ViewId(chosen[0], number), chosen, subgroups)


@st.composite
def delta_views(draw: st.DrawFn, of: View | None = None) -> DeltaView:
    """Return the difference to a view: to ``of``, so that it can be applied to it, or to a stranger.
    Somebody stays."""
    old = draw(views()) if of is None else of
    gone = draw(st.lists(st.sampled_from(old.members), max_size=len(old) - 1, unique=True))
    joined = draw(st.lists(_others(old), max_size=3, unique=True))
    stayed = [m for m in old.members if m not in gone]
    number = min(old.id + draw(st.integers(1, 3)), MAX_VIEW_ID)
    return DeltaView(ViewId(stayed[0], number), old.view_id, tuple(gone), tuple(joined))


@st.composite
def view_histories(draw: st.DrawFn, holder: UUID, *, max_size: int = 6) -> list[View]:
    """Return the views that ``holder`` is given one after the other: views that contain it, with rising numbers;
    members leave, and others join at the end."""
    view = View(ViewId(holder, draw(st.integers(0, 300))), (holder,))
    if draw(st.booleans()):
        older = draw(st.lists(uuids().filter(lambda a: a != holder), max_size=3, unique=True))
        view = View(ViewId((*older, holder)[0], view.id), (*older, holder))
    found = [view]
    for _ in range(draw(st.integers(0, max_size - 1))):
        gone = draw(st.sets(st.sampled_from(view.members))) - {holder}
        joined = draw(st.lists(_others(view), max_size=2, unique=True))
        members = (*[m for m in view.members if m not in gone], *joined)
        view = View(ViewId(members[0], view.id + draw(st.integers(1, 3))), members)
        found.append(view)
    return found


@st.composite
def digests(draw: st.DrawFn, members: Sequence[Address] | None = None) -> Digest:
    """Draw digests of strangers, or of exactly ``members``; received numbers are not below delivered ones."""
    chosen = draw(_lists(None, 0)) if members is None else tuple(members)
    seqnos = {}
    for member in chosen:
        delivered = draw(SEQNOS)
        seqnos[member] = (delivered, delivered + draw(COUNT32))
    return Digest(seqnos)
