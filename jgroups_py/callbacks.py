"""What users' own code raised, as text: for logs, and for members on other machines.

Who calls what, and what an exception does there: design/callbacks.md.
"""

from __future__ import annotations


def said(error: BaseException) -> str:
    """``ValueError: boom``. It never raises, and always has an encoding in UTF-8: a file name may have none, and
    an error's own ``__str__`` may raise."""
    kind, text = type(error).__name__, text_of(error)
    return plain(f"{kind}: {text}" if text else kind)


def text_of(error: BaseException) -> str:
    """``str(error)``, see ``said``."""
    try:
        return plain(str(error))
    except Exception:
        return "(its text cannot be made)"


def plain(text: str) -> str:
    """``text`` with escapes for what UTF-8 cannot say (lone surrogates)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
