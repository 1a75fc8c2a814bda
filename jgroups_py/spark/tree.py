"""The rows of a tree cache. Three forms, chosen by the schema:

    path string, data binary                     as the member keeps it: fastest; rows that were read can be written
    path string, attributes map<string,string>   values as JSON texts; the default
    path string, name string, visits bigint ...  an attribute for each column; null: there is none

Changes have the columns origin, number, time, stamp, removed besides, and no attributes where removed is true.
Writes may have ``removed``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
from pyspark.sql import types as t

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Frame
from jgroups_py.export.columns import CHANGES, STATE, Schema, buffers_of
from jgroups_py.export.errors import ExportError
from jgroups_py.spark.encoding import Rows, frames, nodes_of_columns, nodes_of_data, nodes_of_texts
from jgroups_py.spark.kinds import MapKind, register_kind

KEY: Final = "path"
ABOUT: Final = {
    "origin": t.StringType(),
    "number": t.LongType(),
    "time": t.TimestampType(),
    "stamp": t.StringType(),
    "removed": t.BooleanType(),
}
"""Columns of a change that are no attributes."""
FRAME_BYTES: Final = 1_000_000
"""The bytes after which a frame of a bulk write ends."""

_SIMPLE: Final[dict[Any, tuple[Any, str]]] = {
    t.StringType: (str, "text"),
    t.BooleanType: (bool, "boolean"),
    t.ByteType: (int, "whole number"),
    t.ShortType: (int, "whole number"),
    t.IntegerType: (int, "whole number"),
    t.LongType: (int, "whole number"),
    t.FloatType: (float, "number"),
    t.DoubleType: (float, "number"),
    t.BinaryType: (bytes, "bytes"),
    t.TimestampType: (datetime, "time"),
}
Form = Literal["data", "attributes", "columns"]


def form_of(schema: Any, about: Sequence[str]) -> Form:
    """Return the form. ConfigError: the schema has no path, or a column of a type that it cannot have."""
    fields = {field.name: field.dataType for field in schema.fields}
    if not isinstance(fields.get(KEY), t.StringType):
        raise ConfigError(f"schema mismatch: a tree cache needs a column {KEY} string")
    for name in about:
        if name in fields and fields[name] != ABOUT[name]:
            kind = ABOUT[name].simpleString()
            raise ConfigError(f"schema mismatch: column {name} is {kind}, not {fields[name]}")
    rest = {name: kind for name, kind in fields.items() if name != KEY and name not in about}
    if list(rest) == ["data"] and isinstance(rest["data"], t.BinaryType):
        return "data"
    texts = t.MapType(t.StringType(), t.StringType())
    if list(rest) == ["attributes"] and isinstance(rest["attributes"], t.MapType):
        if rest["attributes"].simpleString() != texts.simpleString():
            raise ConfigError("schema mismatch: column attributes is map<string,string>")
        return "attributes"
    return "columns"


# --- reading

_attributes = msgspec.msgpack.Decoder(dict[str, bytes]).decode
"""A node's data, as in ``jgroups_py.cache.node``, which workers need not import."""


