"""Groups with TLS in virtual time: TCP, FD_SOCK2 and RELAY's bridge, strangers, and certificates that are renewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.testing.sim import World
from jgroups_py.testing.sim.host import Host

HOSTS = {"jgroups.tcpping.initial_hosts": "10.0.0.1[7800]"}
QUICK = {"GMS.join_timeout": "500ms", "GMS.max_join_attempts": "2", "MERGE3.min_interval": "1s"}
QUICK["MERGE3.max_interval"] = "3s"


def tls(authority: CertificateAuthority, name: str, **more: str) -> dict[str, str]:
    issued = authority.issue(name, file=f"group-{name}")
    return {
        "TCP.tls.enabled": "true",
        "TCP.tls.certificate": issued.certificate,
        "TCP.tls.key": issued.key,
        "TCP.tls.ca": authority.ca,
        **more,
    }


def start(world: World, name: str, attributes: dict[str, str]) -> Any:
    member = world.start(
        name, "tcp.xml", "test", attributes={**QUICK, **attributes}, properties=HOSTS
    )
    world.run_for(5)
    return member


def group(world: World, authority: CertificateAuthority, names: str) -> list[Any]:
    return [start(world, name, tls(authority, name)) for name in names]


def statistics(member: Any, cls: Any = TCP) -> dict[str, Any]:
    found: dict[str, Any] = member.stack.find(cls).statistics()
    return found


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the bytes that go over connections of the simulator."""
    seen: list[bytes] = []
    former = Host._write

    def write(host: Host, out: Any) -> None:
        seen.append(out.data)
        former(host, out)

    monkeypatch.setitem(
        Host._execute, next(k for k, v in Host._execute.items() if v is former), write
    )
    return seen


def test_members_with_certificates_are_a_group_and_nothing_is_readable(
    authority: CertificateAuthority, wire: list[bytes]
) -> None:
    world = World(1)
    a, b, c = group(world, authority, "ABC")
    assert a.view_names == b.view_names == c.view_names == ("A", "B", "C")
    b.send(b"attack at dawn")
    a.send(b"for c alone", to=c)
    world.run_for(1)
    assert b"attack at dawn" in a.payloads and b"for c alone" in c.payloads
    seen = b"".join(wire)
    assert len(seen) > 5000
    for clear in (b"attack at dawn", b"for c alone", b"bela", b"test"):
        assert clear not in seen
    assert not a.host.machine.turned_away


def test_a_crash_is_noticed_at_once(authority: CertificateAuthority) -> None:
    world = World(2)
    a, b, c = group(world, authority, "ABC")
    assert statistics(a, FD_SOCK2)["connections_opened"] > 0
    c.crash()
    assert world.run_until(lambda: a.view_names == b.view_names == ("A", "B"), limit=1.0)


@pytest.mark.parametrize("kind", ["clear", "untrusted"])
def test_a_stranger_does_not_join_and_is_counted(
    authority: CertificateAuthority, tmp_path: Path, kind: str
) -> None:
    world = World(3)
    a, b = group(world, authority, "AB")
    strange = CertificateAuthority(tmp_path, "strange")
    attributes = {} if kind == "clear" else tls(strange, "S", **{"TCP.tls.ca": authority.ca})
    stranger = start(world, "S", attributes)
    stranger.send(b"poison")
    b.send(b"cure")
    world.run_for(20)
    assert a.view_names == b.view_names == ("A", "B") and stranger.view_names == ("S",)
    assert b"cure" in a.payloads and b"poison" not in a.payloads
    assert b"cure" not in stranger.payloads
    assert a.host.machine.turned_away[f"TLS.{kind}"] > 0
    assert set(a.host.machine.turned_away) == {f"TLS.{kind}"}
    if kind == "untrusted":  # unlike other versions, it does not try again at once
        assert a.host.machine.turned_away["TLS.untrusted"] < 100


def test_a_member_with_tls_does_not_join_a_group_in_clear(authority: CertificateAuthority) -> None:
    world = World(4)
    trap = start(world, "T", {})
    a = start(world, "A", tls(authority, "A"))
    world.run_for(20)
    a.send(b"secret")
    world.run_for(5)
    assert a.view_names == ("A",) and b"secret" not in trap.payloads


def test_certificates_are_renewed_under_traffic(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """The authority changes, too: first both are trusted, then members change, then only the new one is trusted."""
    new = CertificateAuthority(tmp_path / "new", "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(Path(authority.ca).read_text())
    world = World(5)
    more = {"TCP.tls.ca": str(trusted), "TCP.tls.reload_interval": "10s"}
    a, b = (start(world, name, tls(authority, name, **more)) for name in "AB")
    sent: list[bytes] = []

    def talk(seconds: int) -> None:
        for _ in range(seconds):
            sent.append(f"{len(sent)}".encode())
            b.send(sent[-1])
            world.run_for(1)

    talk(5)
    trusted.write_text(Path(authority.ca).read_text() + Path(new.ca).read_text())
    talk(12)
    own = tls(authority, "A")["TCP.tls.certificate"]
    for name in "AB":
        issued = new.issue(name)
        files = tls(authority, name)
        for old, fresh in (("certificate", issued.certificate), ("key", issued.key)):
            Path(files[f"TCP.tls.{old}"]).write_bytes(Path(fresh).read_bytes())
    talk(12)
    trusted.write_text(Path(new.ca).read_text())
    talk(12)
    c = start(world, "C", tls(new, "C"))
    talk(3)
    assert a.view_names == b.view_names == c.view_names == ("A", "B", "C")
    assert [p for p in a.payloads if p in sent] == sent
    assert statistics(a)["tls_reloads"] == 3 and Path(own).exists()
    former = start(world, "D", tls(authority, "D"))
    assert former.view_names != c.view_names and "D" not in a.view_names


def test_the_bridge_of_relay_speaks_tls(authority: CertificateAuthority, wire: list[bytes]) -> None:
    world = World(6)
    members = {}
    hosts = ",".join(f"{world.host_address(s, n)}[7950]" for n, s in (("E", "NYC"), ("T", "SFO")))
    for name, site in (("E", "NYC"), ("T", "SFO")):
        address = world.host_address(site, name)
        bridge = ";".join(f"{k}={v}" for k, v in tls(authority, name).items())
        members[name] = world.start(
            name,
            "relay-udp.xml",
            site,
            site=site,
            attributes={"RELAY.sites": "NYC,SFO", "RELAY.bridge_attributes": bridge},
            properties={
                "relay.site": site,
                "relay.bridge": "relay-bridge-tcp.xml",
                "relay.bridge.bind_addr": address,
                "relay.bridge.hosts": hosts,
                "jgroups.bind_addr": address,
            },
        )
    world.run_for(20)
    members["E"].send(b"over the bridge")
    world.run_for(2)
    assert b"over the bridge" in members["T"].payloads
    (child,) = members["E"].stack.children
    transport = child.find(TCP)
    assert transport is not None and transport.statistics()["tls_connections"] > 0
    seen = b"".join(wire)
    assert seen and b"over the bridge" not in seen and b"bela" not in seen
    assert not members["E"].host.machine.turned_away
