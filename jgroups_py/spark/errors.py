"""Finds the important line among the many lines of an error in Spark. It is the error that a Python worker raised, or
Spark's own."""

from __future__ import annotations

import re
from typing import Any, Final

from jgroups_py.errors import JGroupsError

_OURS = re.compile(
    r"^(?:jgroups_py\.(?:export\.errors|errors|spark\.errors|maps\.errors)\.)(\w+): (.+)$",
    re.MULTILINE,
)
_TASK: Final = re.compile(r"Lost task [^()]*\([^()]*\) \([^()]*\): (.+)")
"""The reason why a stage failed."""
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+(?=\w+:)")
"""The package of a Java class before its message."""
LINE_MAX: Final = 300
"""The most letters of Spark's own words that are shown."""
_CAUSES_MAX: Final = 20
_LOST: Final = frozenset(("NoMember", "UnknownSnapshot", "UnknownJob", "Behind"))
"""Errors after which another attempt can help: the member that kept data for a query is gone, or was started anew, or
no other member has seen the changes yet."""


def problem_of(error: BaseException) -> str | None:
    """Return the error in one line: this library's, or else Spark's own. Return None for a bug."""
    found = _found(error)
    return found[1] if found is not None else _of_spark(error)


def is_lost_member(error: BaseException) -> bool:
    """Return whether the error comes from a lost member, so that another member may do its work."""
    found = _found(error)
    return found is not None and found[0] in _LOST


def _found(error: BaseException) -> tuple[str, str] | None:
    if isinstance(error, JGroupsError):
        return type(error).__name__, str(error)
    found = _OURS.findall(str(error))
    return (str(found[-1][0]), str(found[-1][1])) if found else None


def _of_spark(error: BaseException) -> str | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JJavaError):
        text = _innermost(error.java_exception)
    elif isinstance(error, PySparkException):
        text = str(error)
    else:
        return None
    task = _TASK.search(text)
    line = (task[1] if task else text.strip()).split("\n", 1)[0]
    line = _STATE.sub("", _CLASS.sub("", line)).strip()
    return f"Spark: {line[:LINE_MAX]}{'...' if len(line) > LINE_MAX else ''}"


def _innermost(error: Any) -> str:
    """Return the text of the first cause."""
    for _ in range(_CAUSES_MAX):
        cause = error.getCause()
        if cause is None:
            break
        error = cause
    return str(error.getMessage() or error.toString())
