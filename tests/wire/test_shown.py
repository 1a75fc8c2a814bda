"""Texts of others are shown as one harmless line."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.values.shown import SHOWN_MAX, shown


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "web-1 (blue)",
        "M\u00fcnchen",
        "\u6771\u4eac",
        "\u0627\u0644\u0642\u0627\u0647\u0631\u0629",
        "\U0001f680",
    ],
    ids=["short", "signs", "umlaut", "kanji", "arabic", "rocket"],
)
def test_an_honest_name_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J\x1b[H", "\ufffd[2J\ufffd[H"),
        ("A\nERROR all is lost", "A\ufffdERROR all is lost"),
        ("A\r\x85\u2028B", "A\ufffd\ufffd\ufffdB"),
        ("user\u202egnp.exe", "user\ufffdgnp.exe"),
        ("A\u200b", "A\ufffd"),
        ("\x9b31m", "\ufffd31m"),
        ("half \ud800", "half \ufffd"),
    ],
    ids=["escape", "newline", "returns", "direction", "invisible", "c1", "surrogate"],
)
def test_characters_that_steer_a_terminal_are_replaced(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_a_long_name_is_cut() -> None:
    assert shown("x" * 300) == "x" * (SHOWN_MAX - 1) + "\u2026"
    assert shown("x" * SHOWN_MAX) == "x" * SHOWN_MAX


@given(st.text(st.characters(), max_size=300))
def test_shown_text_is_short_and_printable(text: str) -> None:
    seen = shown(text)
    assert len(seen) <= SHOWN_MAX
    assert seen.encode("utf-8").decode("utf-8") == seen
    bad = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    assert not any(unicodedata.category(c) in bad for c in seen)
