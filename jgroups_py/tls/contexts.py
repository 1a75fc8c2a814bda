"""Makes contexts of ``ssl`` of files with keys and certificates, for loading.py.

The key goes to ``ssl`` through a file, because ``ssl`` accepts keys only from files. That file is encrypted with a password that only
this process knows, is readable by its user only, and is removed at once.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from jgroups_py.tls.credentials import Credentials, date_text
from jgroups_py.tls.files import CredentialsError, parse_pkcs12, read_file
from jgroups_py.tls.names import names_of
from jgroups_py.tls.settings import TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The contents of the files, in one form for all formats."""

    key: Any
    chain: list[x509.Certificate]
    authorities: list[x509.Certificate]
    setting: str


def load_files(settings: TlsSettings, now: float) -> Credentials:
    """Read the files that ``settings`` names, as ``load`` says. ``now``: the time of day, in seconds since 1970."""
    if (wrong := settings.problem()) is not None:
        raise CredentialsError(*wrong)
    read: list[bytes] = []
    parts = _from_pem(settings, read) if settings.certificate else _from_pkcs12(settings, read)
    own = parts.chain[0]
    path = settings.certificate or settings.keystore
    if _public(parts.key.public_key()) != _public(own.public_key()):
        setting = "key" if settings.key else parts.setting
        raise CredentialsError(
            setting, f"must be the key of the certificate in {path}, and is another one"
        )
    not_before = max(c.not_valid_before_utc.timestamp() for c in parts.chain)
    not_after = min(c.not_valid_after_utc.timestamp() for c in parts.chain)
    _valid_at(now, not_before, not_after, parts.setting, path)
    digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in read))
    return Credentials(
        _context(settings, parts, server=True),
        _context(settings, parts, server=False),
        names_of(own),
        own.public_bytes(Encoding.DER),
        not_before,
        not_after,
        digest.hexdigest(),
    )


# --- files


def _from_pem(settings: TlsSettings, read: list[bytes]) -> _Parts:
    data = _read("certificate", settings.certificate, read, secret=not settings.key)
    chain = _certificates("certificate", settings.certificate, data)
    setting, path = "certificate", settings.certificate
    if settings.key:
        setting, path = "key", settings.key
        data = _read("key", path, read, secret=True)
    password = settings.key_password.encode() or None
    try:
        key = load_pem_private_key(data, password)
    except TypeError:
        needs = "has no password, and one is given" if password else "needs its password"
        raise CredentialsError("key_password", f"must fit {path}: the key {needs}") from None
    except ValueError:
        if password is not None:
            raise CredentialsError(
                "key_password", f"must be the password of the key in {path}"
            ) from None
        raise CredentialsError(setting, f"must name a PEM file with a key: {path}") from None
    authorities = _certificates("ca", settings.ca, _read("ca", settings.ca, read))
    return _Parts(key, chain, authorities, "certificate")


def _certificates(setting: str, path: str, data: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise CredentialsError(setting, f"must name a PEM file with certificates: {path}") from None


def _from_pkcs12(settings: TlsSettings, read: list[bytes]) -> _Parts:
    data = _read("keystore", settings.keystore, read, secret=True)
    store = parse_pkcs12("keystore", settings.keystore, data, settings.keystore_password)
    if store.key is None or store.cert is None:
        raise CredentialsError(
            "keystore", f"must hold a key and its certificate: {settings.keystore}"
        )
    alias = (store.cert.friendly_name or b"").decode(errors="replace")
    if settings.keystore_alias and settings.keystore_alias.lower() != alias.lower():
        raise CredentialsError(
            "keystore_alias", f'must be the name of the key in {settings.keystore}, "{alias}"'
        )
    between = [entry.certificate for entry in store.additional_certs]
    if settings.ca:
        authorities = _certificates("ca", settings.ca, _read("ca", settings.ca, read))
    elif settings.truststore:
        data = _read("truststore", settings.truststore, read)
        trusted = parse_pkcs12(
            "truststore", settings.truststore, data, settings.truststore_password
        )
        authorities = [entry.certificate for entry in trusted.additional_certs]
        if trusted.cert is not None:
            authorities.append(trusted.cert.certificate)
    else:
        authorities = between or [store.cert.certificate]
    if not authorities:
        raise CredentialsError("truststore", f"must hold certificates: {settings.truststore}")
    chain = [store.cert.certificate, *(c for c in between if c.subject != c.issuer)]
    return _Parts(store.key, chain, authorities, "keystore")


def _read(setting: str, path: str, read: list[bytes], *, secret: bool = False) -> bytes:
    """Read a file that ``setting`` names, and note that it was read."""
    data = read_file(setting, path, secret=secret)
    read.append(data)
    return data


def _valid_at(now: float, first: float, last: float, setting: str, path: str) -> None:
    if now > last:
        raise CredentialsError(setting, f"must be valid: {path} expired on {date_text(last)}")
    if now < first:
        raise CredentialsError(
            setting, f"must be valid: {path} is valid from {date_text(first)} on"
        )


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


# --- contexts


def _context(settings: TlsSettings, parts: _Parts, *, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    versions = [_VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # Members are known by their names, not by their hosts: TlsDoor compares the names.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.verify_mode = {
            "NEED": ssl.CERT_REQUIRED,
            "WANT": ssl.CERT_OPTIONAL,
            "NONE": ssl.CERT_NONE,
        }[settings.client_auth]
        # A resumed session would keep a certificate that has expired meanwhile.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_verify_locations(cadata=_pem(parts.authorities))
        _load_key(context, parts)
    except ssl.SSLError as error:
        reason = error.reason or type(error).__name__
        raise CredentialsError(parts.setting, f"is refused by OpenSSL: {reason}") from None
    return context


def _load_key(context: ssl.SSLContext, parts: _Parts) -> None:
    password = secrets.token_bytes(32).hex().encode()
    key = parts.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)
    )
    with tempfile.TemporaryDirectory(prefix="jgroups-py-") as folder:
        file = Path(folder) / "key.pem"
        file.touch(mode=0o600)
        file.write_bytes(key + _pem(parts.chain).encode())
        context.load_cert_chain(file, password=password)


def _pem(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(c.public_bytes(Encoding.PEM).decode() for c in certificates)
