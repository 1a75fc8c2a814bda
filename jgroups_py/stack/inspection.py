"""inspection: the attributes of running protocols, for people.

An attribute is a setting of a stack file, a counter, or a text such as a role. Probes, metrics and pages get them from here. Secrets are
not among them. A setting in ``Protocol.writable`` may be changed while the stack runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from jgroups_py.config.settings import (
    HIDDEN,
    accepted,
    field_types,
    names_a_secret,
    nearest,
    parse_value,
    value_text,
)
from jgroups_py.errors import ConfigError
from jgroups_py.stack.raised import said
from jgroups_py.stack.sides import StackSide

NUMBER_MAX: Final = 1 << 1000
"""Larger numbers are not shown, because no float holds them."""


def settings_of(protocol: Any) -> dict[str, str]:
    """Return the settings of a protocol by name, as a stack file would have them.

    A field with ``repr=False`` or a secret name is left out. A text that names a secret, such as attributes of another
    stack, is hidden.
    """
    config = protocol.config
    kinds = field_types(type(config))
    found = {}
    for field in dataclasses.fields(config):
        if field.repr and field.name in kinds and not names_a_secret(field.name):
            text = value_text(getattr(config, field.name), kinds[field.name])
            found[field.name] = HIDDEN if names_a_secret(text) else text
    return found


def counters_of(protocol: Any) -> dict[str, int | float]:
    """Return the counters of a protocol, for somebody who looks. The ``statistics`` of a user's protocol may raise, or
    have more than numbers; a look ends no member, so such values are left out."""
    try:
        told = protocol.statistics()
        return {k: v for k, v in told.items() if type(k) is str and _is_shown(v)}
    except Exception as error:
        protocol._statistics_failures += 1
        if protocol._statistics_failures == 1:
            protocol.log.warning("its statistics cannot be shown: %s", said(error))
        return {}


def _is_shown(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < NUMBER_MAX)


def attributes_of(protocol: Any) -> dict[str, str]:
    """Return settings, counters and texts of a protocol, sorted by name."""
    found = {**settings_of(protocol), **protocol.texts()}
    for name, value in counters_of(protocol).items():
        found[name] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return dict(sorted(found.items()))


def protocol_of(stack: StackSide, name: str) -> Any:
    """Return the protocol of that name, with or without its package. None: there is none."""
    short = name.rpartition(".")[2]
    return next((p for p in stack.protocols if p.name in (name, short)), None)


def selected(attributes: Mapping[str, str], prefixes: list[str]) -> dict[str, str]:
    """Return the attributes whose names begin with one of ``prefixes``; all of them if there is none."""
    if not prefixes:
        return dict(attributes)
    return {k: v for k, v in attributes.items() if any(k.startswith(p) for p in prefixes)}


def write_attribute(protocol: Any, name: str, text: str) -> None:
    """Change a setting of a running protocol.

    Raises:
        ConfigError: the setting may not be changed, or the text is refused; nothing has changed.
    """
    field = name.replace(".", "_")
    where = f"{protocol.name}.{name}"
    if field not in protocol.writable:
        known = sorted(protocol.writable)
        hint = nearest(field, known) or f" ({', '.join(known) or 'none of this protocol'} may be)"
        raise ConfigError(
            f"this attribute may not be changed while the stack runs{hint}", where=where
        )
    kind = field_types(type(protocol.config))[field]
    try:
        value = parse_value(text, kind)
    except ValueError as error:
        raise ConfigError(f"{error}; accepted: {accepted(kind)}", where=where) from None
    try:
        protocol.config = dataclasses.replace(protocol.config, **{field: value})
    except ConfigError as error:
        raise ConfigError(error.problem, where=where) from None
