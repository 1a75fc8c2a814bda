"""Entries: the facts about one member in a file of FILE_PING or a row of JDBC_PING2.

A file has a line for each member: name, UUID, HOST:PORT, T (coordinator) or F, with blanks between them. A name with
blanks is written with ``_`` for each. The UUID may be a number, as in files made by hand.

Source:  JGroups Discovery.read and write, CloudBasedDiscovery.txt; Util.addressToString.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jgroups_py.values.address import UUID, IpAddress

NAME_MAX: Final = 200
"""Characters of a name that are written and read; more do not fit into a column of JDBC_PING2."""
_UUID: Final = re.compile(r"-".join(f"[0-9a-fA-F]{{{digits}}}" for digits in (8, 4, 4, 4, 12)))
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_PREFIX: Final = "uuid://"
_SITE_PREFIX: Final = "site-addr://"
_UNFIT: Final = re.compile(r'[\0<>:"/\\|?*]')
"""Characters that JGroups keeps out of names of files."""


@dataclass(frozen=True, slots=True)
class StoredMember:
    """``name`` None: unknown."""

    name: str | None
    address: UUID
    physical: IpAddress
    coordinator: bool


# --- parts


def parse_uuid(text: str) -> UUID:
    """Read a UUID. ValueError: it is none."""
    if _NUMBER.fullmatch(text):
        low = int(text)
        if -(1 << 63) <= low < 1 << 63:
            return UUID(bytes(8) + low.to_bytes(8, "big", signed=True))
    elif _UUID.fullmatch(text):
        return UUID(bytes.fromhex(text.replace("-", "")))
    raise ValueError("not a UUID")


def parse_place(text: str) -> IpAddress:
    """Read a place such as ``10.0.0.1:7800`` or ``fe80::1%2:7800`` (the last colon is before the port). ValueError: it
    is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise ValueError("not HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    host, _, scope = host.partition("%")
    return IpAddress(host, int(port), int(scope) if scope.isascii() and scope.isdigit() else 0)


def place_text(physical: IpAddress) -> str:
    """Return a place as Java writes and reads it: without brackets."""
    return f"{physical.host}:{physical.port}"


def file_name(entry_name: str | None, address: UUID) -> str:
    """Return the name of the member's file."""
    fitting = _UNFIT.sub("-", entry_name or "").encode("utf-8", "replace")[:NAME_MAX]
    name = fitting.decode("utf-8", "ignore")
    return f"{file_prefix(address)}{name}.list" if name else f"{file_prefix(address)}list"


def file_prefix(address: UUID) -> str:
    """Return the part of a file's name that does not depend on the member's name."""
    return f"{UUID(bytes(address))}."


# --- a file


def parse_lines(data: bytes, most: int) -> tuple[list[StoredMember], int]:
    """Return the entries of a file, and the number of its unreadable lines. Reading ends after ``most`` entries or
    ``most`` bad lines; the rest counts as one bad line."""
    entries: list[StoredMember] = []
    bad = 0
    for line in data.decode("utf-8", "replace").splitlines():
        words = line.split(maxsplit=4)
        if not words:
            continue
        if len(entries) >= most or bad >= most:
            return entries, bad + 1
        if len(words) != 4 or len(words[0]) > NAME_MAX:
            bad += 1
            continue
        name, address, place, coordinator = words
        try:
            entry = StoredMember(
                name, parse_uuid(address), parse_place(place), coordinator in ("T", "t")
            )
        except ValueError:
            bad += 1
            continue
        entries.append(entry)
    return entries, bad


def lines_of(entries: Iterable[StoredMember]) -> bytes:
    """Return a file of these members. Java needs a name: the address replaces a missing one."""
    lines = []
    for entry in entries:
        name = "_".join((entry.name or "")[:NAME_MAX].split()) or str(entry.address)
        place = place_text(entry.physical)
        address = str(UUID(bytes(entry.address)))
        lines.append(f"{name} \t{address} \t{place} \t{'T' if entry.coordinator else 'F'}\n")
    return "".join(lines).encode("utf-8", "replace")


# --- a row


def row_address(address: UUID) -> str:
    """Return an address as JDBC_PING2 writes it."""
    return f"{_PREFIX}{UUID(bytes(address))}"


def parse_row(row: Sequence[object]) -> StoredMember:
    """Return the entry of a row: address, name, place, coordinator. ValueError: the row cannot be read."""
    if len(row) < 4:
        raise ValueError("fewer than four columns")
    address, name, place, coordinator = row[:4]
    if not isinstance(address, str) or not isinstance(place, str):
        raise ValueError("not a text")
    if not isinstance(name, str | None) or not isinstance(coordinator, bool | int | None):
        raise ValueError("not a name, not a boolean")
    text = address.removeprefix(_PREFIX)
    if address.startswith(_SITE_PREFIX):
        text = address.removeprefix(_SITE_PREFIX).partition(":")[0]
    return StoredMember(
        name and name[:NAME_MAX], parse_uuid(text), parse_place(place), bool(coordinator)
    )
