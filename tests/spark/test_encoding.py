"""Arrow makes frames of bulk writes column by column; they equal those that msgpack makes row by row."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa

from jgroups_py.export.columns import WRITES, unpack
from jgroups_py.spark.encoding import frames, nodes_of_columns, nodes_of_data

pytestmark = [pytest.mark.spark]

LENGTHS = (0, 1, 31, 32, 255, 256, 65_535, 65_536)
"""Lengths at which msgpack's head of a text, or of bytes, becomes longer (the value adds up to 5)."""


def row_by_row(columns: dict[str, list[Any]]) -> list[bytes]:
    encode = msgspec.msgpack.encode
    return [
        encode({name: encode(v) for name, v in zip(columns, row, strict=True) if v is not None})
        for row in zip(*columns.values(), strict=True)
    ]


def test_nodes_of_columns() -> None:
    chance = random.Random(3)
    texts = [
        chance.choice("xé") * (length - less)
        for length in LENGTHS
        for less in range(7)
        if length >= less
    ]
    columns: dict[str, list[Any]] = {
        "text": [*texts, None, "", None],
        "number": [chance.choice([None, 0, -5, 2**40]) for _ in range(len(texts) + 3)],
        "flag": [chance.choice([None, True, False]) for _ in range(len(texts) + 3)],
        "raw": [chance.choice([None, b"", b"\x00\xff"]) for _ in range(len(texts) + 3)],
        "n" * 300: [None] * (len(texts) + 3),
    }  # fmt: skip
    arrays = {name: pa.array(values) for name, values in columns.items()}
    assert nodes_of_columns(arrays, len(texts) + 3).to_pylist() == row_by_row(columns)
    many = {f"c{n}": [n, None] for n in range(20)}  # too many for the shortest head of a map
    found = nodes_of_columns({name: pa.array(values) for name, values in many.items()}, 2)
    assert found.to_pylist() == row_by_row(many)
    assert nodes_of_columns({}, 2).to_pylist() == [b"\x80", b"\x80"]
    days = {"day": [date(2026, 11, 22)]}
    (data,) = nodes_of_columns({"day": pa.array(days["day"])}, 1).to_pylist()
    assert data == row_by_row({"day": ["2026-11-22"]})[0]


def test_nodes_with_data_are_counted() -> None:
    column = pa.array([None, b"", b"\x81\xa1a\xc4\x01\x01"], pa.binary())
    assert nodes_of_data(column).to_pylist() == [b"\x80", b"\x80", b"\x81\xa1a\xc4\x01\x01"]


@pytest.mark.parametrize("limit", [1, 1000, 10**9])
@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_frames_of_a_slice_are_read(limit: int, kind: str) -> None:
    """Slices do not begin where their buffers do."""
    keys = [f"/é/{number}" for number in range(300)]
    data = [bytes([number % 256]) * (number % 90) for number in range(300)]
    part = slice(41, 271)
    flags = bytes(number % 2 for number in range(230))
    arrow = pa.array(keys, getattr(pa, kind)())[part], pa.array(data, pa.binary())[part]
    rows: list[tuple[Any, ...]] = []
    count = 0
    for number, sizes, body in frames(arrow[0], flags, arrow[1], limit):
        rows += unpack(WRITES, number, sizes, body)
        count += 1
    wanted = zip(keys[part], [flag == 1 for flag in flags], data[part], strict=True)
    assert rows == list(wanted)
    assert count == {1: 230, 1000: count, 10**9: 1}[limit] and (limit != 1000 or 10 < count < 30)


def test_no_rows_are_encoded_as_none() -> None:
    assert list(frames(pa.array([], pa.string()), b"", pa.array([], pa.binary()), 10)) == []
