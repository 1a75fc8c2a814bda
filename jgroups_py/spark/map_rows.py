"""Rows of a multi-master map as record batches. The schema chooses the form of values:

    key string, value string                  the value as it is: text, number or bytes; of JSON and Structs its JSON text. The default
    key string, bid double, ask double        a field of the value for each column; null: there is none

The key is string, bigint or binary, as the map's keys are; JSON and Structs are their JSON text. A change has the
columns ``ABOUT``, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import types as t

from jgroups_py.errors import ConfigError
from jgroups_py.maps.described import DescribedMap, Form
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.errors import MapTypeError
from jgroups_py.maps.following import stamp_text
from jgroups_py.maps.stamp import TICKS_PER_S

_TYPES: Final[dict[Form, str]] = {
    "text": "string",
    "number": "bigint",
    "bytes": "binary",
    "json": "string",
}
ABOUT: Final[dict[str, Any]] = {
    "origin": t.StringType(),
    "number": t.LongType(),
    "host": t.IntegerType(),
    "time": t.TimestampType(),
    "stamp": t.StringType(),
    "expires": t.TimestampType(),
    "removed": t.BooleanType(),
}
"""Columns that are no part of key and value. Rows of a snapshot have no origin and no number."""
OF_CHANGES: Final = ("origin", "number", "removed")
_TICKS_PER_US: Final = TICKS_PER_S // 1_000_000

Told = tuple[str, int, bytes, MapEntry]
"""Origin, number, key, entry."""


def default_schema(key: Form, value: Form, changes: bool) -> str:
    """Return the schema in Spark's notation."""
    about = [f"{name} {kind.simpleString()}" for name, kind in ABOUT.items()] if changes else []
    return ", ".join([*about, f"key {_TYPES[key]}", f"value {_TYPES[value]}"])


class MapRows:
    """Makes record batches of Spark's ``schema``. ConfigError: the map has no such columns."""

    def __init__(self, schema: Any, key: Form, value: Form, changes: bool) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._texts = key == "json", value == "json"
        self._fields: list[str] = []
        wanted = {"key": _TYPES[key], "value": _TYPES[value]}
        wanted |= {name: kind.simpleString() for name, kind in ABOUT.items()}
        names = [field.name for field in schema.fields]
        if "key" not in names:
            raise ConfigError(f"schema mismatch: a map needs a column key {wanted['key']}")
        for field in schema.fields:
            name, kind = field.name, field.dataType.simpleString()
            if name in OF_CHANGES and not changes:
                raise ConfigError(f"schema mismatch: a snapshot has no column {name}")
            if name in wanted:
                if kind != wanted[name]:
                    raise ConfigError(
                        f"schema mismatch: column {name} of this map is {wanted[name]}, not {kind}"
                    )
            elif value != "json":
                raise ConfigError(
                    f"schema mismatch: no column {name}: values of this map have no fields, only value {wanted['value']}"
                )
            else:
                self._fields.append(name)

    def __call__(self, described: DescribedMap, rows: Iterable[Told]) -> Any:
        """Make a record batch. MapTypeError: a value does not fit a column; the text names it."""
        told = list(rows)
        keys = [described.key(key) for _, _, key, _ in told]
        values = [
            None if entry.value is None else described.value(entry.value) for *_, entry in told
        ]
        text = msgspec.json.encode
        columns: dict[str, list[Any]] = {
            "key": [text(key).decode() for key in keys] if self._texts[0] else keys,
            "origin": [origin for origin, *_ in told],
            "number": [number for _, number, *_ in told],
            "host": [entry.stamp.node for *_, entry in told],
            "time": [entry.stamp.time // _TICKS_PER_US for *_, entry in told],
            "stamp": [stamp_text(entry.stamp) for *_, entry in told],
            "expires": [entry.expires // _TICKS_PER_US or None for *_, entry in told],
            "removed": [entry.value is None for *_, entry in told],
        }
        if not self._fields:
            columns["value"] = (
                [None if value is None else text(value).decode() for value in values]
                if self._texts[1]
                else values
            )
        elif "value" in self._arrow.names:
            columns["value"] = [None if v is None else text(v).decode() for v in values]
        arrays = []
        for field in self._arrow:
            given = columns.get(field.name)
            if given is None:
                given = [
                    _field(value, field.name, key) for key, value in zip(keys, values, strict=True)
                ]
            arrays.append(_array(field, given, keys))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


def _field(value: Any, name: str, key: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise MapTypeError(
            f"schema mismatch: no column {name}: the value of key {key!r} is a {type(value).__name__}, which has no fields"
        )
    return value.get(name)


def _array(field: Any, values: list[Any], keys: list[Any]) -> Any:
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        for key, value in zip(keys, values, strict=True):
            try:
                pa.array([value], type=field.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                raise MapTypeError(
                    f"schema mismatch: field {field.name} of key {key!r} is a {type(value).__name__}, no {field.type}"
                ) from None
        raise
