"""Checks arguments of openers and calls before a socket is opened or a message is sent.

A wrong type raises TypeError, a wrong value ConfigError. The text is one line that names the argument, the
value that was given, and what would be accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from jgroups_py.errors import ConfigError
from jgroups_py.values.address import Address, IpAddress

CLUSTER_MAX: Final = 1000
"""The most characters of a cluster's name. The name is in every packet beside fragments of 60,000 bytes, and a
datagram has 65,507."""
NAME_MAX: Final = 255
"""The most characters of a member's name. Other members keep only the beginning of a longer one (transport/base.py)."""


def check_names(cluster: object, name: object) -> None:
    """Check the names of a group and of a member. None means the default."""
    _check_name("cluster", cluster, CLUSTER_MAX)
    _check_name("name", name, NAME_MAX)
    if isinstance(cluster, str) and any(ord(char) > 255 for char in cluster):
        raise ConfigError(
            f'cluster: "{cluster}" has characters above 255, which JGroups cannot send'
        )


def _check_name(what: str, value: object, limit: int) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, got {_of_kind(value)}")
    if not value:
        raise ConfigError(f"{what} is empty (1 to {limit} characters)")
    if len(value) > limit:
        raise ConfigError(f"{what} has {len(value)} characters (1 to {limit})")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError(f"{what}: {value!r} has half of a character (a lone surrogate)")


def check_texts(what: str, values: object) -> None:
    """Check that ``values`` is None or a mapping of texts."""
    if values is None:
        return
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} is a mapping of str to str, got {_of_kind(values)}")
    for key, value in values.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"{what} is a mapping of str to str, got {key!r}: {_of_kind(value)}")


def check_text(what: str, value: object) -> None:
    """Check that ``value`` is None or a text."""
    if not (value is None or isinstance(value, str)):
        raise TypeError(f"{what} is a str, got {_of_kind(value)}")


def check_paths(**values: object) -> None:
    """Check that each value is None, a text or a path. Its keyword names it in errors."""
    for what, value in values.items():
        if not (value is None or isinstance(value, str | Path)):
            raise TypeError(f"{what} is a str or a Path, got {_of_kind(value)}")


def check_function(what: str, value: object, kind: str) -> None:
    """Check that ``value`` is None or can be called. ``kind`` describes the accepted values in words."""
    if not (value is None or callable(value)):
        raise TypeError(f"{what} is {kind}, got {_of_kind(value)}")


def check_destination(to: object) -> None:
    """Check that ``to`` is None (the group) or the address of a member."""
    if to is None or (isinstance(to, Address) and not isinstance(to, IpAddress)):
        return
    raise TypeError(
        f"a destination is an address from a view or a message, or None for the group, got {_of_kind(to)}"
    )


def check_member(member: object) -> None:
    """Check that ``member`` is the address of a member."""
    if not isinstance(member, Address) or isinstance(member, IpAddress):
        raise TypeError(f"a member is an address from a view or a message, got {_of_kind(member)}")


def check_method(method: object) -> None:
    """Check that ``method`` is the name of a method."""
    if not isinstance(method, str):
        raise TypeError(f"a method is called by its name, a str, got {_of_kind(method)}")


def check_size(what: str, value: object) -> int:
    """Check and return a number of members."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a number of members, got {_of_kind(value)}")
    if value < 1:
        raise ConfigError(f"{what} is {value} (1 member or more)")
    return value


def check_member_names(what: str, value: object) -> tuple[str, ...]:
    """Check and return logical names of members."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a number of members or several names, got {_of_kind(value)}")
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} has the names of members, got {_of_kind(name)}")
    return names


def _of_kind(value: Any) -> str:
    return f"{value!r:.80} ({type(value).__name__})"
