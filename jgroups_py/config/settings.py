"""Settings of protocols. They are typed in Python and texts in a stack file.

A protocol declares a nested frozen dataclass ``Config`` derived from ``ConfigBase``. Its fields are the attributes of the
stack file, with ``_`` for ``.``::

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        timeout: Seconds = 1.0
        max_credits: Bytes = 2_000_000
        initial_hosts: HostPorts = ()
        ignored: ClassVar[frozenset[str]] = frozenset({"thread_pool.*"})

``load_stack`` reads a file (file.py), ``with_attributes`` overrides attributes, ``build`` makes typed settings of it. Every
mistake is a ConfigError with file, line, column, name and what would be accepted.
"""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import importlib
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Literal, Union

from jgroups_py import units
from jgroups_py.config.file import load_stack
from jgroups_py.config.model import (
    Attribute,
    Element,
    ProtocolConfig,
    StackConfig,
    canonical,
    field_name,
    nearest,
    with_attributes,
)
from jgroups_py.errors import ConfigError

__all__ = [
    "Attribute",
    "Bytes",
    "ConfigBase",
    "Element",
    "Fraction",
    "HostPorts",
    "Ignored",
    "Percent",
    "ProtocolConfig",
    "Registry",
    "Seconds",
    "Secret",
    "StackConfig",
    "build",
    "accepted",
    "build_one",
    "canonical",
    "field_types",
    "load_stack",
    "nearest",
    "parse_value",
    "value_text",
    "verified",
    "with_attributes",
]

Seconds = Annotated[float, "seconds"]
"""A time. In a stack file it is ``1.5s`` or ``500ms``; a bare number there is milliseconds."""
Bytes = Annotated[int, "bytes"]
"""A size. In a stack file it is ``60K``, ``4mb`` or ``64kib``."""
Fraction = Annotated[float, "fraction"]
"""A fraction. In a stack file it is ``0.25`` or ``25%``."""
Percent = Fraction
HostPorts = Annotated[tuple[tuple[str, int], ...], "hosts"]
"""Hosts with ports. In a stack file they are ``localhost[7800],10.0.0.1[7800]``."""

Secret = Annotated[str, "secret"]
"""A password or the like. No report shows it. Its field has ``repr=False``. In a stack file it is best a variable,
``${NAME}``."""
HIDDEN: Final = "***"
"""Replaces secrets in reports."""
_SECRET_KEY: Final = re.compile(
    r"pas+[wc]|pwd|secret|token(?!_?file)|auth_value|credential", re.IGNORECASE
)

_MARKS: Final = {
    "secret": "a text, shown nowhere",
    "seconds": units.TIME_FORM,
    "bytes": units.SIZE_FORM,
    "fraction": units.FRACTION_FORM,
    "hosts": units.HOSTS_FORM,
}


@dataclass(frozen=True, kw_only=True)
class ConfigBase:
    """Base of every protocol's ``Config``. Subclasses are frozen, keyword-only dataclasses.

    A ``__post_init__`` that finds a value out of range raises ``ConfigError("field must ...")``. Place and protocol are added
    when the value came from a file.
    """

    ignored: ClassVar[frozenset[str]] = frozenset(
        {"level", "stats", "ergonomics", "use_virtual_threads", "policies"}
    )
    """JGroups attributes that are accepted and have no effect. ``thread_pool.*`` is a pattern. Those of base classes count,
    too."""
    refused: ClassVar[dict[str, str]] = {}
    """JGroups attributes that are refused, because users would wrongly rely on them: name in a file -> the setting to
    write instead. Those of base classes count, too."""
    aliases: ClassVar[dict[str, str]] = {}
    """Other names of attributes: name in a file -> field. Those of base classes count, too."""

    def verify(self) -> None:
        """Raise ConfigError if something outside the stack file that an attribute names, such as a keystore, cannot be used.
        ``open_channel`` and ``jgroups-py validate`` call it. ``build`` does not: a stack file can be read anywhere."""

    def _at_least(self, least: float, *names: str) -> None:
        """Refuse a field of ``names`` that is less or not a number. It is for ``__post_init__``."""
        for name in names:
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} must be >= {least}, got {getattr(self, name)}")

    def _above(self, low: float, *names: str) -> None:
        """Refuse a field of ``names`` that is not greater. It is for ``__post_init__``."""
        for name in names:
            if not getattr(self, name) > low:
                raise ConfigError(f"{name} must be > {low}, got {getattr(self, name)}")

    def _within(self, low: int, high: int, *names: str) -> None:
        """Refuse a field of ``names`` that is not ``low`` to ``high``. It is for ``__post_init__``."""
        for name in names:
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} must be within {low}..{high}, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Ignored:
    """An attribute that was accepted and has no effect."""

    protocol: str
    attribute: Attribute

    def __str__(self) -> str:
        return f"{self.protocol}.{self.attribute.key}={shown_text(self.attribute)}"


