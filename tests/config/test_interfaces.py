from __future__ import annotations

import ipaddress

import pytest

from jgroups_py.config.model import Attribute, ProtocolConfig, StackConfig
from jgroups_py.driver.interfaces import (
    Interface,
    interfaces,
    resolve_bind_addr,
    resolve_host,
    with_numeric_hosts,
)
from jgroups_py.errors import ConfigError


def machine() -> list[Interface]:
    return [
        Interface(name, ipaddress.ip_address(address))
        for name, address in [
            ("lo", "127.0.0.1"),
            ("eth0", "10.1.2.3"),
            ("eth1", "203.0.113.9"),
            ("eth2", "169.254.0.5"),
            ("lo", "::1"),
            ("eth0", "fe80::1"),
        ]
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("localhost", "127.0.0.1"),
        ("loopback", "127.0.0.1"),
        ("LOOPBACK", "127.0.0.1"),
        ("site_local", "10.1.2.3"),
        ("SITE_LOCAL", "10.1.2.3"),
        ("global", "203.0.113.9"),
        ("link_local", "169.254.0.5"),
        ("non_loopback", "10.1.2.3"),
        ("0.0.0.0", "10.1.2.3"),
        ("match-interface:eth1", "203.0.113.9"),
        ("match-interface:eth[5-9],match-interface:eth.*", "10.1.2.3"),
        ("match-address:203.*", "203.0.113.9"),
        ("match-interface:eth7,match-interface:eth5,site_local,loopback", "10.1.2.3"),
        (" match-interface:wlan0 , 192.0.2.7", "192.0.2.7"),
    ],
)
def test_the_first_word_that_fits_this_machine_is_taken(text: str, address: str) -> None:
    assert resolve_bind_addr(text, machine) == address


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("match-interface:wlan.*", "no address of this machine matches"),
        ("match-interface:(", "not a regular expression"),
        ("", "no address of this machine matches"),
    ],
)
def test_a_text_that_fits_no_type_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        resolve_bind_addr(text, machine)


def test_numeric_addresses_do_not_ask_the_machine() -> None:
    def forbidden() -> list[Interface]:
        raise AssertionError("asked")

    assert resolve_bind_addr("127.0.0.1,site_local", forbidden) == "127.0.0.1"


def test_this_machine_has_a_loopback_address() -> None:
    assert any(interface.address.is_loopback for interface in interfaces())
    assert resolve_bind_addr("loopback") == "127.0.0.1"


def test_names_in_a_stack_become_numbers_and_errors_have_a_place() -> None:
    stack = StackConfig(
        (
            ProtocolConfig("TCP", (Attribute("bind_addr", "site_local"),)),
            ProtocolConfig(
                "TCPPING", (Attribute("initial_hosts", "localhost[7800],10.0.0.1[7801]"),)
            ),
        ),
        "x.xml",
    )
    numeric = with_numeric_hosts(stack, machine)
    assert numeric.protocols[0].get("bind_addr") == "10.1.2.3"
    assert numeric.protocols[1].get("initial_hosts") == "127.0.0.1[7800],10.0.0.1[7801]"
    wrong = StackConfig(
        (ProtocolConfig("TCP", (Attribute("bind_addr", "match-address:9", 3, 5, "x.xml"),)),),
        "x.xml",
    )
    with pytest.raises(ConfigError, match=r"x\.xml:3:5: TCP\.bind_addr: no address"):
        with_numeric_hosts(wrong, machine)


def test_an_unknown_host_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **options: object) -> None:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", fails)
    with pytest.raises(ValueError, match='unknown host "nowhere": Name or service'):
        resolve_host("nowhere")
