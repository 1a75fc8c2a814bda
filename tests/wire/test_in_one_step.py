"""Headers that are written in one step have the bytes of the general way, and the same errors."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import LocalProtocolError
from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.wire.header_codec import write_header
from jgroups_py.wire.headers import (
    CorrelatorHeader,
    CorrelatorType,
    MultiDestinationHeader,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import Writer

A, B = make_address(1), make_address(2)
NUMBERS = [0, 1, 255, 256, 65_535, 65_536, (1 << 40) + 7, (1 << 63) - 1]


def _packet(header: Header) -> bytes:
    (packet,) = encode_packets([Batch(B, [b"x"], {200: header}, A)], "a")
    return packet


@pytest.mark.parametrize(
    "header",
    [
        *[UnicastHeader3(UnicastType.DATA, number, 5, number == 1) for number in NUMBERS],
        *[CorrelatorHeader(CorrelatorType.RSP, number, 200) for number in NUMBERS],
        UnicastHeader3(UnicastType.DATA, 1, -1),
        *[UnicastHeader3(UnicastType.ACK, number, 5, timestamp=3) for number in NUMBERS],
        *[UnicastHeader3(UnicastType.ACK, 7, -5, timestamp=number) for number in NUMBERS[:6]],
        UnicastHeader3(UnicastType.ACK, 7, 5, timestamp=(1 << 31) - 1),
        UnicastHeader3(UnicastType.ACK, 7, 5, timestamp=-1),
        UnicastHeader3(UnicastType.CLOSE, conn_id=5),
        MultiDestinationHeader(CorrelatorType.REQ, 7, excluded=(A,)),
    ],
)
def test_a_header_has_the_bytes_of_the_general_way(header: Any) -> None:
    general = Writer()
    write_header(general, 200, header)
    assert general.done() in _packet(header)


@pytest.mark.parametrize(
    "header",
    [
        UnicastHeader3(UnicastType.DATA, 1 << 63, 5),
        UnicastHeader3(UnicastType.DATA, 1, 1 << 15),
        UnicastHeader3(UnicastType.ACK, 1 << 63, 5),
        UnicastHeader3(UnicastType.ACK, 1, 1 << 15),
        UnicastHeader3(UnicastType.ACK, 1, 5, timestamp=1 << 31),
        CorrelatorHeader(CorrelatorType.REQ, 1 << 63),
        CorrelatorHeader(CorrelatorType.REQ, 1, 1 << 15),
    ],
)
def test_a_number_without_room_is_refused(header: Any) -> None:
    with pytest.raises(LocalProtocolError):
        _packet(header)
