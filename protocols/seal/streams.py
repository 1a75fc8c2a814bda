"""Connections in SEAL: both ends prove that they have a key and are live, then all bytes travel in records.

    who connects    HELLO: a head with 16 random bytes, sealed so that only a member can have made it
    who accepts     HELLO with 16 random bytes of its own, and its first record
    who connects    its first record, which shows the listener that it is no recording

A record is its length (4 bytes), ciphertext and tag. Each direction has a cipher of its own, made from a key of the
ring and both random values, and counts its records. A missing, repeated or reordered record cannot be decrypted. A
record with the bit NEXT_KEY in its length names the key for all later records.

Source:  TLS 1.3 (RFC 8446) for per-direction keys, implicit counters and KeyUpdate.
Limits:  RECORD_MAX bytes of a record; a peer that has not proved itself may send an empty record only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from cryptography.exceptions import InvalidTag

from jgroups_py.protocols.seal.ring import ID_SIZE, Ring, RingKey
from jgroups_py.protocols.seal.wire import (
    HEAD,
    HEAD_SIZE,
    HELLO,
    MAGIC,
    NONCE_AT,
    OVERHEAD,
    SENDER_SIZE,
    TAG_SIZE,
    VERSION,
    Aead,
    derived,
    known_suite,
)

RECORD_MAX: Final = 65_536
"""Plain bytes of one record. Longer ones become several."""
NEXT_KEY: Final = 0x8000_0000
"""In the length of a record: it holds the id of a key."""
PARTS_MAX: Final = 64
"""Pieces of a record that are kept apart until it is whole. More are put together."""
HELLO_SIZE: Final = OVERHEAD
_LENGTH: Final = 4


class Refused(Exception):
    """The peer sent refused bytes. The text is a cause of ``turn_away``. The connection must be closed."""


class Phase(Enum):
    """The expected next part."""

    HELLO = auto()
    PROOF = auto()
    OPEN = auto()


class _Direction:
    """The records of one direction: their key, and their number so far."""

    __slots__ = ("_cipher", "_count", "_make", "key")

    def __init__(self, make: Callable[[RingKey], Aead], key: RingKey) -> None:
        self._make = make
        self.take_key(key)

    def take_key(self, key: RingKey) -> None:
        self.key = key
        self._cipher = self._make(key)
        self._count = 0

    def seal(self, data: bytes | memoryview, flag: int = 0) -> bytes:
        head = (len(data) | flag).to_bytes(_LENGTH, "big")
        sealed = self._cipher.encrypt(self._count.to_bytes(12, "big"), data, head)
        self._count += 1
        return head + sealed

    def open(self, head: bytes, sealed: memoryview) -> bytes:
        try:
            plain = self._cipher.decrypt(self._count.to_bytes(12, "big"), sealed, head)
        except InvalidTag:
            raise Refused("altered") from None
        self._count += 1
        return plain


class Stream:
    """One end of a connection. ``start`` gives the first bytes to send; then ``feed`` received bytes, and ``seal``
    bytes to send.

    Args: ring: the keys. suite: the suite of the end that connects. The other end does the same.
        cluster: the cluster's name.
        secrets: so many bytes that nobody can guess.
        accepted: this end has accepted the connection.
    """

    __slots__ = (
        "_accepted",
        "_cluster",
        "_held",
        "_key",
        "_mine",
        "_need",
        "_parts",
        "_received",
        "_ring",
        "_sent",
        "_suite",
        "answer",
        "phase",
    )

    def __init__(
        self,
        ring: Ring,
        suite: int,
        cluster: bytes,
        secrets: Callable[[int], bytes],
        *,
        accepted: bool,
    ) -> None:
        self.phase = Phase.HELLO
        self.answer = b""
        """Bytes of the last ``feed`` that must be sent before all other bytes."""
        self._accepted = accepted
        self._ring = ring
        self._suite = suite
        self._cluster = cluster
        self._key = ring.writer
        self._mine = secrets(SENDER_SIZE)
        self._parts: list[bytes | memoryview] = []
        """The beginning of a record, as it came. It is put together once, when the record is whole."""
        self._held = 0
        self._need = HELLO_SIZE
        self._sent: _Direction
        self._received: _Direction

    def start(self) -> bytes:
        """Return the first bytes of the end that connects."""
        assert not self._accepted
        return self._hello()

    def _hello(self) -> bytes:
        kind = HELLO | self._suite
        head = HEAD.pack(MAGIC, VERSION, kind, self._key.id, self._mine, int(self._accepted))
        return head + self._made(b"hello", self._mine)(self._key).encrypt(
            head[NONCE_AT:], b"", head
        )

    def _made(self, purpose: bytes, salt: bytes) -> Callable[[RingKey], Aead]:
        return lambda key: derived(key.secret, purpose, self._suite, self._cluster, salt)

    # --- out

    def seal(self, data: bytes) -> bytes:
        """Return ``data`` in records. The stream must be open."""
        assert self.phase is Phase.OPEN
        if len(data) <= RECORD_MAX:
            return self._sent.seal(data)
        view = memoryview(data)
        starts = range(0, len(data), RECORD_MAX)
        return b"".join([self._sent.seal(view[at : at + RECORD_MAX]) for at in starts])

    def take_ring(self, ring: Ring) -> bytes:
        """Use another ring. Return the bytes to send: none, or a record which says that the next one is under another
        key.

        Raises:
            Refused: the key with which this stream began, or with which the peer encrypts, is not in the ring any more.
        """
        self._ring = ring
        if self.phase is Phase.HELLO and self._accepted:
            return b""
        if ring.find(self._key.id) is None:
            raise Refused("retired_key")
        return self._with_writer() if self.phase is Phase.OPEN else b""

    def _with_writer(self) -> bytes:
        """Encrypt with the first key of the ring from now on."""
        writer = self._ring.writer
        if self._sent.key.id == writer.id:
            return b""
        said = self._sent.seal(writer.id, NEXT_KEY)
        self._sent.take_key(writer)
        return said

    # --- in

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the peer, cut anywhere, and return complete plain bytes.

        Raises:
            Refused: the peer has no key, or its bytes were altered.
        """
        self.answer = b""
        if self._parts:
            data = self._with_parts(data)
            if not data:
                return b""
        if self.phase is Phase.HELLO and data[:2] != MAGIC[: len(data)]:
            raise Refused("unsealed")
        view, at, end = memoryview(data), 0, len(data)
        plain: list[bytes] = []
        while end - at >= self._need:
            if self.phase is Phase.HELLO:
                self._take_hello(data[at : at + HELLO_SIZE])
                at, self._need = at + HELLO_SIZE, _LENGTH
                continue
            head = data[at : at + _LENGTH]
            length = int.from_bytes(head, "big")
            size, names_key = length & ~NEXT_KEY, bool(length & NEXT_KEY)
            self._judge(size, names_key)
            self._need = _LENGTH + size + TAG_SIZE
            if end - at < self._need:
                break
            piece = self._received.open(head, view[at + _LENGTH : at + self._need])
            at, self._need = at + self._need, _LENGTH
            if names_key:
                self._next_key(piece)
            elif self.phase is Phase.PROOF:
                self._proved()
            else:
                plain.append(piece)
        if at < end:
            # A long remainder is not copied yet. A short one is copied, so that it does not keep the whole buffer.
            rest = view[at:]
            self._parts = [rest if 2 * len(rest) > end else bytes(rest)]
            self._held = end - at
        return plain[0] if len(plain) == 1 else b"".join(plain)

    def _with_parts(self, data: bytes) -> bytes:
        """Return waiting bytes and ``data`` in one piece. Empty: no complete record yet."""
        parts = self._parts
        parts.append(data)
        self._held += len(data)
        waits = self._held < self._need and self.phase is not Phase.HELLO
        if waits and len(parts) < PARTS_MAX:
            return b""
        whole = b"".join(parts)
        self._parts = [whole] if waits else []
        return b"" if waits else whole

    def _judge(self, size: int, names_key: bool) -> None:
        """Refuse an impossible length before waiting for its record."""
        if self.phase is Phase.PROOF:
            good = size == 0 and not names_key
        else:
            good = size == ID_SIZE if names_key else size <= RECORD_MAX
        if not good:
            raise Refused("malformed")

    def _take_hello(self, hello: bytes) -> None:
        if hello[2] != VERSION or not known_suite(hello[3]):
            raise Refused("other_version")
        _, _, kind, id, theirs, role = HEAD.unpack_from(hello)
        if kind & 0xF0 != HELLO or role != int(not self._accepted):
            raise Refused("malformed")
        key = self._ring.find(id)
        if key is None:
            raise Refused("unknown_key")
        if self._accepted:
            self._key, self._suite = key, kind & 0x0F
        elif key.id != self._key.id or kind & 0x0F != self._suite:
            raise Refused("malformed")  # an honest peer answers with our key
        head = hello[:HEAD_SIZE]
        try:
            self._made(b"hello", theirs)(key).decrypt(head[NONCE_AT:], hello[HEAD_SIZE:], head)
        except InvalidTag:
            raise Refused("altered") from None
        salt = theirs + self._mine if self._accepted else self._mine + theirs
        connects, accepts = self._made(b"connects", salt), self._made(b"accepts", salt)
        mine, others = (accepts, connects) if self._accepted else (connects, accepts)
        self._sent, self._received = _Direction(mine, key), _Direction(others, key)
        if self._accepted:
            self.answer += self._hello() + self._sent.seal(b"")
        self.phase = Phase.PROOF

    def _proved(self) -> None:
        """The peer's first record has opened, so it knows the key, and both random values."""
        self.phase = Phase.OPEN
        if not self._accepted:
            self.answer += self._sent.seal(b"")
        self.answer += self._with_writer()

    def _next_key(self, id: bytes) -> None:
        key = self._ring.find(id)
        if key is None:
            raise Refused("unknown_key")
        self._received.take_key(key)
        self._key = key
