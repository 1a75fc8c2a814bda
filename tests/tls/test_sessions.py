"""TlsSession: two sides in memory. Plain bytes arrive whole, and wrong peers are refused by cause."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import timedelta

import pytest

from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.tls import Credentials, TlsRefused, TlsSession, TlsSettings, load
from jgroups_py.tls.session import HANDSHAKE_MAX, TLS_CAUSES


class Pair:
    """A connecting and an accepting side, and the cause of each refusal."""

    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext, cut: int = 0) -> None:
        self.client = TlsSession(client, server_side=False)
        self.server = TlsSession(server, server_side=True)
        self.cut = cut
        self.refused: dict[str, str] = {}
        self.plain = {"client": b"", "server": b""}

    def run(self) -> Pair:
        """Run the handshake, until no side has bytes to send."""
        up = self.client.start()
        for _ in range(10):
            down = self.at("server", up)
            up = self.at("client", down)
            if not up and not down:
                break
        return self

    def at(self, side: str, data: bytes) -> bytes:
        session = self.client if side == "client" else self.server
        pieces = (
            [data[i : i + self.cut] for i in range(0, len(data), self.cut)] if self.cut else [data]
        )
        for piece in pieces:
            if side in self.refused or not piece:
                continue
            try:
                self.plain[side] += session.receive(piece)
            except TlsRefused as refused:
                self.refused[side] = refused.cause
        return session.take()


@pytest.fixture(scope="module")
def good(authority: CertificateAuthority) -> Credentials:
    return load(authority.settings("a"))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_both_sides_talk_and_know_each_other(
    authority: CertificateAuthority, version: str, cut: int
) -> None:
    a = load(replace(authority.settings("a"), protocols=(version,)))
    b = load(replace(authority.settings("b"), protocols=(version,)))
    pair = Pair(a.client, b.server, cut).run()
    assert pair.client.established and pair.server.established and not pair.refused
    assert (pair.client.names(), pair.server.names()) == (("b",), ("a",))
    assert pair.client.certificate() == b.certificate and pair.client.version == version
    pair.at("server", pair.client.encrypt(b"x" * 20_000) + pair.client.encrypt(b""))
    pair.at("client", pair.server.encrypt(b"y"))
    assert pair.plain == {"server": b"x" * 20_000, "client": b"y"}
    assert not pair.server.ended
    pair.at("server", pair.client.close())
    assert pair.server.ended and not pair.refused


def test_bytes_on_the_wire_are_not_readable(good: Credentials) -> None:
    pair = Pair(good.client, good.server).run()
    sealed = pair.client.encrypt(b"attack at dawn")
    assert b"dawn" not in sealed and sealed[0] == 0x17


def test_plain_bytes_may_come_with_the_end_of_the_handshake(good: Credentials) -> None:
    pair = Pair(good.client, good.server)
    down = pair.at("server", pair.client.start())
    up = pair.at("client", down)
    assert pair.client.established
    pair.at("server", up + pair.client.encrypt(b"at once"))
    assert pair.plain["server"] == b"at once"


# --- refused clients


@pytest.mark.parametrize(
    "data", [b"bela\x00\x06", b"\x00\x00\x00\x05", b"GET / HTTP/1.0\r\n\r\n", b"\x15"]
)
def test_a_client_that_speaks_in_clear_is_turned_away(good: Credentials, data: bytes) -> None:
    server = TlsSession(good.server, server_side=True)
    with pytest.raises(TlsRefused) as caught:
        server.receive(data)
    assert caught.value.cause == "clear"


def test_a_port_that_answers_in_clear_is_turned_away(good: Credentials) -> None:
    client = TlsSession(good.client, server_side=False)
    client.start()
    with pytest.raises(TlsRefused, match="without TLS"):
        client.receive(b"bela")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_stranger_without_a_certificate_is_turned_away(
    authority: CertificateAuthority, version: str
) -> None:
    b = load(replace(authority.settings("b"), protocols=(version,)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = Pair(context, b.server).run()
    assert pair.refused == {"server": "no_certificate", "client": "refused_us"}


def test_a_member_of_another_authority_is_turned_away(
    authority: CertificateAuthority, good: Credentials
) -> None:
    strange = CertificateAuthority(authority.ca.removesuffix("ca.pem"), "strange")
    other = load(strange.settings("other"))
    believes = load(replace(strange.settings("x"), ca=authority.ca))
    assert Pair(other.client, good.server).run().refused["client"] == "untrusted"
    assert Pair(believes.client, good.server).run().refused == {
        "server": "untrusted",
        "client": "refused_us",
    }


def test_an_expired_certificate_is_turned_away(
    authority: CertificateAuthority, good: Credentials
) -> None:
    issued = authority.issue("late", valid=timedelta(seconds=-60))
    files = TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca)
    late = load(files, lambda: issued.not_after - 1)
    assert Pair(late.client, good.server).run().refused["server"] == "expired"
    assert Pair(good.client, late.server).run().refused["client"] == "expired"


@pytest.mark.parametrize(("use", "side"), [("server", "server"), ("client", "client")])
def test_a_certificate_for_another_use_is_turned_away(
    authority: CertificateAuthority, good: Credentials, use: str, side: str
) -> None:
    issued = authority.issue("use", use=use)
    files = TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca)
    wrong = load(files)
    pair = Pair(wrong.client, good.server) if side == "server" else Pair(good.client, wrong.server)
    assert pair.run().refused[side] == "untrusted"


def test_an_old_version_of_tls_is_turned_away(authority: CertificateAuthority) -> None:
    new = load(replace(authority.settings("new"), protocols=("TLSv1.3",)))
    old = load(replace(authority.settings("old"), protocols=("TLSv1.2",)))
    pair = Pair(old.client, new.server).run()
    assert pair.refused == {"server": "handshake", "client": "refused_us"}


def test_altered_bytes_are_noticed(good: Credentials) -> None:
    for index in (5, 20, -1):
        pair = Pair(good.client, good.server).run()
        sealed = bytearray(pair.client.encrypt(b"pay 10"))
        sealed[index] ^= 1
        pair.at("server", bytes(sealed))
        assert pair.refused == {"server": "altered"} and pair.plain["server"] == b""


def test_bytes_that_come_twice_are_noticed(good: Credentials) -> None:
    pair = Pair(good.client, good.server).run()
    sealed = pair.client.encrypt(b"pay 10")
    pair.at("server", sealed + sealed)
    assert pair.refused == {"server": "altered"}


def test_a_handshake_without_end_is_turned_away(good: Credentials) -> None:
    server = TlsSession(good.server, server_side=True)
    record = b"\x16\x03\x01\x20\x00"
    hello = b"\x01\x01\xff\x00\x03\x03"  # of 130,816 bytes, which OpenSSL would wait for
    taken, cause = 0, ""
    while not cause and taken < 2 * HANDSHAKE_MAX:
        cause = refusal(server, record + hello + bytes(0x2000 - len(hello)))
        hello = b""
        taken += 0x2005
    assert cause == "handshake" and taken <= HANDSHAKE_MAX + 0x2005


def refusal(session: TlsSession, data: bytes) -> str:
    """Return the cause for which ``data`` are refused, or nothing."""
    try:
        session.receive(data)
    except TlsRefused as refused:
        return refused.cause
    return ""


def test_noise_raises_one_kind_of_error(good: Credentials) -> None:
    hello = TlsSession(good.client, server_side=False).start()
    for cut in range(0, len(hello), 3):
        for byte in (0x00, 0xFF):
            data = hello[:cut] + bytes([byte]) + hello[cut + 1 :]
            server = TlsSession(good.server, server_side=True)
            assert refusal(server, data + hello) in ("", *TLS_CAUSES)
            assert not server.established


def test_only_a_client_that_is_asked_needs_a_certificate(authority: CertificateAuthority) -> None:
    for client_auth in ("WANT", "NONE"):
        b = load(replace(authority.settings("b"), client_auth=client_auth))
        context = ssl.create_default_context(cafile=authority.ca)
        context.check_hostname = False
        pair = Pair(context, b.server).run()
        assert pair.server.established and pair.server.names() == () and not pair.refused
