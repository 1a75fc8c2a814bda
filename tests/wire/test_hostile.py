"""For any bytes a decoder raises RemoteProtocolError or returns, and it allocates little."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.address import UUID
from jgroups_py.wire.connection import decode_handshake
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.single import decode_fd_frame, decode_mping, decode_nested
from jgroups_py.wire.text.kinds import KINDS, decode, encode

VECTORS = Path(__file__).parent / "vectors"
CASES = 1_000


def _samples() -> dict[str, list[bytes]]:
    """Byte strings of every kind: the vectors, and packets of conversations."""
    found: dict[str, list[bytes]] = {}
    for file in sorted(VECTORS.glob("*.json")):
        content = json.loads(file.read_text())
        records: list[Any] = content if isinstance(content, list) else content["events"]
        for record in records:
            data = bytes.fromhex(record.get("hex", ""))
            if data and len(data) < 800:
                found.setdefault(record["kind"], []).append(data)
    creator = {"t": "uuid", "id": bytes(range(16)).hex()}
    view_id = {"creator": creator, "id": 5}
    delta = {"view_id": view_id, "ref_view_id": view_id, "left": [creator], "new": [creator]}
    found.setdefault("delta_view", []).append(encode("delta_view", delta))
    found.setdefault("uuid_body", []).append(bytes(range(16)))
    found["tcp_frame"] = found["tcp_frame"][:60]
    found["packet"] = random.Random(3).sample(found["packet"], 120)
    return found


SAMPLES = _samples()


def mutations(samples: list[bytes], count: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.choice((1, 1, 2, 4))):
            if not data:
                break
            at = rng.randrange(len(data))
            action = rng.randrange(8)
            if action == 0:
                data[at] = rng.randrange(256)
            elif action == 1:
                data[at] ^= 1 << rng.randrange(8)
            elif action == 2:
                del data[at:]
            elif action == 3:
                data[at : at + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", bytes(4)))
            elif action == 4:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            elif action == 5:
                del data[at : at + rng.randrange(1, 9)]
            elif action == 6:
                other = rng.choice(samples)
                data[at:] = other[min(at, len(other)) :]
            else:
                data += data[at:]
        out.append(bytes(data))
    return out


def attack(decoder: Callable[[bytes], object], samples: list[bytes], seed: int) -> int:
    """Run all cases; return the number of refused ones."""
    refused: list[tuple[int, int | None]] = []
    for data in mutations(samples, CASES, seed):
        try:
            decoder(data)
        except RemoteProtocolError as error:
            refused.append((len(data), error.offset))
    assert all(offset is not None and 0 <= offset <= size for size, offset in refused)
    return len(refused)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_mutated_kinds_are_survived(kind: str) -> None:
    assert attack(lambda data: decode(kind, data), SAMPLES[kind], 1) > 0


@pytest.mark.parametrize(
    ("decoder", "kind"),
    [
        (decode_packet, "packet"),
        (decode_nested, "message"),
        (decode_fd_frame, "fd_sock2_frame"),
        (decode_mping, "mping_packet"),
        (decode_handshake, "tcp_connect"),
    ],
)
def test_mutated_batches_are_survived(decoder: Callable[[bytes], object], kind: str) -> None:
    assert attack(decoder, SAMPLES[kind], 2) > CASES // 10


HUGE = {
    "packet": "2946030102111213141516171801020304050607080004" + "64656d6f" + "7fffffff",
    "message": "0005020000" + "0000" + "7fffffff",
    "seqno_list": "7fffffff" + "0000000000000001",
    "ping_data_list": "7fffffff",
    "address_list": "7fff",
    "digest": "7fff",
    "digest_no_members": "7fff",
    "byte_buffer": "017fffffff",
    "util_string": "017fffffff",
    "object_stream": "127fffffff",
    "header": "0047005d01" + "7fffffff",
    "exception": "0000" + "00" + "00" + "7fff",
    "method_call": "00" + "00" + "ff",
    "view": "0211121314151617180102030405060708" + "0105" + "7fff",
}


@pytest.mark.parametrize("kind", sorted(HUGE))
def test_a_huge_count_allocates_nothing(kind: str) -> None:
    data = bytes.fromhex(HUGE[kind])
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode(kind, data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_of_two_thousand_million_elements() -> None:
    stream = "33aced0005" + "7572" + "0002" + "5b49" + "00" * 8 + "02" + "0000" + "7870"
    with pytest.raises(RemoteProtocolError, match="array elements"):
        decode("object_stream", bytes.fromhex(stream + "7fffffff"))


def test_nesting_is_bounded() -> None:
    composite = bytes.fromhex("00050000000000" + "00000001")
    with pytest.raises(RemoteProtocolError, match="nested deeper"):
        decode("message", composite * 5000)
    cause = bytes.fromhex("00" + "00" + "0000" + "0000" + "01")
    with pytest.raises(RemoteProtocolError, match="nested deeper"):
        decode("exception", cause * 5000)
    array = bytes.fromhex(
        "7572" + "0003" + "5b4c61" + "00" * 8 + "02" + "0000" + "7870" + "00000001"
    )
    with pytest.raises(RemoteProtocolError, match="nests deeper"):
        decode("object_stream", bytes.fromhex("33aced0005") + array * 5000)


def test_a_serialized_object_inside_a_call_is_skipped() -> None:
    for vector in json.loads((VECTORS / "objects.json").read_text()):
        if vector["kind"] == "object_stream" and vector["fields"]["value"]["code"] == 51:
            number = {"code": 12, "value": 7}
            call = {
                "use_ids": True,
                "method_id": 1,
                "name": None,
                "types": None,
                "args": [vector["fields"]["value"], number],
            }
            assert decode("method_call", encode("method_call", call)) == call


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("packet", {}),
        ("packet", []),
        ("packet", None),
        ("packet", {"version": "5.5.6", "flags": 0, "message": 5}),
        ("long_compressed", {"value": 2**64}),
        ("long_compressed", {"value": "1"}),
        ("version", {"value": "99.1"}),
        ("address", {"value": {"t": "uuid", "id": "00"}}),
        ("address", {"value": {"t": "ip", "host": "nowhere", "port": 1}}),
        ("address", {"value": {"t": "ip", "host": "v6:zz", "port": 1, "scope": 0}}),
        ("header", {"prot_id": 1, "magic": 9999, "hdr": {}}),
        ("header", {"prot_id": 2**40, "magic": 62, "hdr": {}}),
        ("seqno_list", {"size": 2**31, "offset": 0, "seqnos": []}),
        ("digest", {"members": [], "seqnos": [[1, 1]]}),
        ("utf", {"value": "\ud800"}),
        ("utf", {"value": "x" * 70_000}),
        ("no_such_kind", {}),
    ],
)
def test_fields_that_describe_nothing_are_left_out(kind: str, fields: Any) -> None:
    with pytest.raises(LocalProtocolError):
        encode(kind, fields)


def test_members_in_a_view_are_never_null() -> None:
    one = UUID(bytes(16))
    view = b"\x02" + one + b"\x01\x05"
    with pytest.raises(RemoteProtocolError, match="null"):
        decode("view", view + b"\x00\x01\x01")
    with pytest.raises(RemoteProtocolError, match="without members"):
        decode("view", view + b"\x00\x00")
