"""Makes text of others safe to show in a terminal, a log or a report.

A member chooses its own name, and a site, a cluster or an error's text comes from elsewhere, too. Such a text could
clear the terminal, begin a log line of its own or turn the direction of what follows.
"""

from __future__ import annotations

import unicodedata
from typing import Final

SHOWN_MAX: Final = 255
"""The most characters of a name that are shown."""
REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands for a character that is not shown."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def shown(text: str, most: int = SHOWN_MAX) -> str:
    """Return ``text`` as one line of at most ``most`` characters, without characters that steer a terminal, end a line,
    are invisible or have no encoding."""
    if len(text) <= most and text.isascii() and text.isprintable():
        return text
    cut = text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return "".join(REPLACED if unicodedata.category(c) in _HIDDEN else c for c in cut)
