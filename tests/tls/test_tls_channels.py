"""Channels with TLS on real sockets: files on disk, strangers with plain sockets, and the port as seen from another
process."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio

from jgroups_py import Message, TurnedAway, open_channel
from jgroups_py.errors import ConfigError, JoinError
from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets
STACK = """<config>
  <TCP bind_addr="127.0.0.1" bind_port="{port}" port_range="3" tls.enabled="true"
       tls.certificate="{certificate}" tls.key="{key}" tls.ca="{ca}"/>
  <TCPPING initial_hosts="127.0.0.1[{port}]" port_range="3"/>
  <FD_SOCK2 offset="4"/>
  <pbcast.NAKACK2 use_mcast_xmit="false"/><UNICAST3/><pbcast.STABLE/><pbcast.GMS join_timeout="2s"/>
  <UFC/><MFC/><FRAG2/>
</config>"""


@pytest.fixture
def port() -> int:
    return free_block(12)


def stack_file(folder: Path, authority: CertificateAuthority, name: str, port: int) -> Path:
    issued = authority.issue(name, file=f"channel-{name}")
    file = folder / f"{name}.xml"
    file.write_text(
        STACK.format(port=port, certificate=issued.certificate, key=issued.key, ca=authority.ca)
    )
    return file


async def test_channels_talk_and_strangers_are_told_from_members(
    authority: CertificateAuthority, tmp_path: Path, port: int
) -> None:
    files = [stack_file(tmp_path, authority, name, port) for name in "AB"]
    told: dict[str, TurnedAway] = {}
    both = trio.Event()

    def tell(event: TurnedAway) -> None:
        told[event.cause] = event
        if len(told) == 2:
            both.set()

    with trio.fail_after(60):
        async with (
            open_channel(files[0], cluster="tls", name="A", turned_away=tell) as a,
            open_channel(files[1], cluster="tls", name="B") as b,
        ):
            await a.wait_members(["A", "B"])
            await b.send(b"x" * 1_000_000)
            async for item in a:
                if isinstance(item, Message):
                    assert item.payload == b"x" * 1_000_000
                    break
            await speak_in_clear(port)
            await look_at_the_certificate(port, authority)
            await both.wait()
            counted = a.statistics().turned_away
            assert counted["TLS.clear"] == 1 and counted["TLS.no_certificate"] == 1
            assert a.statistics().protocols["TCP"]["tls_connections"] > 0
            assert len(a.view.members) == 2
    assert told.keys() == {"clear", "no_certificate"} and told["clear"].by == "TLS"


async def speak_in_clear(port: int) -> None:
    """The member closes at the first byte that is not TLS, without an answer."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(b"bela" + bytes(30))
        assert await stream.receive_some() == b""


async def look_at_the_certificate(port: int, authority: CertificateAuthority) -> None:
    """Connect without a certificate: the member shows its certificate, and turns the connection away."""
    context = ssl.create_default_context(cafile=authority.ca)
    context.check_hostname = False
    stream = trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", port), context)
    await stream.do_handshake()
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
    await trio.aclose_forcefully(stream)


async def test_a_name_that_the_certificate_has_not_got_is_said_at_once(
    authority: CertificateAuthority, tmp_path: Path, port: int
) -> None:
    file = stack_file(tmp_path, authority, "A", port)
    with pytest.raises(JoinError, match='the certificate names "A", and this member is called "B"'):
        async with open_channel(file, cluster="tls", name="B"):
            pass


async def test_a_file_that_is_not_there_is_said_with_its_line(
    authority: CertificateAuthority, tmp_path: Path, port: int
) -> None:
    file = stack_file(tmp_path, authority, "A", port)
    file.write_text(file.read_text().replace(authority.ca, "/nowhere/ca.pem"))
    with pytest.raises(
        ConfigError, match=r"A\.xml:3:\d+: TCP\.tls\.ca: .*/nowhere/ca\.pem: No such"
    ):
        async with open_channel(file, cluster="tls", name="A"):
            pass
