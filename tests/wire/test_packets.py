"""Packets: the fast paths give the same as the general path, and sizes are kept."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import SeqnoList
from jgroups_py.wire.connection import decode_handshake, encode_handshake, handshake_size
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    CorrelatorHeader,
    CorrelatorType,
    FcHeader,
    FcType,
    FdHeader,
    FdType,
    FragHeader,
    HeartbeatHeader,
    MultiDestinationHeader,
    NakAckHeader2,
    NakAckType,
    PingHeader,
    PingType,
    RelayHeader,
    RelayType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.message import read_typed_message
from jgroups_py.wire.objects import streamable
from jgroups_py.wire.packet import MULTICAST, Packet, decode_packet, packet_version
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import make_version
from jgroups_py.wire.single import (
    decode_fd_frame,
    decode_mping,
    decode_nested,
    encode_fd_frame,
    encode_mping,
    encode_nested,
)
from jgroups_py.wire.strides import COPIED_MAX

A = UUID.make(random.Random(1))
B = UUID.make(random.Random(2))
NAK, UNI, RELAY = PROTOCOL_IDS["NAKACK2"], PROTOCOL_IDS["UNICAST3"], PROTOCOL_IDS["RELAY"]
CALLS = PROTOCOL_IDS["REQUEST_CORRELATOR"]

# Numbers near the places where they need one more byte.
seqnos = st.one_of(
    st.integers(0, 600),
    st.sampled_from([255, 256, 65_535, 65_536, 2**24 - 3, 2**32 - 2, 2**56 - 1, 2**62]),
)


@st.composite
def header_sets(draw: st.DrawFn) -> dict[int, Header]:
    headers: dict[int, Header] = {}
    if draw(st.booleans()):
        headers[RELAY] = FragHeader(draw(seqnos), 0, draw(st.integers(1, 2)))
    kind = draw(st.sampled_from(["none", "nakack", "unicast", "relay", "request"]))
    if kind == "nakack":
        headers[NAK] = NakAckHeader2(NakAckType.MSG, draw(seqnos))
    elif kind == "request":
        headers[NAK] = NakAckHeader2(NakAckType.XMIT_REQ, 0, B)
    elif kind == "unicast":
        headers[UNI] = UnicastHeader3(UnicastType.DATA, draw(seqnos), draw(st.integers(0, 3)))
    elif kind == "relay":
        inner = ((NAK, NakAckHeader2(NakAckType.MSG, draw(seqnos))),)
        headers[44] = RelayHeader(RelayType.DATA, original_headers=inner)
    if draw(st.booleans()):
        call = draw(st.sampled_from([CorrelatorHeader, MultiDestinationHeader]))
        headers[CALLS] = call(draw(st.sampled_from(CorrelatorType)), draw(seqnos))
    if draw(st.booleans()):
        headers[PROTOCOL_IDS["MFC"]] = FcHeader(FcType.REPLENISH)
    return headers


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    size = draw(st.integers(0, 40))
    same = st.binary(min_size=size, max_size=size)
    payload = draw(st.sampled_from(["same", "mixed", "null", "repeated"]))
    if payload == "repeated":
        payloads: list[bytes | None] = [b"x" * size] * draw(st.integers(1, 700))
    else:
        element: st.SearchStrategy[bytes | None] = same
        if payload == "mixed":
            element = st.one_of(same, st.binary(max_size=60))
        elif payload == "null":
            element = st.one_of(same, st.none())
        payloads = draw(st.lists(element, min_size=1, max_size=30))
    flags = draw(st.sampled_from([0, int(Flag.OOB), int(Flag.NO_FC)]))
    return Batch(None, payloads, draw(header_sets()), A, flags)


One = tuple[dict[int, Header], int, bytes | None]


def flat(packets: list[Packet]) -> list[One]:
    """Every message with its own headers."""
    out: list[One] = []
    for packet in packets:
        for batch in packet.batches:
            for i, payload in enumerate(batch.payloads):
                one = {key: header.at(i) for key, header in batch.headers.items()}
                out.append((one, batch.flags, None if payload is None else bytes(payload)))
    return out


def on_the_wire(messages: list[One]) -> list[One]:
    """Return the messages without numbers that a header has but its type does not send."""
    for headers, _, _ in messages:
        header = headers.get(NAK)
        if isinstance(header, NakAckHeader2) and header.type == NakAckType.XMIT_REQ:
            headers[NAK] = NakAckHeader2(NakAckType.XMIT_REQ, 0, B)
    return messages


@given(st.lists(batches(), min_size=1, max_size=4), st.integers(60, 20_000))
@settings(max_examples=150, deadline=None)
def test_fast_and_general_paths_agree(queued: list[Batch], max_size: int) -> None:
    packets = encode_packets(queued, "demo", max_size=max_size)
    fast = [decode_packet(packet) for packet in packets]
    assert fast == [decode_packet(packet, fast=False) for packet in packets]
    sent = Packet(0, 0, None, A, None, queued)
    assert on_the_wire(flat(fast)) == on_the_wire(flat([sent]))
    assert all(packet.src == A and packet.is_for("demo") for packet in fast)


@pytest.mark.parametrize("size", [0, 1, 100, 30_000])
@pytest.mark.parametrize("max_size", [64_000, 500])
def test_a_run_whose_sizes_are_known_is_written_as_any_other(size: int, max_size: int) -> None:
    payloads = [bytes([number]) * size for number in range(9)]
    run = Batch(None, payloads, {NAK: NakAckHeader2(NakAckType.MSG, 253)}, A)
    expected = encode_packets([run], "demo", max_size=max_size)
    run.sizes_are(9 * size, size)
    assert encode_packets([run], "demo", max_size=max_size) == expected


@given(st.lists(batches(), min_size=1, max_size=3), st.integers(0, 2**32), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_fast_and_general_paths_agree_on_damaged_packets(
    queued: list[Batch], place: int, value: int
) -> None:
    for packet in encode_packets(queued, "demo"):
        damaged = bytearray(packet)
        damaged[place % len(damaged)] = value
        results: list[object] = []
        for fast in (True, False):
            try:
                results.append(decode_packet(bytes(damaged), fast=fast))
            except RemoteProtocolError as error:
                results.append(str(error))
        assert results[0] == results[1]


def test_a_long_run_comes_back_as_one_batch() -> None:
    payloads = [bytes([i % 256]) * 50 for i in range(600)]
    batch = Batch(None, payloads, {NAK: NakAckHeader2(NakAckType.MSG, 65_000)}, A)
    (packet,) = encode_packets([batch], "demo")
    decoded = decode_packet(packet)
    assert len(decoded.batches) == 1
    assert decoded.batches[0].headers == batch.headers
    assert [bytes(p) for p in decoded.batches[0].payloads] == payloads


@pytest.mark.parametrize(("size", "kind"), [(COPIED_MAX, bytes), (COPIED_MAX + 1, memoryview)])
def test_small_payloads_of_a_list_are_bytes_and_large_ones_are_views(size: int, kind: type) -> None:
    """A view keeps the whole packet. No view can be written to."""
    for sizes in ([size] * 20, [size, 3000, size, size, size, size]):
        payloads = [bytes([number]) * one for number, one in enumerate(sizes)]
        run = Batch(None, payloads, {NAK: NakAckHeader2(NakAckType.MSG, 250)}, A)
        (packet,) = encode_packets([run], "demo")
        found = decode_packet(packet).batches[0].payloads
        assert found == payloads
        assert {type(one) for one in found if len(one) == size} == {kind}
        assert all(one.readonly for one in found if isinstance(one, memoryview))


def test_the_messages_of_a_long_run_are_not_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the first message is decoded, and those at which the number gets longer or its last byte begins anew."""
    decoded: list[object] = []

    def reads(*given: Any) -> Any:
        decoded.append(given)
        return read_typed_message(*given)

    monkeypatch.setattr("jgroups_py.wire.packet.read_typed_message", reads)
    batch = Batch(None, [b"x"] * 600, {NAK: NakAckHeader2(NakAckType.MSG, 1)}, A)
    (packet,) = encode_packets([batch], "demo")
    assert sum(len(b) for b in decode_packet(packet).batches) == 600
    assert len(decoded) < 10


