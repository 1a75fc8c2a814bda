"""JSON as RFC 8259 has it. Values of users may be NaN or infinite, which JSON has no words for: they become null."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def strict_json(
    value: object,
    *,
    indent: int | None = None,
    ascii_only: bool = True,
    other: Callable[[Any], object] | None = None,
) -> str:
    """Return the JSON of ``value``. ``other`` turns a value that JSON does not have into one that it has."""

    def text(what: object) -> str:
        return json.dumps(
            what, indent=indent, ensure_ascii=ascii_only, default=other, allow_nan=False
        )

    try:
        return text(value)
    except ValueError:
        return text(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
