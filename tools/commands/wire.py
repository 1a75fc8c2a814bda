"""``jgroups-py decode`` and ``encode``: turn wire bytes into readable fields, and fields into wire bytes."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.tools.commands.wire_text import render
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import write
from jgroups_py.tools.strict_json import strict_json
from jgroups_py.wire.primitives import DEFAULT_VERSION, format_version, make_version, parse_version
from jgroups_py.wire.text.kinds import KINDS, decode_event, interpret_fields
from jgroups_py.wire.text.kinds import decode as decode_kind
from jgroups_py.wire.text.kinds import encode as encode_kind

Json = Any

_NEWEST: Final = {(5, 3): 23, (5, 4): 12, (5, 5): 6}
"""The newest known micro release of a minor one, used where none is given."""

_WITH_MESSAGES: Final = ("packet", "tcp_frame", "mping_packet")


def _version(context: click.Context, option: click.Parameter, value: str) -> int:
    try:
        version = parse_version(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if value.count(".") == 1:
        major, minor = version >> 11, version >> 6 & 31
        return make_version(major, minor, _NEWEST.get((major, minor), 0))
    return version


_wire_version = click.option(
    "--wire-version",
    "version",
    metavar="5.4",
    default=format_version(DEFAULT_VERSION),
    show_default=True,
    callback=_version,
    help="The release of JGroups that wrote the bytes. Packets contain it.",
)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        raise RemoteProtocolError(f"unknown kind {kind!r}; {hint}", 0)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py decode 0a1b2c",
        "jgroups-py decode packet.bin --raw --json",
        "jgroups-py decode --kind view < view.hex -",
    ),
)
@click.argument("source", metavar="HEX|FILE|-")
@click.option("--kind", default=None, metavar="KIND", help="The kind of the bytes.  [packet]")
@json_option
@click.option("--raw", is_flag=True, help="The file holds bytes, not hex digits.")
@_wire_version
def decode(source: str, kind: str | None, json_out: str | None, raw: bool, version: int) -> None:
    """Print wire bytes as text or JSON.

    The bytes are given as hex digits, as a file (hex text, raw bytes with --raw, or a recorded conversation, of
    which every event is decoded), or on standard input (-).
    """
    if kind is not None:
        _check_kind(kind)
    content = _content(source)
    if content is None:
        data = _from_hex(source, "neither a file nor hex digits")
    elif raw:
        data = content
    elif content.lstrip()[:1] == b"{":
        _decode_conversation(_parse(content), json_out)
        return
    else:
        place = "standard input" if source == "-" else source
        data = _from_hex(content.decode("latin-1"), f"{place} has no hex digits (bytes need --raw)")
    fields = decode_kind(kind or "packet", data, version)
    if json_out is not None:
        write(json_out, strict_json(fields) + "\n")
    if json_out == "-":
        return
    print(render(fields))
    if (kind or "packet") in _WITH_MESSAGES:
        _print_payloads(fields, version)


@click.command(
    epilog=examples(
        "jgroups-py encode view.json --kind view",
        "jgroups-py decode 0a1b2c --json | jgroups-py encode - --kind packet",
    )
)
@click.argument("source", metavar="FIELDS.json|-")
@click.option(
    "--kind", required=True, metavar="KIND", help="The kind of value that the fields describe."
)
@_wire_version
def encode(source: str, kind: str, version: int) -> None:
    """Print JSON fields as wire bytes in hex."""
    _check_kind(kind)
    content = _content(source)
    if content is None:
        raise LocalProtocolError(f"no file is called {source!r}")
    print(encode_kind(kind, _parse(content), version).hex())


def _content(source: str) -> bytes | None:
    """Return the content of the file of that name, or None if there is none."""
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        path = Path(source)
        return path.read_bytes() if path.is_file() else None
    except (OSError, ValueError) as error:
        if len(source) > 255 or "\0" in source:  # digits, not a name
            return None
        raise LocalProtocolError(f"{source}: {error}") from None


def _parse(content: bytes) -> Json:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise LocalProtocolError(f"not JSON: {error}") from None


def _from_hex(text: str, problem: str) -> bytes:
    """Return the bytes. ``problem`` says what a text is that has other characters."""
    digits = "".join(text.split())
    for place, char in enumerate(digits):
        if char not in "0123456789abcdefABCDEF":
            raise RemoteProtocolError(f"{problem}: {char!r} in {text[:40]!r}", place // 2)
    if len(digits) % 2:
        raise RemoteProtocolError("half a byte at the end of the hex digits", len(digits) // 2)
    return bytes.fromhex(digits)


def _print_payloads(fields: Json, version: int) -> None:
    for line in _payload_lines(_payloads(fields, version)):
        print(line)


def _payloads(fields: Json, version: int) -> list[Json]:
    """Return the meaning of the payloads. A payload that does not fit its headers has none."""
    try:
        return interpret_fields(fields, version)
    except RemoteProtocolError as error:
        return [{"kind": "not what its headers promise", "value": str(error)}]


def _payload_lines(payloads: list[Json]) -> Iterator[str]:
    for number, payload in enumerate(payloads, 1):
        if payload is not None:
            yield f"payload of message {number}, {payload['kind']}:"
            yield "  " + render(payload["value"]).replace("\n", "\n  ")


def _decode_conversation(conversation: Json, json_out: str | None) -> None:
    """Print all recorded events, each with its fields. The first faulty event ends it."""
    events: list[Json] = []
    if not isinstance(conversation, dict) or not isinstance(conversation.get("events"), list):
        raise LocalProtocolError("not a recorded conversation: it has no events")
    for number, event in enumerate(conversation["events"], 1):
        try:
            events.append(_decode_one(event))
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"event {number}: {error.problem}", error.offset) from None
        except (KeyError, TypeError, ValueError) as error:
            raise LocalProtocolError(f"event {number} is not one: {error!r}") from None
        if json_out != "-":
            _print_event(events[-1])
    if json_out is not None:
        write(json_out, strict_json(events) + "\n")


def _decode_one(event: Json) -> Json:
    if not isinstance(event, dict) or not isinstance(event.get("t", 0), int | float):
        raise TypeError("an event is an object, and t is a number")
    if "action" in event:
        return event
    fields = decode_event(event)
    known = {key: value for key, value in event.items() if key not in ("decoded", "payloads")}
    known["decoded"] = fields
    if event["kind"] in _WITH_MESSAGES:
        known["payloads"] = _payloads(fields, DEFAULT_VERSION)
    return known


def _print_event(event: Json) -> None:
    if "action" in event:
        print(f"{event.get('t', 0):9.4f} * {json.dumps(event['action'])[1:-1]}")
        return
    way = f"{event.get('from', '?')} -> {event.get('to', '?')}"
    print(f"{event.get('t', 0):9.4f} {way} {event.get('transport', '')} {event['kind']}")
    if event["decoded"] is not None:
        print("    " + render(event["decoded"]).replace("\n", "\n    "))
    for line in _payload_lines(event.get("payloads", [])):
        print("    " + line.replace("\n", "\n    "))