def test_a_gap_in_the_numbers_ends_a_run() -> None:
    runs = [
        Batch(None, [b"a", b"b"], {NAK: NakAckHeader2(NakAckType.MSG, 1)}, A),
        Batch(None, [b"c"], {NAK: NakAckHeader2(NakAckType.MSG, 4)}, A),
        Batch(None, [b"d"], {NAK: NakAckHeader2(NakAckType.MSG, 5)}, A),
    ]
    (packet,) = encode_packets(runs, "demo")
    decoded = decode_packet(packet)
    assert [len(batch) for batch in decoded.batches] == [2, 2]


def test_messages_with_other_flags_begin_a_run_of_their_own() -> None:
    def one(seqno: int, flags: int) -> Batch:
        return Batch(None, [b"x"], {NAK: NakAckHeader2(NakAckType.MSG, seqno)}, A, flags)

    sent = [one(1, 0), one(2, int(Flag.OOB)), one(3, int(Flag.OOB))]
    (packet,) = encode_packets(sent, "c")
    got = decode_packet(packet).batches
    assert [(len(batch), batch.flags) for batch in got] == [(1, 0), (2, Flag.OOB)]


@pytest.mark.parametrize("other", [{"src": B}, {"dest": A}])
def test_packets_of_another_sender_or_destination_are_refused(other: dict[str, Any]) -> None:
    first = Batch(B, [b"1"], {}, A)
    assert len(encode_packets([first, replace(first, payloads=[b"2"])], "c")) == 1
    with pytest.raises(LocalProtocolError, match="several senders or destinations"):
        encode_packets([first, replace(first, **other)], "c")


