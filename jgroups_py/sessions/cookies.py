"""The Set-Cookie header and the headers that go with it."""

from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.sessions.settings import SessionSettings

Headers = list[tuple[str, str]]


def cookie_header(settings: SessionSettings, value: str) -> str:
    """Return a header that sets the cookie; an empty value removes it. The cookie lasts as long as the browser's session."""
    parts = [f"{settings.cookie}={value}", f"Path={settings.path}"]
    if settings.domain:
        parts.append(f"Domain={settings.domain}")
    if not value:
        parts.append("Max-Age=0")
    if settings.secure:
        parts.append("Secure")
    return "; ".join([*parts, "HttpOnly", f"SameSite={settings.same_site}"])


def with_cookie(headers: Sequence[tuple[str, str]], cookie: str) -> Headers:
    """Forbid shared caches to keep an answer that sets a cookie, because it is for one visitor."""
    result = list(headers)
    if cookie:
        result.append(("Set-Cookie", cookie))
        if not any(name.lower() == "cache-control" for name, _ in headers):
            result.append(("Cache-Control", "no-store"))
    return result
