"""Settings of TLS: the files of credentials, and the demands on the other side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
"""The versions of TLS that are spoken. Older ones are broken."""

ClientAuth = Literal["NONE", "WANT", "NEED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Either PEM files (``certificate``, ``key``, ``ca``) or PKCS12 files (``keystore``, ``truststore``). Both have the key of
    this side and the authorities that are trusted. Passwords are in no ``repr``."""

    certificate: str = ""
    """PEM file: the own certificate, and behind it those between it and the authority."""
    key: str = ""
    """PEM file: the key of the certificate. Empty: it is in the file of the certificate."""
    key_password: str = field(default="", repr=False)
    ca: str = ""
    """PEM file: the authorities whose certificates are accepted."""
    keystore: str = ""
    """PKCS12 file: key and certificates."""
    keystore_password: str = field(default="", repr=False)
    keystore_alias: str = ""
    """The name of the key in the keystore. Empty: any."""
    truststore: str = ""
    """PKCS12 file: the authorities. Empty: those in the keystore."""
    truststore_password: str = field(default="", repr=False)
    client_auth: ClientAuth = "NEED"
    """A client must have a certificate (NEED), may have one (WANT), or is not asked (NONE)."""
    protocols: tuple[str, ...] = VERSIONS
    """The versions of TLS that are spoken."""

    def problem(self) -> tuple[str, str] | None:
        """Return the setting that is wrong and what it must be, or None. No file is read."""
        if self.keystore and self.certificate:
            return "keystore", "must be empty where there is a certificate: give one or the other"
        if not self.keystore and not self.certificate:
            return "certificate", "must name a PEM file (or give a keystore)"
        if self.certificate and not self.ca:
            return "ca", "must name a PEM file with the authorities that are trusted"
        if self.truststore and self.ca:
            return "truststore", "must be empty where there is a ca: give one or the other"
        for version in self.protocols:
            if version not in VERSIONS:
                return "protocols", f'must be of {", ".join(VERSIONS)}, got "{version}"'
        if not self.protocols:
            return "protocols", f"must have at least one of {', '.join(VERSIONS)}"
        return None
