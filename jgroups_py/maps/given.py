"""Checks of options before any file or port is opened. MapTypeError: a wrong type; MapError: a wrong value. The text names the
option and accepted values."""

from __future__ import annotations

import math
from typing import Any, Final

from jgroups_py.maps.errors import MapError, MapTypeError

SECONDS_MAX: Final = 100 * 366 * 86_400.0
"""A hundred years. A longer time is a mistake, and a stamp has no room for a much longer one."""


def check_number(name: str, value: object, least: int, most: int, words: str) -> None:
    """Check for a whole number from ``least`` to ``most``. ``words``: ``least`` in the error's text."""
    check_kind(name, value, int, "a whole number")
    assert isinstance(value, int)
    if value < least:
        raise MapError(f"{name} must be at least {words}, got {value}")
    if value > most:
        raise MapError(f"{name} must be at most {most}, got {value}")


def check_seconds(
    name: str, value: object, *, zero: bool = False, most: float = SECONDS_MAX
) -> None:
    """Check for a time: more than 0 or, with ``zero``, at least 0."""
    check_kind(name, value, (int, float), "a number of seconds")
    assert isinstance(value, int | float)
    if math.isnan(value) or value < 0 or (value == 0 and not zero) or value > most:
        bounds = "0 seconds or more" if zero else "more than 0 seconds"
        further = f", and at most {most:g}" if value > most else ""
        raise MapError(f"{name} must be {bounds}{further}, got {value}")


def check_kind(name: str, value: object, kind: Any, words: str) -> None:
    """Check the type. ``kind``: as for isinstance; True and False are no numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise MapTypeError(f"{name} must be {words}, got {_shown(value)}")


def _shown(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"
