"""The door of SEAL: reports of connections to protocols, closed connections, and changes of the key ring."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from sealed import keys_of, ring_of

from jgroups_py.config.private_file import write_private
from jgroups_py.driver.directories import answer_of
from jgroups_py.driver.directories.asking import real_directory
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.protocols.seal.ring import Ring
from jgroups_py.stack.machine import Machine
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
    Datagram,
    In,
    Out,
    Received,
    SendTo,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, TransportReady

PLACES = {"A": ("10.0.0.1", 7800), "B": ("10.0.0.2", 7800)}


class Owner:
    def deliver(self, batch: Batch) -> None: ...

    def notify(self, event: Event) -> None: ...


class House(Protocol):
    """A transport that records its inputs."""

    provides = ("transport",)

    def start(self) -> None:
        self.heard: list[In] = []
        self.udp, self.tcp = self.new_handle(), self.new_handle()

    def on_input(self, item: In) -> None:
        self.heard.append(item)
        if isinstance(item, Accepted):
            self.adopt(item.handle)
        elif isinstance(item, Closed | ConnectFailed):
            self.forget_port(item.handle)


class Router(House):
    """A protocol whose connections lead to a process without keys."""

    outsiders = True


class End:
    """A machine with a stack whose door is SEAL's. The test acts as its driver."""

    def __init__(
        self, name: str, ring: Ring | None = None, kind: type[House] = House, **attributes: Any
    ) -> None:
        if "key_file" not in attributes:
            attributes["keys"] = keys_of(ring or ring_of())
        self.machine = Machine(
            name, random=random.Random(name), secrets=random.Random(name).randbytes
        )
        self.house, self.seal = kind(), SEAL(**attributes)
        self.stack = Stack(self.machine, [self.house, self.seal], Owner())
        self.stack.cluster = "demo"
        self.place = PLACES[name]
        self.house.open_port(Bind(self.house.udp, "udp", *self.place))
        self.house.open_port(Bind(self.house.tcp, "tcp", *self.place))
        self.happens(Bound(self.house.udp, self.place), Bound(self.house.tcp, self.place))
        self.take_out()
        self.house.heard.clear()

    def happens(self, *items: In) -> None:
        self.machine.handle(items, self.machine.now)
        self.machine.check()

    def take_out(self) -> list[Out]:
        return self.machine.take_outgoing()

    def take_heard(self) -> list[In]:
        heard, self.house.heard = self.house.heard, []
        return heard

    def pass_time(self, seconds: float) -> None:
        until = self.machine.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.machine.advance(max(due, self.machine.now))
            self.machine.check()
        self.machine.advance(until)

    @property
    def refused(self) -> dict[str, int]:
        return {key.removeprefix("SEAL."): n for key, n in self.machine.turned_away.items()}


class Wire:
    """A connection from A to B: each side receives the other's bytes."""

    def __init__(self, a: End, b: End) -> None:
        self.a, self.b = a, b
        self.handle = a.house.new_handle()
        a.house.open_port(Connect(self.handle, b.place, 1.0))
        a.happens(Connected(self.handle, (a.place[0], 40_000)))
        b.happens(Accepted(b.house.tcp, -1, (a.place[0], 40_000)))

    def carry(self) -> list[Out]:
        """Carry bytes between both ends until neither writes. Return the other outputs, which are closes."""
        others: list[Out] = []
        while True:
            outs = [(self.b, -1, o) for o in self.a.take_out()]
            outs += [(self.a, self.handle, o) for o in self.b.take_out()]
            if not outs:
                return others
            for dest, handle, out in outs:
                if isinstance(out, Write):
                    dest.happens(Received(handle, out.data))
                elif not isinstance(out, Connect):
                    others.append(out)


def test_protocols_learn_of_a_connection_when_its_peer_has_proved_itself() -> None:
    a, b = End("A"), End("B")
    wire = Wire(a, b)
    assert a.house.heard == b.house.heard == []
    wire.carry()
    assert a.take_heard() == [Connected(wire.handle, (a.place[0], 40_000))]
    assert b.take_heard() == [Accepted(b.house.tcp, -1, (a.place[0], 40_000))]
    a.house.put(Write(wire.handle, b"hello"))
    b.house.put(Write(-1, b"hi"))
    wire.carry()
    assert a.take_heard() == [Received(wire.handle, b"hi")]
    assert b.take_heard() == [Received(-1, b"hello")]
    b.happens(Closed(-1, False))
    assert b.take_heard() == [Closed(-1, False)] and b.seal.statistics()["connections_open"] == 0


def test_a_peer_that_has_said_hello_has_proved_nothing_yet() -> None:
    a, b = End("A"), End("B")
    Wire(a, b)
    (hello,) = [out for out in a.take_out() if isinstance(out, Write)]
    b.happens(Received(-1, hello.data))
    assert b.house.heard == [] and b.seal.statistics()["connections_sealed"] == 0
    b.pass_time(3)
    assert b.refused == {"handshake_late": 1} and b.house.heard == []


