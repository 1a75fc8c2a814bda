"""The simulated network keeps the promises of ports.py; a protocol without a stack above checks it."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.config.settings import ConfigBase
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Datagram,
    Endpoint,
    In,
    JoinGroup,
    Received,
    SendTo,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.sim import LinkSettings, Member, World
from jgroups_py.testing.sim.host import Host
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event


class SOCKETS(Protocol):
    """Opens the test's sockets and records their inputs."""

    @dataclass(frozen=True, kw_only=True)
    class Config(ConfigBase):
        pass

    def start(self) -> None:
        self.seen: list[In] = []

    def down(self, batch: Batch) -> None:
        raise AssertionError

    def event_down(self, event: Event) -> None:
        pass

    def on_input(self, item: In) -> None:
        self.seen.append(item)
        if isinstance(item, Accepted):
            self.adopt(item.handle)


def node(world: World, name: str, site: str = "local") -> tuple[Host, SOCKETS]:
    address = world.host_address(site, name)
    from jgroups_py.stack.machine import Machine

    machine = Machine(name, random=world.random, host=address)
    host = Host(world, address, site, machine)
    world.hosts[address] = host
    world.network.sites[address] = site
    protocol = SOCKETS()
    Stack(machine, [protocol], Member(world, name, host, 1))
    return host, protocol


def tcp_pair(world: World) -> tuple[Host, SOCKETS, Host, SOCKETS, int, int]:
    a, pa = node(world, "A")
    b, pb = node(world, "B")
    listener, handle = pb.new_handle(), pa.new_handle()
    pb.open_port(Bind(listener, "tcp", b.address, 7800))
    b.after_step()
    world.run_for(0.01)
    pa.open_port(Connect(handle, (b.address, 7800), 1.0))
    a.after_step()
    world.run_for(0.01)
    accepted = next(i for i in pb.seen if isinstance(i, Accepted))
    assert [type(i) for i in pa.seen] == [Connected]
    pa.seen.clear()
    pb.seen.clear()
    return a, pa, b, pb, handle, accepted.handle


def put(host: Host, protocol: SOCKETS, *outs: object) -> None:
    for out in outs:
        protocol.put(out)  # type: ignore[arg-type]
    host.after_step()


def test_bytes_arrive_in_order_and_both_ways() -> None:
    world = World(1, inside=LinkSettings(latency=0.001, jitter=0.01, loss=0.3))
    a, pa, b, pb, mine, theirs = tcp_pair(world)
    for number in range(50):
        put(a, pa, Write(mine, bytes([number])))
    put(b, pb, Write(theirs, b"answer"))
    world.run_for(30)
    assert b"".join(i.data for i in pb.seen if isinstance(i, Received)) == bytes(range(50))
    assert pa.seen == [Received(mine, b"answer")]


def test_a_crash_resets_and_a_port_without_listener_refuses() -> None:
    world = World(1)
    a, pa, b, _, mine, _ = tcp_pair(world)
    b.crash()
    world.run_for(1)
    assert pa.seen == [Closed(mine, True)]
    again = pa.new_handle()
    pa.open_port(Connect(again, (b.address, 7800), 1.0))
    a.after_step()
    world.run_for(1)
    assert pa.seen[-1] == ConnectFailed(again, True, "connection refused")


def test_a_host_that_vanished_says_nothing() -> None:
    world = World(1)
    a, pa, b, _, mine, _ = tcp_pair(world)
    b.vanish()
    put(a, pa, Write(mine, b"x"))
    world.run_for(5)
    assert pa.seen == []
    again = pa.new_handle()
    pa.open_port(Connect(again, (b.address, 7800), 1.0))
    a.after_step()
    world.run_for(0.9)
    assert pa.seen == []
    world.run_for(0.2)
    assert pa.seen == [ConnectFailed(again, False, "timed out")]


def test_the_new_owner_of_an_address_resets_connections_of_the_member_that_vanished() -> None:
    world = World(1)
    a, pa, b, _, mine, _ = tcp_pair(world)
    b.vanish()
    successor, _ = node(world, "B")
    assert successor.address == b.address
    world.run_for(5)
    assert pa.seen == []  # no side sends anything by itself
    put(a, pa, Write(mine, b"x"))
    world.run_for(1)
    assert pa.seen == [Closed(mine, True)]
    assert not a.connections


def test_a_cut_holds_a_stream_back_until_it_heals() -> None:
    world = World(1)
    a, pa, b, pb, mine, theirs = tcp_pair(world)
    token = world.network.cut([[a.address], [b.address]])
    put(a, pa, Write(mine, b"1"), Write(mine, b"2"))
    put(a, pa, Close(mine))
    world.run_for(1)
    assert pb.seen == []
    world.heal(token)
    world.run_for(1)
    assert pb.seen == [Received(theirs, b"1"), Received(theirs, b"2"), Closed(theirs, False)]


