"""One line of what Spark says in forty: the error that a Python worker raised."""

from __future__ import annotations

import re
from typing import Final

from jgroups_py.errors import JGroupsError

_OURS = re.compile(
    r"^(?:jgroups_py\.(?:export\.errors|errors|spark\.errors)\.)(\w+): (.+)$", re.MULTILINE
)
_LOST: Final = frozenset(("NoMember", "UnknownSnapshot", "UnknownJob"))
"""The member that kept something for a query is gone, or was started anew."""


def problem_of(error: BaseException) -> str | None:
    """What of ours went wrong, in one line; None if nothing of ours did."""
    found = _found(error)
    return None if found is None else found[1]


def is_lost_member(error: BaseException) -> bool:
    """Whether another member may do what this one can no more."""
    found = _found(error)
    return found is not None and found[0] in _LOST


def _found(error: BaseException) -> tuple[str, str] | None:
    if isinstance(error, JGroupsError):
        return type(error).__name__, str(error)
    found = _OURS.findall(str(error))
    return (str(found[-1][0]), str(found[-1][1])) if found else None