def test_a_peer_without_a_key_is_closed_and_no_protocol_has_seen_it() -> None:
    a, b = End("A", ring_of(seed=1)), End("B")
    wire = Wire(a, b)
    assert wire.carry() == [Close(-1, True)]
    assert b.house.heard == [] and b.refused == {"unknown_key": 1}
    a.happens(Closed(wire.handle, True))
    (failed,) = a.take_heard()
    assert isinstance(failed, ConnectFailed) and not failed.refused
    assert "before the peer had proved itself" in failed.problem


def test_a_listener_that_speaks_in_clear_is_not_connected_to() -> None:
    a = End("A")
    handle = a.house.new_handle()
    a.house.open_port(Connect(handle, ("10.0.0.9", 7800), 1.0))
    a.happens(Connected(handle, (a.place[0], 40_000)))
    a.take_out()
    a.happens(Received(handle, b"bela\x15\x48"))
    assert a.take_out() == [Close(handle, True)]
    (failed,) = a.take_heard()
    assert isinstance(failed, ConnectFailed) and a.refused == {"unsealed": 1}
    assert a.stack.ports.keys() == {a.house.udp, a.house.tcp}


@pytest.mark.parametrize("connects", [True, False])
def test_a_peer_that_says_nothing_is_closed_in_time(connects: bool) -> None:
    a = End("A", handshake_timeout=2.0)
    handle = a.house.new_handle() if connects else -1
    if connects:
        a.house.open_port(Connect(handle, ("10.0.0.9", 7800), 1.0))
        a.happens(Connected(handle, (a.place[0], 40_000)))
    else:
        a.happens(Accepted(a.house.tcp, handle, ("10.0.0.9", 1)), Received(handle, b"\x5e"))
    a.take_out()
    a.pass_time(1.9)
    assert a.take_out() == []
    a.pass_time(0.2)
    assert a.take_out() == [Close(handle, True)] and a.refused == {"handshake_late": 1}
    assert [type(item) for item in a.take_heard()] == ([ConnectFailed] if connects else [])


def test_connections_that_have_yet_to_prove_themselves_are_bounded() -> None:
    b = End("B", max_handshakes=3)
    for n in range(1, 6):
        b.happens(Accepted(b.house.tcp, -n, ("10.0.0.9", n)))
    assert b.take_out() == [Close(-1, True), Close(-2, True)]
    assert b.refused == {"too_many_handshakes": 2}
    b.stack.close()  # it closes those that it holds
    assert {out.handle for out in b.take_out() if isinstance(out, Close)} >= {-3, -4, -5}


def test_a_protocol_that_closes_before_the_peer_has_proved_itself_hears_no_more() -> None:
    a, b = End("A"), End("B")
    wire = Wire(a, b)
    a.house.put(Close(wire.handle))
    a.house.forget_port(wire.handle)
    wire.carry()
    assert a.house.heard == [] and a.seal.statistics()["connections_open"] == 0


def test_an_altered_record_closes_a_connection_for_its_protocol() -> None:
    a, b = End("A"), End("B")
    wire = Wire(a, b)
    wire.carry()
    b.take_heard()
    a.house.put(Write(wire.handle, b"pay 10"))
    (out,) = a.take_out()
    assert isinstance(out, Write)
    b.happens(Received(-1, out.data[:-1] + bytes([out.data[-1] ^ 1])))
    assert b.take_heard() == [Closed(-1, True)] and b.take_out() == [Close(-1, True)]
    assert b.refused == {"altered": 1}
    b.happens(Received(-1, b"more"))  # this one was under way
    assert b.house.heard == []


def test_bytes_of_the_handshake_are_not_told_as_unsent_ones() -> None:
    a, b = End("A"), End("B")
    wire = Wire(a, b)
    a.happens(Writable(wire.handle, 48))
    assert a.house.heard == []
    wire.carry()
    a.happens(Writable(wire.handle, 10))
    assert a.take_heard()[-1] == Writable(wire.handle, 10)


def test_a_connection_to_an_outsider_passes_as_it_is() -> None:
    a = End("A", kind=Router)
    handle = a.house.new_handle()
    a.house.open_port(Connect(handle, ("10.0.0.9", 12_001), 1.0))
    connected = Connected(handle, (a.place[0], 40_000))
    a.happens(connected)
    a.house.put(Write(handle, b"register"))
    a.happens(Received(handle, b"bela"), Writable(handle, 3), Closed(handle, False))
    assert a.take_heard() == [
        connected,
        Received(handle, b"bela"),
        Writable(handle, 3),
        Closed(handle, False),
    ]
    assert Write(handle, b"register") in a.take_out()


def test_only_discovery_by_a_router_is_an_outsider() -> None:
    from jgroups_py.protocols.registry import BUILT, find

    assert [name for name in BUILT if find(name).outsiders] == ["TCPGOSSIP"]


