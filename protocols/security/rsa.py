"""RSA: a group key is encrypted for one member, as with Java's ``Cipher.getInstance(transformation)``.

    RSA, RSA/ECB/PKCS1Padding                    PKCS #1 v1.5
    RSA/ECB/OAEPWithSHA-1AndMGF1Padding          OAEP; Java takes SHA-1 for the mask with both
    RSA/ECB/OAEPWithSHA-256AndMGF1Padding

OpenSSL decrypts, because the time of decrypting must not reveal the private key. Encrypting uses public numbers only,
and takes its random bytes from the machine, so that a simulation repeats.

Source:  RFC 8017 (7.1, 7.2); JGroups ASYM_ENCRYPT.encryptSecretKey, decodeKey, makePublicKey.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from jgroups_py.protocols.security.ciphers import RandomBytes

BITS_LEAST: Final = 1024
"""Shorter keys of others are not used, because a group key under one of them is practically in clear."""
BITS_MOST: Final = 8192
"""Longer keys of others would keep this member busy."""
_EXPONENT_MOST: Final = 1 << 32
PADDINGS: Final = {
    "RSA": "",
    "RSA/ECB/PKCS1PADDING": "",
    "RSA/ECB/OAEPWITHSHA-1ANDMGF1PADDING": "sha1",
    "RSA/ECB/OAEPWITHSHA-256ANDMGF1PADDING": "sha256",
}
"""Transformation -> the digest of OAEP, or nothing for PKCS #1 v1.5."""
ACCEPTED: Final = (
    "RSA, RSA/ECB/PKCS1Padding, RSA/ECB/OAEPWithSHA-1AndMGF1Padding, "
    "RSA/ECB/OAEPWithSHA-256AndMGF1Padding"
)
_PKCS1_PADDING: Final = 11
"""Bytes of a block besides the text: three, and at least eight random ones."""
_HASHES: Final = {"sha1": hashes.SHA1, "sha256": hashes.SHA256}


class UnusableKey(Exception):
    """The bytes are no usable public key, or a text is no group key for us."""


class PublicKey(NamedTuple):
    """A member's public key: its two numbers, and its bytes on the wire (X.509 SubjectPublicKeyInfo)."""

    n: int
    e: int
    encoded: bytes


def read_public_key(encoded: bytes) -> PublicKey:
    """Return the key that the bytes encode.

    Raises:
        UnusableKey: they encode none, or one that is too short or too long.
    """
    try:
        key = serialization.load_der_public_key(encoded)
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableKey("no public key") from None
    if not isinstance(key, RSAPublicKey) or not BITS_LEAST <= key.key_size <= BITS_MOST:
        raise UnusableKey("no public key of RSA with a length that is used")
    numbers = key.public_numbers()
    if numbers.e > _EXPONENT_MOST:
        raise UnusableKey("a public key with a large exponent")
    return PublicKey(numbers.n, numbers.e, encoded)


def encrypt(key: PublicKey, text: bytes, digest: str, random_bytes: RandomBytes) -> bytes:
    """Return the bytes that only the owner of ``key`` can decrypt. ``digest``: a value of PADDINGS."""
    size = (key.n.bit_length() + 7) // 8
    padded = _oaep(text, size, digest, random_bytes) if digest else _pkcs1(text, size, random_bytes)
    return pow(int.from_bytes(padded, "big"), key.e, key.n).to_bytes(size, "big")


def room(key: PublicKey, digest: str) -> int:
    """Return the most bytes that ``encrypt`` takes."""
    padding = 2 * hashlib.new(digest).digest_size + 2 if digest else _PKCS1_PADDING
    return (key.n.bit_length() + 7) // 8 - padding


def _pkcs1(text: bytes, size: int, random_bytes: RandomBytes) -> bytes:
    """| 0 | 2 | random bytes other than 0 | 0 | text |"""
    missing = size - 3 - len(text)
    assert missing >= _PKCS1_PADDING - 3, "the text is longer than there is room for"
    filler = b""
    while len(filler) < missing:
        filler += random_bytes(missing - len(filler)).replace(b"\0", b"")
    return b"\0\2" + filler + b"\0" + text


def _oaep(text: bytes, size: int, digest: str, random_bytes: RandomBytes) -> bytes:
    """| 0 | masked seed | masked block |, where the block is | hash of nothing | zeros | 1 | text |"""
    label = hashlib.new(digest, b"").digest()
    seed = random_bytes(len(label))
    zeros = bytes(size - len(text) - 2 * len(label) - 2)
    block = label + zeros + b"\1" + text
    masked = _xor(block, _mask(seed, len(block)))
    return b"\0" + _xor(seed, _mask(masked, len(seed))) + masked


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 with SHA-1."""
    parts = (
        hashlib.sha1(seed + count.to_bytes(4, "big"), usedforsecurity=False).digest()
        for count in range(size // 20 + 1)
    )
    return b"".join(parts)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


class KeyPair:
    """The keys of this member. ``private``: DER (PKCS #8), as ``Machine.key_pairs`` makes it."""

    def __init__(self, private: bytes, digest: str) -> None:
        key = serialization.load_der_private_key(private, None)
        assert isinstance(key, RSAPrivateKey)
        self._key = key
        self._padding = (
            padding.OAEP(padding.MGF1(hashes.SHA1()), _HASHES[digest](), None)
            if digest
            else padding.PKCS1v15()
        )
        self.public = read_public_key(
            key.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )

    def decrypt(self, data: bytes) -> bytes:
        """Return the text that was encrypted for this member.

        Raises:
            UnusableKey: it was not encrypted for this member, or was altered.
        """
        try:
            return self._key.decrypt(data, self._padding)
        except ValueError:
            raise UnusableKey("not encrypted for this member") from None
