"""The number of files that this process may have open, and a check whether an accepted connection takes one of the
last.

A descriptor is a small number, and a new one is the lowest that is free. So a high number tells that all below it are
in use, whoever uses them: this member, another one in this process, or the application.
"""

from __future__ import annotations

from typing import Final
from typing import Protocol as Interface

try:
    import resource
except ImportError:  # Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

KEPT_PART: Final = 16
"""One descriptor in this number is kept for files that this process opens itself."""
KEPT_LEAST: Final = 16
"""At least this many are kept."""


def most() -> int | None:
    """Return the number of files that this process may have open. None: there is no limit, or it is not known."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class HasDescriptor(Interface):
    """A socket, of Python or of trio."""

    def fileno(self) -> int: ...


def is_scarce(sock: HasDescriptor) -> bool:
    """Return whether ``sock``, accepted just now, has one of the last descriptors."""
    limit = most()
    return limit is not None and sock.fileno() >= limit - max(KEPT_LEAST, limit // KEPT_PART)
