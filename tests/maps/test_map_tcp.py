"""Maps over real TCP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from tcp_hosts import Recorded, TableHost, until

from jgroups_py.errors import ConfigError
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.remote_side import CannotCompare, open_remote
from jgroups_py.maps.tcp import open_port
from jgroups_py.maps.tcp_settings import TcpSettings
from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.tls import TlsSettings
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets


class Empty:
    """A map without entries."""

    key_codec = "bytes"

    def items(
        self, *, after: bytes = b"", removed: bool = False
    ) -> Iterator[tuple[bytes, MapEntry]]:
        return iter(())


QUICK = TcpSettings(retry_first=0.02, retry_max=0.2)


@pytest.mark.seed("K1", "K13")
async def test_hosts_that_connect_each_other_are_soon_equal() -> None:
    async with (
        open_port(1, listen="127.0.0.1:0", settings=QUICK) as one,
        open_port(2, listen="127.0.0.1:0", settings=QUICK) as two,
        trio.open_nursery() as nursery,
    ):
        assert one.address and two.address
        hosts = TableHost(1), TableHost(2)
        for host, port, peer in zip(hosts, (one, two), (two, one), strict=True):
            assert peer.address
            nursery.start_soon(host.run)
            nursery.start_soon(port.network("fx", [f"127.0.0.1:{peer.address[1]}"]).run, host)
        hosts[0].put(b"from one", b"1" * 300_000)
        hosts[1].put(b"from two", b"2")
        await until(lambda: hosts[0].values == hosts[1].values and len(hosts[0].values) == 2)
        nursery.cancel_scope.cancel()


async def test_a_host_that_is_back_on_its_port_is_connected_again() -> None:
    async with open_port(1, settings=QUICK) as one:
        host = Recorded()
        one.serve("fx", host)
        place = f"127.0.0.1:{free_block(1)}"  # the kernel gives none of these to others meanwhile
        one.dial("fx", place)
        for life in range(3):
            async with open_port(2, listen=place, settings=QUICK) as two:
                other = Recorded()
                two.serve("fx", other)
                await until(lambda: host.links and other.links)  # noqa: B023
                other.send(b"%d" % life)
                await until(lambda: len(host.got) == life + 1)  # noqa: B023
            await until(lambda: not host.links)
        assert host.got == [b"0", b"1", b"2"]


async def test_a_port_that_is_taken_is_named() -> None:
    async with open_port(1, listen="127.0.0.1:0") as one:
        assert one.address
        with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{one.address[1]}"):
            async with open_port(2, listen=f"127.0.0.1:{one.address[1]}"):
                pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


async def test_hosts_connect_over_tls_only_with_one_authority(
    authority: CertificateAuthority,
) -> None:
    def settings(name: str) -> TlsSettings:
        issued = authority.issue(name)
        return TlsSettings(certificate=issued.certificate, key=issued.key, ca=authority.ca)

    async with (
        open_port(1, listen="127.0.0.1:0", tls=settings("one"), settings=QUICK) as one,
        open_port(2, tls=settings("two"), settings=QUICK) as two,
        open_port(3, settings=QUICK) as clear,
    ):
        assert one.address
        hosts = Recorded(), Recorded(), Recorded()
        for port, host in zip((one, two, clear), hosts, strict=True):
            port.serve("fx", host)
        clear.dial("fx", f"127.0.0.1:{one.address[1]}")
        await until(lambda: one.counters["tls"] >= 2)
        two.dial("fx", f"127.0.0.1:{one.address[1]}")
        await until(lambda: hosts[0].links and hosts[1].links)
        hosts[1].send(b"secret" * 100_000)
        await until(lambda: hosts[0].got)
        hosts[1].send(b"the last word")
        two.drop("fx")
        await until(lambda: not hosts[0].links)
        assert hosts[0].got[1:] == [b"the last word"] and hosts[2].opened == 0


async def test_with_tls_only_those_of_the_authority_compare_their_map(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    def settings(of: CertificateAuthority, name: str) -> TlsSettings:
        issued = of.issue(name)
        return TlsSettings(certificate=issued.certificate, key=issued.key, ca=of.ca)

    foreign = CertificateAuthority(tmp_path)
    async with open_port(
        1, listen="127.0.0.1:0", tls=settings(authority, "one"), settings=QUICK
    ) as port:
        assert port.address
        place = f"127.0.0.1:{port.address[1]}"
        host = Recorded()
        host.compared = Empty()
        port.serve("fx", host)
        async with open_remote(place, "fx", tls=settings(authority, "me")) as remote:
            assert sum(await remote.digests()) == 0
        for tls in (settings(foreign, "stranger"), None):
            with pytest.raises(CannotCompare):
                async with open_remote(place, "fx", tls=tls):
                    pass
        await until(lambda: port.counters["tls"] + port.counters["bad_greeting"] >= 2)
        with pytest.raises(ConfigError, match="tls: certificate"):
            async with open_remote(place, "fx", tls=TlsSettings()):
                pass
