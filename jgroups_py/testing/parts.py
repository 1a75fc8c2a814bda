"""Stacks put together from files, names, classes and objects.

    ["sim.xml", TOTAL_ORDER]                     a file, and a protocol of one's own above it
    [SHARED_LOOPBACK(), "NAKACK2", MINE(n=3)]    piece by piece, bottom first

Every member gets new protocols. Objects are templates: their class and settings are copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jgroups_py.config.model import Attribute, ProtocolConfig, field_name
from jgroups_py.config.settings import build_one, canonical, field_types, load_stack
from jgroups_py.errors import ConfigError
from jgroups_py.protocols import registry
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import make_protocols

Part = str | Path | type[Protocol] | Protocol
"""A stack file (``udp.xml``, or a path), a protocol's name or import path, a class, an object."""

FILES: Final = (".xml", ".yaml", ".yml")


class Parts:
    """A stack, bottom first. ``ConfigError``: an item is no part of a stack.

    A call makes new protocols. ``attributes``: ``NAME.key`` -> text, as on a command line. ``properties``: values of
    ``${name}`` in files.
    """

    def __init__(self, stack: Part | Sequence[Part]) -> None:
        several = isinstance(stack, Sequence) and not isinstance(stack, str)
        self.parts: tuple[Part, ...] = tuple(stack) if several else (stack,)  # type: ignore[assignment,arg-type]
        if not self.parts:
            raise ConfigError("a stack needs at least one protocol")
        for part in self.parts:
            if isinstance(part, type) and issubclass(part, Protocol):
                continue
            if not isinstance(part, str | Path | Protocol):
                raise ConfigError(f"{part!r} is no stack file, protocol class or protocol")

    def __str__(self) -> str:
        return " + ".join(str(p) if _is_file(p) else _class_of(p).__name__ for p in self.parts)

    def unset(self) -> list[str]:
        """Return the names of protocols that are no objects, bottom first."""
        found: list[str] = []
        for part in self.parts:
            if isinstance(part, Protocol):
                continue
            if _is_file(part):
                found += [p.short_name for p in load_stack(str(part))]
            else:
                found.append(_class_of(part).__name__)
        return found

    def __call__(
        self,
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[Protocol]:
        """Make new protocols, bottom first. Raises ``ConfigError``."""
        left = dict(attributes or {})
        singles = {i: self._take(part, left) for i, part in enumerate(self.parts)}
        made: list[Protocol] = []
        for index, part in enumerate(self.parts):
            if _is_file(part):
                # Settings that no other part has taken go to files, which refuse unknown names.
                mine = self._for_file(str(part), left, properties)
                made += make_protocols(str(part), mine, properties)
            else:
                made.append(_make(part, singles[index]))
        if left:
            raise ConfigError(f"nothing in {self} is called {next(iter(left)).partition('.')[0]}")
        return made

    def _take(self, part: Part, left: dict[str, str]) -> dict[str, str]:
        """Remove the settings of ``part`` from ``left`` and return them by key."""
        if _is_file(part):
            return {}
        cls = _class_of(part)
        names = (cls.__name__, f"{cls.__module__}.{cls.__qualname__}")
        found: dict[str, str] = {}
        for name in list(left):
            protocol, _, key = name.rpartition(".")
            while protocol and canonical(protocol) not in names:  # keys may have dots, too
                protocol, _, more = protocol.rpartition(".")
                key = f"{more}.{key}"
            if protocol:
                found[key] = left.pop(name)
        return found

    @staticmethod
    def _for_file(
        file: str, left: dict[str, str], properties: Mapping[str, str] | None
    ) -> dict[str, str]:
        known = {p.short_name for p in load_stack(file, properties=properties)}
        mine = {n: v for n, v in left.items() if canonical(n.partition(".")[0]) in known}
        for name in mine:
            del left[name]
        return mine


def _is_file(part: Part) -> bool:
    return isinstance(part, Path) or (isinstance(part, str) and part.endswith(FILES))


def _class_of(part: Any) -> type[Protocol]:
    if isinstance(part, str):
        return registry.find(part)
    return part if isinstance(part, type) else type(part)


class _Known:
    """A registry of one class."""

    def __init__(self, cls: type[Protocol]) -> None:
        self._cls = cls

    def find(self, name: str) -> type[Protocol]:
        return self._cls


def _make(part: Any, settings: Mapping[str, str]) -> Protocol:
    cls = _class_of(part)
    if isinstance(part, Protocol) and not settings:
        return cls(part.config)
    attributes = tuple(Attribute(key, text) for key, text in settings.items())
    _, config = build_one(ProtocolConfig(cls.__name__, attributes), _Known(cls))
    if isinstance(part, Protocol):
        fields = [n for n in field_types(type(config)) if n in map(field_name, settings)]
        config = dataclasses.replace(part.config, **{n: getattr(config, n) for n in fields})
    return cls(config)
