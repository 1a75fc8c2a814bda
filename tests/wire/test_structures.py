"""Views, digests and addresses: their rules beyond the vectors."""

from __future__ import annotations

import pytest

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.testing import make_address
from jgroups_py.values.address import UUID
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.values.view import Digest, View, ViewId, lowest
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import read_join_rsp, read_view, write_join_rsp, write_view

A, B, C = (make_address(n) for n in (1, 2, 3))


def test_a_digest_that_goes_with_a_view_is_written_in_the_views_order() -> None:
    view = View(ViewId(A, 3), (A, B, C))
    digest = Digest({C: (3, 4), A: (1, 2), B: (2, 2)})
    answer = decode_whole(read_join_rsp, encode_whole(write_join_rsp, JoinRsp(view, digest)))
    assert answer is not None and answer.digest is not None
    assert dict(answer.digest.seqnos) == dict(digest.seqnos)


def test_a_view_with_a_member_twice_is_refused() -> None:
    data = encode_whole(write_view, View(ViewId(A, 3), (A, B, A)))
    with pytest.raises(RemoteProtocolError, match="twice"):
        decode_whole(read_view, data)


def test_addresses_sort_by_their_halves_as_signed_numbers() -> None:
    negative = UUID(b"\xff" + bytes(15))
    below = UUID(bytes(8) + b"\x80" + bytes(7))
    zero = UUID(bytes(16))
    assert sorted([zero, below, negative], key=lambda u: u.order_key) == [negative, below, zero]
    assert lowest((zero, negative, below)) == negative