class Registry(typing.Protocol):
    """Finds protocol classes by name; ``jgroups_py.protocols.registry`` is one."""

    def find(self, name: str) -> type[Any]:
        """Return the class of that name. Raise ConfigError (problem only) when there is none."""


def build(
    stack: StackConfig, registry: Registry | None = None, ignored: list[Ignored] | None = None
) -> list[tuple[type[Any], Any]]:
    """Return protocol classes with typed settings, bottom first.

    Attributes without effect are appended to ``ignored`` if it is given. The default of ``registry`` is
    ``jgroups_py.protocols.registry``, which is imported when it is needed.

    Raises:
        ConfigError: a protocol or an attribute is unknown, or a value does not parse or is refused.
    """
    built: list[tuple[type[Any], Any]] = []
    seen: dict[type[Any], str] = {}
    for protocol in stack.protocols:
        cls, config = build_one(protocol, registry, ignored, compat=stack.compat)
        if cls in seen:
            raise _at(protocol, f"is in the stack twice (the other one is {seen[cls]})")
        seen[cls] = f"{protocol.written or protocol.name}, line {protocol.line}"
        built.append((cls, config))
    return built


def build_one(
    protocol: ProtocolConfig,
    registry: Registry | None = None,
    ignored: list[Ignored] | None = None,
    *,
    compat: str | None = None,
) -> tuple[type[Any], Any]:
    """Return the class and the typed settings of one protocol; see ``build``."""
    find = (registry or importlib.import_module("jgroups_py.protocols.registry")).find
    try:
        cls = find(protocol.name)
    except ConfigError as error:
        raise _at(protocol, error.problem) from None
    config_class: type[ConfigBase] = cls.Config
    hints = _field_types(config_class)
    values: dict[str, Any] = {}
    for attribute in protocol.empty:
        field = _field_of(config_class, attribute.key)
        refused = _refused(config_class, attribute.key) is not None
        if field not in hints and not refused and not _is_ignored(config_class, attribute.key):
            raise _unknown_attribute(protocol, attribute, config_class)
    for attribute in protocol.attributes:
        field = _field_of(config_class, attribute.key)
        if field not in hints:
            if (instead := _refused(config_class, attribute.key)) is not None:
                problem = f"{attribute.key} has no effect here: {instead}"
                raise _at(protocol, problem, attribute)
            if not _is_ignored(config_class, attribute.key):
                raise _unknown_attribute(protocol, attribute, config_class)
            if ignored is not None:
                ignored.append(Ignored(protocol.short_name, attribute))
            continue
        try:
            values[field] = parse_value(attribute.text, hints[field], compat=compat)
        except ValueError as error:
            raise _at(protocol, str(error), attribute) from None
    if "elements" in hints:
        values["elements"] = protocol.elements
    elif protocol.elements:
        names = ", ".join(f"<{element.name}>" for element in protocol.elements)
        raise _at(protocol, f"takes no nested elements, got {names}")
    try:
        return cls, config_class(**values)
    except ConfigError as error:
        raise _at(protocol, error.problem, _blamed(protocol, error.problem)) from None
    except ValueError as error:
        raise _at(protocol, str(error), _blamed(protocol, str(error))) from None
    except TypeError as error:
        raise _at(protocol, _missing(protocol, config_class, values) or str(error)) from None


