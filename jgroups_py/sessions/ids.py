"""Session ids, and the cookie values that carry them: ``<id>`` or ``<id>.<route>``.

An id is 256 random bits. The node it leads to is named by its hash, so that who can list a cache (an
operator, a backup, a log) cannot take over a session. The route is the name of the member that has the
session: load balancers send the next request there (``jvmRoute``, "sticky route").
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import Final

from jgroups_py.errors import ConfigError

ID_BYTES: Final = 32
_ID: Final = r"[A-Za-z0-9_-]{43}"  # 32 bytes in base64
_ROUTE: Final = r"[A-Za-z0-9_-]{1,64}"
_COOKIE: Final = re.compile(rf"({_ID})(?:\.({_ROUTE}))?")
COOKIES_MAX: Final = 20
"""Cookies of the session's name that are looked at in one request."""


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(ID_BYTES)


def node_name(id: str) -> str:
    """The name of an id's node; may be shown, as the id may not."""
    return hashlib.sha256(id.encode()).hexdigest()


def cookie_value(id: str, route: str) -> str:
    """The value of the cookie."""
    return f"{id}.{route}" if route else id


def checked_route(route: str) -> str:
    """ConfigError: it cannot be part of a cookie."""
    if route and not re.fullmatch(_ROUTE, route):
        raise ConfigError(f'route is "{route}" (1 to 64 letters, digits, - and _)')
    return route


def ids_in(header: str, cookie: str) -> Iterator[tuple[str, str]]:
    """(id, route) of each cookie of that name in a Cookie header. Whatever is none is passed over."""
    found = 0
    for part in header.split(";"):
        name, _, value = part.partition("=")
        if name.strip() != cookie:
            continue
        match = _COOKIE.fullmatch(value.strip().strip('"'))
        if match:
            yield match[1], match[2] or ""
        found += 1
        if found == COOKIES_MAX:
            return