def test_a_reset_ends_a_connection_at_both_ends_with_all_bytes_under_way() -> None:
    world = World(1)
    a, pa, b, pb, mine, theirs = tcp_pair(world)
    put(a, pa, Write(mine, b"lost"))
    put(b, pb, Write(theirs, b"lost"))
    world.reset(a, b)
    world.run_for(1)
    assert (pa.seen, pb.seen) == ([Closed(mine, True)], [Closed(theirs, True)])
    assert not a.connections
    assert not b.connections
    put(a, pa, Write(mine, b"lost"))
    world.run_for(1)
    assert len(pb.seen) == 1


def test_a_reset_that_only_one_end_hears_of_is_survived() -> None:
    world = World(1)
    a, pa, b, pb, mine, theirs = tcp_pair(world)
    world.reset(a, b, one_way=True)
    world.run_for(5)
    assert (pa.seen, pb.seen) == ([Closed(mine, True)], [])
    put(b, pb, Write(theirs, b"lost"))
    world.run_for(1)
    assert len(pa.seen) == 1
    assert pb.seen == [Closed(theirs, True)]
    assert not b.connections


def test_bytes_that_wait_at_a_cut_are_lost_with_their_connection() -> None:
    world = World(1)
    a, pa, b, pb, mine, theirs = tcp_pair(world)
    token = world.network.cut([[a.address], [b.address]])
    put(a, pa, Write(mine, b"1"))
    world.run_for(1)
    world.reset(b, a)
    world.heal(token)
    world.run_for(1)
    assert pb.seen == [Closed(theirs, True)]


def test_a_connection_that_is_being_opened_is_not_reset() -> None:
    world = World(1, inside=LinkSettings(latency=0.1))
    a, pa = node(world, "A")
    b, pb = node(world, "B")
    pb.open_port(Bind(pb.new_handle(), "tcp", b.address, 7800))
    b.after_step()
    world.run_for(0.01)
    mine = pa.new_handle()
    pa.open_port(Connect(mine, (b.address, 7800), 1.0))
    a.after_step()
    world.run_for(0.15)  # b has accepted the connection, but a does not know it
    world.reset(a, b)
    world.run_for(1)
    assert [type(i) for i in pa.seen] == [Connected]


def udp_sites(world: World) -> dict[str, tuple[Host, SOCKETS, Endpoint]]:
    found = {}
    for name, site in (("A", "NYC"), ("B", "NYC"), ("T", "SFO")):
        host, protocol = node(world, name, site)
        socket, group = protocol.new_handle(), protocol.new_handle()
        protocol.open_port(Bind(socket, "udp", host.address, 0))
        protocol.open_port(JoinGroup(group, ("239.8.8.8", 45588), host.address))
        host.after_step()
        world.run_for(0.01)
        bound = protocol.seen[0]
        assert isinstance(bound, Bound)
        found[name] = (host, protocol, bound.local)
        protocol.seen.clear()
    return found


def test_multicast_reaches_the_site_and_the_sender_but_not_the_other_site() -> None:
    world = World(1)
    nodes = udp_sites(world)
    host, protocol, local = nodes["A"]
    put(host, protocol, SendTo(1, b"hi", ("239.8.8.8", 45588)))
    world.run_for(1)
    for name, heard in (("A", 1), ("B", 1), ("T", 0)):
        got = [i for i in nodes[name][1].seen if isinstance(i, Datagram)]
        assert [(i.data, i.source) for i in got] == [(b"hi", local)] * heard


def test_loss_and_duplicates_come_at_their_rates() -> None:
    world = World(1, inside=LinkSettings(loss=0.2, duplicate=0.1))
    nodes = udp_sites(world)
    host, protocol, _ = nodes["A"]
    for _ in range(2000):
        put(host, protocol, SendTo(1, b"x", nodes["B"][2]))
    world.run_for(1)
    assert 1600 < len(nodes["B"][1].seen) < 1920  # 2000 * 0.8 * 1.1 = 1760


def test_a_paused_host_gets_its_buffered_input() -> None:
    world = World(1)
    nodes = udp_sites(world)
    host, protocol, _ = nodes["A"]
    other = nodes["B"]
    other[0].held_limit = 10
    other[0].pause()
    for _ in range(15):
        put(host, protocol, SendTo(1, b"x", other[2]))
    world.run_for(1)
    assert other[1].seen == []
    other[0].resume()
    world.run_for(1)
    assert len(other[1].seen) == 10
    assert other[0].held_lost == 5
