"""Rows as columns. The buffers of a frame have Arrow's layout.

So a client with pyarrow makes a record batch of a received frame without touching a row (``pa.Array.from_buffers``).
A member, which has no pyarrow, needs only ``array`` and ``join``.

    text, data   offsets (int32, one more than rows), bytes        number   int64        flag   one byte

Little-endian; each buffer begins at a multiple of 8 bytes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

from jgroups_py.export.errors import ExportError

Type = Literal["text", "data", "number", "flag"]
Schema = tuple[tuple[str, Type], ...]

STATE: Final[Schema] = (("key", "text"), ("data", "data"))
"""The columns of a snapshot."""
CHANGES: Final[Schema] = (
    ("origin", "text"),
    ("number", "number"),
    ("time", "number"),  # microseconds since 1970, by the clock of the member that is asked
    ("key", "text"),
    ("stamp", "text"),  # of two changes of a key the later one has the higher stamp
    ("removed", "flag"),
    ("data", "data"),  # empty if the node was removed
)
"""The columns of a change log."""
WRITES: Final[Schema] = (("key", "text"), ("removed", "flag"), ("data", "data"))
"""The columns of a bulk write."""

ALIGN = 8


def pack(schema: Schema, columns: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], bytes]:
    """Return the sizes of the buffers, and all buffers in one."""
    buffers: list[bytes] = []
    for (_, kind), values in zip(schema, columns, strict=True):
        match kind:
            case "text":
                _add_variable(buffers, [value.encode() for value in values])
            case "data":
                _add_variable(buffers, values)
            case "number":
                buffers.append(_bytes_of(array("q", values)))
            case "flag":
                buffers.append(bytes(values))
    return joined(buffers)


def joined(buffers: Sequence[bytes | memoryview]) -> tuple[tuple[int, ...], bytes]:
    """Pack buffers that are made already, like ``pack``."""
    padded: list[bytes | memoryview] = []
    for buffer in buffers:
        padded += buffer, bytes(-len(buffer) % ALIGN)
    return tuple(map(len, buffers)), b"".join(padded)


def _add_variable(buffers: list[bytes], values: Sequence[bytes]) -> None:
    buffers.append(_bytes_of(array("i", accumulate(map(len, values), initial=0))))
    buffers.append(b"".join(values))


def _bytes_of(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def buffers_of(
    schema: Schema,
    rows: int,
    sizes: Sequence[int],
    body: bytes | memoryview,
    *,
    each: bool = True,
) -> list[memoryview]:
    """Return the buffers of a frame after a check that no offset points outside. If ``each`` is False, the caller
    checks each row's offset.

    Raises:
        ExportError: the buffers do not fit together.
    """
    expected = sum(2 if kind in ("text", "data") else 1 for _, kind in schema)
    if len(sizes) != expected or any(size < 0 for size in sizes):
        raise ExportError(f"a frame has {len(sizes)} buffers, {expected} are expected")
    if sum(size + -size % ALIGN for size in sizes) != len(body):
        raise ExportError(f"a frame's buffers do not fill its {len(body)} bytes")
    view, buffers, at = memoryview(body), [], 0
    for size in sizes:
        buffers.append(view[at : at + size])
        at += size + -size % ALIGN
    _check(schema, rows, buffers, each)
    return buffers


def _check(schema: Schema, rows: int, buffers: Sequence[memoryview], each: bool) -> None:
    index = 0
    for name, kind in schema:
        if kind in ("text", "data"):
            offsets, length = buffers[index], len(buffers[index + 1])
            index += 2
            if len(offsets) != 4 * (rows + 1):
                raise ExportError(f"column {name}: {len(offsets)} bytes of offsets, {rows} rows")
            numbers = numbers_in(offsets, "i")
            if numbers[0] != 0 or numbers[-1] != length:
                raise ExportError(f"column {name}: offsets do not fit its {length} bytes")
            if each and any(map(int.__gt__, numbers, numbers[1:])):
                raise ExportError(f"column {name}: offsets go backwards")
        else:
            width = 8 if kind == "number" else 1
            if len(buffers[index]) != width * rows:
                raise ExportError(f"column {name}: {len(buffers[index])} bytes, {rows} rows")
            index += 1


def numbers_in(buffer: memoryview, code: Literal["i", "q"]) -> array[int]:
    """Return the numbers of a buffer."""
    numbers = array(code)
    numbers.frombytes(buffer)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def unpack(
    schema: Schema, rows: int, sizes: Sequence[int], body: bytes | memoryview
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a frame, without pyarrow."""
    buffers = buffers_of(schema, rows, sizes, body)
    columns: list[Any] = []
    index = 0
    for _, kind in schema:
        buffer = buffers[index]
        index += 1
        if kind in ("text", "data"):
            data, offsets = bytes(buffers[index]), numbers_in(buffer, "i")
            index += 1
            cut = [data[a:b] for a, b in pairwise(offsets)]
            columns.append(_texts(cut) if kind == "text" else cut)
        elif kind == "number":
            columns.append(numbers_in(buffer, "q"))
        else:
            columns.append([flag != 0 for flag in buffer])
    return zip(*columns, strict=True)


def _texts(values: list[bytes]) -> list[str]:
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError as error:
        raise ExportError(f"a text is not UTF-8: {error}") from None