def test_proofs_leave_through_a_socket_of_the_stack() -> None:
    a, b = End("A"), End("B")
    a.house.put(SendTo(a.house.udp, b"hello", b.place))
    ends = {a.place: a, b.place: b}
    sent = 0
    while outs := [(a, out) for out in a.take_out()] + [(b, out) for out in b.take_out()]:
        for end, out in outs:
            assert isinstance(out, SendTo) and out.handle == end.house.udp
            ends[out.dest].happens(Datagram(ends[out.dest].house.udp, out.data, end.place))
            sent += 1
    assert b.take_heard() == [Datagram(b.house.udp, b"hello", a.place)]
    assert sent == 4 and a.house.heard == []


def test_a_sender_that_does_not_answer_is_asked_again_and_forgotten() -> None:
    a, b = End("A"), End("B")
    a.house.put(SendTo(a.house.udp, b"hello", b.place))
    (out,) = a.take_out()
    assert isinstance(out, SendTo)
    b.happens(Datagram(b.house.udp, out.data, a.place))
    b.pass_time(10)
    assert len(b.take_out()) == 4 and b.refused == {"unproved": 1}
    assert b.machine.next_deadline() is None or b.seal.statistics()["senders_pending"] == 0


# --- the key ring


def with_file(file: Path, **attributes: Any) -> End:
    end = End("A", key_file=str(file), **attributes)
    end.stack.protocols[0].pass_event_up(TransportReady(IpAddress(*end.place)))
    return end


def reads(end: End) -> None:
    """The time of the next reading comes, and the driver reads the file."""
    end.pass_time(end.seal.config.reload_interval)
    (out,) = end.take_out()
    assert isinstance(out, Consult)
    end.happens(answer_of(real_directory, out))


def test_a_ring_that_changed_is_read_while_the_member_runs(tmp_path: Path) -> None:
    file = tmp_path / "ring.keys"
    two = ring_of(2)
    write_private(str(file), two.text().encode())
    end = with_file(file)
    for _ in range(3):
        reads(end)
    assert end.seal.ring_reloads == 0
    write_private(str(file), two.rotated(2).text().encode())
    reads(end)
    assert end.seal.ring_reloads == 1 and end.seal.keys_in_ring == 2
    end.house.put(SendTo(end.house.udp, b"x", ("10.0.0.2", 1)))
    (out,) = end.take_out()
    assert isinstance(out, SendTo) and out.data[4:8] == two.keys[1].id


@pytest.mark.parametrize("harm", ["missing", "open", "damaged"])
def test_a_ring_that_cannot_be_used_leaves_the_member_with_the_one_it_has(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ring.keys"
    write_private(str(file), ring_of().text().encode())
    end = with_file(file)
    if harm == "missing":
        file.unlink()
    elif harm == "open":
        file.chmod(0o644)
    else:
        write_private(str(file), ring_of().text().encode()[:-3])
    for _ in range(3):
        reads(end)
    assert end.seal.ring_problems >= 1 and end.seal.ring_reloads == 0
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert "the key ring stays as it is" in line and str(file) in line
    assert ring_of().writer.secret.hex()[:20] not in line
    write_private(str(file), ring_of(2).text().encode())
    reads(end)
    assert end.seal.keys_in_ring == 2


def test_a_ring_is_not_read_again_where_that_is_not_wanted(tmp_path: Path) -> None:
    file = tmp_path / "ring.keys"
    write_private(str(file), ring_of().text().encode())
    for end in (with_file(file, reload_interval=0.0), End("A")):
        end.stack.protocols[0].pass_event_up(TransportReady(IpAddress(*end.place)))
        end.pass_time(1000)
        assert end.take_out() == []


def test_verify_reads_the_ring_and_names_the_attribute(tmp_path: Path) -> None:
    config = SEAL.Config(key_file=str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"key_file: .*nothing: cannot be read: No such file"):
        config.verify()
    SEAL.Config(keys=keys_of(ring_of())).verify()


def test_an_open_connection_changes_its_key_with_the_ring() -> None:
    two = ring_of(2)
    a, b = End("A", two), End("B", two)
    wire = Wire(a, b)
    wire.carry()
    for end in (a, b):
        end.seal.take_ring(two.rotated(2))
    wire.carry()
    a.take_heard(), b.take_heard()
    for end in (a, b):
        end.seal.take_ring(Ring(two.rotated(2).keys[:1]))
    a.house.put(Write(wire.handle, b"hello"))
    wire.carry()
    assert b.take_heard() == [Received(-1, b"hello")] and not a.refused and not b.refused
    assert a.seal.statistics()["keys_changed"] == 1


def test_a_key_that_is_dropped_too_soon_closes_the_connection_at_once() -> None:
    two = ring_of(2)
    a, b = End("A", two), End("B", two)
    wire = Wire(a, b)
    wire.carry()
    b.take_heard()
    b.seal.take_ring(Ring(two.keys[1:]))
    assert b.take_heard() == [Closed(-1, True)] and b.refused == {"retired_key": 1}
    assert b.take_out() == [Close(-1, True)]
