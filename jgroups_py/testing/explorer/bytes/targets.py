"""The targets of attacks: one entry per decoder, with the one error that may come out of it.

Names: ``kind:...`` the kinds of ``jgroups-py decode``; ``wire:...`` how stacks read packets, datagrams and streams;
``control:...`` payloads of protocols; ``file:...`` files that people write. Whole stacks are in stacks.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py import units
from jgroups_py.config.file import parse_stack, substitute
from jgroups_py.config.settings import build
from jgroups_py.drill.file import loader
from jgroups_py.drill.log import DrillRecord
from jgroups_py.errors import ConfigError, LocalProtocolError, RemoteProtocolError
from jgroups_py.protocols.membership.gms.wire import read_fetch, read_freeze, read_report
from jgroups_py.protocols.relay import wire as relay_wire
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.testing.explorer.bytes import corpus
from jgroups_py.testing.explorer.bytes.guard import Broken
from jgroups_py.wire.connection import decode_handshake
from jgroups_py.wire.packet import Packet, decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, Reader, decode_whole, make_version
from jgroups_py.wire.single import decode_fd_frame, decode_mping, decode_nested
from jgroups_py.wire.text import kinds

STREAM_FRAME_MAX: Final = 100_000
_VERSIONS: Final = (DEFAULT_VERSION, make_version(5, 3), make_version(5, 4), make_version(5, 6))


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One decoder. ``run`` raises one of ``errors``, or returns; any other outcome is a finding.

    ``read`` maps its inputs (spots.py). None: inputs are text, or of an unknown kind. ``weight`` is its
    share of the inputs.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    errors: tuple[type[Exception], ...] = (RemoteProtocolError,)
    read: Callable[[Reader], object] | None = None
    text: bool = False
    msgpack: bool = False
    weight: float = 1.0


def _kind(kind: str) -> FuzzTarget:
    def run(data: bytes) -> None:
        # Releases of JGroups read differently; which one is meant is drawn from the input itself.
        kinds.decode(kind, data, _VERSIONS[len(data) % len(_VERSIONS)])

    def seeds() -> list[bytes]:
        found = corpus.seeds_of(corpus.KIND_SEEDS[kind], kind)
        if kind == "object_stream":
            found += corpus.SERIALIZED
        return found

    weight = 4.0 if kind in ("packet", "message", "header", "object_stream") else 1.0
    return FuzzTarget(f"kind:{kind}", run, seeds, read=kinds.KINDS[kind][0], weight=weight)


def _packet(data: bytes) -> None:
    """Check that both ways of reading a packet agree, and that the result can be passed on or is refused."""
    packet: Packet | None = None
    try:
        packet = decode_packet(data)
    finally:
        if len(data) % 4 == 0:
            _slowly(data, packet)
    for batch in packet.batches:
        if batch.length < 0:
            raise Broken(f"a batch of {batch.length} bytes")
        for payload in batch.payloads[:3]:
            batch.bytes_of(payload)
    try:
        encode_packets(packet.batches[:2], packet.cluster or "", packet.version)
    except LocalProtocolError:
        pass  # of several senders, or with a string that the wire cannot hold


def _slowly(data: bytes, packet: Packet | None) -> None:
    try:
        slow: Packet | None = decode_packet(data, fast=False)
    except RemoteProtocolError:
        slow = None
    if _plain(slow) != _plain(packet):
        raise Broken("the fast way and the general way of reading a packet differ")


def _plain(value: Any) -> Any:
    """Return an equal value for equal meanings: views become bytes, NaN equals itself."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name[0] != "_"]
        return (type(value), *[_plain(getattr(value, name)) for name in names])
    if isinstance(value, dict):
        return [(key, _plain(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _packet_seeds() -> list[bytes]:
    return [*corpus.seeds_of(corpus.packet, "packet"), *corpus.traffic()[::7]]


def _interpret(data: bytes) -> None:
    """Read the kind of a message's payload by its headers, as ``jgroups-py decode`` shows it."""
    kinds.interpret_fields(kinds.decode("packet", data))


def _stream(data: bytes) -> None:
    """Check that a stream gives the same frames however it is cut."""
    whole = _frames([data])
    size = 1 + len(data) % 7
    if len(data) > 2000:
        size *= 97
    if _frames([data[i : i + size] for i in range(0, len(data), size)]) != whole:
        raise Broken(f"other frames when the stream comes in pieces of {size} bytes")
    if whole and whole[-1] == "refused":
        raise RemoteProtocolError("a frame that cannot be")


def _frames(pieces: Iterable[bytes]) -> list[bytes | str | None]:
    reader, found = FrameReader(STREAM_FRAME_MAX), list[bytes | str | None]()
    try:
        for piece in pieces:
            found += reader.feed(piece)
            if len(reader) > STREAM_FRAME_MAX + 4:
                raise Broken(f"{len(reader)} bytes wait for the rest of a frame")
    except RemoteProtocolError:
        found.append("refused")
    return found


def _stack_file(language: str) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        build(parse_stack(data, language=language, environment={}))

    return run


def _drill(data: bytes) -> None:
    loader.loads(data.decode("utf-8", "replace"))


def _log(data: bytes) -> None:
    for line in data.splitlines():
        record = DrillRecord.from_json(line)
        record.to_json()
        if record.messages < 0:
            raise Broken(f"a record of {record.messages} messages")


def _units(data: bytes) -> None:
    """Read times, sizes, fractions, hosts and variables; each refuses on its own account."""
    text = data.decode("utf-8", "replace")
    readers: tuple[Callable[[str], Any], ...] = (
        units.parse_seconds,
        units.parse_bytes,
        units.parse_fraction,
        units.parse_hosts,
        lambda t: substitute(t, {"a": "1"}, {}),
    )
    for read in readers:
        try:
            read(text)
        except ValueError:
            pass


def _texts(*texts: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [text.encode() for text in texts]


def _control(name: str, read: Callable[[Reader], object], make: corpus.Make) -> FuzzTarget:
    def run(data: bytes) -> None:
        decode_whole(read, data)

    return FuzzTarget(f"control:{name}", run, lambda: corpus.seeds_of(make, name), read=read)


def _record(name: str, decode: Callable[[bytes], object], make: corpus.Make) -> FuzzTarget:
    return FuzzTarget(
        f"control:{name}", decode, lambda: corpus.seeds_of(make, name), msgpack=True, weight=2.0
    )


def _read(kind: str) -> Callable[[Reader], object]:
    return kinds.KINDS[kind][0]


def _frame_of(r: Reader) -> None:
    """Read the map of a stream: lengths and the bytes between them."""
    while r.left:
        r.take(max(0, min(r.i32(), r.left)))


DECODERS: Final[tuple[FuzzTarget, ...]] = (
    *(_kind(kind) for kind in kinds.KINDS),
    FuzzTarget("wire:packet", _packet, _packet_seeds, read=_read("packet"), weight=12.0),
    FuzzTarget(
        "wire:nested",
        decode_nested,
        lambda: corpus.seeds_of(corpus.KIND_SEEDS["message"], "nested"),
        read=_read("message"),
        weight=2.0,
    ),
    FuzzTarget(
        "wire:mping",
        decode_mping,
        lambda: corpus.seeds_of(corpus.mping, "mping"),
        read=_read("mping_packet"),
    ),
    FuzzTarget(
        "wire:fd_sock2",
        decode_fd_frame,
        lambda: corpus.seeds_of(corpus.fd_frame, "fd"),
        read=_read("fd_sock2_frame"),
    ),
    FuzzTarget(
        "wire:handshake",
        decode_handshake,
        lambda: corpus.seeds_of(corpus.handshake, "handshake"),
        read=_read("tcp_connect"),
    ),
    FuzzTarget(
        "wire:stream",
        _stream,
        lambda: corpus.seeds_of(corpus.stream, "stream"),
        read=_frame_of,
        weight=2.0,
    ),
    FuzzTarget(
        "wire:payloads",
        _interpret,
        _packet_seeds,
        (RemoteProtocolError, LocalProtocolError),
        _read("packet"),
        weight=3.0,
    ),
    _control("freeze", read_freeze, corpus.freeze),
    _control("report", read_report, corpus.report),
    _control("fetch", read_fetch, corpus.fetch),
    _record("relay_local", relay_wire.decode_local, corpus.relay_local),
    _record("relay_bridged", relay_wire.decode_bridged, corpus.relay_bridged),
    FuzzTarget(
        "file:stack.xml",
        _stack_file("xml"),
        lambda: corpus.shipped("", ".xml"),
        (ConfigError,),
        text=True,
        weight=0.5,
    ),
    FuzzTarget(
        "file:stack.yaml",
        _stack_file("yaml"),
        lambda: [corpus.SMALL_STACK, *corpus.shipped("", ".yaml")],
        (ConfigError,),
        text=True,
        weight=0.2,  # YAML in Python is slow
    ),
    FuzzTarget(
        "file:drill.yaml",
        _drill,
        lambda: [corpus.SMALL_DRILL, *corpus.shipped("drills", ".yaml")],
        (ConfigError,),
        text=True,
        weight=0.2,
    ),
    FuzzTarget(
        "file:drill.log",
        _log,
        lambda: corpus.seeds_of(corpus.log_line, "log"),
        (ValueError,),
        text=True,
    ),
    FuzzTarget(
        "file:units",
        _units,
        _texts("1.5s", "500ms", "4MB", "10KiB", "0.4", "10%", "a[1],10.0.0.1[7800]", "${a,b:c}"),
        text=True,
    ),
)
