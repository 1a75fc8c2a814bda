"""Casts to members of other sites.

A list of destinations does not cross to another site. Its members do not know ours, and would all ignore the call. So
the list is rewritten to a role: *all members of that site*. The cast is one multicast that RELAY relays in order and
once, whichever member crashes. At home its header excludes every member, and headers stay at home.

    MAGIC, u8 length and name of the site, the request in our form
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.rpc.form import Encoded
from jgroups_py.rpc.serving import ID
from jgroups_py.values.address import Address, SiteUUID
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.message import MessageType
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType

MAGIC: Final = b"\xc1RPC\x01"
"""The first bytes of such a cast. No text and no msgpack begins with them."""
REQUEST: Final[Headers] = {ID: CorrelatorHeader(CorrelatorType.REQ, 0)}
SITE_MAX: Final = 255
"""The most bytes of a site's name."""


def split(dests: Iterable[Address], own: str | None) -> tuple[tuple[Address, ...], tuple[str, ...]]:
    """Return the members of this site, and the names of the other sites. If ``own`` is None there are no sites."""
    here: list[Address] = []
    sites: dict[str, None] = {}
    for dest in dests:
        if own is not None and isinstance(dest, SiteUUID) and dest.site not in (None, own):
            assert dest.site is not None
            sites[dest.site] = None
        else:
            here.append(dest)
    return tuple(here), tuple(sites)


def wrapped(site: str, request: Encoded) -> Encoded:
    """Return a request in the form that is relayed. Raise LocalProtocolError if the site's name is too long."""
    name = site.encode()
    if len(name) > SITE_MAX:
        raise LocalProtocolError(f"a site's name has at most {SITE_MAX} bytes: {site[:50]!r}")
    payload = MAGIC + bytes([len(name)]) + name + request.payload
    return Encoded(payload, len(payload), request.flags, MessageType.BYTES)


def is_relayed(batch: Batch) -> bool:
    """Return whether casts of another site may be in the batch."""
    return (
        isinstance(batch.src, SiteUUID)
        and ID not in batch.headers
        and batch.type == MessageType.BYTES
        and any(map(_is_cast, batch.payloads))
    )


def parts(batch: Batch, own: str) -> Iterator[tuple[bool, Batch]]:
    """Yield the messages of a batch in their order, as runs: casts for this site with True, as requests without a reply;
    other messages with False. Casts for other sites are left out."""
    casts: list[Any] = []
    others: list[Any] = []
    for payload in batch.payloads:
        if _is_cast(payload):
            if others:
                yield False, _part(batch, others, batch.headers)
                others = []
            request = _for_site(bytes(payload), own.encode())
            if request is not None:
                casts.append(request)
        else:
            if casts:
                yield True, _part(batch, casts, REQUEST)
                casts = []
            others.append(payload)
    if casts:
        yield True, _part(batch, casts, REQUEST)
    if others:
        yield False, _part(batch, others, batch.headers)


def _is_cast(payload: Any) -> bool:
    return isinstance(payload, bytes | memoryview) and payload[: len(MAGIC)] == MAGIC


def _for_site(payload: bytes, own: bytes) -> bytes | None:
    at = len(MAGIC)
    end = at + 1 + (payload[at] if len(payload) > at else 0)
    return payload[end:] if payload[at + 1 : end] == own else None


def _part(batch: Batch, payloads: list[Any], headers: Headers) -> Batch:
    return Batch(
        batch.dest,
        tuple(payloads),
        headers,
        batch.src,
        batch.flags,
        batch.transient,
        batch.type,
    )
