"""Both sides prove that they know the token, without sending it: HMAC-SHA-256 over both nonces.

Rows are not encrypted: on other networks than loopback, use a tunnel.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from jgroups_py.errors import ConfigError

TOKEN_MIN: Final = 16
"""The least number of characters of a token."""
NONCE: Final = 32


def checked_token(token: str) -> bytes:
    """Check a token. Raise ConfigError if it could be guessed."""
    if len(token.strip()) < TOKEN_MIN:
        raise ConfigError(f"a token of an export port has at least {TOKEN_MIN} characters")
    return token.strip().encode()


def nonce() -> bytes:
    return secrets.token_bytes(NONCE)


def proof(token: bytes, side: str, port: bytes, client: bytes) -> bytes:
    """Return the proof of ``side``, which is "port" or "client"."""
    return hmac.digest(token, b"jgroups_py export " + side.encode() + port + client, "sha256")


def proved(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)
