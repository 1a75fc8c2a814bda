"""Record batches to frames of bulk writes, column by column. Arrow does as much of the work as it can, so
little is done row by row.

A node's data is a msgpack map, name -> value in bytes; the value is msgpack itself. For a text column both encodings
are bytes before the text, chosen by its length. In other columns each value is encoded first, and the map's bytes are
put before it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from jgroups_py.export.columns import joined
from jgroups_py.export.errors import ExportError

_encode = msgspec.msgpack.Encoder().encode
EMPTY_NODE = _encode({})

Rows = tuple[int, tuple[int, ...], bytes]
"""The number of rows, the sizes of the buffers, and the buffers: ``columns.WRITES``."""


def nodes_of_columns(columns: dict[str, Any], rows: int) -> Any:
    """Return each row's data. Each attribute has a column. Null: there is no such attribute."""
    if not columns:
        return pa.array([EMPTY_NODE] * rows, pa.binary())
    count, parts = None, []
    for name, column in columns.items():
        value = _values(column)
        there = pc.is_valid(value).cast(pa.int32())
        count = there if count is None else pc.add(count, there)
        parts.append(_beside(pa.scalar(_encode(name), pa.binary()), _sized(value, _bin)))
    return _beside(_before(count, _map), *(pc.fill_null(part, b"") for part in parts))


def nodes_of_texts(column: Any) -> Any:
    """Return each row's data. The column has maps of JSON texts by name."""
    return pa.array([_from_texts(row) for row in column.to_pylist()], pa.binary())


def nodes_of_data(column: Any) -> Any:
    """Return each row's data, as it is; null and empty: no attributes."""
    column = column.cast(pa.binary())
    return pc.if_else(
        pc.greater(pc.binary_length(pc.fill_null(column, b"")), 0), column, EMPTY_NODE
    )


def frames(keys: Any, removed: bytes, data: Any, limit: int) -> Iterator[Rows]:
    """Yield the rows in frames, each of not much more than ``limit`` bytes."""
    keys, data = keys.cast(pa.binary()), data.cast(pa.binary())
    lengths = pc.add(pc.binary_length(keys), pc.binary_length(data)).to_pylist()
    start = size = 0
    for stop, length in enumerate(lengths, 1):
        size += length
        if size > limit or stop == len(lengths):
            part = slice(start, stop)
            key_buffers = _buffers(keys[part])
            yield stop - start, *joined([*key_buffers, removed[part], *_buffers(data[part])])
            start, size = stop, 0


def _buffers(column: Any) -> tuple[Any, Any]:
    """Return offsets, which begin at 0, and bytes."""
    _, offsets, data = column.buffers()
    all_offsets = pa.Array.from_buffers(
        pa.int32(), len(column) + 1, [None, offsets], offset=column.offset
    )
    first, last = all_offsets[0].as_py(), all_offsets[-1].as_py()
    moved = pc.subtract(all_offsets, pa.scalar(first, pa.int32())).buffers()[1]
    return memoryview(moved)[: 4 * len(all_offsets)], memoryview(data or b"")[first:last]


# --- msgpack


def _values(column: Any) -> Any:
    """Return each value in msgpack; null stays null."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _sized(column.cast(pa.binary()), _str)
    encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
    return pa.array([None if v is None else encode(v) for v in column.to_pylist()], pa.binary())


def _sized(values: Any, head: Callable[[int], bytes]) -> Any:
    return _beside(_before(pc.binary_length(values), head), values)


def _before(lengths: Any, head: Callable[[int], bytes]) -> Any:
    """Return ``head`` of each length; there are few different ones."""
    found = lengths.dictionary_encode()
    heads = [head(length) for length in found.dictionary.to_pylist()]
    return pa.array(heads, pa.binary()).take(found.indices)


def _beside(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, b"")


def _head(fixed: tuple[int, int] | None, codes: dict[int, int]) -> Callable[[int], bytes]:
    """Return the function that makes the head for a length. ``fixed``: (code, number of lengths that are part of it);
    ``codes``: bytes of a length -> code."""

    def head(length: int) -> bytes:
        if fixed is not None and length < fixed[1]:
            return bytes([fixed[0] | length])
        width = next(w for w in codes if length < 1 << 8 * w)
        return bytes([codes[width]]) + length.to_bytes(width, "big")

    return head


_str = _head((0xA0, 32), {1: 0xD9, 2: 0xDA, 4: 0xDB})
_bin = _head(None, {1: 0xC4, 2: 0xC5, 4: 0xC6})
_map = _head((0x80, 16), {2: 0xDE, 4: 0xDF})


def _from_texts(row: Any) -> bytes:
    try:
        values = {k: msgspec.msgpack.encode(msgspec.json.decode(v)) for k, v in row or ()}
    except msgspec.MsgspecError as error:
        raise ExportError(f"schema mismatch: attributes are JSON texts: {error}") from None
    return _encode(values)


def _plain(value: Any) -> Any:
    """Encode types without a form in msgpack."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__}")
