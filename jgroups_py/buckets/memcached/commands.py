"""The commands of memcached's text protocol, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from jgroups_py.buckets.items.requests import ItemRequest


@dataclass(frozen=True, slots=True)
class Retrieve:
    """get, gets, gat, gats: values of several keys, one request for each."""

    requests: tuple[ItemRequest, ...]
    unique: bool
    """The answer has the unique numbers."""


@dataclass(frozen=True, slots=True)
class Modify:
    """A change of one item."""

    request: ItemRequest
    noreply: bool


class ServiceCommand(StrEnum):
    """Commands that are not about an item."""

    STATS = "stats"
    VERSION = "version"
    VERBOSITY = "verbosity"
    FLUSH_ALL = "flush_all"
    QUIT = "quit"


@dataclass(frozen=True, slots=True)
class Serve:
    """A question to the server itself."""

    service: ServiceCommand
    argument: bytes = b""
    noreply: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """Bytes that are no command. ``ends``: the following bytes may be data or commands, so the connection must end."""

    cause: str
    """A key of ``TEXT_CAUSES``."""
    reply: bytes
    """The reply without the end of the line."""
    ends: bool = False


Command: TypeAlias = Retrieve | Modify | Serve | Wrong
