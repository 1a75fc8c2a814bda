"""Turns the JSON fields of wire bytes into text for people.

It writes names instead of the fields' numbers. Strings are quoted, so that no control characters from the network reach
a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire.header_codec import HEADER_CLASSES
from jgroups_py.wire.headers import PROTOCOL_IDS
from jgroups_py.wire.text.fields import address_in
from jgroups_py.wire.text.header_fields import TYPES

Json = Any

SHOWN_BYTES: Final = 64
"""The longest byte string that is shown whole."""

_PROTOCOLS: Final = {number: name for name, number in PROTOCOL_IDS.items()}
_MESSAGE_TYPES: Final = {
    number: name for name, number in vars(MessageType).items() if isinstance(number, int)
}


def render(fields: Json) -> str:
    """Return several lines, without a line end after the last one."""
    return "\n".join(_lines(fields, ""))


def _lines(value: Json, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and _one_line(value) is None:
        for key, part in value.items():
            yield from _entry(f"{indent}{key}:", _named(key, part, value), indent + "  ")
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for part in value:
            yield from _entry(f"{indent}-", part, indent + "  ")
    else:
        yield indent + _inline(value)


def _entry(start: str, value: Json, indent: str) -> Iterator[str]:
    nested = isinstance(value, dict | list) and value and _one_line(value) is None
    if nested and not (isinstance(value, list) and not isinstance(value[0], dict | list)):
        yield start
        yield from _lines(value, indent)
    else:
        yield f"{start} {_inline(value)}"


class _Name(str):
    """A text that is printed as it is."""


def _named(key: str, value: Json, around: Json) -> Json:
    """Return the numbers of a message with their names."""
    if "headers" in around and key == "type":
        return _Name(f"{value} ({_MESSAGE_TYPES.get(value, '?')})")
    if "headers" in around and key == "flags" and value:
        return _Name(f"{value} ({_flag_names(value)})")
    return value


def _flag_names(flags: int) -> str:
    known = [flag for flag in Flag if flags & flag]
    names = [str(flag.name) for flag in known]
    rest = flags & ~sum(known)
    return "|".join([*names, *([str(rest)] if rest else [])])


def _one_line(value: Json) -> str | None:
    """Return the text of an object with a short form, else None."""
    if not isinstance(value, dict):
        return None
    if "t" in value:
        return _address(value)
    if set(value) == {"b"}:
        return _bytes(value["b"])
    if set(value) == {"prot_id", "magic", "hdr"}:
        return _header(value)
    if set(value) == {"creator", "id"}:
        return f"{_inline(value['creator'])}|{value['id']}"
    if set(value) == {"initiator", "id"}:
        return f"{_inline(value['initiator'])}::{value['id']}"
    return None


def _inline(value: Json) -> str:
    short = _one_line(value)
    if short is not None:
        return short
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(part) for part in value) + "]"
    if value is None:
        return "-"
    return str(value) if isinstance(value, _Name) else json.dumps(value)


def _address(value: Json) -> str:
    kind = value["t"]
    if kind in ("site_uuid", "site_master"):
        name = kind if value["name"] is None else json.dumps(value["name"])[1:-1]
        site = "*" if value["site"] is None else json.dumps(value["site"])[1:-1]
        return f"{name}:{site}"
    if kind == "millis":
        return f"{value['millis']} ms"
    return str(address_in(value))


def _bytes(digits: str) -> str:
    data = bytes.fromhex(digits)
    shown = data[:SHOWN_BYTES]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in shown)
    more = " ..." if len(data) > SHOWN_BYTES else ""
    return f"{len(data)} bytes {shown.hex()} |{text}|{more}".replace("  ", " ")


def _header(value: Json) -> str:
    number, magic = value["prot_id"], value["magic"]
    parts = [f"{_PROTOCOLS.get(number, 'protocol')}({number}) {HEADER_CLASSES[magic].__name__}"]
    for key, part in value["hdr"].items():
        if key == "type" and magic in TYPES:
            parts.append(TYPES[magic](part).name)
        elif part is not None:
            parts.append(f"{key}={_inline(part)}")
    return " ".join(parts)
