"""Headers of users' protocols: their bytes, refusals, and whole clusters that send them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stamps import StampHeader

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.stack import Batch, Header, Protocol, register_header
from jgroups_py.testing import SimCluster, make_address
from jgroups_py.wire.header_codec import encode_header, read_header
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import Reader

OWN = 2001


@register_header
@dataclass(frozen=True, slots=True)
class Numbered(Header):
    magic_id = 3002
    sequence: ClassVar[str | None] = "number"
    number: int
    by: str = ""


def through(header: Header) -> Header:
    r = Reader(encode_header(OWN, header))
    protocol_id, found = read_header(r)
    assert protocol_id == OWN
    r.expect_end()
    return found


def test_each_kind_of_field_has_the_bytes_that_java_writes() -> None:
    header = StampHeader(258, -2, 0.5, True, "é", "x", b"ab", b"c", None)
    expected = (
        "07d1 07d2"  # protocol id, magic id
        "02 0201"  # Bits.writeLongCompressed
        "fffffffffffffffe 3fe0000000000000 01"  # writeLong, writeDouble, writeBoolean
        "0002 c3a9 01 0001 78"  # writeUTF, Bits.writeString
        "00000002 6162 01 00000001 63"  # writeInt and write, Util.writeByteBuffer
        "01"  # Util.writeAddress(null)
    )
    assert encode_header(OWN, header) == bytes.fromhex(expected)
    assert through(header) == header
    empty = StampHeader(0, 0, 0.0, False, "", None, b"", None, make_address(3))
    assert through(empty) == empty
    assert encode_header(OWN, Numbered(258, "a")) == bytes.fromhex("07d1 0bba 02 0201 0001 61")


@pytest.mark.parametrize("cut", range(4, 45))
def test_a_header_that_is_cut_off_is_refused(cut: int) -> None:
    data = encode_header(OWN, StampHeader(258, -2, 0.5, True, "é", "x", b"ab", b"c", None))
    assert len(data) == 4 + 3 + 17 + 8 + 12 + 1
    with pytest.raises(RemoteProtocolError):
        read_header(Reader(data[:cut]))


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (Numbered(1, None), "Numbered.by = None"),  # type: ignore[arg-type]
        (Numbered(1, "x" * 65_536), "65535"),
        (StampHeader(0, 1 << 63, 0, True, "", None, b"", None, None), "StampHeader.big = 922"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(header: Header, problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(problem)):
        encode_header(OWN, header)


def made(**words: Any) -> type[Header]:
    """A frozen dataclass of Header with these annotations and class variables."""
    fields = {name: kind for name, kind in words.items() if name not in ("magic_id", "sequence")}
    rest = {name: value for name, value in words.items() if name not in fields}
    cls = type("Made", (Header,), {"__annotations__": fields, **rest})
    return dataclass(frozen=True)(cls)


@pytest.mark.parametrize(
    ("words", "error", "problem"),
    [
        ({"magic_id": 1023}, ValueError, "Made: magic_id is from 1024 to 32767, not 1023"),
        ({"magic_id": 40_000}, ValueError, "not 40000"),
        ({}, ValueError, "not None"),
        ({"magic_id": 2002}, ValueError, "StampHeader has the magic_id 2002"),
        ({"magic_id": 3003, "x": list}, TypeError, "Made.x: list is none of int, float, bool, str"),
        ({"magic_id": 3003, "at": int}, TypeError, "Made.at: Header has a method of this name"),
        ({"magic_id": 3003, "x": int | None}, TypeError, "Made.x: int | None is none of"),
        (
            {"magic_id": 3003, "sequence": "y", "x": int},
            ValueError,
            "sequence 'y' must be the first",
        ),
        (
            {"magic_id": 3003, "sequence": "x", "x": str},
            ValueError,
            "sequence 'x' must be the first",
        ),
    ],
)
def test_a_class_that_cannot_be_a_header_is_refused(
    words: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=re.escape(problem)):
        register_header(made(**words))


def test_a_class_without_a_frozen_dataclass_is_refused() -> None:
    class Plain(Header):
        magic_id = 3004

    with pytest.raises(TypeError, match="Plain: a header is a frozen dataclass"):
        register_header(Plain)
    with pytest.raises(TypeError, match="int: a header derives from Header"):
        register_header(int)  # type: ignore[type-var]


def test_a_header_that_was_not_registered_is_named() -> None:
    with pytest.raises(LocalProtocolError, match="Made has no encoding: register_header"):
        encode_header(OWN, made(magic_id=3006)())


def test_a_class_may_be_registered_again() -> None:
    def again() -> type[Header]:
        @register_header
        @dataclass(frozen=True)
        class Again(Header):
            magic_id = 3005
            x: int

        return Again

    again()
    assert type(through(again()(**{"x": 1}))).__name__ == "Again"


@given(
    first=st.integers(0, 1 << 40),
    payloads=st.lists(st.binary(max_size=20), min_size=1, max_size=400),
    by=st.text(max_size=3),
)
@example(first=0, payloads=[b"same"] * 700, by="")
def test_a_run_with_numbers_is_one_batch(first: int, payloads: list[bytes], by: str) -> None:
    batch = Batch(None, list(payloads), {OWN: Numbered(first, by)}, make_address(1))
    found: list[tuple[int, str, bytes]] = []
    for data in encode_packets([batch], "demo"):
        fast = decode_packet(data)
        assert fast == decode_packet(data, fast=False)
        for run in fast.batches:
            for index, payload in enumerate(run.payloads):
                header = run.slice(index, index + 1).header(OWN, Numbered)
                assert header is not None
                found.append((header.number, header.by, bytes(payload)))
    assert found == [(first + i, by, payload) for i, payload in enumerate(payloads)]
    same = Batch(None, [b"12345678"] * 50, {OWN: Numbered(1000)}, make_address(1))
    (data,) = encode_packets([same], "demo")
    assert len(decode_packet(data).batches) == 1
    for number in range(1000, 1050):
        assert data.count(encode_header(OWN, Numbered(number))) == 1


class NUMBERS(Protocol):
    """Numbers outgoing messages, and checks the numbers of each sender."""

    protocol_id = OWN

    def start(self) -> None:
        self.next = 0
        self.seen: list[tuple[int, str]] = []

    def down(self, batch: Batch) -> None:
        header = Numbered(self.next, self.stack.name)
        self.next += len(batch)
        self.pass_down(batch.with_header(self.protocol_id, header))

    def up(self, batch: Batch) -> None:
        first = batch.header(self.protocol_id, Numbered)
        if first is not None:
            self.seen += [(first.number + i, first.by) for i in range(len(batch))]
            batch = batch.without_header(self.protocol_id)
        self.pass_up(batch)


def test_messages_of_a_cluster_have_headers_of_a_users_protocol() -> None:
    with SimCluster("ABC", ["sim.xml", NUMBERS], tagged=False) as cluster:
        cluster.wait_for_views()
        for number in range(300):
            cluster["A"].send(b"%d" % number)
        for member in "BC":
            cluster[member].send(b"one")
        cluster.run_for(2)
        for name in "ABC":
            seen = cluster[name].protocol(NUMBERS).seen
            assert [number for number, by in seen if by == "A"] == list(range(300))
            assert {(0, "B"), (0, "C")} <= set(seen)
            assert len(cluster[name].take()) == 302
