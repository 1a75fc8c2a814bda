"""Names in certificates, and the check that one of them is the name of a member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

NAMES_MAX: Final = 100
"""The most names of one certificate that are looked at. Further ones are ignored."""


def names_of(certificate: bytes | x509.Certificate) -> tuple[str, ...]:
    """Return the names that a certificate (DER) gives its holder: the common name, DNS names and IP addresses.

    A certificate that cannot be read has none.
    """
    # Only members behind TLS need the library.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        if isinstance(certificate, bytes):
            certificate = x509.load_der_x509_certificate(certificate)
        found = [
            str(attribute.value)
            for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ]
        found += _alternatives(certificate)
    except (ValueError, TypeError):
        return ()
    return tuple(dict.fromkeys(found))[:NAMES_MAX]


def _alternatives(certificate: x509.Certificate) -> list[str]:
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    names = extension.value
    return [
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


def fits(names: tuple[str, ...], wanted: str) -> bool:
    """Return whether one of ``names`` is ``wanted``, or stands for it: ``*.nyc.example`` for ``a.nyc.example``."""
    _, dot, domain = wanted.partition(".")
    return wanted in names or bool(dot and domain and f"*.{domain}" in names)