def verified(protocol: ProtocolConfig, config: ConfigBase) -> ConfigError | None:
    """Return the error of ``config.verify`` with its place, or None."""
    try:
        config.verify()
    except ConfigError as error:
        return placed(protocol, error.problem)
    return None


def placed(protocol: ProtocolConfig, problem: str) -> ConfigError:
    """Return the error with the place of the attribute whose name begins ``problem``, else that of the protocol."""
    return _at(protocol, problem, _blamed(protocol, problem))


def parse_value(text: str, kind: Any, *, compat: str | None = None) -> Any:
    """Return the typed value of a text. ``kind`` is a field's resolved annotation.

    Raises:
        ValueError: the text does not fit. The error says what would be accepted.
    """
    base, mark = _kind_of(kind)
    match mark:
        case "seconds":
            return units.parse_seconds(text)
        case "bytes":
            return units.parse_bytes(text, binary_is_decimal=compat == "jgroups-5")
        case "fraction":
            return units.parse_fraction(text)
        case "hosts":
            return units.parse_hosts(text)
    if base is str:
        return text
    if base is bool:
        return _parse_bool(text)
    if base is int:
        return _parse_number(text, int)
    if base is float:
        return _parse_number(text, float)
    if typing.get_origin(base) is Literal:
        return _parse_choice(text, {str(choice): choice for choice in typing.get_args(base)})
    if isinstance(base, type) and issubclass(base, enum.Enum):
        return _parse_choice(text, dict(base.__members__))
    if typing.get_origin(base) is tuple:
        item = typing.get_args(base)[0]
        return tuple(parse_value(part.strip(), item) for part in text.split(",") if part.strip())
    raise TypeError(f"no text form for {kind}")


def accepted(kind: Any) -> str:
    """Return in words which texts a field of that annotation accepts."""
    base, mark = _kind_of(kind)
    if mark in _MARKS:
        return _MARKS[mark]
    if typing.get_origin(base) is Literal:
        return "one of " + ", ".join(str(choice) for choice in typing.get_args(base))
    if isinstance(base, type) and issubclass(base, enum.Enum):
        return "one of " + ", ".join(base.__members__)
    if typing.get_origin(base) is tuple:
        return "a list separated by commas"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return names.get(base, str(base))


def shown_text(attribute: Attribute) -> str:
    """Return the text of a value for a report, or HIDDEN where its name says that it is secret."""
    return HIDDEN if names_a_secret(attribute.key) else attribute.text


def names_a_secret(text: str) -> bool:
    """Return whether a name, or a text with names in it, speaks of a password or the like."""
    return _SECRET_KEY.search(text) is not None


def value_text(value: Any, kind: Any) -> str:
    """Return a text that ``parse_value`` reads back. It is empty for None, and HIDDEN for a secret."""
    if value is None:
        return ""
    base, mark = _kind_of(kind)
    match mark:
        case "secret":
            return HIDDEN if value else ""
        case "seconds":
            return units.seconds_text(value)
        case "bytes":
            return units.bytes_text(value)
        case "hosts":
            return units.hosts_text(value)
    if base is bool:
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value)


def _kind_of(kind: Any) -> tuple[Any, str | None]:
    """Take ``| None`` and ``Annotated`` off. Return (plain type, unit mark)."""
    mark = None
    while True:
        origin = typing.get_origin(kind)
        if origin is Annotated:
            kind, *extras = typing.get_args(kind)
            mark = next((extra for extra in extras if extra in _MARKS), mark)
        elif origin in (Union, types.UnionType):
            parts = [part for part in typing.get_args(kind) if part is not type(None)]
            if len(parts) != 1:
                raise TypeError(f"no text form for {kind}")
            kind = parts[0]
        else:
            return kind, mark


