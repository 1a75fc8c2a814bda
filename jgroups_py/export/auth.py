"""Both sides prove that they know the token, without sending it: HMAC-SHA-256 over both nonces.

With TLS the proof covers the port's certificate, too. So an attacker in between with another certificate of a trusted
authority cannot pass proofs on (channel binding, as ``tls-server-end-point`` of RFC 5929).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from jgroups_py.errors import ConfigError

TOKEN_MIN: Final = 16
"""The least number of characters of a token."""
NONCE: Final = 32


def checked_token(token: str) -> bytes:
    """Check a token. Raise ConfigError if the token could be guessed."""
    if len(token.strip()) < TOKEN_MIN:
        raise ConfigError(f"a token of an export port has at least {TOKEN_MIN} characters")
    return token.strip().encode()


def nonce() -> bytes:
    return secrets.token_bytes(NONCE)


def proof(token: bytes, side: str, port: bytes, client: bytes, certificate: bytes = b"") -> bytes:
    """Return the proof of ``side``, which is "port" or "client". ``certificate``: the port's, in DER; none without TLS."""
    bound = hashlib.sha256(certificate).digest() if certificate else b""
    said = b"jgroups_py export " + side.encode() + port + client + bound
    return hmac.digest(token, said, "sha256")


def proved(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)
