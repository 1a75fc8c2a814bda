"""Texts of errors of users' code, for logs and for other machines (stack/raised.py)."""

from __future__ import annotations

import traceback

import pytest

from jgroups_py.stack.raised import TEXT_MAX, TRACEBACK_MAX, loggable, said, text_of


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as found:
        return found


@pytest.mark.parametrize("size", [TEXT_MAX, TEXT_MAX + 1, 3_000_000])
def test_a_long_text_is_cut(size: int) -> None:
    """Errors of decoders quote the data that they could not read."""
    error = ValueError("x" * size)
    if size == TEXT_MAX:
        assert text_of(error) == "x" * size
    else:
        assert text_of(error) == f"{'x' * TEXT_MAX}... ({size:,} characters)"
    assert said(error) == f"ValueError: {text_of(error)}"


def test_a_traceback_in_a_log_has_a_limit() -> None:
    short, long = raised(ValueError("x" * 10_000)), raised(ValueError("x" * TRACEBACK_MAX))
    assert loggable(short) is short
    shown = "".join(traceback.format_exception(loggable(long)))
    assert "ValueError: xxx" in shown and f"({TRACEBACK_MAX:,} characters)" in shown
    assert "in raised" in shown and len(shown) < 2 * TEXT_MAX
