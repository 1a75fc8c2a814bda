"""The bytes of SEAL: heads, derived keys, and control packets.

A datagram, and each of the two hellos of a connection:

    magic 2 | version 1 | kind and suite 1 | key id 4 | sender 16 | counter 8 | ciphertext and tag

``sender`` is drawn at random at each start of a member (in a hello: for each connection). A sender counts all its
packets. Nothing of a head is secret, and all of it is authenticated.

No key of the ring is used for encryption itself. Each sender, suite, purpose and cluster has a key of its own, made with
HKDF. So nonces of two senders never collide, and a packet of one cluster is not valid in another cluster.

Source:  RFC 5869 (HKDF), RFC 5116 (AEAD).
"""

from __future__ import annotations

import hmac
import struct
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

Aead = AESGCM | ChaCha20Poly1305

MAGIC: Final = b"\x5e\xa1"
"""The first bytes of a sealed packet. Packets of JGroups begin with a version, or with ``bela``."""
VERSION: Final = 1
HEAD: Final = struct.Struct(">2sBB4s16sQ")
HEAD_SIZE: Final = HEAD.size
TAG_SIZE: Final = 16
SENDER_SIZE: Final = 16
COUNTER_SIZE: Final = 8
NONCE_AT: Final = HEAD_SIZE - 12
"""The place of the nonce, which is the end of the head: four bytes of the sender and the counter."""
OVERHEAD: Final = HEAD_SIZE + TAG_SIZE
"""Bytes by which a datagram grows."""

DATA: Final = 0x00
CONTROL: Final = 0x10
HELLO: Final = 0x20
"""The kind of the part behind a head. The lower half of the byte is the suite."""

SUITES: Final[dict[str, int]] = {"AES-256-GCM": 1, "ChaCha20-Poly1305": 2}
_CLASSES: Final[dict[int, type[AESGCM] | type[ChaCha20Poly1305]]] = {
    1: AESGCM,
    2: ChaCha20Poly1305,
}
NONCE_LENGTH: Final = 16
CONTROL_BODY: Final = struct.Struct(">B16sQ16s")
ANSWERS: Final = 1
ASKS: Final = 2
"""The kind of a control packet: a challenge, an answer to one, or both."""


def derived(secret: bytes, purpose: bytes, suite: int, cluster: bytes, salt: bytes) -> Aead:
    """Make the cipher of one purpose (``datagrams``, ``hello`` ...) from a key of the ring.

    It is HKDF-Expand of one block. HKDF-Extract is left out, because the secret is uniform already (RFC 5869, 3.3).
    """
    info = b"jgroups_py seal 1 %b %d %d %b" % (purpose, suite, len(cluster), cluster)
    return _CLASSES[suite](hmac.digest(secret, info + salt + b"\x01", "sha256"))


def known_suite(kind: int) -> bool:
    """Tell whether the suite in the head's fourth byte is one of ours."""
    return kind & 0x0F in _CLASSES
