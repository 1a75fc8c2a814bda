"""Ciphers: payloads become ciphertext and plaintext again, as with Java's ``Cipher.getInstance(transformation)``.

    AES, AES/ECB/PKCS5Padding     no IV; equal blocks stay equal, and nothing is authenticated
    AES/CBC/PKCS5Padding          a random IV of 16 bytes for each message; nothing is authenticated
    AES/CTR/NoPadding             an IV of 16 bytes for each message; nothing is authenticated
    AES/GCM/NoPadding             an IV of 12 to 16 bytes for each message; an altered payload is noticed

An IV of CTR and GCM must never come twice under one key, and all members share the key. So an IV is a random
prefix and a counter (values/counted_iv.py): 64 random bits at least, then 32 bits that count. A new prefix is drawn when the
counter is full. The IVs of a run follow each other.

Source:  JGroups Encrypt.createCipher, initCipher, makeIv, encrypt, _decrypt.
Differs: JGroups draws each IV at random. With Java's own provider JGroups cannot use GCM: it hands over an
         IvParameterSpec, which only other providers (Bouncy Castle) accept for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers import modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from jgroups_py.values.counted_iv import CountedIvs, ivs_from

RandomBytes = Callable[[int], bytes]
"""Returns the given number of secret random bytes."""

KEY_LENGTHS: Final = (128, 192, 256)
"""Bits of an AES key."""
_BLOCK: Final = 16
_PADDINGS: Final = tuple(bytes([n]) * n for n in range(_BLOCK + 1))
_IV_LENGTHS: Final = {"ECB": (0, 0), "CBC": (16, 16), "CTR": (16, 16), "GCM": (12, 16)}
"""Mode -> the fewest and the most bytes of an IV."""
_PADDING_OF: Final = {
    "ECB": "PKCS5PADDING",
    "CBC": "PKCS5PADDING",
    "CTR": "NOPADDING",
    "GCM": "NOPADDING",
}

ACCEPTED: Final = (
    "AES, AES/ECB/PKCS5Padding, AES/CBC/PKCS5Padding, AES/CTR/NoPadding, AES/GCM/NoPadding"
)


class NotDecrypted(Exception):
    """The bytes are no ciphertext, or were altered, or were made with another key."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A cipher's mode, and the bytes of its IVs."""

    mode: str
    iv_length: int

    @classmethod
    def parse(cls, text: str, iv_length: int) -> Transformation:
        """Read the attributes ``sym_algorithm`` and ``sym_iv_length``.

        Raises:
            ValueError: the text begins with the attribute's name and says what would be accepted.
        """
        algorithm, _, rest = text.strip().upper().partition("/")
        mode, _, padding = (rest or "ECB/PKCS5PADDING").partition("/")
        padding = padding or _PADDING_OF.get(mode, "")
        if algorithm != "AES" or _PADDING_OF.get(mode) != padding:
            raise ValueError(f'sym_algorithm must be one of {ACCEPTED}, got "{text}"')
        least, most = _IV_LENGTHS[mode]
        if not least <= iv_length <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ValueError(f"sym_iv_length must be {wanted} with {text}, got {iv_length}")
        return cls(mode, iv_length)

    @property
    def authenticates(self) -> bool:
        """Return whether an altered ciphertext is always noticed."""
        return self.mode == "GCM"


def key_version(key: bytes) -> bytes:
    """The name of a key on the wire: the MD5 of its bytes, as in JGroups. It is no secret."""
    return hashlib.md5(key, usedforsecurity=False).digest()


class Cipher:
    """Encrypts and decrypts payloads under one key. ``version`` is the key's name on the wire."""

    def __init__(self, how: Transformation, key: bytes, random_bytes: RandomBytes) -> None:
        self.version = key_version(key)
        self.key = key
        self._random = random_bytes
        self._iv_length = how.iv_length
        self._aes = AES(key)
        self._mode = how.mode
        if how.mode == "ECB":
            # ECB keeps no state between messages, so one context serves all of them.
            self._encrypt_blocks = BlockCipher(self._aes, modes.ECB()).encryptor().update
            self._decrypt_blocks = BlockCipher(self._aes, modes.ECB()).decryptor().update
        elif how.mode == "GCM":
            self._gcm = AESGCM(key)
        self.counts = how.mode in ("GCM", "CTR")
        """The IVs of a run follow each other: see ``encrypt_run``."""
        self._ivs = CountedIvs(how.iv_length, how.mode == "CTR", random_bytes)

    @property
    def needs_iv(self) -> bool:
        return self._iv_length > 0

    def encrypt(self, plain: bytes | memoryview) -> tuple[bytes | None, bytes]:
        """Return the IV, if the mode has one, and the ciphertext. Only GCM has a ciphertext for an empty plaintext:
        Java leaves an empty payload as it is."""
        mode = self._mode
        if self.counts:
            iv = self._ivs.take()
            return iv, self._encrypt_counted(iv, plain)
        if not plain:
            return (self._random(self._iv_length) if self._iv_length else None), b""
        if mode == "ECB":
            return None, self._encrypt_blocks(_padded(plain))
        iv = self._random(_BLOCK)
        return iv, BlockCipher(self._aes, modes.CBC(iv)).encryptor().update(_padded(plain))

    def encrypt_run(self, plain: Sequence[bytes | memoryview]) -> tuple[bytes, list[bytes]]:
        """Return the IV of the first payload, after which the others' follow (``iv_after``), and the ciphertexts. Only
        where ``counts``."""
        first = self._ivs.take(len(plain))
        return first, [
            self._encrypt_counted(iv, payload)
            for iv, payload in zip(ivs_from(first, len(plain)), plain, strict=True)
        ]

    def _encrypt_counted(self, iv: bytes, plain: bytes | memoryview) -> bytes:
        if self._mode == "GCM":
            return self._gcm.encrypt(iv, plain, None)
        return BlockCipher(self._aes, modes.CTR(iv)).encryptor().update(plain)

    def decrypt(self, iv: bytes | None, data: bytes | memoryview) -> bytes:
        """Return the plaintext.

        Raises:
            NotDecrypted: it cannot be decrypted.
        """
        if len(iv or b"") != self._iv_length:
            raise NotDecrypted("an IV of another length")
        mode = self._mode
        if mode == "GCM":
            assert iv is not None
            try:
                return self._gcm.decrypt(iv, data, None)
            except InvalidTag:
                raise NotDecrypted("altered, or made with another key") from None
        if not data:
            return b""
        if mode == "CTR":
            assert iv is not None
            return BlockCipher(self._aes, modes.CTR(iv)).decryptor().update(data)
        if len(data) % _BLOCK:
            raise NotDecrypted("no whole number of blocks")
        if mode == "ECB":
            return _unpadded(self._decrypt_blocks(data))
        assert iv is not None
        return _unpadded(BlockCipher(self._aes, modes.CBC(iv)).decryptor().update(data))


def _padded(plain: bytes | memoryview) -> bytes:
    return bytes(plain) + _PADDINGS[_BLOCK - len(plain) % _BLOCK]


def _unpadded(data: bytes) -> bytes:
    count = data[-1]
    if not 1 <= count <= _BLOCK or not data.endswith(_PADDINGS[count]):
        raise NotDecrypted("altered, or made with another key")
    return data[:-count]
