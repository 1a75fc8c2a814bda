"""SYM_ENCRYPT: encrypts the payloads of messages with a key that all members have, from a keystore file.

Place: below NAKACK2 and UNICAST3, above discovery and failure detection, whose messages stay in clear.

    payload from above        encrypted (encrypt.py)
    message from below        decrypted; one without the header, under another key or altered is dropped

A member with another key, or without one, can read no message, and none of its messages is accepted. It cannot join the
group: its requests are dropped and counted. Headers are in clear, and messages without payload are not authenticated.

Source:  JGroups SYM_ENCRYPT.java; WIRE.md 12.
Differs: the first bytes of a keystore tell its kind, and keystore_type does not matter; the key may be given as text
         (secret_key), for a member without a keystore.
Limits:  those of encrypt.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jgroups_py.config.settings import Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.security.ciphers import KEY_LENGTHS
from jgroups_py.protocols.security.encrypt import Encrypt
from jgroups_py.protocols.security.keystore import KeystoreError, read_secret_key
from jgroups_py.stack.exposure import MESSAGES
from jgroups_py.stack.services import MULTICAST, UNICAST
from jgroups_py.wire.headers import PROTOCOL_IDS


class SYM_ENCRYPT(Encrypt):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["SYM_ENCRYPT"]
    needs_above = (MULTICAST, UNICAST)

    @classmethod
    def protects(cls, config: Any) -> Mapping[str, str]:
        return {MESSAGES: str(config.sym_algorithm)}

    @dataclass(frozen=True, kw_only=True)
    class Config(Encrypt.Config):
        """Attributes of the protocol."""

        keystore_name: str = ""
        """Path of the keystore file, PKCS12 or JCEKS."""
        keystore_type: str = "JCEKS"
        """The format of the file, for JGroups. Here its first bytes show the format."""
        store_password: Secret = field(default="changeit", repr=False)
        """Password of the keystore. Better a variable than a text in the file."""
        key_password: Secret = field(default="", repr=False)
        """Password of the key. Empty: that of the keystore."""
        alias: str = "mykey"
        """Name of the key in the keystore."""
        secret_key: Secret = field(default="", repr=False)
        """The key itself, in place of a keystore: 32, 48 or 64 hex digits. Better a variable than a text in the
        file."""

        ignored: ClassVar[frozenset[str]] = frozenset(
            {"asym_algorithm", "asym_keylength", "sym_keylength", "key_map_max_size"}
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if bool(self.keystore_name) == bool(self.secret_key):
                raise ConfigError(
                    "keystore_name must name a keystore file (or give secret_key, and no keystore_name)"
                )
            if self.secret_key:
                self._given()

        def verify(self) -> None:
            self.key()

        def key(self) -> bytes:
            """Read the key.

            Raises:
                ConfigError: the keystore, its password or the key is wrong.
            """
            return self._given() if self.secret_key else self._stored()

        def _given(self) -> bytes:
            try:
                key = bytes.fromhex(self.secret_key)
            except ValueError:
                key = b""
            if 8 * len(key) not in KEY_LENGTHS:
                raise ConfigError("secret_key must be 32, 48 or 64 hex digits")
            return key

        def _stored(self) -> bytes:
            password = self.key_password or self.store_password
            try:
                key = read_secret_key(self.keystore_name, self.store_password, password, self.alias)
            except KeystoreError as error:
                raise ConfigError(f"keystore_name: {error}") from None
            if 8 * len(key) not in KEY_LENGTHS:
                raise ConfigError(
                    f'keystore_name: the key "{self.alias}" of {self.keystore_name} has {8 * len(key)} bits, '
                    "and AES takes 128, 192 or 256"
                )
            return key

    config: Config

    def start(self) -> None:
        super().start()
        self._current = self.cipher(self.config.key())
