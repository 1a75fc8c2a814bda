"""The keys of a line of traffic to caches, and their readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.drill.file import values
from jgroups_py.drill.run.requests import Load

KEYS_MAX = 100_000
VALUE_MIN, VALUE_MAX = 64, 10_000_000
"""Bytes of a value, which names its writer and number."""


def keys(text: str) -> int:
    """Read a number of keys."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= KEYS_MAX:
        raise ValueError(f"{text!r} is not a number of keys, 1 to {KEYS_MAX}")
    return int(text)


def part(text: str) -> float:
    """Read a part: ``80%``, ``0.8``."""
    if re.fullmatch(r"[0-9]*\.?[0-9]+", text):
        if float(text) <= 1:
            return float(text)
    elif text.endswith("%"):
        return values.percentage(text)
    raise ValueError(f"{text!r} is not a part such as 80% or 0.8")


def value_size(text: str) -> int:
    """Read the size of a value: ``1KB``."""
    size = values.size(text)
    if not VALUE_MIN <= size <= VALUE_MAX:
        raise ValueError(f"{size} B; from {VALUE_MIN} B (who wrote it) to {VALUE_MAX} B")
    return size


PARTS: Final = ("read_ratio", "remove_ratio", "stickiness")
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "keys": keys,
    **{name: lambda text: values.span(text, part) for name in PARTS},
    "value_size": value_size,
}
__all__ = ["PARTS", "READERS", "Load", "keys", "part", "value_size"]
