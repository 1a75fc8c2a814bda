"""Errors out of the code of a plug-in: which ones are caught, and their text. Neither may end a node."""

from __future__ import annotations

from typing import Final

from jgroups_py.buckets.messages import TEXT_MAX

PLUGIN_ERRORS: Final = (Exception, SystemExit)
"""SystemExit, too: a request that ends its master's node would be repeated at the slave's, and end that one."""


def text_of(error: BaseException, most: int = TEXT_MAX) -> str:
    """Return the error's class and text, at most so many characters, all of which can be sent."""
    text = type(error).__name__
    try:
        text += f": {error}"
    except PLUGIN_ERRORS:
        text += ", which has no text"
    return text.encode("utf-8", "backslashreplace").decode()[:most]
