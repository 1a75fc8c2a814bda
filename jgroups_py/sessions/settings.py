"""Settings of sessions. A wrong value raises ConfigError."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from jgroups_py.cache import BACKUP_ROOT, Fqn
from jgroups_py.errors import ConfigError

SESSION: Final = "jgroups_py.session"
"""The key of an application's session in ``environ`` (WSGI) or ``scope`` (ASGI)."""
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 6265: the allowed names of a cookie
_VALUE: Final = r"[\x20-\x3a\x3c-\x7e]*"  # no control character, no ";"


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Settings of sessions. Times are seconds."""

    cookie: str = "session"
    """The cookie's name."""
    root: str = "/sessions"
    """Sessions are nodes directly below this path."""
    max_idle: float = 1800.0
    """A session ends when no request has used it for this long."""
    max_age: float = 0.0
    """A session ends this long after its beginning, used or not. 0 means no such limit."""
    secure: bool = True
    """The browser sends the cookie over HTTPS only. Use False only to try things out."""
    same_site: Literal["Lax", "Strict", "None"] = "Lax"
    """Decides if pages of other sites may cause requests with the cookie."""
    path: str = "/"
    domain: str = ""
    """The hosts that get the cookie. Empty: only the host that set the cookie."""

    def __post_init__(self) -> None:
        if not re.fullmatch(_TOKEN, self.cookie):
            raise ConfigError(f'cookie is "{self.cookie}" (letters, digits, - and _)')
        try:
            root = Fqn.parse(self.root)
        except ValueError as error:
            raise ConfigError(f"root: {error}") from None
        if not root or root.is_within(BACKUP_ROOT):
            raise ConfigError(f'root is "{self.root}" (a path such as /sessions)')
        if not self.max_idle > 0:
            raise ConfigError(f"max_idle must be > 0 s, got {self.max_idle:g}")
        if not self.max_age >= 0:
            raise ConfigError(f"max_age must be >= 0 s, got {self.max_age:g}")
        if self.same_site not in ("Lax", "Strict", "None"):
            raise ConfigError(f'same_site is "{self.same_site}" (Lax, Strict or None)')
        if self.same_site == "None" and not self.secure:
            raise ConfigError("same_site None needs secure: browsers refuse it otherwise")
        if not re.fullmatch("/" + _VALUE, self.path):
            raise ConfigError(f'path is "{self.path}" (begins with /, no ";")')
        if not re.fullmatch(r"[A-Za-z0-9.-]*", self.domain):
            raise ConfigError(f'domain is "{self.domain}" (a host name)')
