"""CertificateAuthority: new certificates in a folder, for tests of TLS. Never use one outside tests.

authority = CertificateAuthority(tmp_path)
a = authority.issue("A")                      files a.pem, a.key
authority.ca                                  the file ca.pem
TlsSettings(certificate=a.certificate, key=a.key, ca=authority.ca)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jgroups_py.tls.settings import TlsSettings

DAY = timedelta(days=1)
_EARLIER = timedelta(minutes=5)
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Issued:
    """Files of one holder. ``keystore`` is the same in PKCS12, with ``password``."""

    name: str
    certificate: str
    key: str
    keystore: str
    password: str = field(repr=False)
    not_after: float
    """The last second of its validity, since 1970."""


class CertificateAuthority:
    """See the module's docstring. ``name`` distinguishes several authorities, even in one folder."""

    def __init__(self, folder: Path | str, name: str = "ca") -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _named(f"authority {name}")
        now = datetime.now(UTC)
        builder = _builder(self._subject, self._subject, self._key, now - DAY, now + 3650 * DAY)
        self._certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self.ca = str(self._folder / f"{name}.pem")
        """The PEM file of the authority."""
        Path(self.ca).write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.truststore = str(self._folder / f"{name}.p12")
        """The same in PKCS12, with the password "changeit"."""
        Path(self.truststore).write_bytes(
            pkcs12.serialize_key_and_certificates(
                None, None, None, [self._certificate], BestAvailableEncryption(b"changeit")
            )
        )

    def java_truststore(self) -> str:
        """Write ``truststore`` in the form that Java accepts (needs cryptography 45). Return the file's name."""
        entry = pkcs12.PKCS12Certificate(self._certificate, b"ca")
        Path(self.truststore).write_bytes(
            pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(b"changeit"))
        )
        return self.truststore

    def issue(
        self,
        name: str,
        *,
        names: Sequence[str] = (),
        file: str = "",
        valid: timedelta = 365 * DAY,
        begins: timedelta = -_EARLIER,
        use: str = "both",
        rsa_bits: int = 0,
    ) -> Issued:
        """Make a key and a certificate.

        Args:
            name: the common name.
            names: further names; those that are numeric addresses are written as such.
            file: the beginning of the files' names. Empty: ``name`` in small letters. Files of that name are replaced.
            valid: the time from now to the end. Below 0: it has expired. begins: the beginning, in seconds from now.
                use:
            ``both``, ``client`` or ``server``.
            rsa_bits: the length of a key of RSA. 0: a key of an elliptic curve, which is made sooner.
        """
        now = datetime.now(UTC)
        key = _new_key(rsa_bits)
        first = min(now + begins, now + valid - _EARLIER)
        alternatives = [_alternative(text) for text in names]
        uses = {
            "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
            "server": [ExtendedKeyUsageOID.SERVER_AUTH],
        }
        builder = _builder(self._subject, _named(name), key, first, now + valid).add_extension(
            x509.ExtendedKeyUsage(uses.get(use) or [*uses["client"], *uses["server"]]),
            critical=False,
        )
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return self._written(name, file or name.lower(), key, certificate)

    def settings(self, name: str, **more: str) -> TlsSettings:
        """Issue a certificate for ``name`` and return settings with its files."""
        issued = self.issue(name)
        files = {"certificate": issued.certificate, "key": issued.key, "ca": self.ca}
        return TlsSettings(**{**files, **more})  # type: ignore[arg-type]

    def _written(self, name: str, file: str, key: _Key, certificate: x509.Certificate) -> Issued:
        pem, private, store = (self._folder / f"{file}{end}" for end in (".pem", ".key", ".p12"))
        _write(pem, certificate.public_bytes(Encoding.PEM))
        _write(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        _write(
            store,
            pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                certificate,
                [self._certificate],
                BestAvailableEncryption(b"changeit"),
            ),
        )
        return Issued(
            name,
            str(pem),
            str(private),
            str(store),
            "changeit",
            certificate.not_valid_after_utc.timestamp(),
        )


def _write(file: Path, data: bytes) -> None:
    """Replace a file in one step, as a rotation of certificates should."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_bytes(data)
    new.replace(file)


def _new_key(rsa_bits: int) -> _Key:
    if rsa_bits:
        return rsa.generate_private_key(65537, rsa_bits)
    return ec.generate_private_key(ec.SECP256R1())


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    issuer: x509.Name,
    subject: x509.Name,
    key: _Key,
    first: datetime,
    last: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
    )
