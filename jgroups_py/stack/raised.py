"""Exceptions of users' own code, as text: for logs, and for members on other machines.

design/callbacks.md has a table of all callbacks: their callers, and the effect of an exception.
"""

from __future__ import annotations

import traceback
from typing import Final

TEXT_MAX: Final = 1000
"""The most characters of an error's text: it goes into a line of a log and to other machines, and errors of decoders quote what they read."""
TRACEBACK_MAX: Final = 100_000
"""The most characters of a traceback in a log, with the texts of its errors."""


def said(error: BaseException) -> str:
    """Return an error's text: ``ValueError: boom``. This never raises, and the text has an encoding in UTF-8: a file
    name may have none, and an error's own ``__str__`` may raise."""
    kind, text = type(error).__name__, text_of(error)
    return plain(f"{kind}: {text}" if text else kind)


def text_of(error: BaseException) -> str:
    """Return ``str(error)`` as safely as ``said``."""
    try:
        text = plain(str(error))
    except Exception:
        return "(its text cannot be made)"
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text):,} characters)"


def plain(text: str) -> str:
    """Return ``text`` with escapes for lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def loggable(error: BaseException) -> BaseException:
    """Return ``error``, for ``exc_info``, in a form that a log file can hold. UTF-8 has no lone surrogates: for a text
    with one, it is an error of the same name and traceback, with the text escaped. The same for a text that is too long, which is cut."""
    text = "".join(traceback.format_exception(error))
    if len(text) <= TRACEBACK_MAX and text == plain(text):
        return error
    named = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
    same: BaseException = named(text_of(error))
    return same.with_traceback(error.__traceback__)
