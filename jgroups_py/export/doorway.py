"""Credentials of an export port: tokens and certificates, read again from their files while it runs.

    tokens          each TOKENS_EVERY seconds, if the file has changed
    certificates    each CERTIFICATES_EVERY seconds; new connections use new ones

If a file cannot be used, the former tokens or certificates stay in use, and one log line reports it.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final

import trio

from jgroups_py.config.private_file import Stamp, read_private
from jgroups_py.errors import ConfigError
from jgroups_py.export.tokens import TOKENS_FILE_MAX, ExportToken, checked_tokens, parse_tokens
from jgroups_py.tls import Credentials, CredentialsError, TlsSettings, load
from jgroups_py.values.events import CertificateExpires

_log = logging.getLogger("jgroups_py.export")

TOKENS_EVERY: Final = 5.0
CERTIFICATES_EVERY: Final = 60.0
WARN_BEFORE: Final = 30 * 86400.0
"""A certificate that ends within this many seconds is logged once a day."""
_WARN_EVERY: Final = 86400.0


class ExportDoorway:
    """See the module's docstring.

    Args:
        token: the tokens, or none if ``token_file`` names a file with them.
        tls: the files of TLS. None: connections are in clear.

    Raises:
        ConfigError: a token or file cannot be used.
    """

    def __init__(
        self,
        token: str | Sequence[ExportToken] | None,
        token_file: str | None,
        tls: TlsSettings | None,
    ) -> None:
        if (token is None) == (token_file is None):
            raise ConfigError("an export port needs either token or token_file")
        self._token_file = token_file
        self._stamp: Stamp | None = None
        self._tls = tls
        self._credentials: Credentials | None = None
        self._told: dict[str, str] = {}
        """The last problem of each file; each is logged once."""
        self._warned_at = float("-inf")
        self.tokens = () if token is None else checked_tokens(token)
        self._read_tokens()
        self._read_certificates()

    @property
    def encrypts(self) -> bool:
        """Return whether connections have TLS."""
        return self._tls is not None

    def session(self) -> tuple[ssl.SSLContext, bytes] | None:
        """Return the TLS context of a new connection, and the port's own certificate (DER). None: connections are in
        clear."""
        found = self._credentials
        return None if found is None else (found.server, found.certificate)

    def current(self, token: ExportToken) -> ExportToken | None:
        """Return the present rights of a token that a client has shown. None: the token was removed."""
        return next((one for one in self.tokens if one.secret == token.secret), None)

    async def watch(self) -> None:
        """Read the files again and again, until it is cancelled."""
        async with trio.open_nursery() as nursery:
            if self._token_file is not None:
                nursery.start_soon(self._again, TOKENS_EVERY, self._read_tokens)
            if self._tls is not None:
                nursery.start_soon(self._again, CERTIFICATES_EVERY, self._read_certificates)

    async def _again(self, seconds: float, read: Callable[[], None]) -> None:
        while True:
            await trio.sleep(seconds)
            try:
                await trio.to_thread.run_sync(read)
            except ConfigError as error:
                if self._told.get(read.__name__) != str(error):
                    self._told[read.__name__] = str(error)
                    _log.warning("the export port goes on with what it had: %s", error)
            else:
                self._told.pop(read.__name__, None)

    def _read_tokens(self) -> None:
        if self._token_file is None:
            return
        found = read_private(self._token_file, TOKENS_FILE_MAX, self._stamp)
        if found is None:
            return
        try:
            text = found.data.decode()
        except UnicodeDecodeError:
            raise ConfigError("is no text in UTF-8", file=self._token_file) from None
        tokens = parse_tokens(text, self._token_file)
        if self._stamp is not None:
            _log.info("the export port has %d tokens now", len(tokens))
        self.tokens, self._stamp = tokens, found.stamp

    def _read_certificates(self) -> None:
        if self._tls is None:
            return
        try:
            found = load(self._tls)
        except CredentialsError as error:
            raise ConfigError(f"TLS of the export port: {error}") from None
        if self._credentials is None or found.fingerprint != self._credentials.fingerprint:
            self._credentials = found
            self._warned_at = float("-inf")
        now = time.monotonic()
        left = found.not_after - time.time()
        if left < WARN_BEFORE and now - self._warned_at >= _WARN_EVERY:
            self._warned_at = now
            _log.warning("export port: %s", CertificateExpires(found.names, found.expires, left))
