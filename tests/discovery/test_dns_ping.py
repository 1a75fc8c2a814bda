"""DNS_PING: the addresses that it asks, and lookups at a real DNS server in a process of its own."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from listing import FIND, Listing, at

from jgroups_py.driver.directories import DirectoryProblem
from jgroups_py.driver.directories.names import answer
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.dns_ping import DNS_PING
from jgroups_py.stack.directories import QueryDns
from jgroups_py.testing import SimCluster
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    Failed,
    MembersFound,
    TransportPorts,
    TransportReady,
    Unreachable,
)

HERE = Path(__file__).parent
pytestmark = pytest.mark.sockets


def ping(ports: tuple[int, int] = (7800, 1), **attributes: Any) -> Listing:
    attributes = {"dns_query": ("jgroups.svc",), **attributes}
    listing = Listing(DNS_PING(**attributes), answers={TransportPorts: ports})
    listing.ready()
    return listing


def test_every_address_is_asked_on_the_transports_ports_but_ours() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    request = listing.answer((("127.0.0.1", 0), ("10.0.0.2", 0)))
    assert request == QueryDns(("jgroups.svc",), "A", "", 5.0, 1000)
    assert listing.asked() == ["127.0.0.1:7801", "10.0.0.2:7800", "10.0.0.2:7801"]


def test_a_member_that_is_alone_on_the_list_knows_that_it_is_alone() -> None:
    listing = ping((7800, 0))
    listing.stack.event_down(FIND)
    listing.answer((("127.0.0.1", 0), ("10.0.0.2", 0)))
    listing.stack.event_up(Unreachable(at(7800, "10.0.0.2")))
    assert listing.stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


@pytest.mark.parametrize("found", [(), (("10.0.0.2", 0),)])
def test_a_list_without_us_is_older_than_we_are(found: Any) -> None:
    listing = ping((7800, 0))
    listing.stack.event_down(FIND)
    listing.answer(found)
    listing.stack.event_up(Unreachable(at(7800, "10.0.0.2")))
    assert listing.stack.take_up_events() == []
    listing.stack.advance(3.1)
    assert listing.stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_ports_of_srv_records_are_asked_and_the_transports_too_where_wanted() -> None:
    for probe, more in ((False, []), (True, ["10.0.0.2:7800", "10.0.0.2:7801"])):
        listing = ping(dns_record_type="SRV", probe_transport_ports=probe)
        listing.stack.event_down(FIND)
        listing.answer((("10.0.0.2", 9000),))
        assert listing.asked() == ["10.0.0.2:9000", *more]


def test_without_a_port_of_the_transport_nobody_can_be_asked() -> None:
    listing = Listing(DNS_PING(dns_query=("a.svc",)), answers={TransportPorts: (0, 10)})
    listing.stack.event_up(TransportReady(at(7800)))
    (failed,) = listing.stack.take_up_events()
    assert isinstance(failed, Failed)
    assert "bind_port must be set, for example to 7800, got 0" in failed.problem
    listing = Listing(
        DNS_PING(dns_query=("a.svc",), dns_record_type="SRV"), answers={TransportPorts: (0, 10)}
    )
    listing.stack.event_up(TransportReady(at(7800)))
    assert listing.stack.take_up_events() == [TransportReady(at(7800))]


def test_addresses_that_cannot_be_members_are_counted() -> None:
    listing = ping((7800, 0))
    listing.stack.event_down(FIND)
    hosts = ("224.0.0.1", "0.0.0.0", "255.255.255.255", "::", "no", "fe80::1%eth0", "", "10.0.0.2")
    listing.answer(tuple((host, 0) for host in hosts))
    assert listing.asked() == ["10.0.0.2:7800"]
    assert listing.statistics()["dropped_entries"] == 7


def test_ours_is_recognised_however_it_is_written() -> None:
    listing = Listing(DNS_PING(dns_query=("a.svc",)), answers={TransportPorts: (7800, 0)})
    listing.stack.event_up(TransportReady(IpAddress("::1", 7800)))
    listing.stack.event_down(FIND)
    listing.answer((("0:0:0:0:0:0:0:1", 0),))
    assert listing.stack.take_up_events(MembersFound) == [MembersFound("GMS", (), alone=True)]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, "dns_query must name 1 to 20 names"),
        ({"dns_query": ("a b",)}, 'dns_query must be names.*got "a b"'),
        ({"dns_query": ("a",) * 21}, "dns_query must name 1 to 20 names"),
        ({"dns_query": ("a",), "dns_address": "a:b:c"}, 'dns_address must be HOST.*got "a:b:c"'),
        ({"dns_query": ("a",), "max_records": 0}, "max_records"),
    ],
)
def test_settings_of_dns_ping_that_cannot_be_are_refused(
    attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        DNS_PING(**attributes)


def test_members_find_each_other_through_a_name_in_virtual_time() -> None:
    cluster = SimCluster(
        "ABC", "tcp-dns.xml", seed=2, attributes={"DNS_PING.dns_query": "demo.svc"}
    )
    cluster.open()
    names = cluster.world.directory.names
    cluster.start("A", "B", wait=False)
    cluster.run_for(20)
    assert len(cluster["A"].view_names) == 1  # the name is not known yet
    names["demo.svc"] = [(f"10.0.0.{n}", 0) for n in (1, 2, 3)]
    cluster.start("C", wait=False)
    cluster.settle()
    assert len(cluster["C"].view_names) == 3
    cluster.close()


# --- a real server

ZONE: dict[str, Any] = {
    "members.svc.": {"A": ["127.0.0.1", "10.0.0.2"], "AAAA": ["::1"]},
    "more.svc.": {"A": ["10.0.0.2", "10.0.0.3"]},
    "_jgroups._tcp.svc.": {"SRV": ["0 0 7801 a.svc.", "0 0 7800 b.svc.", "0 0 1 gone.svc."]},
    "a.svc.": {"A": ["10.0.0.1"]},
    "b.svc.": {"A": ["10.0.0.2"], "AAAA": ["fd00::2"]},
    "along.svc.": {"SRV": ["0 0 7 c.svc."], "additional": [["c.svc.", "10.0.0.7"]]},
    "many.svc.": {"A": [f"10.1.{n}.1" for n in range(25)]},
    "text.svc.": {"TXT": ["hello"]},
    "garbage.svc.": "garbage",
    "silent.svc.": "silent",
    "servfail.svc.": "servfail",
}


@contextmanager
def name_server(zone: dict[str, Any]) -> Iterator[str]:
    """Yield the address of the server."""
    command = [sys.executable, str(HERE / "dns_server.py"), json.dumps(zone)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with name_server(ZONE) as address:
        yield address


def ask(server: str, *names: str, kind: Any = "A", most: int = 1000, timeout: float = 60.0) -> Any:
    return answer(QueryDns(names, kind, server, timeout, most))


def test_a_server_is_asked_for_addresses(server: str) -> None:
    assert sorted(ask(server, "members.svc", "more.svc")) == [
        ("10.0.0.2", 0),
        ("10.0.0.3", 0),
        ("127.0.0.1", 0),
    ]  # in any order, each once
    assert ask(server, "members.svc", kind="AAAA") == (("::1", 0),)
    assert ask(server, "unknown.svc") == ask(server, "text.svc") == ()
    assert len(ask(server, "many.svc", most=7)) == 7


def test_a_server_is_asked_for_services(server: str) -> None:
    assert ask(server, "_jgroups._tcp.svc", kind="SRV") == (
        ("10.0.0.1", 7801),
        ("10.0.0.2", 7800),
        ("fd00::2", 7800),
    )
    assert ask(server, "along.svc", kind="SRV") == (("10.0.0.7", 7),)
    assert ask(server, "members.svc", kind="SRV") == ()


@pytest.mark.parametrize("name", ["garbage.svc", "silent.svc", "servfail.svc"])
def test_a_server_that_gives_no_answer_is_a_problem_in_time(server: str, name: str) -> None:
    with pytest.raises(DirectoryProblem) as caught:
        ask(server, name, timeout=0.3)
    assert not caught.value.final and str(caught.value)


def test_the_systems_names_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    _without("dns", monkeypatch)
    assert ask("", "localhost") == (("127.0.0.1", 0),)
    assert ask("", "no-such-name.invalid") == ()


@pytest.mark.parametrize(
    ("server_name", "kind", "told"),
    [("127.0.0.1", "A", "dns_address 127.0.0.1"), ("", "SRV", "dns_record_type SRV")],
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, server_name: str, kind: str, told: str
) -> None:
    _without("dns", monkeypatch)
    with pytest.raises(DirectoryProblem, match=rf"{told} needs dnspython: .*\[dns\]") as caught:
        ask(server_name, "a.svc", kind=kind)
    assert caught.value.final


def _without(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
