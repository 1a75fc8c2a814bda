"""The export port with TLS: it admits the right clients, and a man in the middle cannot pass on proofs."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from export_kit import TOKEN, in_thread, state_of

from jgroups_py.cache import open_tree_cache
from jgroups_py.errors import ConfigError
from jgroups_py.export import (
    ExportAccess,
    ExportClient,
    ExportError,
    ExportLimits,
    ExportPort,
    NoMember,
    NotTrusted,
    WrongToken,
    doorway,
    open_export,
)
from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.tls import TlsSettings, load

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def ours(authority: CertificateAuthority) -> TlsSettings:
    return authority.settings("port")


@pytest.fixture(scope="module")
def theirs(authority: CertificateAuthority) -> TlsSettings:
    return authority.settings("client")


@asynccontextmanager
async def encrypted(tls: TlsSettings, **limits: float) -> AsyncIterator[ExportPort]:
    async with (
        open_tree_cache("local.xml") as cache,
        open_export(cache, token=TOKEN, tls=tls, limits=ExportLimits(**limits)) as port,  # type: ignore[arg-type]
    ):
        await cache.put("/a", "v", 1)
        yield port


async def test_a_client_with_a_certificate_reads_and_nothing_is_in_clear(
    ours: TlsSettings, theirs: TlsSettings
) -> None:
    async with encrypted(ours) as port:

        def reads() -> None:
            with ExportClient(port.address, ExportAccess(TOKEN, theirs)) as client:
                assert isinstance(client._socket, ssl.SSLSocket)
                snapshot = client.open_snapshot("cache")
                assert list(state_of(client, snapshot.id)) == ["/a"]

        await in_thread(reads)
        assert port.counters["no_tls"] == 0


async def test_a_client_without_our_certificate_is_turned_away_by_name(
    ours: TlsSettings, tmp_path: Path
) -> None:
    foreign = CertificateAuthority(tmp_path, "foreign").settings("client")
    async with encrypted(ours) as port:
        with pytest.raises(NotTrusted, match="self-signed certificate"):
            await in_thread(ExportClient, port.address, ExportAccess(TOKEN, foreign))
        trusting = replace(
            foreign, ca=ours.ca
        )  # the client trusts the port, but the port does not trust the client
        with pytest.raises(ExportError, match=r"closed the connection|alert|reset"):
            await in_thread(ExportClient, port.address, ExportAccess(TOKEN, trusting))
        await two_are_turned_away(port)


async def test_a_client_without_tls_is_turned_away(ours: TlsSettings) -> None:
    async with encrypted(ours, hello_timeout=1.0) as port:
        with pytest.raises(NoMember):
            await in_thread(ExportClient, port.address, TOKEN)
        await in_thread(speak_nonsense, port.address)
        await two_are_turned_away(port)


async def two_are_turned_away(port: ExportPort) -> None:
    with trio.fail_after(30):
        while port.counters["no_tls"] + port.counters["late"] < 2:  # noqa: ASYNC110 - nothing tells
            await trio.sleep(0.01)
    assert port.counters["refused"] == port.counters["wrong_token"] == 0


def speak_nonsense(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while plain.recv(1000):
            pass


async def test_a_certificate_is_no_token(ours: TlsSettings, theirs: TlsSettings) -> None:
    async with encrypted(ours) as port:
        access = ExportAccess("a token of somebody else", theirs)
        with pytest.raises(WrongToken, match="another token"):
            await in_thread(ExportClient, port.address, access)
        assert port.counters["wrong_token"] == 1


async def test_a_port_without_tls_is_not_spoken_to(theirs: TlsSettings) -> None:
    async with (
        open_tree_cache("local.xml") as cache,
        open_export(cache, token=TOKEN) as port,
    ):
        with pytest.raises(NotTrusted, match="does not speak TLS"):
            await in_thread(ExportClient, port.address, ExportAccess(TOKEN, theirs))


async def test_an_attacker_in_between_with_a_trusted_certificate_cannot_pass_proofs_on(
    ours: TlsSettings, theirs: TlsSettings, authority: CertificateAuthority
) -> None:
    """The man in the middle speaks TLS with both, copies all bytes, and knows no token."""
    middle = load(authority.settings("middle"))

    async def between(client: trio.SocketStream) -> None:
        inner = trio.SSLStream(client, middle.server, server_side=True)
        outer_plain = await trio.open_tcp_stream(*port.address)
        outer = trio.SSLStream(outer_plain, middle.client)
        async with trio.open_nursery() as pipes:
            for source, dest in ((inner, outer), (outer, inner)):
                pipes.start_soon(copy, source, dest)

    async def copy(source: trio.abc.Stream, dest: trio.abc.Stream) -> None:
        try:
            while data := await source.receive_some(65536):
                await dest.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await trio.aclose_forcefully(dest)

    async with encrypted(ours) as port, trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, between, 0)
        address = ("127.0.0.1", listeners[0].socket.getsockname()[1])
        with pytest.raises(WrongToken, match="another token"):
            await in_thread(ExportClient, address, ExportAccess(TOKEN, theirs))
        assert port.counters["wrong_token"] == 1
        nursery.cancel_scope.cancel()


async def test_a_renewed_certificate_is_used_and_an_end_is_reported(
    authority: CertificateAuthority,
    theirs: TlsSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(doorway, "CERTIFICATES_EVERY", 0.05)
    issued = authority.issue("renewed", valid=timedelta(days=29))
    files = TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca)

    def seen(address: tuple[str, int]) -> bytes | None:
        with ExportClient(address, ExportAccess(TOKEN, theirs)) as client:
            assert isinstance(client._socket, ssl.SSLSocket)
            return client._socket.getpeercert(binary_form=True)

    async with encrypted(files) as port:
        assert "the certificate of renewed expires in 28 days" in caplog.text
        first = await in_thread(seen, port.address)
        client = await in_thread(ExportClient, port.address, ExportAccess(TOKEN, theirs))
        authority.issue("renewed")
        with trio.fail_after(30):
            while await in_thread(seen, port.address) == first:  # noqa: ASYNC110 - nothing tells
                await trio.sleep(0.02)
        assert (await in_thread(client.describe)).map == "cache"  # open connections stay
        client.close()
        await in_thread(Path(issued.key).write_text, "nonsense")
        with trio.fail_after(30):
            while "goes on with what it had" not in caplog.text:  # noqa: ASYNC110 - nothing tells
                await trio.sleep(0.02)
        await in_thread(seen, port.address)


async def test_another_host_needs_tls_or_a_word(ours: TlsSettings) -> None:
    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(ConfigError, match="give it tls, or allow_remote=True"):
            async with open_export(cache, token=TOKEN, host="0.0.0.0"):
                pass
        async with open_export(cache, token=TOKEN, host="127.0.0.2", tls=ours):
            pass


async def test_files_that_cannot_be_used_are_told_on_both_sides(
    ours: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broken = replace(ours, key="nowhere")
    with pytest.raises(ConfigError, match="TLS of the export port: key must name a file"):
        async with encrypted(broken):
            pass
    async with encrypted(ours) as port:
        with pytest.raises(ConfigError, match="TLS to an export port: key must name a file"):
            await in_thread(ExportClient, port.address, ExportAccess(TOKEN, broken))
