"""One line of what Spark says in forty: the error that a Python worker raised."""

from __future__ import annotations

import re

_OURS = re.compile(
    r"^(?:jgroups_py\.(?:export\.errors|errors|spark\.errors)\.)(\w+): (.+)$", re.MULTILINE
)


def problem_of(error: BaseException) -> str | None:
    """What of ours went wrong, in one line; None if nothing of ours did."""
    found = _OURS.findall(str(error))
    return str(found[-1][1]) if found else None