def test_calls_with_consecutive_numbers_form_a_run_and_so_do_calls_without_one() -> None:
    for number, numbers in ((7, [7, 8, 9]), (0, [0, 0, 0])):
        headers: dict[int, Header] = {CALLS: CorrelatorHeader(CorrelatorType.REQ, number)}
        sent = Batch(B, [b"a", b"b", b"c"], headers, A)
        (packet,) = [decode_packet(p) for p in encode_packets([sent], "demo")]
        (batch,) = packet.batches
        got = [batch.headers[CALLS].at(i) for i in range(3)]
        assert [h.request_id for h in got if isinstance(h, CorrelatorHeader)] == numbers


def test_fragments_never_form_a_run() -> None:
    first = FragHeader(7, 0, 2)
    second = FragHeader(7, 1, 2)
    fragments = [Batch(None, [b"x"], {4: header}, A) for header in (first, second)]
    (packet,) = encode_packets(fragments, "demo")
    assert [batch.headers[4] for batch in decode_packet(packet).batches] == [first, second]


def test_one_message_goes_without_a_list() -> None:
    (packet,) = encode_packets([Batch(B, [b"hi"], {}, A)], "demo")
    assert packet[2] == 0
    decoded = decode_packet(packet)
    assert (decoded.dest, decoded.src, decoded.cluster) == (B, A, "demo")
    assert not decoded.multicast
    assert bytes(decoded.batches[0].payloads[0]) == b"hi"


@pytest.mark.parametrize("dest", [None, B], ids=["all", "one"])
def test_a_message_that_is_left_over_has_the_bytes_of_one_that_was_sent_alone(
    dest: Address | None,
) -> None:
    headers: dict[int, Header] = {NAK: NakAckHeader2(NakAckType.MSG, 1)}
    left_over: dict[int, Header] = {NAK: NakAckHeader2(NakAckType.MSG, 3)}
    packets = encode_packets([Batch(dest, [bytes(400)] * 3, headers, A)], "demo", max_size=1000)
    assert packets[1:] == encode_packets([Batch(dest, [bytes(400)], left_over, A)], "demo")


def test_packets_keep_the_limit_and_a_larger_message_goes_alone() -> None:
    sizes = [10, 900, 10, 5000, 10, 10, 300, 300, 300, 300]
    batch = Batch(None, [b"x" * n for n in sizes], {NAK: NakAckHeader2(NakAckType.MSG, 1)}, A)
    packets = [decode_packet(p) for p in encode_packets([batch], "demo", max_size=1000)]
    packed = [[len(p) for b in packet.batches for p in b.payloads] for packet in packets]
    assert packed == [[10, 900], [10], [5000], [10, 10, 300, 300], [300, 300]]
    assert [packet.flags & MULTICAST for packet in packets] == [MULTICAST] * 5


def test_no_packet_is_above_the_limit_for_equal_sizes() -> None:
    batch = Batch(None, [bytes(100)] * 1000, {NAK: NakAckHeader2(NakAckType.MSG, 250)}, A)
    packets = encode_packets([batch], "demo", max_size=2000)
    assert max(map(len, packets)) <= 2000 + 64
    assert sum(len(b) for p in packets for b in decode_packet(p).batches) == 1000


def test_payloads_of_every_type_are_read() -> None:
    inner = Batch(None, [b"inner"], {}, A)
    queued = [
        Batch(B, [None], {PROTOCOL_IDS["FD_ALL3"]: HeartbeatHeader()}, A, 0, 0, MessageType.EMPTY),
        Batch(B, [-5], {}, A, 0, 0, MessageType.LONG),
        Batch(B, [streamable(SeqnoList.of([3, 70]))], {}, A, 0, 0, MessageType.OBJECT),
        Batch(B, [b"nio"], {}, A, 0, 0, MessageType.NIO),
        Batch(B, [b"piece"], {}, A, 0, 0, MessageType.FRAGMENT),
        Batch(B, [(inner,)], {}, A, 0, 0, MessageType.COMPOSITE),
        Batch(B, [(B, (inner,))], {}, A, 0, 0, MessageType.BATCH),
        Batch(B, [None], {}, A),
    ]
    for version in (make_version(5, 3), make_version(5, 5, 6)):
        (packet,) = encode_packets(queued, "demo", version)
        decoded = decode_packet(packet, version=version).batches
        assert [batch.type for batch in decoded] == [batch.type for batch in queued]
        values = [batch.payloads[0] for batch in decoded]
        assert values[:3] == [None, -5, streamable(SeqnoList.of([3, 70]))]
        assert [bytes(v) for v in values[3:5]] == [b"nio", b"piece"]
        assert (values[5][0].src, bytes(values[5][0].payloads[0])) == (A, b"inner")
        assert (values[6][0], values[6][1][0].src) == (B, A)
        assert values[7] is None
        assert [batch.length for batch in decoded] == [0, 9, 31, 3, 5, 5, 5, 0]


