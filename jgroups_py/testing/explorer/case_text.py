"""Cases as JSON, for people and to be played again: the same for all back ends that keep a case as one structure."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from jgroups_py.errors import ConfigError

C = TypeVar("C")
LENGTH_MAX: Final = 1_000_000
"""The most characters of a case that is given as text."""
SHOWN_MAX: Final = 40
"""The most characters of a value, or names of a list, in an error."""


def written(case: object) -> str:
    return msgspec.json.format(msgspec.json.encode(case), indent=1).decode() + "\n"


def read_as(kind: type[C], text: str, file: str, what: str = "a schedule") -> C:
    """Return the case in ``text``. Raises ``ConfigError`` with ``file``, the place and the value there, if ``text`` is
    not ``what``."""
    if len(text) > LENGTH_MAX:
        raise ConfigError(f"too long for {what} (at most {LENGTH_MAX} characters)", file=file)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"not {what}: {error}{_found(text, error)}", file=file) from None


def _found(text: str, error: Exception) -> str:
    """Return the value at the place that ``error`` names."""
    place = re.search(r" - at `\$(.+)`$", str(error))
    if place is None:
        return ""
    value: Any = msgspec.json.decode(text)
    try:
        for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", place[1]):
            value = value[key] if key else value[int(index)]
    except (KeyError, IndexError, TypeError):
        return ""
    return f"; there is {str(value)[:SHOWN_MAX]!r}" if not isinstance(value, dict | list) else ""
