"""Options of commands that speak TLS at export ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from jgroups_py.tls import TlsSettings

F = TypeVar("F", bound=Callable[..., Any])
_NAMES = ("tls_certificate", "tls_key", "tls_ca")


def tls_options(function: F) -> F:
    """Add ``--tls-certificate``, ``--tls-key`` and ``--tls-ca``."""
    for option in (
        click.option("--tls-ca", metavar="FILE", help="Authorities that are trusted, in PEM."),
        click.option("--tls-key", metavar="FILE", help="Key of the certificate, in PEM."),
        click.option(
            "--tls-certificate", metavar="FILE", help="Speak TLS with this certificate, in PEM."
        ),
    ):
        function = option(function)
    return function


def tls_from(where: dict[str, Any]) -> TlsSettings | None:
    """Take the options out of ``where``. None: no TLS.

    Raises:
        click.UsageError: one of the three is missing.
    """
    files = tls_files(where)
    for name in _NAMES:
        where.pop(name)
    if not files:
        return None
    certificate, key, ca = files
    return TlsSettings(certificate=certificate, key=key, ca=ca)


def tls_files(where: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files: certificate, key, authorities; or None.

    Raises:
        click.UsageError: one of the three is missing.
    """
    files = tuple(where.get(name) or "" for name in _NAMES)
    if not any(files):
        return ()
    if not all(files):
        raise click.UsageError("TLS needs --tls-certificate, --tls-key and --tls-ca")
    return files
