"""Inquiries: another program compares its map with that of a host, over one connection. Questions and answers, without I/O.

    Inquiry              the first frame, in place of a greeting; it is answered with Described
    Digests              asked: of all buckets; answered: one text of bytes with all digests
    Rows                 asked: of some buckets, above a key; answered: some rows, and from where to go on

A program that may connect could get the whole map as a host, so an inquiry reveals no more. A host keeps no state
between two questions. An answer covers at most SCAN_MAX entries: 2 MB of rows.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from jgroups_py.maps.digests import BUCKETS, BYTES, DigestRow, Side, digests, rows
from jgroups_py.maps.entry import KEY_MAX
from jgroups_py.maps.stamp import MapStamp

SCAN_MAX: Final = 50_000
"""The most entries that one answer covers."""
_Key = Annotated[bytes, msgspec.Meta(max_length=KEY_MAX)]


class Described(msgspec.Struct, frozen=True, tag="d", array_like=True, forbid_unknown_fields=True):
    """A description of the map. ``key``: the name of its keys' codec."""

    map: str
    node: int
    key: str


class AskDigests(msgspec.Struct, frozen=True, tag="a", array_like=True, forbid_unknown_fields=True):
    """Ask for the digests of all buckets."""


class Digests(msgspec.Struct, frozen=True, tag="b", array_like=True, forbid_unknown_fields=True):
    data: Annotated[bytes, msgspec.Meta(min_length=BUCKETS * BYTES, max_length=BUCKETS * BYTES)]


class AskRows(msgspec.Struct, frozen=True, tag="c", array_like=True, forbid_unknown_fields=True):
    buckets: Annotated[
        list[Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS)]], msgspec.Meta(max_length=BUCKETS)
    ]
    after: _Key


class Rows(msgspec.Struct, frozen=True, tag="r", array_like=True, forbid_unknown_fields=True):
    """Key, time, host, expiry and digest of the value of each. ``last`` None: there are no more."""

    rows: list[tuple[_Key, int, int, int, bytes]]
    last: _Key | None


class BadInquiry(ValueError):
    """Bytes that are no question, or no answer."""


_questions: Final[msgspec.msgpack.Decoder[AskDigests | AskRows]] = msgspec.msgpack.Decoder(
    AskDigests | AskRows
)
_answers: Final[msgspec.msgpack.Decoder[Described | Digests | Rows]] = msgspec.msgpack.Decoder(
    Described | Digests | Rows
)
encode = msgspec.msgpack.Encoder().encode


def answer(side: Side, question: bytes) -> bytes:
    """Answer a question; this reads the map and takes time. Any bytes may come. Raises BadInquiry."""
    try:
        asked = _questions.decode(question)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadInquiry(f"no question: {str(error)[:200]}") from None
    if isinstance(asked, AskDigests):
        data = b"".join(number.to_bytes(BYTES, "big") for number in digests(side.items()))
        return encode(Digests(data))
    found, last = rows(side, set(asked.buckets), after=asked.after, scan=SCAN_MAX)
    return encode(Rows([(key, *row.stamp, row.expires, row.value) for key, row in found], last))


def answered(data: bytes) -> Described | Digests | Rows:
    """Decode an answer. Raises BadInquiry."""
    try:
        return _answers.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadInquiry(f"no answer: {str(error)[:200]}") from None


def digests_in(told: Digests) -> list[int]:
    data = told.data
    return [int.from_bytes(data[at : at + BYTES], "big") for at in range(0, BUCKETS * BYTES, BYTES)]


def rows_in(told: Rows) -> dict[bytes, DigestRow]:
    return {
        key: DigestRow(MapStamp(time, node), expires, value)
        for key, time, node, expires, value in told.rows
    }
