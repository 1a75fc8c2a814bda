"""Probes at a transport: answers and refusals."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jgroups_py.config.settings import build, load_stack, with_attributes
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.fd_all3 import FD_ALL3
from jgroups_py.protocols.transport import diagnostics
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.exposure import TransportPlace
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Datagram,
    JoinGroup,
    Received,
    SendTo,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import Connect, PhysicalAddress, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire import probe

A, B = make_address(1), make_address(2)
NEAR = ("127.0.0.1", 40001)
FAR = ("10.0.0.9", 40001)


class Asked:
    """A member with diagnostics over TCP and UDP, and an asker."""

    def __init__(self, *, udp: bool = True, tcp: bool = True, **attributes: Any) -> None:
        self.tcp = TCP(diag_enabled=True, diag_enable_udp=udp, diag_enable_tcp=tcp, **attributes)
        self.detector = FD_ALL3()
        self.stack = FakeStack(self.tcp, self.detector, address=A)
        self.stack.event_down(Connect("test"))
        self.opened = self.stack.take_outgoing()
        ports = {type(out): out.handle for out in self.opened if not _is_own(out)}
        binds = [out for out in self.opened if isinstance(out, Bind) and not _is_own(out)]
        self.group = ports.get(JoinGroup, 0)
        self.sender = next((b.handle for b in binds if b.kind == "udp"), 0)
        self.listener = next((b.handle for b in binds if b.kind == "tcp"), 0)
        own = next(out.handle for out in self.opened if _is_own(out))
        self.stack.handle(Bound(own, ("127.0.0.1", 7800)))
        self.stack.stack.names[B] = "B\n\x1b[2J"
        self.stack.event_down(PhysicalAddress(B, IpAddress("127.0.0.1", 7801), None))
        self.stack.event_down(ViewChange(View(ViewId(A, 1), (A, B)), None))
        self.stack.take_outgoing()
        self._next = -1

    def ask(self, words: str | bytes, source: tuple[str, int] = NEAR) -> probe.ProbeAnswer | None:
        """Over UDP."""
        data = words if isinstance(words, bytes) else words.encode()
        self.stack.handle(Datagram(self.group, data, source))
        out = self.stack.take_outgoing()
        if not out:
            return None
        (sent,) = out
        assert isinstance(sent, SendTo) and sent.handle == self.sender and sent.dest == source
        return probe.decode_answer(sent.data)

    def connect(self, source: tuple[str, int] = NEAR) -> int:
        handle, self._next = self._next, self._next - 1
        self.stack.handle(Accepted(self.listener, handle, source))
        return handle

    def say(self, handle: int, data: bytes) -> list[Any]:
        self.stack.handle(Received(handle, data))
        return self.stack.take_outgoing()

    def refused(self) -> dict[str, int]:
        return {
            key.removeprefix("PROBE."): count
            for key, count in self.stack.machine.turned_away.items()
        }


def _is_own(out: Any) -> bool:
    return isinstance(out, Bind) and out.port == 7800


def signed(words: str, passcode: str = "letmein") -> bytes:
    return probe.encode_request(words, probe.authenticator(passcode))


def test_diagnostics_are_off_by_default() -> None:
    stack = FakeStack(UDP(), address=A)
    stack.event_down(Connect("test"))
    assert [type(out) for out in stack.take_outgoing()] == [Bind, JoinGroup]
    assert list(UDP.port_uses(UDP.Config(), TransportPlace("127.0.0.1")))[4:] == []


def test_only_loopback_is_opened_by_default() -> None:
    own, sender, group, listener = (
        Asked(bind_addr="10.0.0.1").opened[-1:] + Asked(bind_addr="10.0.0.1").opened[:3]
    )
    assert isinstance(own, Bind) and own.host == "10.0.0.1"
    assert isinstance(sender, Bind) and (sender.host, sender.port) == ("127.0.0.1", 0)
    assert isinstance(group, JoinGroup) and group.interface == "127.0.0.1"
    assert group.group == ("224.0.75.75", 7500)
    assert isinstance(listener, Bind) and (listener.host, listener.port) == ("127.0.0.1", 7500)
    assert listener.port_range == 50


def test_an_ipv6_transport_is_asked_at_its_loopback_and_group() -> None:
    asked = Asked(bind_addr="fe80::1")
    group = next(out for out in asked.opened if isinstance(out, JoinGroup))
    assert group.group == ("ff0e::75:75", 7500) and group.interface == "::1"


def test_without_words_a_member_tells_its_view_in_one_line_a_name() -> None:
    asked = Asked()
    answer = asked.ask("")
    assert answer is not None
    head, view, cluster, version = answer.head.splitlines()
    assert head == "A (ip=127.0.0.1:7800)"
    assert view == "view=[A|1] (2) [A, B\ufffd\ufffd[2J]"
    assert (cluster, version) == ("cluster=test", "version=jgroups_py (wire 5.5.6)")


def test_each_word_is_answered_as_java_does() -> None:
    asked = Asked()
    answer = asked.ask("member-addrs pp keys uuids nonsense jmx=FD_ALL3 FD_ALL3.time,int")
    assert answer is not None
    assert answer.head == (
        "A [ip=127.0.0.1:7800, 2 mbr(s), cluster=test, version=jgroups_py (wire 5.5.6)]"
    )
    assert list(answer.values) == [
        *("member-addrs", "protocols", "keys", "local_addr", "uuids", "FD_ALL3")
    ]
    assert answer.values["member-addrs"] == "127.0.0.1:7800, 127.0.0.1:7801"
    assert answer.values["protocols"].split()[1:3] == ["TCP", "FD_ALL3"]
    assert f"A: {A}: 127.0.0.1:7800\n" in answer.values["uuids"]
    attributes = probe.decode_map(answer.values["FD_ALL3"])
    assert attributes is not None
    assert attributes["timeout"] == "40s" and attributes["interval"] == "8s"
    fewer = asked.ask("FD_ALL3.time,int")
    assert fewer is not None and fewer.values == {"FD_ALL3": "{interval=8s, timeout=40s}"}


def test_all_protocols_tell_settings_and_counters() -> None:
    asked = Asked()
    answer = asked.ask("jmx props metrics")
    assert answer is not None
    assert "bind_port=7800" in answer.values["TCP"] and "packets_sent=0" in answer.values["TCP"]
    assert "FD_ALL3(interval=8s;timeout=40s)\n" in answer.values["props"]
    assert "FD_ALL3:\n" in answer.values["metrics"]
    assert asked.tcp.statistics()["probes_answered"] == 1


def test_no_answer_has_the_passcode() -> None:
    asked = Asked(diag_passcode="letmein")
    answer = asked.ask(signed("jmx props metrics keys"))
    assert answer is not None
    assert "diag_port=7500" in answer.values["TCP"]
    assert "letmein" not in str(answer) and "passcode" not in str(answer)
    assert "letmein" not in repr(asked.tcp) and "letmein" not in repr(asked.tcp._diagnostics)


def test_members_of_another_cluster_stay_silent() -> None:
    asked = Asked()
    assert asked.ask("cluster=te* keys") is not None
    assert asked.ask("cluster=other keys") is None
    assert asked.refused() == {}


def test_a_request_of_another_machine_is_refused() -> None:
    asked = Asked()
    assert asked.ask("keys", FAR) is None
    assert asked.refused() == {"remote": 1}


def test_another_machine_is_answered_when_that_is_allowed_and_it_knows_the_passcode() -> None:
    asked = Asked(diag_allow_remote=True, diag_passcode="letmein", bind_addr="10.0.0.1")
    hosts = {out.host for out in asked.opened if isinstance(out, Bind)}
    assert hosts == {"10.0.0.1"}
    assert asked.ask(signed("keys"), FAR) is not None
    assert asked.ask("keys", FAR) is None
    assert asked.ask(signed("keys", "wrong"), FAR) is None
    assert asked.refused() == {"bad_passcode": 2}


def test_a_setting_is_changed_with_a_passcode_only() -> None:
    asked = Asked()
    assert asked.ask("FD_ALL3.timeout=10s") is None
    assert asked.ask("jmx=FD_ALL3.timeout=10s") is None
    assert asked.detector.config.timeout == 40
    assert asked.refused() == {"read_only": 2}
    asked = Asked(diag_passcode="letmein")
    answer = asked.ask(signed("FD_ALL3.timeout=10s,interval"))
    assert answer is not None and answer.values == {"FD_ALL3": "{timeout=10s, interval=8s}"}
    assert asked.detector.config.timeout == 10


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("FD_ALL3.timeout=1s", "timeout must be > interval"),
        ("FD_ALL3.timeout=soon", "accepted: a time"),
        ("FD_ALL3.timeot=10s", 'did you mean "timeout"'),
        ("TCP.diag_passcode=x", "may not be changed"),
    ],
)
def test_a_change_that_is_refused_says_why_and_changes_nothing(word: str, why: str) -> None:
    asked = Asked(diag_passcode="letmein")
    before = asked.detector.config, asked.tcp.config
    answer = asked.ask(signed(word))
    assert answer is not None and why in "".join(answer.values.values())
    assert (asked.detector.config, asked.tcp.config) == before


def test_a_request_over_tcp_is_answered_and_the_connection_closed() -> None:
    asked = Asked()
    handle = asked.connect()
    assert asked.say(handle, b"pp") == []
    write, close = asked.say(handle, b"\n")
    assert isinstance(write, Write) and b"protocols=" in write.data
    assert close == Close(handle, False)


def test_a_request_over_tcp_that_is_refused_is_cut_off() -> None:
    asked = Asked(diag_passcode="letmein")
    handle = asked.connect()
    assert asked.say(handle, b"x" * probe.HEAD_SIZE + b"keys\n") == [Close(handle, True)]
    handle = asked.connect()
    assert asked.say(handle, b"x" * 10_001) == [Close(handle, True)]
    assert asked.refused() == {"bad_passcode": 1, "malformed": 1}


def test_a_client_that_connects_and_says_nothing_is_cut_off() -> None:
    asked = Asked()
    first = asked.connect()
    asked.stack.advance(3)
    second = asked.connect()
    asked.stack.advance(2)
    assert asked.stack.take_outgoing() == [Close(first, True)]
    asked.stack.handle(Closed(second, False))
    asked.stack.advance(10)
    assert asked.refused() == {"too_slow": 1}


def test_further_connections_than_allowed_are_closed() -> None:
    asked = Asked()
    handles = [asked.connect() for _ in range(diagnostics.CONNECTIONS_MAX + 2)]
    assert asked.stack.take_outgoing() == [Close(handle, True) for handle in handles[-2:]]
    assert asked.refused() == {"too_many_connections": 2}


def test_a_port_that_cannot_be_opened_does_not_end_the_member(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = Asked()
    asked.stack.handle(BindFailed(asked.listener, "127.0.0.1:7500: in use"))
    assert "probes are not answered: 127.0.0.1:7500: in use" in caplog.text
    assert asked.ask("keys") is not None


def test_a_member_that_leaves_closes_all_its_ports() -> None:
    asked = Asked()
    handle = asked.connect()
    asked.stack.stack.close()
    closed = {out.handle for out in asked.stack.take_outgoing() if isinstance(out, Close)}
    assert {handle, asked.group, asked.sender, asked.listener} <= closed
    assert not asked.stack.machine._handles


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_survived_and_counted(seed: int) -> None:
    drawn = random.Random(seed)
    asked = Asked(diag_passcode="letmein" if seed % 2 else "")
    for _ in range(30):
        data = drawn.randbytes(drawn.choice([0, 1, 20, 40, 41, 300]))
        asked.ask(data)
        asked.say(asked.connect(), data + b"\n")
        asked.ask(signed("") + data)
    refused = asked.refused()
    assert set(refused) <= set(diagnostics.PROBE_CAUSES) and sum(refused.values()) > 10


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"diag.enable_udp": "false"}, "diag.enable_udp or diag.enable_tcp must be true"),
        ({"diag.bind_addr": "10.0.0.1"}, 'unless diag.allow_remote is true, got "10.0.0.1"'),
        ({"diag.allow_remote": "true"}, "diag.allow_remote needs diag.passcode"),
        ({"diag.mcast_addr": "10.0.0.1"}, "diag.mcast_addr must be a multicast address"),
        ({"diag.port": "70000"}, "diag_port must be within 0..65535"),
        ({"diag.port": "0"}, "diag.port must be within 1..65535 with diag.enable_udp"),
        ({"diag.enabld": "x"}, 'did you mean "diag_enabled"'),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_their_place(
    settings: dict[str, str], problem: str
) -> None:
    overrides = {f"UDP.{key}": value for key, value in settings.items()}
    config = with_attributes(load_stack("udp.xml"), {"UDP.diag.enabled": "true", **overrides})
    with pytest.raises(ConfigError, match=r"UDP") as error:
        build(config)
    assert problem in str(error.value)


def test_validate_sees_the_ports_of_probes() -> None:
    config = UDP.Config(diag_enabled=True, diag_enable_tcp=True)
    group, listener = list(UDP.port_uses(config, TransportPlace("127.0.0.1")))[4:]
    assert (group.proto, group.first, group.address) == ("udp", 7500, "224.0.75.75")
    assert (listener.proto, listener.first, listener.last) == ("tcp", 7500, 7550)
    assert group.local and listener.local
