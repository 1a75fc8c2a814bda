"""Key pairs: the source of new pairs of RSA keys for a machine. (Secret bytes come from the operating system.)"""

from __future__ import annotations


def new_key_pair(bits: int) -> bytes:
    """Return a new private key of RSA with this number of bits, as DER (PKCS #8). OpenSSL draws it; 2048 bits take
    about 0.1 s."""
    # Only members that encrypt need the library.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(65537, bits).private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
