"""A reader's limits: it reads no byte beyond the end, leaves none over, and refuses impossible counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.wire.primitives import Reader, Writer


def test_a_reader_reads_up_to_the_end_and_not_beyond() -> None:
    r = Reader(b"abc")
    assert (r.take(2), r.left) == (b"ab", 1)
    with pytest.raises(RemoteProtocolError, match="2 bytes wanted, 1 left"):
        r.take(2)
    assert r.u8() == ord("c")
    for read in (r.u8, r.i16, r.i32, r.i64, r.lz64, r.mutf):
        _refused(read)


def _refused(read: Callable[[], object]) -> None:
    with pytest.raises(RemoteProtocolError):
        read()


def test_bytes_that_are_left_over_are_refused() -> None:
    r = Reader(b"abc")
    r.take(2)
    with pytest.raises(RemoteProtocolError, match="1 bytes left over"):
        r.expect_end()
    r.take(1)
    r.expect_end()


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1])
def test_a_count_that_cannot_fit_is_refused_before_anything_is_made_for_it(count: int) -> None:
    r = Reader(b"abcde")
    assert r.count(2, 2, "things") == 2
    with pytest.raises(RemoteProtocolError, match="things"):
        r.count(count, 2, "things")


@pytest.mark.parametrize("kind", ["u8", "i8", "i16", "u16", "i32", "u32", "i64"])
def test_numbers_that_do_not_fit_are_not_written(kind: str) -> None:
    bits = int(kind[1:])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for value in (low, high):
        writer = Writer()
        getattr(writer, kind)(value)
        assert getattr(Reader(writer.done()), kind)() == value
    for value in (low - 1, high + 1):
        with pytest.raises(LocalProtocolError):
            getattr(Writer(), kind)(value)
