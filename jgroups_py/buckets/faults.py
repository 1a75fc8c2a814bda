"""Errors of a plug-in's code: which ones are caught, and their text. None of them may end a node."""

from __future__ import annotations

from typing import Final

from jgroups_py.buckets.messages import TEXT_MAX

PLUGIN_ERRORS: Final = (BaseException,)
"""The errors include SystemExit, KeyboardInterrupt and CancelledError of asyncio. Otherwise a request that ended its
master's node would be repeated at the slave, and end that node. A plug-in runs under trio's protection from Ctrl-C
(``node.py``), so a KeyboardInterrupt in it is its own."""


def text_of(error: BaseException, most: int = TEXT_MAX) -> str:
    """Return the error's class and text, at most ``most`` characters. All of them can be encoded as UTF-8."""
    text = type(error).__name__
    try:
        text = f"{text}: {error}".removesuffix(": ")
    except PLUGIN_ERRORS:
        text += ", which has no text"
    return text.encode("utf-8", "backslashreplace").decode()[:most]
