"""What a stack file says, whatever it was written in: protocols, bottom first, with texts.

The XML and the YAML reader (stackfile.py) both make a ``StackConfig``; ``config.build`` turns it
into protocol classes with typed settings. Values stay text here, each with its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from jgroups_py.errors import ConfigError

ALIASES: Final = {
    "FD_SOCK": "FD_SOCK2",
    "FD_ALL": "FD_ALL3",
    "FD_ALL2": "FD_ALL3",
    "VERIFY_SUSPECT": "VERIFY_SUSPECT2",
    "TCP_NIO2": "TCP",
}
"""Names of older JGroups protocols whose newer form does the same on the wire."""

_JAVA_PACKAGES: Final = ("org.jgroups.protocols.", "pbcast.", "relay.", "dns.", "kubernetes.")


def canonical(name: str) -> str:
    """``pbcast.NAKACK2`` -> ``NAKACK2``, ``FD_SOCK`` -> ``FD_SOCK2``; import paths stay."""
    for package in _JAVA_PACKAGES:
        name = name.removeprefix(package)
    return ALIASES.get(name, name)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One setting as written. ``line`` and ``column`` count from 1."""

    key: str
    text: str
    line: int | None = None
    column: int | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """An element nested in a protocol (a list of fork stacks, of sites); the protocol reads it."""

    name: str
    attributes: tuple[Attribute, ...]
    elements: tuple[Element, ...] = ()
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class ProtocolConfig:
    """One protocol of a stack. ``name`` is canonical, ``written`` what the file says.

    ``empty`` are attributes that count as not given, with the text before variables were replaced;
    ``unset`` those in which a variable has neither a value nor a default.
    """

    name: str
    attributes: tuple[Attribute, ...] = ()
    elements: tuple[Element, ...] = ()
    file: str | None = None
    line: int | None = None
    column: int | None = None
    written: str = ""
    empty: tuple[Attribute, ...] = ()
    unset: tuple[Attribute, ...] = ()

    @property
    def short_name(self) -> str:
        """The class' name: the last part of an import path."""
        return self.name.rpartition(".")[2]

    def get(self, key: str) -> str | None:
        """The text of an attribute, None when the file does not give it."""
        for attribute in self.attributes:
            if field_name(attribute.key) == field_name(key):
                return attribute.text
        return None

    def with_attribute(self, attribute: Attribute) -> ProtocolConfig:
        """A copy with that attribute set, replacing one of the same name. Empty text removes."""
        field = field_name(attribute.key)
        kept = tuple(a for a in self.attributes if field_name(a.key) != field)
        unset = tuple(a for a in self.unset if field_name(a.key) != field)
        added = (attribute,) if attribute.text else ()
        return replace(self, attributes=kept + added, unset=unset)


@dataclass(frozen=True, slots=True)
class StackConfig:
    """A stack: ``protocols`` bottom (transport) first; ``source`` is the file, for messages.

    ``compat="jgroups-5"`` reads ``kib`` as JGroups 5 does (1000).
    """

    protocols: tuple[ProtocolConfig, ...]
    source: str
    compat: str | None = None

    def __iter__(self) -> Iterator[ProtocolConfig]:
        return iter(self.protocols)

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def find(self, name: str) -> ProtocolConfig | None:
        """The protocol of that name (aliases and prefixes allowed), None when there is none."""
        wanted = canonical(name)
        for protocol in self.protocols:
            if wanted in (protocol.name, protocol.short_name):
                return protocol
        return None


def field_name(key: str) -> str:
    """The name in Python of an attribute: ``bundler.max_size`` -> ``bundler_max_size``."""
    return key.replace(".", "_").replace("-", "_")


def with_attributes(
    stack: StackConfig, attributes: Mapping[str, str | int | bool], *, source: str = "override"
) -> StackConfig:
    """A copy with attributes set: ``{"RELAY.buffering_members": "3", "UDP.bind_addr": "::1"}``.

    Values are read as in a stack file (a bare time is milliseconds); empty text sets the default.

    Raises:
        ConfigError: the key is not ``PROTOCOL.attribute`` or that protocol is not in the stack.
    """
    protocols = list(stack.protocols)
    for key, value in attributes.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        index, name = _split_key(protocols, key, stack.source)
        attribute = Attribute(name, text, file=source)
        protocols[index] = protocols[index].with_attribute(attribute)
    return replace(stack, protocols=tuple(protocols))


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` or nothing."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""


def _split_key(protocols: list[ProtocolConfig], key: str, source: str) -> tuple[int, str]:
    """(index of the protocol, attribute). Both parts may hold dots: try the longest protocol."""
    end = key.rfind(".")
    while end > 0:
        wanted = canonical(key[:end])
        for index, protocol in enumerate(protocols):
            if wanted in (protocol.name, protocol.short_name) and key[end + 1 :]:
                return index, key[end + 1 :]
        end = key.rfind(".", 0, end)
    names = [protocol.short_name for protocol in protocols]
    wanted = key.partition(".")[0]
    if "." not in key:
        raise ConfigError(f'"{key}" is not PROTOCOL.attribute', file=source)
    hint = nearest(wanted, names) or f" ({', '.join(names)})"
    raise ConfigError(
        f'no protocol "{wanted}" in this stack{hint}',
        file=source,
        where=key,
    )
