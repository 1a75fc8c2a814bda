"""Strategies for headers, one per class of the catalogue. See strategies.py.

Only fields that a header of that type has on the wire are drawn; the rest keep their defaults.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from jgroups_py.testing.needs import st
from jgroups_py.testing.strategies_values import (
    BYTES,
    COUNT32,
    INT16,
    INT32,
    SEQNOS,
    TEXTS,
    addresses,
    digests,
    ip_addresses,
    uuids,
    view_ids,
    views,
)
from jgroups_py.values.header import Header
from jgroups_py.values.payloads import MergeId
from jgroups_py.wire import headers as h
from jgroups_py.wire.objects import streamable

_ADDRESS: Final = st.none() | addresses()
_ADDRESSES: Final = st.lists(_ADDRESS, max_size=3).map(tuple)
_TEXTS: Final = st.lists(TEXTS, max_size=3).map(tuple)
_FLAG: Final = st.booleans()
_VIEW_ID: Final = st.none() | view_ids()
_DIGEST: Final = st.none() | digests()
_OPT_BYTES: Final = st.none() | BYTES
CLUSTERS: Final = st.text(st.characters(max_codepoint=255), min_size=1, max_size=12)
USER_IDS: Final = st.integers(1024, 2**15 - 1)


def _of(kind: type[IntEnum], but: IntEnum | None = None) -> st.SearchStrategy[Any]:
    return st.sampled_from([k for k in kind if k is not but])


def _nak(cls: type[Header], types: list[h.NakAckType]) -> st.SearchStrategy[Header]:
    request = h.NakAckType.XMIT_REQ
    numbered = [t for t in types if t is not request]
    return st.builds(cls, st.sampled_from(numbered), SEQNOS) | st.builds(
        cls, st.just(request), st.just(0), _ADDRESS
    )


def _unicast(cls: type[Header]) -> st.SearchStrategy[Header]:
    t = h.UnicastType
    return st.one_of(
        st.builds(cls, st.just(t.DATA), SEQNOS, INT16, _FLAG),
        st.builds(cls, st.just(t.ACK), SEQNOS, INT16, st.just(False), COUNT32),
        st.builds(cls, st.just(t.SEND_FIRST_SEQNO), timestamp=COUNT32),
        st.just(cls(t.XMIT_REQ)),  # type: ignore[call-arg]
        st.builds(cls, st.just(t.CLOSE), conn_id=INT16),
    )


_SIMPLE: Final[dict[type[Header], st.SearchStrategy[Header]]] = {
    h.TpHeader: st.builds(h.TpHeader, CLUSTERS)
    | st.builds(h.TpHeader, CLUSTERS, st.sampled_from([1, 2]), INT32),
    h.PingHeader: st.builds(h.PingHeader, _of(h.PingType), TEXTS, _FLAG),
    h.GmsHeader: st.builds(
        h.GmsHeader,
        _of(h.GmsType),
        _ADDRESS,
        st.none() | st.builds(MergeId, _ADDRESS, INT32),
        _FLAG,
        st.sampled_from([0, 1, 2, 8]),
    ),
    h.NakAckHeader2: _nak(h.NakAckHeader2, [t for t in h.NakAckType if t is not h.NakAckType.ACK]),
    h.NakAckHeader: _nak(h.NakAckHeader, list(h.NakAckType)),
    h.UnicastHeader3: _unicast(h.UnicastHeader3),
    h.UnicastHeader: _unicast(h.UnicastHeader),
    h.StableHeader: st.builds(h.StableHeader, _of(h.StableType), _VIEW_ID),
    h.FdHeader: st.builds(h.FdHeader, _of(h.FdType), _ADDRESSES, TEXTS, _ADDRESS),
    h.HeartbeatHeader: st.just(h.HeartbeatHeader()),
    h.VerifyHeader2: st.builds(h.VerifyHeader2, _of(h.VerifyType), _ADDRESS),
    h.VerifyHeader: st.builds(h.VerifyHeader, _of(h.VerifyType), _ADDRESS),
    h.MergeHeader: st.builds(h.MergeHeader, _of(h.MergeType), _VIEW_ID, TEXTS, _ADDRESS),
    h.FcHeader: st.builds(h.FcHeader, _of(h.FcType)),
    h.FragHeader: st.builds(h.FragHeader, SEQNOS, COUNT32, COUNT32, _FLAG, INT16),
    h.Frag3Header: st.builds(h.Frag3Header, COUNT32, COUNT32, COUNT32, COUNT32, COUNT32, _FLAG),
    h.StateHeader: st.builds(h.StateHeader, _of(h.StateType), _DIGEST),
    h.StreamingStateHeader: st.builds(
        h.StreamingStateHeader, _of(h.StreamingStateType), _DIGEST, st.none() | ip_addresses()
    ),
    h.RsvpHeader: st.builds(h.RsvpHeader, _of(h.RsvpType), INT16),
    h.SequencerHeader: st.builds(h.SequencerHeader, _of(h.SequencerType), SEQNOS, _FLAG),
    h.CorrelatorHeader: st.builds(h.CorrelatorHeader, _of(h.CorrelatorType), SEQNOS, INT16),
    h.MultiDestinationHeader: st.builds(
        h.MultiDestinationHeader, _of(h.CorrelatorType), SEQNOS, INT16, st.none() | _ADDRESSES
    ),
    h.AuthHeader: st.builds(
        h.AuthHeader, st.none() | st.one_of(uuids(), view_ids(), views()).map(streamable)
    ),
    h.EncryptHeader: st.builds(
        h.EncryptHeader, _of(h.EncryptType), _FLAG, _OPT_BYTES, _ADDRESS, _OPT_BYTES
    ),
    h.DhHeader: st.builds(h.DhHeader, st.just(h.DhType.SECRET_KEY_REQ), BYTES)
    | st.builds(h.DhHeader, st.just(h.DhType.SECRET_KEY_RSP), BYTES, BYTES, BYTES),
    h.CompressHeader: st.builds(h.CompressHeader, INT32, _FLAG),
    h.ForkHeader: st.builds(h.ForkHeader, TEXTS, TEXTS),
    h.Batch2Header: st.just(h.Batch2Header()),
    h.InfoHeader: st.builds(h.InfoHeader, st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple)),
}
"""All but RelayHeader, which holds others."""


@st.composite
def _relay(draw: st.DrawFn) -> h.RelayHeader:
    inner = draw(st.lists(st.tuples(USER_IDS, st.one_of(*_SIMPLE.values())), max_size=2))
    return h.RelayHeader(
        draw(_of(h.RelayType)),
        draw(_FLAG),
        draw(_ADDRESS),
        draw(_ADDRESS),
        draw(_TEXTS),
        draw(_TEXTS),
        tuple(inner),
        draw(INT16),
    )


_ALL: Final[dict[type[Header], st.SearchStrategy[Header]]] = {**_SIMPLE, h.RelayHeader: _relay()}


def headers(*classes: type[Header]) -> st.SearchStrategy[Header]:
    """Draw headers of these classes of ``jgroups_py.wire.headers``; none named: of every class. Raises ``KeyError`` for
    a class that is not of the catalogue, such as one of yours."""
    return st.one_of(*[_ALL[cls] for cls in classes or _ALL])
