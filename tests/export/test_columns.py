"""Frames: packed rows are unpacked again, and garbage is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.export.columns import CHANGES, WRITES, buffers_of, pack, unpack
from jgroups_py.export.errors import ExportError

texts = st.text(max_size=10)
rows = st.lists(
    st.tuples(
        texts,
        st.integers(0, 2**62),
        st.integers(0, 2**62),
        texts,
        texts,
        st.booleans(),
        st.binary(),
    ),
    max_size=20,
)


def columns(rows: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[i] for row in rows] for i in range(width)]


@settings(max_examples=30)
@given(rows)
def test_packed_rows_are_unpacked(rows: list[tuple[Any, ...]]) -> None:
    sizes, body = pack(CHANGES, columns(rows, 7))
    assert list(unpack(CHANGES, len(rows), sizes, body)) == rows


@given(st.data())
def test_garbage_is_refused_or_reads_within_its_bounds(data: st.DataObject) -> None:
    sizes, body = pack(WRITES, [["a", "bc"], [True, False], [b"", b"xyz"]])
    broken = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    rows = data.draw(st.sampled_from([0, 1, 2, 3]))
    try:
        found = list(unpack(WRITES, rows, sizes, bytes(broken)))
    except ExportError:
        return
    assert len(found) == rows and sum(len(row[2]) for row in found) == 3


@pytest.mark.parametrize(
    ("sizes", "length"), [((), 0), ((4,) * 5, 8), ((-8, 8, 8, 8, 8), 24), ((12, 3, 2, 12, 3), 48)]
)
def test_frames_that_do_not_fit_are_refused(sizes: tuple[int, ...], length: int) -> None:
    with pytest.raises(ExportError):
        buffers_of(WRITES, 3, sizes, bytes(length))
