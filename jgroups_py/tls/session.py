"""TlsSession: TLS of one connection, without the connection. Bytes in, bytes out.

    session = TlsSession(credentials.client, server_side=False)
    send(session.start())
    for data in received:
        plain = session.receive(data)       TlsRefused: the other side is not let in
        send(session.take())                handshake, answers, an alert
        if session.established: ...
    send(session.encrypt(b"hello"))
    send(session.close())

With TLS 1.3 the connecting side is done before the other side has seen its certificate. Then a refusal comes later, as
TlsRefused of ``receive``.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from jgroups_py.errors import JGroupsError
from jgroups_py.tls.names import names_of

HANDSHAKE_MAX: Final = 65_536
"""The most bytes that a peer may send before its handshake is done. A handshake with three certificates has 5,000."""
_READ: Final = 65_536
_NOT_YET_VALID, _EXPIRED = 9, 10  # X509_V_ERR_... of OpenSSL
_FIRST: Final = {True: (0x16,), False: (0x16, 0x15)}
"""The first byte of a stream of TLS: a handshake, or to the connecting side an alert."""

TLS_CAUSES: Final[Mapping[str, str]] = {
    "clear": "came without TLS where TLS is spoken",
    "no_certificate": "has no certificate",
    "untrusted": "has a certificate that no trusted authority has signed, or not for this use",
    "expired": "has a certificate that is not valid at this time",
    "wrong_name": "has a certificate of another name",
    "refused_us": "refuses the certificate or the versions of this member",
    "handshake": "began TLS and went on with other bytes",
    "handshake_late": "did not complete its handshake in time",
    "handshake_crowd": "came while too many others had not completed their handshakes",
    "altered": "sent bytes that were altered on the way",
}
"""The causes for which a connection with TLS is turned away."""


class TlsRefused(JGroupsError):
    """The other side is not let in. ``cause`` is one of TLS_CAUSES. Send what ``take`` gives, and close."""

    def __init__(self, cause: str, problem: str) -> None:
        self.cause = cause
        self.problem = problem
        super().__init__(f"{TLS_CAUSES[cause]}: {problem}" if problem else TLS_CAUSES[cause])


class TlsSession:
    """See the module's docstring."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._server_side = server_side
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_side)
        self._heard = 0
        self.established = False
        """True when the handshake is done. Then ``encrypt`` may be called."""
        self.ended = False
        """True when the other side has said that nothing more comes."""

    def start(self) -> bytes:
        """Begin the handshake. Return the bytes to send; the accepting side has none yet."""
        self._shake()
        return self.take()

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the other side. Return plain bytes, which may be none.

        Raises:
            TlsRefused: the bytes are malformed, or the other side is not let in. Send what ``take`` gives, and close.
        """
        if not self.established:
            if not self._heard and data and data[0] not in _FIRST[self._server_side]:
                raise TlsRefused("clear", "")
            self._heard += len(data)
            if self._heard > HANDSHAKE_MAX:
                raise TlsRefused("handshake", f"more than {HANDSHAKE_MAX} bytes")
        self._in.write(data)
        if not self.established:
            self._shake()
        return self._read() if self.established else b""

    def take(self) -> bytes:
        """Return the bytes to send to the other side, each once."""
        return self._out.read()

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt plain bytes. Return the bytes to send. The session must be established."""
        assert self.established, "nothing is encrypted before the handshake is done"
        if not data:
            return b""
        sent = self._tls.write(data)
        while sent < len(data):
            sent += self._tls.write(memoryview(data)[sent:])
        return self.take()

    def close(self) -> bytes:
        """Say that no more bytes come, and return the bytes to send."""
        if self.established:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the session does not wait for the other side's goodbye
        return self.take()

    def certificate(self) -> bytes | None:
        """Return the certificate of the other side in DER, or None if it has shown none."""
        return self._tls.getpeercert(binary_form=True)

    def names(self) -> tuple[str, ...]:
        """Return the names in the certificate of the other side."""
        certificate = self.certificate()
        return () if certificate is None else names_of(certificate)

    @property
    def version(self) -> str:
        """``TLSv1.3``; empty before the handshake."""
        return self._tls.version() or ""

    # --- inside

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._refusal(error) from None
        self.established = True

    def _read(self) -> bytes:
        parts = []
        try:
            while part := self._tls.read(_READ):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            raise self._refusal(error) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _refusal(self, error: ssl.SSLError) -> TlsRefused:
        reason = error.reason or ""
        if isinstance(error, ssl.SSLCertVerificationError):
            code = getattr(error, "verify_code", 0)
            cause = "expired" if code in (_NOT_YET_VALID, _EXPIRED) else "untrusted"
            return TlsRefused(cause, getattr(error, "verify_message", "") or reason)
        problem = reason.replace("_", " ").lower()
        if "ALERT" in reason:
            return TlsRefused("refused_us", problem)
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return TlsRefused("no_certificate", "")
        return TlsRefused("altered" if self.established else "handshake", problem)
