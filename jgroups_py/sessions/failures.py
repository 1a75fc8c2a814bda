"""What a visitor is told when a session could not be read or saved."""

from __future__ import annotations

from http import HTTPStatus

from jgroups_py.errors import CacheRefused
from jgroups_py.sessions.store import SessionGone

HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Cache-Control", "no-store"),
]


def failure(error: Exception) -> tuple[HTTPStatus, bytes]:
    """The status and the body of the answer that takes the application's place. CacheRefused is the
    application's own mistake (a value that cannot be stored) and is raised."""
    if isinstance(error, CacheRefused):
        raise error
    if isinstance(error, SessionGone):
        return HTTPStatus.CONFLICT, b"Your session has ended meanwhile. Please begin again.\n"
    if getattr(error, "definite", False):
        said = b"Your session cannot be reached just now. Nothing was changed in it; try again.\n"
    else:
        said = b"It is not certain that your session was saved. Please look before you try again.\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, said
