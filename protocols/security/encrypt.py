"""Encrypt: the common base of protocols that encrypt payloads. Payloads are encrypted, headers are not.

    batch from above          encrypt each payload under the current key; without a key: a multicast waits for one, a
                              unicast is dropped
    message without bytes     serialise it (type, flags, headers and all) and encrypt that
    message without payload   add the header that names the key
    own message that comes    hand up the sent message without decrypting
      back from below
    batch from below          decrypt each payload with the key that its header names
    no header, unknown key,   count it by its cause, trace it, drop it
      not to be decrypted

A mode with an IV needs one for each message, and the IV is in the header. The IVs of GCM and CTR count, so a run stays a run: its
header has the first IV (values/counted_iv.py). With CBC, whose IVs must be unpredictable, a run becomes as many batches
as it has messages.

A dropped message is sent again by a reliable protocol above and encrypted anew, or it is not needed.

Source:  JGroups Encrypt.java, EncryptHeader.java; WIRE.md 10, 12.
Differs: a message without payload has no IV in its header, because nothing is encrypted; own messages are not decrypted;
         a serialised message must name the sender that the packet names.
Limits:  LOOPED_MAX own messages on their way back (further ones are decrypted); WAITING_MAX runs that wait for a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Final

from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.security.ciphers import Cipher, NotDecrypted, Transformation
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import TRANSPORT
from jgroups_py.values.batch import Batch
from jgroups_py.values.counted_iv import ivs_from
from jgroups_py.values.message import MessageType, Transient
from jgroups_py.wire.headers import EncryptHeader, EncryptType
from jgroups_py.wire.single import decode_nested, encode_nested

LOOPED_MAX: Final = 10_000
"""Own messages that are remembered until they come back."""
WAITING_MAX: Final = 1000
"""Own runs of multicasts that wait for the first key. NAKACK2 has already numbered them, so they must not be
dropped."""
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
_WITH_BYTES: Final = (MessageType.BYTES, MessageType.NIO)


class Encrypt(Protocol):
    """See the module's docstring. A subclass has the keys."""

    needs_below = (TRANSPORT,)
    turns_away: ClassVar[Mapping[str, str]] = {
        "unencrypted": "came without the header of this protocol",
        "unknown_key": "was made with a key that this member has not got",
        "altered": "could not be decrypted: altered, or not made with the key that it names",
        "malformed": "is nothing that a member with the key sends",
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """Attributes of the protocol."""

        sym_algorithm: str = "AES"
        """The encryption of payloads: AES (which is AES/ECB/PKCS5Padding), AES/CBC/PKCS5Padding,
        AES/CTR/NoPadding or AES/GCM/NoPadding. Only GCM notices for certain that a payload was altered. Java members
        need the provider Bouncy Castle for GCM."""
        sym_iv_length: int = 0
        """Bytes of the initialization vector that each message carries: none with ECB, 16 with CBC and CTR, 12 to 16
        with GCM."""

        ignored: ClassVar[frozenset[str]] = frozenset({"provider", "cipher_pool_size"})

        def __post_init__(self) -> None:
            self.transformation()

        def transformation(self) -> Transformation:
            """Return the cipher that the attributes name."""
            try:
                return Transformation.parse(self.sym_algorithm, self.sym_iv_length)
            except ValueError as error:
                raise ConfigError(str(error)) from None

    config: Config

    def start(self) -> None:
        self._how = self.config.transformation()
        self._current: Cipher | None = None
        self._looped: dict[int, tuple[Batch, Batch]] = {}
        """Own multicasts on their way back: id -> (encrypted batch, sent batch). The former keeps its id from being
        used again."""
        self._waiting: list[Batch] = []
        self.messages_encrypted = 0
        self.messages_decrypted = 0
        self.dropped_no_key = 0
        """Messages of this member that were dropped because it had no key yet."""

    def stop(self) -> None:
        self._looped.clear()
        self._waiting.clear()

    # --- keys, for subclasses

    def first_key(self) -> None:
        """Send the messages that waited for a key, because there is one now."""
        waiting, self._waiting = self._waiting, []
        for batch in waiting:
            self.encrypt_and_pass(batch)

    def cipher(self, key: bytes) -> Cipher:
        """Return the cipher for a key."""
        return Cipher(self._how, key, self.machine.secrets)

    def key_for(self, version: bytes | None, batch: Batch) -> Cipher | None:
        """Return the key of that name. None: there is none for this batch, which was counted."""
        current = self._current
        if current is not None and version == current.version:
            return current
        self.refuse("unknown_key", batch)
        return None

    # --- sending

    def down(self, batch: Batch) -> None:
        self.encrypt_and_pass(batch)

    def encrypt_and_pass(self, batch: Batch) -> None:
        """Encrypt a batch and pass it down."""
        cipher = self._current
        if cipher is None:
            if batch.dest is None and len(self._waiting) < WAITING_MAX:
                self._waiting.append(batch)
            else:
                self.dropped_no_key += len(batch)
                self.trace("no key yet", dest=self.name_of(batch.dest))
            return
        if batch.src is None:
            batch.src = self.local_address
        comes_back = (
            not batch.transient & _DONT_LOOPBACK
            if batch.dest is None
            else batch.dest == self.local_address
        )
        self.messages_encrypted += len(batch)
        for plain, encrypted in self._encrypted(batch, cipher):
            if comes_back:
                self._remember(plain, encrypted)
            self.pass_down(encrypted)

    def _encrypted(self, batch: Batch, cipher: Cipher) -> Iterator[tuple[Batch, Batch]]:
        """Yield parts of a batch, each plain and encrypted."""
        if batch.type == MessageType.EMPTY:
            yield batch, batch.with_header(self.protocol_id, _header(cipher))
        elif batch.type not in _WITH_BYTES:
            for index in range(len(batch)):
                one = batch.slice(index, index + 1)
                yield one, self._serialised(one, cipher)
        elif not cipher.needs_iv:
            payloads = [None if p is None else cipher.encrypt(p)[1] for p in batch.payloads]
            whole = replace(batch, payloads=payloads)
            yield batch, whole.with_header(self.protocol_id, _header(cipher))
        elif cipher.counts:
            yield from self._counted(batch, cipher)
        else:
            for index, payload in enumerate(batch.payloads):
                one = batch.slice(index, index + 1)
                iv, data = (None, None) if payload is None else cipher.encrypt(payload)
                part = replace(one, payloads=(data,))
                yield one, part.with_header(self.protocol_id, _header(cipher, iv))

    def _counted(self, batch: Batch, cipher: Cipher) -> Iterator[tuple[Batch, Batch]]:
        """Yield parts of a batch, each with payloads or without."""
        start = 0
        for is_null, group in groupby(batch.payloads, lambda payload: payload is None):
            payloads = list(group)
            part = batch.slice(start, start + len(payloads))
            start += len(payloads)
            iv, data = (None, payloads) if is_null else cipher.encrypt_run(payloads)
            encrypted = replace(part, payloads=data)
            yield part, encrypted.with_header(self.protocol_id, _header(cipher, iv))

    def _serialised(self, one: Batch, cipher: Cipher) -> Batch:
        iv, data = cipher.encrypt(encode_nested(one))
        header = _header(cipher, iv, needs_deserialization=True)
        return Batch(
            one.dest,
            (data,),
            {self.protocol_id: header},
            one.src,
            transient=one.transient,
            number=one.number,
        )

    def _remember(self, plain: Batch, encrypted: Batch) -> None:
        looped = self._looped
        if len(looped) >= LOOPED_MAX:
            del looped[next(iter(looped))]
        looped[id(encrypted)] = encrypted, plain

    # --- receiving

    def up(self, batch: Batch) -> None:
        self.decrypt_and_pass(batch)

    def decrypt_and_pass(self, batch: Batch) -> None:
        """Decrypt a batch and pass it up, or turn it away."""
        if batch.src == self.local_address:
            sent = self._looped.pop(id(batch), None)
            if sent is not None and sent[0] is batch:
                self.pass_up(sent[1])
                return
        header = batch.headers.get(self.protocol_id)
        if header is None:
            self.refuse("unencrypted", batch)
        elif type(header) is not EncryptHeader or not self.takes(header):
            self.refuse("malformed", batch)
        else:
            cipher = self.key_for(header.version, batch)
            if cipher is not None:
                self._decrypt(batch, header, cipher)

    def takes(self, header: EncryptHeader) -> bool:
        """Return whether a message with such a header is decrypted."""
        return header.type == EncryptType.DATA

    def _decrypt(self, batch: Batch, header: EncryptHeader, cipher: Cipher) -> None:
        plain: list[bytes | None] = []
        iv = header.iv
        ivs: list[bytes | None] = [] if iv is None else [*ivs_from(iv, len(batch))]
        # Messages that became a run on the wire because their headers are equal share one IV.
        ivs += [iv] * (len(batch) - len(ivs))
        for index, payload in enumerate(batch.payloads):
            if payload is None:
                plain.append(None)
                continue
            if not isinstance(payload, bytes | memoryview):
                self.refuse("malformed", batch.slice(index, index + 1))
                return
            try:
                plain.append(cipher.decrypt(ivs[index], payload))
            except NotDecrypted:
                self.refuse("altered", batch.slice(index, index + 1))
                # The others of its run are good, and their headers count from the first message on.
                self._passed_up(batch.slice(0, index), header, plain)
                if index + 1 < len(batch):
                    rest = batch.slice(index + 1, len(batch))
                    self._decrypt(rest, header.at(index + 1), cipher)
                return
        self._passed_up(batch, header, plain)

    def _passed_up(self, batch: Batch, header: EncryptHeader, plain: list[bytes | None]) -> None:
        """Pass up a decrypted batch."""
        if not plain:
            return
        if header.needs_deserialization:
            for data in plain:
                self._deserialise(batch, data)
            return
        self.decrypted(batch, header, plain)
        self.messages_decrypted += len(plain)
        self.pass_up(replace(batch.without_header(self.protocol_id), payloads=plain))

    def decrypted(self, batch: Batch, header: EncryptHeader, plain: list[bytes | None]) -> None:
        """Inspect a decrypted batch before it goes up, for subclasses."""

    def _deserialise(self, batch: Batch, data: bytes | None) -> None:
        try:
            inner = decode_nested(data or b"")
        except RemoteProtocolError:
            self.refuse("malformed", batch)
            return
        if inner.src is not None and inner.src != batch.src:
            self.refuse("malformed", batch)
            return
        self.messages_decrypted += 1
        self.pass_up(replace(inner, src=batch.src, dest=batch.dest, credits=batch.credits))

    def refuse(self, cause: str, batch: Batch) -> None:
        """Drop a batch for one of the causes in ``turns_away``."""
        self.turn_away(cause, batch.src, len(batch))

    # --- looking

    def check(self) -> None:
        assert len(self._looped) <= LOOPED_MAX
        assert len(self._waiting) <= WAITING_MAX


def _header(
    cipher: Cipher, iv: bytes | None = None, *, needs_deserialization: bool = False
) -> EncryptHeader:
    return EncryptHeader(EncryptType.DATA, needs_deserialization, cipher.version, None, iv)