def _parse_bool(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(f'not a boolean: "{text}" (true or false)')


def _parse_number(text: str, kind: type[int | float]) -> int | float:
    try:
        if "_" in text:
            raise ValueError
        number = kind(text)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise ValueError(f'not a {what}: "{text}"') from None
    if kind is int and abs(number) > units.NUMBER_MAX:
        raise ValueError(
            f"{units.shortened(text)} is beyond {-units.NUMBER_MAX} to {units.NUMBER_MAX}"
        )
    return number


def _parse_choice(text: str, choices: dict[str, Any]) -> Any:
    by_lower = {name.lower(): value for name, value in choices.items()}
    if text.lower() not in by_lower:
        raise ValueError(f'not known: "{text}" (one of {", ".join(choices)})')
    return by_lower[text.lower()]


def _field_types(config_class: type[ConfigBase]) -> dict[str, Any]:
    known = _FIELD_TYPES.get(config_class)
    if known is None:
        hints = typing.get_type_hints(config_class, include_extras=True)
        known = {field.name: hints[field.name] for field in fields(config_class) if field.init}
        _FIELD_TYPES[config_class] = known
    return known


_FIELD_TYPES: Final[dict[type[ConfigBase], dict[str, Any]]] = {}  # one entry for each class


def field_types(config_class: type[ConfigBase]) -> Mapping[str, Any]:
    """Return the fields of a Config with their annotations, in order of declaration."""
    return dict(_field_types(config_class))


def _field_of(config_class: type[ConfigBase], key: str) -> str:
    for cls in config_class.__mro__:
        aliases = vars(cls).get("aliases", {})
        if key in aliases:
            return field_name(aliases[key])
    return field_name(key)


def _is_ignored(config_class: type[ConfigBase], key: str) -> bool:
    return any(
        fnmatch.fnmatchcase(key, pattern)
        for cls in config_class.__mro__
        for pattern in sorted(vars(cls).get("ignored", ()))
    )


def _refused(config_class: type[ConfigBase], key: str) -> str | None:
    found = (vars(cls).get("refused", {}).get(key) for cls in config_class.__mro__)
    return next((instead for instead in found if instead is not None), None)


def _unknown_attribute(
    protocol: ProtocolConfig, attribute: Attribute, config_class: type[ConfigBase]
) -> ConfigError:
    known = _field_types(config_class)
    close = nearest(field_name(attribute.key), known)
    hint = close or f" ({protocol.short_name} knows {', '.join(known) or 'no attributes'})"
    return _at(protocol, f'unknown attribute, value "{shown_text(attribute)}"{hint}', attribute)


def _at(protocol: ProtocolConfig, problem: str, attribute: Attribute | None = None) -> ConfigError:
    if attribute is None:
        return ConfigError(
            problem,
            file=protocol.file,
            line=protocol.line,
            column=protocol.column,
            where=protocol.written or protocol.name,
        )
    return ConfigError(
        problem,
        file=attribute.file or protocol.file,
        line=attribute.line,
        column=attribute.column,
        where=f"{protocol.short_name}.{attribute.key}",
    )


def _blamed(protocol: ProtocolConfig, problem: str) -> Attribute | None:
    """Return the attribute whose name begins the text of a problem, if the file gives it."""
    first = re.match(r"[\w.]+", problem)
    for attribute in protocol.attributes:
        if first and field_name(attribute.key) == field_name(first[0]):
            return attribute
    return None


def _missing(
    protocol: ProtocolConfig, config_class: type[ConfigBase], values: Mapping[str, Any]
) -> str | None:
    """Return the required fields that are missing, and the variable that would have given them."""
    needed = [
        field.name
        for field in fields(config_class)
        if field.init
        and field.name not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if not needed:
        return None
    hints = [f"{a.text} is not set" for a in protocol.empty if field_name(a.key) in needed]
    return f"needs {', '.join(needed)}" + (f" ({', '.join(hints)})" if hints else "")
