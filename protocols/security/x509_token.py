"""X509Token: a joiner shows a value that is encrypted under the certificate of the group.

    shown        ``auth_value``, encrypted for the certificate; made once, when the member starts
    let in       a joiner that shows one that decrypts to the same ``auth_value`` with the key of the certificate

All members have the same keystore: its certificate makes tokens, and its key reads them. A token cannot be made without
them. A listener that has seen one on the network can show it again: only an encryption of whole packets (SEAL, TLS)
stops that.

Source:  JGroups X509Token.java; WIRE.md 10.
Differs: the keystore is PKCS12 for every keystore_type, so it has one password. A value is compared without regard to
         case, as in JGroups.
"""

from __future__ import annotations

import hmac
from typing import ClassVar, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.security.ciphers import RandomBytes
from jgroups_py.protocols.security.rsa import (
    ACCEPTED,
    PADDINGS,
    KeyPair,
    UnusableKey,
    encrypt,
    room,
)
from jgroups_py.protocols.security.tokens import SenderFacts, Token
from jgroups_py.tls.files import CredentialsError, parse_pkcs12, read_file
from jgroups_py.values.payloads import Streamable

_MAGIC: Final = 17


class X509Token(Token):
    """See the module's docstring."""

    attributes: ClassVar[tuple[str, ...]] = (
        "keystore_path",
        "keystore_type",
        "keystore_password",
        "cert_alias",
        "cert_password",
        "auth_value",
        "cipher_type",
    )

    def __init__(
        self,
        keystore_path: str,
        keystore_type: str,
        keystore_password: str,
        cert_alias: str,
        cert_password: str,
        auth_value: str,
        cipher_type: str,
    ) -> None:
        del keystore_type  # only JGroups uses it
        for name, value in (("keystore_path", keystore_path), ("auth_value", auth_value)):
            if not value:
                raise ConfigError(f"{name} must be given for X509Token")
        if cert_password not in ("", keystore_password):
            raise ConfigError("cert_password must be keystore_password: a PKCS12 file has one")
        digest = PADDINGS.get(cipher_type.upper())
        if digest is None:
            raise ConfigError(f'cipher_type must be one of {ACCEPTED}, got "{cipher_type}"')
        self._path = keystore_path
        self._password = keystore_password
        self._alias = cert_alias
        self._value = auth_value
        self._digest = digest
        self._keys: KeyPair | None = None

    def load(self) -> None:
        try:
            data = read_file("keystore", self._path, secret=True)
            store = parse_pkcs12("keystore", self._path, data, self._password)
        except CredentialsError as error:
            raise ConfigError(f"keystore_path {error.problem}") from None
        if store.cert is None or not isinstance(store.key, RSAPrivateKey):
            raise ConfigError(
                f"keystore_path must name a file with a key of RSA and its certificate: {self._path}"
            )
        alias = (store.cert.friendly_name or b"").decode(errors="replace")
        if self._alias and self._alias.lower() != alias.lower():
            raise ConfigError(
                f'cert_alias must be the name of the key in {self._path}, "{alias}", got "{self._alias}"'
            )
        try:
            self._keys = KeyPair(_der(store.key), self._digest)
        except UnusableKey as problem:
            raise ConfigError(f"keystore_path: {self._path} has {problem}") from None
        most = room(self._keys.public, self._digest)
        if len(self._value.encode()) > most:
            raise ConfigError(
                f"auth_value must have at most {most} bytes, which is what the key in {self._path} encrypts"
            )

    def show(self, random_bytes: RandomBytes) -> Streamable:
        assert self._keys is not None, "load comes first"
        value = self._value.encode()
        return Streamable(_MAGIC, encrypt(self._keys.public, value, self._digest, random_bytes))

    def admits(self, token: Streamable | None, claim: SenderFacts) -> bool:
        assert self._keys is not None, "load comes first"
        if token is None or token.magic != _MAGIC or token.value is None:
            return False
        try:
            shown = self._keys.decrypt(bytes(token.value))
        except UnusableKey:
            return False
        return hmac.compare_digest(_folded(shown), _folded(self._value.encode()))


def _folded(value: bytes) -> bytes:
    return value.decode(errors="replace").lower().encode()


def _der(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