class Decoding:
    """Makes record batches from frames. ``schema``: Spark's; ``layout``: the frames'."""

    def __init__(self, schema: Any, layout: Schema, about: Sequence[str]) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._layout = layout
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._form = form_of(schema, about)
        self._values = {
            field.name: _value_decoder(field.name, field.dataType)
            for field in schema.fields
            if self._form == "columns" and field.name != KEY and field.name not in about
        }
        self._lists = {
            field.name: msgspec.msgpack.Decoder(
                list[_SIMPLE.get(type(field.dataType), (Any, ""))[0] | None]  # type: ignore[misc]
            ).decode
            for field in schema.fields
            if field.name in self._values
        }

    def __call__(self, frame: Frame) -> Any:
        rows, sizes, body = frame
        found = self._arrays(rows, buffers_of(self._layout, rows, sizes, body, each=False))
        if "removed" in found:
            found["removed"] = found["removed"].cast(pa.bool_())
        if self._form == "attributes":
            found["attributes"] = self._attributes(found)
        elif self._form == "columns":
            found.update(self._columns(found))
        arrays = []
        for field in self._arrow:
            array = found[field.name]
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _arrays(self, rows: int, buffers: Sequence[memoryview]) -> dict[str, Any]:
        """Return Arrow's arrays over the received bytes."""
        found: dict[str, Any] = {}
        given = iter([pa.py_buffer(buffer) for buffer in buffers])
        for name, kind in self._layout:
            type = _ARROW[kind] if name != "time" else pa.timestamp("us", tz="UTC")
            parts = [None, next(given)]
            if kind in ("text", "data"):
                parts.append(next(given))
            array = pa.Array.from_buffers(type, rows, parts)
            try:
                array.validate(full=True)  # checks each row's offset, and that texts are UTF-8
            except pa.ArrowInvalid as error:
                raise ExportError(f"column {name} of a frame: {error}") from None
            found[KEY if name == "key" else name] = array
        return found

    def _nodes(self, found: dict[str, Any]) -> Iterator[tuple[str, dict[str, bytes] | None]]:
        """Yield path and attributes of each row; None: removed."""
        for path, data in zip(found[KEY].to_pylist(), found["data"].to_pylist(), strict=True):
            yield path, (_attributes(data) if data else None)

    def _attributes(self, found: dict[str, Any]) -> Any:
        decode, json = msgspec.msgpack.decode, msgspec.json.encode
        values = [
            None if node is None else [(k, json(decode(v)).decode()) for k, v in node.items()]
            for _, node in self._nodes(found)
        ]
        return pa.array(values, type=pa.map_(pa.string(), pa.string()))

    def _columns(self, found: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._columns_at_once(found["data"])
        except (msgspec.MsgspecError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return self._columns_one_by_one(found)  # its error names the value and its place

    def _columns_at_once(self, data: Any) -> dict[str, Any]:
        """Return all rows as one list, each column as one list: a call of the decoder for each."""
        values = data.to_pylist()
        nodes = _all_attributes(_list_of([value or b"\x80" for value in values]))
        arrays = {}
        for name, decode in self._lists.items():
            column = decode(_list_of([node.get(name, b"\xc0") for node in nodes]))
            arrays[name] = pa.array(column, type=self._arrow.field(name).type)
        return arrays

    def _columns_one_by_one(self, found: dict[str, Any]) -> dict[str, Any]:
        columns: dict[str, list[Any]] = {name: [] for name in self._values}
        each = [(name, decode, columns[name].append) for name, decode in self._values.items()]
        for path, node in self._nodes(found):
            node = node or {}
            for name, decode, append in each:
                data = node.get(name)
                append(None if data is None else decode(path, data))
        arrays = {}
        for name, values in columns.items():
            try:
                arrays[name] = pa.array(values, type=self._arrow.field(name).type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                kind = self._arrow.field(name).type
                raise ExportError(
                    f"schema mismatch: attribute {name} is no {kind}: {error}"
                ) from None
        return arrays


_all_attributes = msgspec.msgpack.Decoder(list[dict[str, bytes]]).decode


def _list_of(values: Sequence[bytes]) -> bytes:
    """Return values in msgpack as one list in msgpack."""
    return b"".join((b"\xdd", len(values).to_bytes(4, "big"), *values))


def _value_decoder(name: str, kind: Any) -> Callable[[str, bytes], Any]:
    python, said = _SIMPLE.get(type(kind), (Any, ""))
    decode = msgspec.msgpack.Decoder(python).decode

    def value(path: str, data: bytes) -> Any:
        if data == b"\xc0":  # None was put
            return None
        try:
            return decode(data)
        except msgspec.MsgspecError:
            found = type(msgspec.msgpack.decode(data)).__name__
            raise ExportError(
                f"schema mismatch: attribute {name} of {path} is a value of type {found}, "
                f"no {said or kind.simpleString()}"
            ) from None

    return value


_ARROW = {"text": pa.string(), "data": pa.binary(), "number": pa.int64(), "flag": pa.uint8()}


# --- writing


class Encoding:
    """Record batches of Spark's ``schema`` to frames of writes."""

    def __init__(self, schema: Any) -> None:
        self._form = form_of(schema, ("removed",))
        self._names = [f.name for f in schema.fields if f.name not in (KEY, "removed")]

    def __call__(self, batch: Any) -> Iterator[Rows]:
        keys = batch.column(KEY)
        if keys.null_count:
            raise ExportError(f"schema mismatch: a {KEY} is null")
        removed = bytes(batch.num_rows)
        if "removed" in batch.schema.names:
            removed = bytes(flag is True for flag in batch.column("removed").to_pylist())
        if self._form == "data":
            data = nodes_of_data(batch.column("data"))
        elif self._form == "attributes":
            data = nodes_of_texts(batch.column("attributes"))
        else:
            data = nodes_of_columns({n: batch.column(n) for n in self._names}, batch.num_rows)
        yield from frames(keys, removed, data, FRAME_BYTES)


register_kind(
    MapKind(
        name="tree",
        key=KEY,
        state=f"{KEY} string, attributes map<string,string>",
        changes=(
            f"origin string, number bigint, time timestamp, {KEY} string, stamp string, "
            "removed boolean, attributes map<string,string>"
        ),
        state_decoder=partial(Decoding, layout=STATE, about=()),
        changes_decoder=partial(Decoding, layout=CHANGES, about=tuple(ABOUT)),
        encoder=Encoding,
    )
)
