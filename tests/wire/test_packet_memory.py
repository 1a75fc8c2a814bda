"""Reading by comparing with an earlier packet gives the same as reading from the start."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire import packet_memory
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    CorrelatorHeader,
    CorrelatorType,
    FcHeader,
    FcType,
    FragHeader,
    NakAckHeader2,
    NakAckType,
    RelayHeader,
    RelayType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.packet import Packet, decode_packet
from jgroups_py.wire.packet_memory import PacketReader
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.strides import COPIED_MAX

A = UUID.make(random.Random(1))
B = UUID.make(random.Random(2))
UNICAST, CALLS = PROTOCOL_IDS["UNICAST3"], PROTOCOL_IDS["REQUEST_CORRELATOR"]
NAKACK = PROTOCOL_IDS["NAKACK2"]

EMPTY, BYTES = MessageType.EMPTY, MessageType.BYTES
CLOSE = UnicastHeader3(UnicastType.CLOSE, conn_id=3)
ACKED = UnicastHeader3(UnicastType.ACK, 700, 3, timestamp=70)
CALLED = CorrelatorHeader(CorrelatorType.REQ, 9)
numbers = st.one_of(
    st.integers(0, 600), st.sampled_from([255, 256, 65_535, 65_536, 2**56 - 1, 2**56, 2**62])
)


@st.composite
def messages(draw: st.DrawFn) -> Batch:
    """Draw messages of few kinds, so that they often resemble each other."""
    headers: dict[int, Header] = {}
    if draw(st.booleans()):
        headers[CALLS] = CorrelatorHeader(draw(st.sampled_from(CorrelatorType)), draw(numbers))
    match draw(st.sampled_from(["data", "data", "ack", "fragment", "credit", "relay", "nothing"])):
        case "data":
            first = draw(st.booleans())
            headers[UNICAST] = UnicastHeader3(UnicastType.DATA, draw(numbers), 1, first)
        case "ack":
            ack = UnicastHeader3(
                UnicastType.ACK, draw(numbers), 1, timestamp=draw(st.integers(0, 300))
            )
            headers[UNICAST] = ack
        case "fragment":
            headers[PROTOCOL_IDS["FRAG2"]] = FragHeader(draw(numbers), draw(st.integers(0, 2)), 3)
        case "credit":
            headers[PROTOCOL_IDS["UFC"]] = FcHeader(draw(st.sampled_from(FcType)))
        case "relay":
            inner = ((41, NakAckHeader2(NakAckType.MSG, draw(numbers))),)
            headers[PROTOCOL_IDS["RELAY2"]] = RelayHeader(RelayType.DATA, original_headers=inner)
    payload = draw(st.one_of(st.none(), st.binary(max_size=20)))
    src, dest = draw(st.sampled_from([(A, B), (B, A), (A, None)]))
    flags = draw(st.sampled_from([0, int(Flag.OOB)]))
    if payload is None:
        return Batch(dest, [None], headers, src, flags, type=draw(st.sampled_from([EMPTY, BYTES])))
    return Batch(dest, [payload], headers, src, flags)


def outcome(decode: object, data: bytes) -> object:
    assert callable(decode)
    try:
        return decode(data)
    except RemoteProtocolError as error:
        return str(error)


@given(st.lists(messages(), min_size=2, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_both_ways_agree_on_good_and_damaged_packets(
    sent: list[Batch], data: st.DataObject
) -> None:
    reader = PacketReader()
    for message in sent:
        (packet,) = encode_packets([message], "demo")
        assert reader.decode(packet) == decode_packet(packet)
        damaged = bytearray(packet)
        place = data.draw(st.integers(0, len(packet) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
        for wrong in (bytes(damaged), packet[:place], packet + b"\0"):
            assert outcome(reader.decode, wrong) == outcome(decode_packet, wrong)


@st.composite
def runs(draw: st.DrawFn) -> list[Batch]:
    """Draw the messages of one sender in one turn: runs of multicasts or of unicasts, mostly like the previous ones."""
    dest = draw(st.sampled_from([None, None, B]))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        headers: dict[int, Header] = {NAKACK: NakAckHeader2(NakAckType.MSG, draw(numbers))}
        if dest is not None:
            headers = {UNICAST: UnicastHeader3(UnicastType.DATA, draw(numbers), 1)}
        if draw(st.sampled_from([False, False, True])):
            headers[CALLS] = CorrelatorHeader(CorrelatorType.REQ, draw(numbers))
        size = draw(st.sampled_from([3, 3, 9]))
        payloads: list[bytes | None] = [bytes(size)] * draw(st.integers(1, 9))
        if draw(st.sampled_from([False, False, True])):
            payloads[draw(st.integers(0, len(payloads) - 1))] = draw(st.sampled_from([None, b"x"]))
        flags = draw(st.sampled_from([0, 0, int(Flag.OOB)]))
        found.append(Batch(dest, payloads, headers, A, flags))
    return found


@given(st.lists(runs(), min_size=2, max_size=8), st.data())
@settings(max_examples=150, deadline=None)
def test_both_ways_agree_on_good_and_damaged_lists(
    sent: list[list[Batch]], data: st.DataObject
) -> None:
    reader = PacketReader()
    for batches in sent:
        for packet in encode_packets(batches, "demo"):
            assert reader.decode(packet) == decode_packet(packet)
            damaged = bytearray(packet)
            place = data.draw(st.integers(0, len(packet) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
            for wrong in (bytes(damaged), packet[:place], packet + b"\0"):
                assert outcome(reader.decode, wrong) == outcome(decode_packet, wrong)


def test_the_second_list_of_a_member_is_read_by_comparing() -> None:
    """Its first message cannot be predicted, but is not read header by header."""
    reader = PacketReader()
    header = NakAckHeader2(NakAckType.MSG, 70_000)
    run = Batch(None, [b"x" * 40] * 20, {NAKACK: header}, A)
    reader.decode(encode_packets([run], "demo")[0])

    def general(data: bytes) -> Packet:
        raise AssertionError("the general way")

    reader.general = general
    later = replace(run, payloads=[b"y" * 30] * 7, headers={NAKACK: header.at(20)})
    (packet,) = encode_packets([later], "demo")
    assert reader.decode(packet).batches == [later]
    for left in (0, 7_000, -1):
        at = packet.index((7).to_bytes(4, "big"))
        with pytest.raises(AssertionError, match="general"):
            reader.decode(packet[:at] + left.to_bytes(4, "big", signed=True) + packet[at + 4 :])
    with pytest.raises(AssertionError, match="general"):
        reader.decode(packet.replace(b"demo", b"omed"))


@pytest.mark.parametrize("size", [40, COPIED_MAX + 1])
@pytest.mark.parametrize(
    ("first", "at_once"),
    [(70_000, True), (0x111F2, True), (0x1FFF2, True), (2**24 - 14, False)],
    ids=["low byte", "carry", "carry of two bytes", "one byte more"],
)
def test_a_list_of_one_size_is_read_at_once(first: int, at_once: bool, size: int) -> None:
    """A run is not read message by message, unless the number grows longer or a head differs. Only reading the whole
    list gives ``size_of_each``."""
    reader = PacketReader()
    header = NakAckHeader2(NakAckType.MSG, first - 20)
    run = Batch(None, [bytes(size)] * 20, {NAKACK: header}, A)
    reader.decode(encode_packets([run], "demo")[0])
    payloads = [bytes([number]) * size for number in range(20)]
    later = replace(run, payloads=payloads, headers={NAKACK: header.at(20)})
    (packet,) = encode_packets([later], "demo")
    (found,) = reader.decode(packet).batches
    assert found == later
    assert found.size_of_each == (size if at_once else -1)
    damaged = bytearray(packet)
    damaged[len(packet) - size - 6] ^= 1  # in the head of the last message
    assert outcome(reader.decode, bytes(damaged)) == outcome(decode_packet, bytes(damaged))


@pytest.mark.parametrize("dest", [B, None], ids=["one", "all"])
def test_the_second_call_of_a_member_is_read_by_comparing(dest: UUID | None) -> None:
    reader = PacketReader()
    headers: dict[int, Header] = {
        CALLS: CorrelatorHeader(CorrelatorType.REQ, 700),
        UNICAST: UnicastHeader3(UnicastType.DATA, 900, 3),
    }
    call = Batch(dest, [b"add 1 2"], headers, A)
    reader.decode(encode_packets([call], "demo")[0])

    def general(data: bytes) -> Packet:
        raise AssertionError("the general way")

    reader.general = general
    later = replace(
        call,
        payloads=[b"multiply 31 32"],
        headers={CALLS: headers[CALLS].at(5), UNICAST: headers[UNICAST].at(9)},
    )
    packet = reader.decode(encode_packets([later], "demo")[0])
    assert packet.batches == [later]
    assert packet.cluster == "demo" and packet.multicast == (dest is None)
    with pytest.raises(AssertionError, match="general"):
        reader.decode(encode_packets([later], "other")[0])


def test_the_second_acknowledgement_of_a_member_is_read_by_comparing() -> None:
    reader = PacketReader()
    ack = UnicastHeader3(UnicastType.ACK, 7_000, 3, timestamp=70)
    batch = replace(Batch.of(B, UNICAST, ack, flags=int(Flag.NO_FC)), src=A, payloads=[None])
    (first,) = encode_packets([batch], "demo")
    reader.decode(first)

    def general(data: bytes) -> Packet:
        raise AssertionError("the general way")

    reader.general = general
    for seqno, timestamp in ((7_100, 71), (65_535, 255), (256, 1)):
        later = replace(batch, headers={UNICAST: replace(ack, seqno=seqno, timestamp=timestamp)})
        packet = reader.decode(encode_packets([later], "demo")[0])
        assert packet.batches == [later] and packet.cluster == "demo"
        assert packet.batches[0].type == MessageType.EMPTY
    for seqno, timestamp, cluster in (
        (65_536, 71, "demo"),
        (7_100, 256, "demo"),
        (7_100, 71, "omed"),
    ):
        other = replace(batch, headers={UNICAST: replace(ack, seqno=seqno, timestamp=timestamp)})
        with pytest.raises(AssertionError, match="general"):
            reader.decode(encode_packets([other], cluster)[0])


@pytest.mark.parametrize("headers", [{UNICAST: CLOSE}, {UNICAST: ACKED, CALLS: CALLED}, {}])
def test_an_empty_message_that_is_no_acknowledgement_is_read_once(
    headers: dict[int, Header], monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(data: bytes) -> list[int]:
        raise AssertionError("it is read once more")

    monkeypatch.setattr(packet_memory, "header_marks", again)
    reader = PacketReader()
    message = Batch(B, [None], headers, A, type=EMPTY)
    assert reader.decode(encode_packets([message], "demo")[0]).batches == [message]
    assert len(reader) == 0


@pytest.mark.parametrize("payload", [b"x", None], ids=["data", "acknowledgement"])
def test_headers_in_another_order_are_read_by_the_general_way(payload: bytes | None) -> None:
    """The cluster's name would be taken for a number, so that the next packet could have any name."""
    kind = UnicastType.ACK if payload is None else UnicastType.DATA
    header = UnicastHeader3(kind, 700, 3, timestamp=70 if payload is None else 0)
    batch = Batch(B, [payload], {UNICAST: header}, A, type=EMPTY if payload is None else BYTES)
    (packet,) = encode_packets([batch], "demo")
    tp = packet.index(b"demo") - 6
    numbered = packet[tp - 12 : tp] if payload is None else packet[tp - 11 : tp]
    name = packet[tp : tp + 11]
    swapped = packet.replace(numbered + name, name + numbered)
    assert decode_packet(swapped).cluster == "demo"
    reader = PacketReader()
    for wrong in (swapped, swapped.replace(b"demo", b"dema"), swapped.replace(b"demo", b"\2emo")):
        assert outcome(reader.decode, wrong) == outcome(decode_packet, wrong)
    assert len(reader) == 0


def test_the_memory_of_packets_is_bounded() -> None:
    reader = PacketReader()
    drawn = random.Random(3)
    for _ in range(1000):
        header = UnicastHeader3(UnicastType.DATA, 5, 0)
        stranger = Batch(B, [b"x"], {UNICAST: header}, UUID.make(drawn))
        reader.decode(encode_packets([stranger], "demo")[0])
        assert 0 < len(reader) <= 256
