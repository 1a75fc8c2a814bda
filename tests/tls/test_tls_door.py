"""TlsDoor in TCP: outgoing and incoming bytes, between two members in memory and against strangers."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.driver.directories.asking import answer_of
from jgroups_py.driver.directories.in_memory import MemoryDirectories
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.exposure import TransportPlace, flows
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Consult,
    Consulted,
    In,
    Out,
    Received,
    SendTo,
    Writable,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.authority import CertificateAuthority, Issued
from jgroups_py.tls import TlsSession, TlsSettings, load
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import CertificateExpires, Failed, PhysicalAddress, TransportReady
from jgroups_py.values.events import Connect as ConnectEvent
from jgroups_py.wire.connection import encode_handshake
from jgroups_py.wire.headers import PROTOCOL_IDS, NakAckHeader2, NakAckType
from jgroups_py.wire.primitives import make_version

A, B, C = make_address(1), make_address(2), make_address(3)
PLACES = {"A": ("127.0.0.1", 7801), "B": ("127.0.0.1", 7802)}
STRANGER = ("127.0.0.9", 40000)
V55 = make_version(5, 5, 6)


def attributes(authority: CertificateAuthority, issued: Issued, **more: Any) -> dict[str, Any]:
    files = {"tls_certificate": issued.certificate, "tls_key": issued.key, "tls_ca": authority.ca}
    return {"tls_enabled": True, **files, **more}


class Side:
    """One member's TCP over a fake stack; its files are read when it asks."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.tcp = TCP(**settings)
        self.stack = FakeStack(self.tcp, address=A if name == "A" else B, name=name)
        self.directory = MemoryDirectories()
        self.listener = 0
        self.outs: list[Out] = []

    def open(self) -> Side:
        self.stack.event_down(ConnectEvent("test"))
        self.turn()
        return self

    def turn(self) -> list[Out]:
        """Answers questions and opens listeners; returns the other outputs."""
        others: list[Out] = []
        while outs := self.stack.take_outgoing():
            for out in outs:
                if isinstance(out, Consult):
                    self.handle(answer_of(self.directory, out))
                elif isinstance(out, Bind):
                    self.listener = out.handle
                    self.handle(Bound(out.handle, PLACES[self.name]))
                else:
                    others.append(out)
        self.outs += others
        return others

    def handle(self, *items: In) -> list[Out]:
        self.stack.handle(*items)
        self.tcp.check()
        return self.turn()

    def statistics(self) -> dict[str, Any]:
        return self.tcp.statistics()

    def turned_away(self) -> dict[str, int]:
        return dict(self.stack.machine.turned_away)


