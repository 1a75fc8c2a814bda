"""The first byte strings of each target: output of our own encoders, and honest traffic.

Only the shipped stacks and drills are read from files, so the installed package is enough.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from importlib import resources
from typing import Any, Final

from jgroups_py.drill.log import DrillRecord
from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay import wire as relay_wire
from jgroups_py.testing.explorer.bytes.stacks import SCENES, honest_packets
from jgroups_py.testing.explorer.bytes.values import FuzzValues
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire import header_codec
from jgroups_py.wire import message as message_codec
from jgroups_py.wire import objects as o
from jgroups_py.wire import values as structures
from jgroups_py.wire.connection import GRACEFUL_CLOSE, encode_frame, encode_handshake
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FdHeader,
    FdType,
    NakAckHeader2,
    NakAckType,
    PingHeader,
    PingType,
)
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, Writer, make_version
from jgroups_py.wire.single import encode_fd_frame, encode_mping

SEEDS: Final = 40
"""Byte strings drawn for a target."""

Make = Callable[[FuzzValues], bytes]


def seeds_of(make: Make, name: str) -> list[bytes]:
    """Return the inputs that ``make`` draws for the target ``name``: always the same, no empty ones, none twice."""
    values = FuzzValues(random.Random(f"corpus/{name}"))
    found: dict[bytes, None] = {}
    for _ in range(SEEDS):
        try:
            found[make(values)] = None
        except LocalProtocolError:
            continue  # drawn values that have no encoding
    found.pop(b"", None)
    return list(found)


def _with(write: Callable[[Writer, Any], None], make: Callable[[FuzzValues], Any]) -> Make:
    def encode(values: FuzzValues) -> bytes:
        writer = Writer(values.rng.choice(_VERSIONS))
        write(writer, make(values))
        return writer.done()

    return encode


_VERSIONS: Final = (DEFAULT_VERSION, DEFAULT_VERSION, make_version(5, 4), make_version(5, 6))


def packet(values: FuzzValues) -> bytes:
    """Return a packet: runs, single messages, messages of all types."""
    rng, dest = values.rng, values.opt_address()
    src = values.uuid()
    cluster, version = "demo", rng.choice(_VERSIONS)
    batches = []
    for _ in range(rng.randrange(1, 4)):
        header = NakAckHeader2(NakAckType.MSG, rng.choice((1, 250, 65535)))
        payloads = [values.blob() for _ in range(rng.choice((1, 2, 20)))]
        batches.append(Batch(dest, payloads, {PROTOCOL_IDS["NAKACK2"]: header}, src))
        protocol_id, other = values.header()
        batches.append(Batch.of(dest, protocol_id, other, payload=values.blob()))
    batches.append(Batch(dest, (values.streamable(),), {}, src, 0, 0, MessageType.OBJECT))
    for batch in batches:
        batch.src = src
    count = rng.choice((1, len(batches)))
    return encode_packets(batches[:count], cluster, version)[0]


def handshake(values: FuzzValues) -> bytes:
    return encode_handshake(values.rng.choice(_VERSIONS), IpAddress("10.0.0.1", 7800))


def mping(values: FuzzValues) -> bytes:
    found = [values.ping_data() for _ in range(values.rng.randrange(1, 3))]
    writer = Writer()
    structures.write_ping_data_list(writer, found)
    header = PingHeader(PingType.GET_MBRS_REQ, "demo", True)
    headers: dict[int, Header] = {PROTOCOL_IDS["MPING"]: header}
    return encode_mping(Batch(None, (writer.done(),), headers, values.uuid()))


def fd_frame(values: FuzzValues) -> bytes:
    kind = values.rng.choice(list(FdType))
    return encode_fd_frame(values.uuid(), FdHeader(kind, values.addresses(), "c", values.uuid()))


def stream(values: FuzzValues) -> bytes:
    """Return frames as a TCP connection carries them, the last one perhaps -5."""
    frames = [encode_frame(packet(values)[:400]) for _ in range(values.rng.randrange(1, 4))]
    return b"".join(frames) + values.rng.choice((b"", GRACEFUL_CLOSE))


def _numbers(values: FuzzValues) -> dict[bytes, int]:
    return {bytes(values.uuid()): values.long() for _ in range(values.rng.randrange(3))}


def _ranges(values: FuzzValues) -> dict[bytes, list[tuple[int, int]]]:
    return {bytes(values.uuid()): [(1, 5), (9, values.long())]}


def _known(values: FuzzValues) -> relay_wire.Known:
    numbers = _numbers(values)
    left = {"SFO": {origin: (number, 60) for origin, number in numbers.items()}}
    sites, gone = {"SFO": numbers}, _numbers(values)
    return relay_wire.Known(numbers, numbers, sites, ["SFO"], gone, (1, "NYC"), numbers, 7, left)


def relay_local(values: FuzzValues) -> bytes:
    """Return a control record between members of one site."""
    rng, numbers = values.rng, _numbers(values)
    key = (bytes(values.uuid()), values.long())
    records: list[relay_wire.Record] = [
        relay_wire.CollectAsk(key),
        relay_wire.CollectAnswer(key, _known(values), _ranges(values)),
        relay_wire.Fetch(key, _ranges(values)),
        relay_wire.Fetched(key, _ranges(values)),
        relay_wire.Report(key, 1, True, {"SFO": numbers}),
        relay_wire.Snapshot(key, _known(values)),
        relay_wire.Need(key),
        relay_wire.StateMark(_known(values)),
        relay_wire.Lack("SFO", numbers),
        relay_wire.PromoteAsk(),
        relay_wire.Trim(1, numbers, ["SFO"]),
        relay_wire.Gap(2, "SFO", numbers, True),
        relay_wire.Forget(3, "", [bytes(values.uuid())]),
        relay_wire.Cut(4, (1, "NYC"), numbers),
        relay_wire.Block(5, True),
        relay_wire.Begun(6, [bytes(values.uuid())]),
    ]
    return relay_wire.encode(rng.choice(records))


def relay_bridged(values: FuzzValues) -> bytes:
    """Return a control record between relays."""
    numbers, origins = _numbers(values), [bytes(values.uuid())]
    records: list[relay_wire.Record] = [
        relay_wire.Ask(1, "NYC", (1, "NYC"), origins, {"NYC": numbers}),
        relay_wire.Have(1, "NYC", (1, "NYC"), numbers),
        relay_wire.Ack(numbers),
        relay_wire.BridgeGap(numbers, True),
        relay_wire.StillKnown(origins),
        relay_wire.Leaving(),
    ]
    return relay_wire.encode(values.rng.choice(records))


def freeze(values: FuzzValues) -> bytes:
    writer = Writer()
    writer.lz64(values.long())
    writer.addrs(values.members())
    return writer.done()


def report(values: FuzzValues) -> bytes:
    writer = Writer()
    writer.lz64(values.long())
    structures.write_digest(writer, values.digest())
    return writer.done()


def fetch(values: FuzzValues) -> bytes:
    writer, members = Writer(), values.members()
    writer.lz64(values.long())
    writer.addrs(values.members())
    writer.i16(len(members))
    for member in members:
        writer.addr(member)
        writer.lz64(values.long())
        writer.addr(values.uuid())
    return writer.done()


def gossip(values: FuzzValues) -> bytes:
    writer, kind = Writer(), values.rng.choice((1, 4))
    writer.i8(kind)
    writer.ostr("demo")
    writer.addr(values.uuid())
    writer.addr(None)
    if kind != 4:
        writer.ostr("A")
        writer.i16(1)
        structures.write_ping_data(writer, values.ping_data())
        writer.addr(values.ip())
    writer.sized(values.blob())
    return writer.done()


def log_line(values: FuzzValues) -> bytes:
    detail = values.rng.choice((None, {"count": 5}, {"from": "SFO"}, {"members": ["A#1"]}))
    record = DrillRecord(1.5, "NYC", "A", "deliver", "A#1", 7, detail, values.rng.choice((1, 2)))
    return record.to_json().encode() + b"\n"


KIND_SEEDS: Final[dict[str, Make]] = {
    "long_compressed": _with(Writer.lz64, FuzzValues.long),
    "int_compressed": _with(Writer.lz32, FuzzValues.number),
    "long_sequence": _with(lambda w, pair: w.seq(*pair), FuzzValues.seqnos),
    "bits_string": _with(Writer.ostr, FuzzValues.opt_text),
    "utf": _with(Writer.mutf, FuzzValues.text),
    "util_string": _with(Writer.ustr, FuzzValues.text),
    "ascii_string": _with(Writer.astr, FuzzValues.opt_text),
    "byte_buffer": _with(Writer.obytes, FuzzValues.blob),
    "version": _with(Writer.u16, lambda v: v.rng.choice(_VERSIONS)),
    "address": _with(Writer.addr, FuzzValues.opt_address),
    "address_list": _with(Writer.addrs, FuzzValues.addresses),
    "uuid_body": _with(Writer.addr_body, FuzzValues.uuid),
    "ip_body": _with(Writer.ip_body, FuzzValues.ip),
    "view_id": _with(structures.write_view_id, FuzzValues.view_id),
    "opt_view_id": _with(structures.write_opt_view_id, FuzzValues.view_id),
    "view": _with(structures.write_view, FuzzValues.view),
    "merge_view": _with(structures.write_merge_view, FuzzValues.merge_view),
    "delta_view": _with(structures.write_delta_view, FuzzValues.delta_view),
    "util_view": _with(structures.write_util_view, FuzzValues.any_view),
    "opt_view": _with(structures.write_opt_view, FuzzValues.any_view),
    "digest": _with(structures.write_digest, FuzzValues.digest),
    "digest_no_members": _with(
        structures.write_seqnos, lambda v: [v.seqnos() for _ in range(v.rng.randrange(5))]
    ),
    "merge_id": _with(structures.write_merge_id, FuzzValues.merge_id),
    "join_rsp": _with(structures.write_join_rsp, FuzzValues.join_rsp),
    "join_rsp_merge_5_5": _with(structures.write_join_rsp, FuzzValues.join_rsp),
    "join_rsp_merge_5_6": _with(structures.write_join_rsp, FuzzValues.join_rsp),
    "gms_view_digest": _with(structures.write_view_digest, FuzzValues.view_digest),
    "ping_data_list": _with(
        structures.write_ping_data_list,
        lambda v: [v.ping_data() for _ in range(v.rng.randrange(1, 4))],
    ),
    "seqno_list": _with(structures.write_seqno_list, FuzzValues.seqno_list),
    "method_call": _with(o.write_method_call, FuzzValues.method_call),
    "exception": _with(o.write_exception, FuzzValues.exception),
    "object_buffer": _with(o.write_buffer_object, FuzzValues.typed),
    "object_stream": _with(o.write_object, FuzzValues.typed),
    "generic_streamable": _with(o.write_streamable, FuzzValues.streamable),
    "header": _with(lambda w, pair: header_codec.write_header(w, *pair), FuzzValues.header),
    "message": _with(message_codec.write_typed_message, FuzzValues.message),
    "packet": packet,
    "tcp_connect": handshake,
    "tcp_frame": lambda v: encode_frame(packet(v)),
    "mping_packet": mping,
    "fd_sock2_frame": fd_frame,
    "gossip": gossip,
}
"""The seeds for each kind of kinds.py."""

SERIALIZED: Final = tuple(
    bytes.fromhex("33aced0005" + text)
    for text in (
        "740003616263",  # a string
        "757200025b4900000000000000000200007870000000020000000100000002",  # int[]
        "7372000161000000000000000102000149000178787000000005",  # an object with an int
        "737200016100000000000000010300007870770412345678" + "78",  # with a block of its own
        "7d00000001000161" + "7870",  # a proxy
        "7e72000161000000000000000012000078707400024f4b",  # an enum
    )
)
"""Java-serialized objects, as code 51 of an object in stream form."""


SMALL_STACK: Final = b"""\
- UDP: {mcast_addr: 239.8.8.8, mcast_port: 45588}
- PING
- FD_ALL3: {timeout: 40s, interval: "${a:8s}"}
- NAKACK2: {use_mcast_xmit: false}
- GMS: {join_timeout: 1s}
- include: {file: udp.xml}
"""
SMALL_DRILL: Final = b"""\
name: small
sites:
  NYC: {members: [E, D], stack: relay-udp.xml, primary: true}
  SFO: {members: [T]}
bridge: {latency: 40ms}
traffic:
  - {site: NYC, members: all, rate: 100/s, size: 1KB, start: 0s, stop: 10s}
timeline:
  - {at: 4s..6s, crash: NYC.relay}
  - {at: 7s, partition: [[NYC], [SFO]]}
expect: {lost: 0, takeover: <= 3s}
"""


def shipped(folder: str, suffix: str) -> list[bytes]:
    """Return the shipped files of that suffix."""
    where = resources.files("jgroups_py.stacks")
    if folder:
        where = where / folder
    return [
        entry.read_bytes()
        for entry in sorted(where.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(suffix)
    ]


@functools.cache
def traffic() -> tuple[bytes, ...]:
    """Return packets of honest clusters: over UDP, over TCP, of two sites."""
    found: dict[bytes, None] = {}
    for scene in SCENES:
        for data in honest_packets(scene):
            found[data] = None
    return tuple(found)
