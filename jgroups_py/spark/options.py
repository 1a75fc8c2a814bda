"""Checks the options of the data source. Spark gives them as texts, and their names in any case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.export import ExportAccess, ExportClient, Offset, connect, connect_at, read_token
from jgroups_py.export.client import Access, Address, parse_members
from jgroups_py.export.parts import KeptPicture
from jgroups_py.tls import TlsSettings

KNOWN = (
    "members",
    "token",
    "tokenfile",
    "tlscertificate",
    "tlskey",
    "tlsca",
    "map",
    "kind",
    "rows",
    "path",
    "partitions",
    "pushdown",
    "startingoffset",
    "maxrows",
    "query",
    "replace",
    "skipequal",
    "snapshot",
)
OF_SPARK = ("checkpointlocation",)
"""Spark's own options that it hands on all the same."""
PARTITIONS_MAX = 10_000
"""The most partitions of one read."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options. ``members`` has export ports, which are tried in this order; for a cache with buddies they are those of
    all members. ``rows`` is "state" or "changes". ``snapshot`` is a snapshot that was opened before, for several queries.
    It has parts if each member has a part of the rows."""

    members: tuple[Address, ...]
    token: Access = field(repr=False)
    map: str | None = None
    kind: str | None = None
    rows: Literal["state", "changes"] = "state"
    path: str = "/"
    partitions: int | None = None
    pushdown: bool = False
    starting: Offset | Literal["earliest", "latest"] = "latest"
    max_rows: int | None = None
    query: str | None = None
    replace: bool = False
    skip_equal: bool = False
    snapshot: tuple[KeptPicture, ...] = ()

    def connect(self, first: Address | None = None) -> ExportClient:
        """Connect to ``first`` if it is among the members and can be reached, or else to any member."""
        number = self.members.index(first) if first in self.members else 0
        return connect(self.members, self.token, first=number)

    def connect_at(self, *places: Offset, first: Address | None = None) -> ExportClient:
        """Connect to a member whose log has these places; to ``first`` if it has them."""
        number = self.members.index(first) if first in self.members else 0
        return connect_at(
            self.members, self.token, places, map=self.map, kind=self.kind, first=number
        )


def options_of(given: Mapping[str, str]) -> SparkOptions:
    """Return the options. Raise ConfigError for one that is missing, unknown or wrong."""
    values = known_options(given, KNOWN)
    if "members" not in values:
        raise ConfigError('option members is missing: "host:port,host:port" of export ports')
    if ("token" in values) == ("tokenfile" in values):
        raise ConfigError("one of the options token and tokenfile is needed")
    return SparkOptions(
        members=tuple(parse_members(values["members"])),
        token=_access(values),
        map=values.get("map"),
        kind=values.get("kind"),
        rows=rows_option(values),
        path=values.get("path", "/"),
        partitions=number_option(values, "partitions", PARTITIONS_MAX),
        pushdown=_flag(values, "pushdown"),
        starting=_starting(values.get("startingoffset", "latest")),
        max_rows=number_option(values, "maxrows", 2**31),
        query=values.get("query"),
        replace=_flag(values, "replace"),
        skip_equal=_flag(values, "skipequal"),
        snapshot=tuple(map(_picture, values["snapshot"].split(",")))
        if "snapshot" in values
        else (),
    )


def _access(values: Mapping[str, str]) -> Access:
    token = values["token"] if "token" in values else read_token(values["tokenfile"])
    named = ("tlscertificate", "tlskey", "tlsca")
    files = {name: values.get(name, "") for name in named}
    if not any(files.values()):
        return token
    if missing := [name for name in named if not files[name]]:
        raise ConfigError(f"option {missing[0]} is missing: TLS needs {', '.join(named)}")
    tls = TlsSettings(certificate=files[named[0]], key=files[named[1]], ca=files[named[2]])
    return ExportAccess(token, tls)


def known_options(given: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return the options with their names in small letters, without Spark's own. Raise ConfigError for one that is not known."""
    values = {n.lower(): value for n, value in given.items() if n.lower() not in OF_SPARK}
    for name in values:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ConfigError(f'format("jgroups") has no option {name}{hint}')
    return values


def rows_option(values: Mapping[str, str]) -> Literal["state", "changes"]:
    rows = values.get("rows", "state")
    if rows not in ("state", "changes"):
        raise ConfigError(f'option rows is "state" or "changes", got "{rows}"')
    return "changes" if rows == "changes" else "state"


def offset_from(text: str) -> Offset:
    """Return an offset from JSON. Raise ConfigError if the text is no offset."""
    try:
        return msgspec.json.decode(text, type=Offset)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"not an offset: {error}") from None


def offset_to(offset: Offset) -> str:
    """Return an offset as JSON, for the option ``startingoffset``."""
    return json.dumps(msgspec.to_builtins(offset), sort_keys=True)


def _starting(text: str) -> Offset | Literal["earliest", "latest"]:
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    return offset_from(text)


def _picture(text: str) -> KeptPicture:
    place, _, rest = text.partition("/")
    id, _, rows = rest.partition("/")
    if not id or not rows.isdecimal():
        raise ConfigError(f'option snapshot is written "host:port/id/rows", got "{text}"')
    return KeptPicture(parse_members(place)[0], id, int(rows))


def number_option(values: Mapping[str, str], name: str, most: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= most:
        raise ConfigError(f'option {name} is a number from 1 to {most}, got "{text}"')
    return int(text)


def _flag(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f'option {name} is true or false, got "{text}"')
    return text == "true"
