"""Credentials: keys and certificates as contexts of the standard library's ``ssl``. loading.py makes them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Credentials:
    """The result of ``load``. ``not_before`` and ``not_after``: seconds since 1970, of the own certificate and of those
    behind it. ``fingerprint`` changes when any file does. ``certificate``: the own one, in DER."""

    server: ssl.SSLContext = field(repr=False)
    client: ssl.SSLContext = field(repr=False)
    names: tuple[str, ...]
    certificate: bytes = field(repr=False)
    not_before: float
    not_after: float
    fingerprint: str

    @property
    def expires(self) -> str:
        """The last moment of the certificate, as text."""
        return date_text(self.not_after)


def date_text(seconds: float) -> str:
    """Return a moment (seconds since 1970) as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
