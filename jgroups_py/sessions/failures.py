"""The answer to a visitor when a session could not be read or saved."""

from __future__ import annotations

from http import HTTPStatus

from jgroups_py.errors import CacheRefused
from jgroups_py.sessions.store import SessionGone

HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Cache-Control", "no-store"),
]


def failure(error: Exception) -> tuple[HTTPStatus, bytes]:
    """Return status and body of the answer that replaces the application's. CacheRefused is raised, because it is a mistake of
    the application (a value that cannot be stored)."""
    if isinstance(error, CacheRefused):
        raise error
    if isinstance(error, SessionGone):
        return HTTPStatus.CONFLICT, b"Your session has ended meanwhile. Please begin again.\n"
    if getattr(error, "definite", False):
        said = b"Your session cannot be reached just now. Nothing was changed in it; try again.\n"
    else:
        said = b"It is not certain that your session was saved. Please look before you try again.\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, said