def test_another_minor_version_is_refused_and_can_be_learnt() -> None:
    (packet,) = encode_packets([Batch(None, [b"x"], {}, A)], "demo", make_version(5, 4, 12))
    assert packet_version(packet) == make_version(5, 4, 12)
    assert decode_packet(packet, version=make_version(5, 4)).version == make_version(5, 4, 12)
    with pytest.raises(RemoteProtocolError, match=r"version 5\.4\.12, ours is 5\.5\.6"):
        decode_packet(packet, version=make_version(5, 5, 6))


def test_batches_that_cannot_share_a_packet_are_refused() -> None:
    one, other = Batch(None, [b"x"], {}, A), Batch(B, [b"x"], {}, A)
    with pytest.raises(LocalProtocolError):
        encode_packets([one, other], "demo")
    with pytest.raises(LocalProtocolError):
        encode_packets([Batch(None, [b"x"], {})], "demo")
    assert encode_packets([], "demo") == []


def test_the_cluster_of_a_packet_is_read() -> None:
    single, double = Batch(None, [b"x"], {}, A), Batch(None, [b"x", b"y"], {}, A)
    for batch in (single, double):
        (packet,) = encode_packets([batch], "demo")
        assert decode_packet(packet).is_for("demo")
        assert not decode_packet(packet).is_for("other")


@pytest.mark.parametrize("address", [IpAddress("127.0.0.1", 7800), IpAddress("::1", 7801, 3)])
def test_a_handshake_is_read(address: IpAddress) -> None:
    data = encode_handshake(make_version(5, 5, 6), address)
    assert handshake_size(data[:8]) == len(data)
    assert decode_handshake(data) == (make_version(5, 5, 6), address)
    for bad in (b"belb" + data[4:], data + b"x", data[:-1], data[:7] + b"\x08" + data[8:]):
        with pytest.raises(RemoteProtocolError):
            decode_handshake(bad)


def test_bare_messages_are_read() -> None:
    header = FdHeader(FdType.CONNECT, server=B)
    assert decode_fd_frame(encode_fd_frame(A, header)) == (A, header)
    request: Address = A
    ping = Batch.of(None, 6, PingHeader(PingType.GET_MBRS_REQ, "demo", True), payload=b"data")
    ping.src = request
    decoded = decode_mping(encode_mping(ping))
    assert decoded.headers == ping.headers
    assert decoded.src == A
    with pytest.raises(RemoteProtocolError):
        decode_fd_frame(encode_mping(ping))


def test_a_nested_message_is_read() -> None:
    batch = Batch(B, [streamable(SeqnoList.of([1]))], {}, A, 5, 0, MessageType.OBJECT)
    again = decode_nested(encode_nested(batch))
    assert (again.dest, again.src, again.flags, again.type) == (B, A, 5, MessageType.OBJECT)
    assert again.payloads == batch.payloads or list(again.payloads) == list(batch.payloads)


@pytest.mark.parametrize("first", [1, 200, 255, 256, 65_400])
@pytest.mark.parametrize("sizes", [(100, 100), (100, 90)], ids=["equal", "mixed"])
def test_a_run_over_many_packets_keeps_its_numbers(first: int, sizes: tuple[int, int]) -> None:
    """The bytes before the payload are made once for all packets in which only the low byte of a number differs."""
    payloads = [bytes(sizes[number % 2]) for number in range(600)]
    headers: dict[int, Header] = {
        PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.MSG, first),
        PROTOCOL_IDS["RELAY"]: FragHeader(first + 7, 0, 1),
    }
    run = Batch(None, payloads, headers, A)
    packets = encode_packets([run], "demo", max_size=1000)
    assert len(packets) > 60
    number = first
    for packet in packets:
        for batch in decode_packet(packet, fast=False).batches:
            nak, frag = batch.headers.values()
            assert (nak, frag) == (
                NakAckHeader2(NakAckType.MSG, number),
                FragHeader(number + 7, 0, 1),
            )
            number += len(batch)
    assert number == first + 600
