"""The attributes ``tls.*`` of TCP. Not a protocol.

Source:  JGroups TLS.java, SslContextFactory.java.
Differs: files may be PEM (tls.certificate, tls.key, tls.ca). tls.client_auth is NEED and not NONE by default, and
         names are checked (tls.check_names). Files that change are read again (JGroups needs a FileWatcher from its
         application). tls.cipher_suites is not known: OpenSSL chooses. tls.provider and tls.sni_matchers have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from jgroups_py.config.settings import ConfigBase, Seconds, Secret
from jgroups_py.errors import ConfigError
from jgroups_py.tls import CredentialsError, TlsSettings, load
from jgroups_py.tls.settings import VERSIONS

_ATTRIBUTES: Final = {"keystore": "keystore_path", "truststore": "truststore_path"}
"""Settings whose attributes have other names."""


@dataclass(frozen=True, kw_only=True)
class TlsAttributes(ConfigBase):
    """A base of the Config of a protocol that may speak TLS."""

    tls_enabled: bool = False
    """Speak TLS on all connections of this transport, and on those of FD_SOCK2."""
    tls_certificate: str = ""
    """PEM file with the certificate of this member, followed by those between it and the authority."""
    tls_key: str = ""
    """PEM file with the key. Empty: it is in the file of the certificate."""
    tls_key_password: Secret = field(default="", repr=False)
    """The password of the key, if it has one. A variable is better than a text in the file."""
    tls_ca: str = ""
    """PEM file with the authorities whose certificates are accepted."""
    tls_keystore_path: str = ""
    """PKCS12 file with key and certificates, in place of the PEM files."""
    tls_keystore_password: Secret = field(default="", repr=False)
    """The password of the keystore."""
    tls_keystore_type: Literal["pkcs12"] = "pkcs12"
    """The format of the keystore."""
    tls_keystore_alias: str = ""
    """The name of the key in the keystore. Empty: any."""
    tls_truststore_path: str = ""
    """PKCS12 file with the authorities. Empty: tls.ca, or else those in the keystore."""
    tls_truststore_password: Secret = field(default="", repr=False)
    """The password of the truststore."""
    tls_truststore_type: Literal["pkcs12"] = "pkcs12"
    """The format of the truststore."""
    tls_client_auth: Literal["NEED", "WANT", "NONE"] = "NEED"
    """A client must have a certificate (NEED), may have one (WANT), or is not asked (NONE)."""
    tls_protocols: tuple[str, ...] = VERSIONS
    """The versions of TLS that are spoken."""
    tls_check_names: bool = True
    """A certificate must have the name of its member: as common name, or as DNS name or address. On a bridge the
    member's name counts without RELAY's additions."""
    tls_handshake_timeout: Seconds = 2.0
    """Seconds in which a handshake must end."""
    tls_max_handshakes: int = 100
    """The most handshakes of others at the same time. Further connections are closed."""
    tls_reload_interval: Seconds = 60.0
    """The time between two readings of the files, which are used if they have changed. 0: never."""
    tls_expiry_warning: Seconds = 30 * 86400.0
    """The time before the end of the certificate in which a warning is logged once a day."""
    ignored: ClassVar[frozenset[str]] = frozenset({"tls.provider", "tls.sni_matchers"})

    def tls_settings(self) -> TlsSettings:
        """Return the files, and the demands on others."""
        return TlsSettings(
            certificate=self.tls_certificate,
            key=self.tls_key,
            key_password=self.tls_key_password,
            ca=self.tls_ca,
            keystore=self.tls_keystore_path,
            keystore_password=self.tls_keystore_password,
            keystore_alias=self.tls_keystore_alias,
            truststore=self.tls_truststore_path,
            truststore_password=self.tls_truststore_password,
            client_auth=self.tls_client_auth,
            protocols=self.tls_protocols,
        )

    @property
    def sealed(self) -> str:
        """Return the encryption of traffic, for reports. Empty: there is none."""
        if not self.tls_enabled:
            return ""
        return "TLS" if self.tls_client_auth == "NEED" else "TLS, anybody may connect"

    def check_tls(self) -> None:
        """Raise ConfigError if the attributes cannot work together. No file is read."""
        self._above(0, "tls_handshake_timeout")
        self._at_least(0, "tls_reload_interval", "tls_expiry_warning")
        self._at_least(1, "tls_max_handshakes")
        wrong = self.tls_settings().problem() if self.tls_enabled else None
        if wrong is not None:
            raise ConfigError(f"{attribute_of(wrong[0])} {wrong[1]}")

    def verify_tls(self) -> None:
        """Raise ConfigError if the files cannot be used."""
        if self.tls_enabled:
            try:
                load(self.tls_settings())
            except CredentialsError as error:
                raise ConfigError(f"{attribute_of(error.setting)} {error.problem}") from None


def attribute_of(setting: str) -> str:
    """Return the attribute for a field of TlsSettings."""
    return f"tls.{_ATTRIBUTES.get(setting, setting)}"
