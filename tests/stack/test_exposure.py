"""The ports of a stack, and the encryption of its traffic, as its protocols report them."""

from collections.abc import Mapping
from typing import Any

import pytest

from jgroups_py.config.file import parse_stack
from jgroups_py.config.settings import build
from jgroups_py.stack.exposure import (
    DISCOVERY,
    HEADERS,
    MESSAGES,
    TRAFFIC,
    Flow,
    PortUse,
    TransportPlace,
    flows,
    port_uses,
)
from jgroups_py.stack.protocol import Protocol


class Seals(Protocol):
    """A protocol that encrypts messages of applications."""

    @classmethod
    def protects(cls, config: Any) -> Mapping[str, str]:
        return {MESSAGES: "AES-GCM"}


class Carries(Protocol):
    """A carrier whose connections to members are encrypted, and whose multicasts are not."""

    @classmethod
    def port_uses(cls, config: Any, place: TransportPlace) -> list[PortUse]:
        both = (MESSAGES, DISCOVERY)
        return [
            PortUse("tcp", "in", 1, 1, place.host, place.host, (HEADERS, MESSAGES), "", "", "TLS"),
            PortUse("udp", "in", 2, 2, place.host, "239.0.0.1", both, ""),
        ]


def uses(text: str) -> list[tuple[str, str, str, int, int, str]]:
    built = build(parse_stack(f"<config>{text}</config>", language="xml"))
    return [(u.protocol, u.proto, u.way, u.first, u.last, u.address) for u in port_uses(built)]


def test_tcp_and_fd_sock2_listen_on_ranges() -> None:
    assert uses('<TCP bind_addr="10.0.0.5" bind_port="7800" port_range="2"/><FD_SOCK2/>') == [
        ("TCP", "tcp", "in", 7800, 7802, "10.0.0.5"),
        ("TCP", "tcp", "out", 7800, 7802, ""),
        ("FD_SOCK2", "tcp", "in", 7900, 7905, "10.0.0.5"),
        ("FD_SOCK2", "tcp", "out", 7900, 7905, ""),
    ]


def test_udp_has_any_port_and_a_multicast_group() -> None:
    assert uses('<UDP mcast_addr="239.1.1.1" mcast_port="4711"/>') == [
        ("UDP", "udp", "in", 0, 0, "127.0.0.1"),
        ("UDP", "udp", "out", 0, 0, ""),
        ("UDP", "udp", "in", 4711, 4711, "239.1.1.1"),
        ("UDP", "udp", "out", 4711, 4711, "239.1.1.1"),
    ]
    assert len(uses('<UDP ip_mcast="false"/>')) == 2


def test_others_reach_the_external_port() -> None:
    ports = uses('<TCP bind_port="7800" external_addr="192.0.2.1" external_port="17800"/>')
    assert ports[1][:5] == ("TCP", "tcp", "out", 17800, 17800)


@pytest.mark.parametrize(
    ("range_", "offset", "first", "last"),
    [(10, 100, 65490, 65503), (10, 140, 1, 65535), (0, 200, 54, 57)],
)
def test_ports_of_fd_sock2_go_on_from_the_lowest(
    range_: int, offset: int, first: int, last: int
) -> None:
    ports = uses(f'<TCP bind_port="65390" port_range="{range_}"/><FD_SOCK2 offset="{offset}"/>')
    assert ports[2][3:5] == (first, last)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<MPING mcast_port="7555"/>',
            [("udp", "in", 7555, 7555, "232.5.6.7"), ("udp", "out", 7555, 7555, "232.5.6.7")],
        ),
        (
            '<TCPPING initial_hosts="a[7800],10.0.0.2[7900]" port_range="3"/>',
            [("tcp", "out", 7800, 7803, "a"), ("tcp", "out", 7900, 7903, "10.0.0.2")],
        ),
        ('<TCPGOSSIP initial_hosts="r[12001]"/>', [("tcp", "out", 12001, 12001, "r")]),
        (
            '<dns.DNS_PING dns_query="m.local" dns_address="10.96.0.10:5353"/>',
            [
                ("udp", "out", 5353, 5353, "10.96.0.10"),
                ("tcp", "out", 5353, 5353, "10.96.0.10"),
            ],
        ),
        (
            '<dns.DNS_PING dns_query="m.local"/>',
            [
                ("udp", "out", 53, 53, "the system's name server"),
                ("tcp", "out", 53, 53, "the system's name server"),
            ],
        ),
        (
            '<JDBC_PING2 connection_url="jdbc:postgresql://db.local/x"/>',
            [("tcp", "out", 5432, 5432, "db.local")],
        ),
        ('<JDBC_PING2 connection_url="jdbc:sqlite:x.db"/>', []),
        ('<FILE_PING location="/x"/>', []),
    ],
)
def test_discoveries_report_the_hosts_that_they_ask(
    text: str, expected: list[tuple[Any, ...]]
) -> None:
    found = uses(f'<TCP bind_port="7800"/>{text}')
    assert [use[1:] for use in found if use[0] != "TCP"] == expected


def directory_of(text: str) -> tuple[str, ...]:
    built = build(parse_stack(f"<config><TCP/>{text}</config>", language="xml"))
    (found,) = [flow for flow in flows(built) if flow.traffic == "directory"]
    return found.sealed


def test_directories_tell_whether_they_are_asked_in_clear() -> None:
    assert directory_of("<kubernetes.KUBE_PING/>") == ("KUBE_PING (TLS)",)
    assert directory_of('<kubernetes.KUBE_PING masterProtocol="http"/>') == ()
    url = "jdbc:postgresql://db/x"
    assert directory_of(f'<JDBC_PING2 connection_url="{url}"/>') == ()
    assert directory_of(f'<JDBC_PING2 connection_url="{url}?sslmode=require"/>') == (
        "JDBC_PING2 (TLS)",
    )
    assert directory_of(f'<JDBC_PING2 connection_url="{url}?sslmode=prefer"/>') == ()


def test_traffic_is_in_clear_if_one_way_of_it_is() -> None:
    built = [(Carries, Carries.Config()), (Seals, Seals.Config())]
    assert flows(built, "10.0.0.5") == (
        Flow("Carries", HEADERS, ("Carries (TLS)",), False),
        Flow("Carries", MESSAGES, ("Seals (AES-GCM)",), False),
        Flow("Carries", DISCOVERY, (), False),
    )


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("loopback", True), ("10.0.0.5", False), ("eth0", False)],
)
def test_traffic_of_a_loopback_port_does_not_leave_the_machine(host: str, local: bool) -> None:
    found = flows([(Carries, Carries.Config())], host)
    assert [flow.local for flow in found] == [local, local, local]


def test_every_traffic_of_our_protocols_is_described() -> None:
    text = '<UDP diag.enabled="true"/><MPING/><TCPGOSSIP initial_hosts="r[1]"/><FD_SOCK2/>'
    built = build(parse_stack(f"<config>{text}</config>", language="xml"))
    assert {flow.traffic for flow in flows(built)} == set(TRAFFIC)