class Pair:
    """B connects to A. ``seen``: the bytes on the wire."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        self.seen = b""
        self.handles = {a.name: -1, b.name: 0}

    def send(self, payload: bytes, src: Any = B, kind: NakAckType | None = None) -> Pair:
        """``kind``: the kind of a NAKACK2 message."""
        headers: Any = {} if kind is None else {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(kind, 1)}
        self.b.stack.event_down(PhysicalAddress(A, IpAddress(*PLACES["A"]), "A"))
        self.b.stack.down(Batch(A, (payload,), headers, src))
        self.run(self.b, self.b.turn())
        return self

    def run(self, side: Side, outs: list[Out]) -> None:
        other = self.a if side is self.b else self.b
        for out in outs:
            match out:
                case Connect(handle):
                    self.handles[side.name] = handle
                    self.run(other, other.handle(Accepted(other.listener, -1, STRANGER)))
                    self.run(side, side.handle(Connected(handle, STRANGER)))
                case Write(_, data):
                    self.seen += data
                    self.run(other, other.handle(Received(self.handles[other.name], data)))
                case Close():
                    self.run(other, other.handle(Closed(self.handles[other.name], out.abort)))


@pytest.fixture(scope="module")
def issued(authority: CertificateAuthority) -> dict[str, Issued]:
    return {name: authority.issue(name, file=f"door-{name}") for name in "AB"}


@pytest.fixture
def pair(authority: CertificateAuthority, issued: dict[str, Issued]) -> Pair:
    return Pair(*(Side(name, attributes(authority, issued[name])).open() for name in "AB"))


def payloads(side: Side) -> list[bytes]:
    return [bytes(p) for batch in side.stack.up_batches for p in batch.payloads]


# --- two members


def test_a_port_opens_when_the_credentials_are_there(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    a = Side("A", attributes(authority, issued["A"]))
    a.stack.event_down(ConnectEvent("test"))
    (question,) = a.stack.take_outgoing()
    assert isinstance(question, Consult)
    a.handle(answer_of(a.directory, question))
    assert [type(e) for e in a.stack.take_up_events()] == [TransportReady]


def test_messages_of_members_arrive_and_are_not_readable(pair: Pair) -> None:
    pair.send(b"attack at dawn").send(b"again")
    assert payloads(pair.a) == [b"attack at dawn", b"again"]
    assert b"dawn" not in pair.seen and b"bela" not in pair.seen
    for side in (pair.a, pair.b):
        assert side.statistics()["tls_handshakes"] == side.statistics()["tls_connections"] == 1
        assert not side.turned_away()


def test_the_accepting_side_answers_on_the_same_connection(pair: Pair) -> None:
    pair.send(b"hello")
    pair.a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    pair.a.stack.down(Batch(B, (b"welcome",), {}, A))
    pair.run(pair.a, pair.a.turn())
    assert payloads(pair.b) == [b"welcome"]
    assert pair.b.statistics()["tls_connections"] == 1


def test_a_stack_that_closes_says_goodbye_within_tls(pair: Pair) -> None:
    pair.send(b"hello")
    pair.b.stack.stack.close()
    pair.run(pair.b, pair.b.turn())
    assert pair.a.statistics()["tls_connections"] == 0 == pair.a.statistics()["connections"]
    assert not pair.a.turned_away()


def test_a_connection_that_ends_without_a_word_is_lost(pair: Pair) -> None:
    pair.send(b"hello")
    pair.a.handle(Closed(-1, True))
    assert pair.a.statistics()["tls_connections"] == 0 == pair.a.statistics()["connections"]


def test_bytes_that_the_peer_does_not_take_are_reported(pair: Pair) -> None:
    pair.send(b"hello")
    pair.b.handle(Writable(pair.handles["B"], 50))
    pair.b.handle(Writable(pair.handles["B"], 0))
    assert pair.b.statistics()["connections"] == 1


# --- strangers


def accepted(side: Side, handle: int = -1) -> list[Out]:
    return side.handle(Accepted(side.listener, handle, STRANGER))


@pytest.fixture
def a(authority: CertificateAuthority, issued: dict[str, Issued]) -> Side:
    return Side("A", attributes(authority, issued["A"])).open()


def test_a_client_that_speaks_in_clear_never_reaches_the_protocol(a: Side) -> None:
    accepted(a)
    outs = a.handle(Received(-1, encode_handshake(V55, IpAddress("127.0.0.9", 7800))))
    assert outs == [Close(-1, False)]
    assert a.turned_away() == {"TLS.clear": 1}
    assert a.statistics()["connections"] == 0 == a.statistics()["tls_connections"]
    assert a.statistics()["turned_away_clear"] == 1
    a.handle(Received(-1, b"more"))
    assert a.stack.machine.unrouted == 1


def test_a_silent_stranger_is_turned_away_in_time(a: Side) -> None:
    accepted(a)
    a.stack.advance(1.9)
    assert a.turn() == []
    a.stack.advance(0.2)
    assert a.turn() == [Close(-1, False)] and a.turned_away() == {"TLS.handshake_late": 1}


def test_each_silent_stranger_has_its_own_time(a: Side) -> None:
    accepted(a, -1)
    a.stack.advance(1.5)
    accepted(a, -2)
    a.stack.advance(1.0)
    assert a.turn() == [Close(-1, False)]
    a.stack.advance(1.0)
    assert a.turn() == [Close(-2, False)]


def test_strangers_beyond_the_limit_are_closed_at_once(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    a = Side("A", attributes(authority, issued["A"], tls_max_handshakes=3)).open()
    for handle in range(-1, -4, -1):
        assert accepted(a, handle) == []
    assert accepted(a, -4) == [Close(-4, True)]
    assert a.turned_away() == {"TLS.handshake_crowd": 1}
    a.handle(Closed(-2, False))
    assert accepted(a, -5) == [] and a.statistics()["tls_handshakes_lost"] == 1


def test_strangers_do_not_take_the_place_of_own_connections(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    b = Side("B", attributes(authority, issued["B"], tls_max_handshakes=1)).open()
    a = Side("A", attributes(authority, issued["A"])).open()
    b.handle(Accepted(b.listener, -9, STRANGER))
    pair = Pair(a, b)
    pair.send(b"hello")
    assert payloads(a) == [b"hello"]


def test_a_member_of_another_authority_is_turned_away_on_both_sides(
    authority: CertificateAuthority, issued: dict[str, Issued], tmp_path: Path
) -> None:
    strange = CertificateAuthority(tmp_path, "strange")
    b = Side("B", attributes(strange, strange.issue("B"))).open()
    pair = Pair(Side("A", attributes(authority, issued["A"])).open(), b)
    pair.send(b"hello")
    assert payloads(pair.a) == [] and b.turned_away() == {"TLS.untrusted": 1}
    believing = Side(
        "B", {**attributes(strange, strange.issue("B")), "tls_ca": authority.ca}
    ).open()
    pair = Pair(Side("A", attributes(authority, issued["A"])).open(), believing)
    pair.send(b"hello")
    assert payloads(pair.a) == [] and pair.a.turned_away() == {"TLS.untrusted": 1}
    assert believing.turned_away() == {"TLS.refused_us": 1}
    assert believing.statistics()["connections"] == 0


def test_a_port_that_answers_in_clear_is_not_spoken_to(a: Side) -> None:
    a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    a.stack.down(Batch(B, (b"secret",), {}, A))
    (connect,) = a.turn()
    assert isinstance(connect, Connect)
    a.handle(Connected(connect.handle, STRANGER))
    outs = a.handle(Received(connect.handle, encode_handshake(V55, IpAddress(*PLACES["B"]))))
    assert Close(connect.handle, False) in outs and a.turned_away() == {"TLS.clear": 1}
    assert all(b"secret" not in out.data for out in a.outs if isinstance(out, Write))
    assert a.statistics()["connections"] == 0


@pytest.mark.parametrize("end", [Closed(2, True), ConnectFailed(2, True, "x")])
def test_a_connection_that_breaks_before_its_handshake_is_done_has_failed(a: Side, end: In) -> None:
    a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    a.stack.down(Batch(B, (b"x",), {}, A))
    (connect,) = a.turn()
    assert isinstance(connect, Connect)
    if isinstance(end, Closed):
        a.handle(Connected(connect.handle, STRANGER))
    a.handle(replace(end, handle=connect.handle))
    assert a.statistics()["connections"] == 0 and a.statistics()["connections_refused"] == 1
    a.stack.advance(5)
    assert not a.turned_away()


def test_altered_bytes_end_a_connection(pair: Pair) -> None:
    pair.send(b"hello")
    pair.b.stack.down(Batch(A, (b"pay 10",), {}, B))
    (write,) = pair.b.turn()
    assert isinstance(write, Write)
    outs = pair.a.handle(Received(-1, write.data[:-1] + bytes([write.data[-1] ^ 1])))
    assert Close(-1, True) in outs and pair.a.turned_away() == {"TLS.altered": 1}
    assert payloads(pair.a) == [b"hello"] and pair.a.statistics()["connections"] == 0


def test_a_stream_that_is_replayed_on_a_new_connection_is_refused(pair: Pair) -> None:
    pair.send(b"hello")
    recorded = [out.data for out in pair.b.outs if isinstance(out, Write)]
    pair.a.handle(Accepted(pair.a.listener, -7, STRANGER))
    pair.a.handle(*[Received(-7, data) for data in recorded])
    assert payloads(pair.a) == [b"hello"] and sum(pair.a.turned_away().values()) == 1


# --- names


def test_a_member_speaks_in_no_other_member_s_name(pair: Pair) -> None:
    pair.send(b"first")
    pair.a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    pair.a.stack.event_down(PhysicalAddress(C, IpAddress("127.0.0.1", 7803), "C"))
    pair.send(b"mine").send(b"forged", src=C)
    assert payloads(pair.a) == [b"first", b"mine"]
    assert pair.a.turned_away() == {"TLS.wrong_name": 1}
    assert pair.a.statistics()["connections"] == 1


def test_a_member_repeats_messages_of_others(pair: Pair) -> None:
    """Only other members have the messages of a lost one. A member that repeats them must have spoken as itself
    before."""
    pair.a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    pair.a.stack.event_down(PhysicalAddress(C, IpAddress("127.0.0.1", 7803), "C"))
    pair.send(b"too soon", C, NakAckType.XMIT_RSP).send(b"mine")
    pair.send(b"repeated", C, NakAckType.XMIT_RSP).send(b"forged", C, NakAckType.MSG)
    assert payloads(pair.a) == [b"mine", b"repeated"]
    assert pair.a.turned_away() == {"TLS.wrong_name": 2}


def test_names_need_not_fit_where_nobody_checks_them(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    sides = [
        Side(name, attributes(authority, issued["A"], tls_check_names=False)).open()
        for name in "AB"
    ]
    pair = Pair(*sides)
    pair.a.stack.event_down(PhysicalAddress(B, IpAddress(*PLACES["B"]), "B"))
    assert payloads(pair.send(b"hello").a) == [b"hello"]


def test_a_member_whose_certificate_has_another_name_does_not_start(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    b = Side("B", attributes(authority, issued["A"])).open()
    (failed,) = b.stack.take_up_events()
    assert isinstance(failed, Failed)
    assert 'the certificate names "A", and this member is called "B"' in failed.problem
    assert b.outs == []


# --- files


def test_files_that_cannot_be_used_are_an_error_of_the_stack_file(
    authority: CertificateAuthority, issued: dict[str, Issued], tmp_path: Path
) -> None:
    files = attributes(authority, issued["A"])
    TCP.Config(**files).verify()
    with pytest.raises(ConfigError, match=r"tls\.key must name a file that can be read: /none"):
        TCP.Config(**{**files, "tls_key": "/none"}).verify()
    with pytest.raises(ConfigError, match=r"tls\.keystore_path must name a PKCS12 file"):
        TCP.Config(tls_enabled=True, tls_keystore_path=issued["A"].key).verify()
    with pytest.raises(ConfigError, match=r"tls\.ca must name a PEM file"):
        TCP.Config(**{**files, "tls_ca": ""})
    with pytest.raises(ConfigError, match="tls_handshake_timeout must be > 0"):
        TCP.Config(tls_handshake_timeout=0)
    TCP.Config(tls_certificate="x").verify()  # not enabled
    assert "changeit" not in repr(TCP.Config(tls_keystore_password="changeit"))


def test_a_member_without_its_files_does_not_start(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    a = Side("A", attributes(authority, issued["A"], tls_ca="/none")).open()
    (failed,) = a.stack.take_up_events()
    assert isinstance(failed, Failed) and "/none" in failed.problem and a.outs == []


@pytest.fixture
def renewed(authority: CertificateAuthority) -> Side:
    """Return a member whose files tests replace: the names of the files begin with ``again``."""
    return Side("A", attributes(authority, authority.issue("A", file="again"))).open()


def own_certificate(side: Side, authority: CertificateAuthority) -> bytes | None:
    """Return the certificate that a new connection is shown."""
    mine = authority.issue("B", file="looker")
    settings = TlsSettings(certificate=mine.certificate, key=mine.key, ca=authority.ca)
    session = TlsSession(load(settings).client, server_side=False)
    side.handle(Accepted(side.listener, -99, STRANGER))
    for out in side.handle(Received(-99, session.start())):
        assert isinstance(out, Write)
        session.receive(out.data)
    shown = session.certificate()
    side.handle(Closed(-99, False))
    return shown


def test_files_that_change_are_used_without_a_restart(
    renewed: Side, authority: CertificateAuthority
) -> None:
    first = own_certificate(renewed, authority)
    renewed.stack.advance(60)
    renewed.turn()
    assert renewed.statistics()["tls_reloads"] == 0  # nothing has changed
    authority.issue("A", file="again")
    assert own_certificate(renewed, authority) == first
    renewed.stack.advance(60)
    renewed.turn()
    assert renewed.statistics()["tls_reloads"] == 1
    assert own_certificate(renewed, authority) not in (first, None)


def test_files_that_became_useless_leave_the_former_ones_in_use(
    renewed: Side, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    first = own_certificate(renewed, authority)
    certificate = Path(renewed.tcp.config.tls_certificate)
    good = certificate.read_bytes()
    certificate.write_bytes(b"half written")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            renewed.stack.advance(60)
            renewed.turn()
    assert renewed.statistics()["tls_reloads_failed"] == 3
    assert [r.getMessage().count("the former certificate is used on") for r in caplog.records] == [
        1
    ]
    assert own_certificate(renewed, authority) == first
    certificate.write_bytes(good)
    renewed.stack.advance(60)
    renewed.turn()
    assert renewed.statistics()["tls_reloads_failed"] == 3


def test_a_new_certificate_of_another_name_is_not_used(
    renewed: Side, authority: CertificateAuthority
) -> None:
    first = own_certificate(renewed, authority)
    authority.issue("Z", file="again")
    renewed.stack.advance(60)
    renewed.turn()
    assert renewed.statistics()["tls_reloads_failed"] == 1
    assert own_certificate(renewed, authority) == first


def test_a_certificate_that_will_expire_is_told_once_a_day(
    authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    soon = authority.issue("A", file="soon", valid=timedelta(days=29, hours=1))
    settings = attributes(authority, soon, tls_reload_interval=21_600.0)
    with caplog.at_level(logging.WARNING):
        a = Side("A", settings).open()
        for _ in range(5):
            a.stack.advance(21_600)
            a.turn()
    told = [e for e in a.stack.take_up_events() if isinstance(e, CertificateExpires)]
    assert len(told) == 2 == len(caplog.records)
    assert told[0].names == ("A",) and 28 * 86400 < told[0].left < 30 * 86400
    assert "the certificate of A expires in 29 days, on " in caplog.text
    later = authority.issue("A", file="later", valid=timedelta(days=31))
    a = Side("A", attributes(authority, later)).open()
    assert [type(e) for e in a.stack.take_up_events()] == [TransportReady]


def test_one_question_for_files_is_under_way(a: Side) -> None:
    a.stack.advance(60)
    (question,) = a.stack.take_outgoing()
    a.stack.advance(600)
    assert a.stack.take_outgoing() == []
    assert isinstance(question, Consult)
    a.stack.handle(Consulted(question.handle, None, "no answer within 10 s"))
    assert a.statistics()["tls_reloads_failed"] == 1
    a.stack.advance(60)
    assert [type(out) for out in a.stack.take_outgoing()] == [Consult]


# --- traffic that TLS covers


def test_datagrams_and_connections_of_others_pass_as_they_are(a: Side) -> None:
    class Other(TCP):
        pass

    door: Any = a.tcp._tls
    handle = a.tcp.new_handle()
    a.stack.stack.ports[handle] = Other()
    outs: list[Out] = [
        Connect(handle, STRANGER, 1.0),
        Write(handle, b"x"),
        SendTo(5, b"y", STRANGER),
    ]
    for out in outs:
        door.outgoing(out)
    assert a.stack.take_outgoing() == outs


def test_fd_sock2_takes_part_unless_told_otherwise(
    authority: CertificateAuthority, issued: dict[str, Issued]
) -> None:
    config = TCP.Config(**attributes(authority, issued["A"]))
    built = [(TCP, config), (FD_SOCK2, FD_SOCK2.Config())]
    assert {flow.sealed for flow in flows(built)} == {("TCP (TLS)",), ("FD_SOCK2 (TLS)",)}
    built[1] = (FD_SOCK2, FD_SOCK2.Config(use_tls=False))
    assert {f.protocol: f.sealed for f in flows(built)} == {"TCP": ("TCP (TLS)",), "FD_SOCK2": ()}
    assert TransportPlace("x").sealed == ""
    open_door = TCP.Config(**attributes(authority, issued["A"], tls_client_auth="NONE"))
    assert open_door.sealed == "TLS, anybody may connect" and not TCP.Config().sealed


@pytest.mark.parametrize("of_tcp", [True, False])
def test_a_java_member_at_fd_sock2_is_told_with_the_setting_once(
    a: Side, caplog: pytest.LogCaptureFixture, of_tcp: bool
) -> None:
    """JGroups' FD_SOCK2 has a server of its own, which does not use TLS."""
    handle = a.listener
    if not of_tcp:
        handle = a.tcp.new_handle()
        a.stack.stack.ports[handle] = FD_SOCK2(use_tls=True)
    door: Any = a.tcp._tls
    for number in (-8, -9):
        door.incoming(Accepted(handle, number, STRANGER))
        door.incoming(Received(number, b"bela" + bytes(20)))
    assert a.turned_away() == {"TLS.clear": 2}
    assert caplog.text.count("Java members always do") == (not of_tcp)
    assert ('set FD_SOCK2.use_tls="false"' in caplog.text) == (not of_tcp)
