"""Session ids, and the cookie values that carry them: ``<id>`` or ``<id>.<route>``.

An id is 256 random bits. Its node is named by its hash. So an operator who sees the keys of a cache, in a backup or a
log, cannot take over a session. The route is the name of the member that has the session: load balancers send the next
request there (``jvmRoute``, "sticky route").
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
"""The most cookies of the session's name that are looked at in one request."""


def new_id() -> str:
    """Return an id that cannot be guessed."""
    return secrets.token_urlsafe(ID_BYTES)


def node_name(id: str) -> str:
    """Return the name of an id's node. The name may be shown; the id must not."""
    return hashlib.sha256(id.encode()).hexdigest()


def cookie_value(id: str, route: str) -> str:
    """Return the value of the cookie."""
    return f"{id}.{route}" if route else id


def checked_route(route: str) -> str:
    """Check a route. Raise ConfigError if it cannot be part of a cookie."""
    if route and not re.fullmatch(_ROUTE, route):
        raise ConfigError(f'route is "{route}" (1 to 64 letters, digits, - and _)')
    return route


def ids_in(header: str, cookie: str) -> Iterator[tuple[str, str]]:
    """Return (id, route) of each cookie of that name in a Cookie header. Other text is passed over."""
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
