from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jgroups_py.config.settings import ConfigBase
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.transport.shared_loopback import SHARED_LOOPBACK
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.ports import (
    Bind,
    BindFailed,
    Bound,
    Close,
    CountListeners,
    Datagram,
    JoinGroup,
    Listeners,
    SendTo,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.events import (
    Connect,
    Failed,
    FindPhysical,
    GetPhysical,
    HasMulticast,
    LookAround,
    NobodyListens,
    PhysicalAddress,
    ReceiveBuffer,
    TransportReady,
    VersionHeard,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import HeartbeatHeader, NakAckHeader2, NakAckType
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, make_version
from jgroups_py.wire.single import encode_nested

A, B, C = make_address(1), make_address(2), make_address(3)
HERE = ("127.0.0.1", 5001)
THERE = ("127.0.0.1", 5002)
GROUP = ("239.8.8.8", 45588)


def opened(**attributes: Any) -> tuple[FakeStack, UDP]:
    """Return a stack whose sockets are open; handle 1 is the unicast socket, 2 the group's."""
    udp = UDP(**attributes)
    stack = FakeStack(udp, address=A)
    stack.event_down(Connect("test"))
    stack.take_outgoing()
    stack.handle(Bound(1, HERE), Bound(2, GROUP))
    stack.take_up_events()
    return stack, udp


def run(dest: Any, *payloads: bytes, src: Any = None, flags: int = 0, transient: int = 0) -> Batch:
    headers: Headers = {41: NakAckHeader2(NakAckType.MSG, 1)}
    return Batch(dest, payloads, headers, src, flags, transient, MessageType.BYTES)


def packet_of(batch: Batch, cluster: str = "test", version: int = make_version(5, 5, 6)) -> bytes:
    (packet,) = encode_packets([batch], cluster, version)
    return packet


def view(*members: Any) -> View:
    return View(ViewId(members[0], 1), members)


def test_connect_opens_two_sockets_and_says_where_we_are() -> None:
    stack = FakeStack(UDP(bind_addr="127.0.0.9"), address=A)
    stack.event_down(Connect("test"))
    bind, join = stack.take_outgoing()
    assert isinstance(bind, Bind) and (bind.kind, bind.host, bind.port) == ("udp", "127.0.0.9", 0)
    assert isinstance(join, JoinGroup) and (join.group, join.interface) == (GROUP, "127.0.0.9")
    stack.handle(Bound(join.handle, GROUP))
    assert stack.take_up_events() == []
    stack.handle(Bound(bind.handle, ("127.0.0.9", 5001)))
    assert stack.take_up_events() == [TransportReady(IpAddress("127.0.0.9", 5001))]
    assert stack.stack.ask(GetPhysical()) == IpAddress("127.0.0.9", 5001)
    assert stack.stack.ask(HasMulticast()) is True


def test_a_socket_that_does_not_open_fails_the_stack_in_words() -> None:
    stack = FakeStack(UDP(), address=A)
    stack.event_down(Connect("test"))
    stack.handle(BindFailed(2, "no such device"))
    assert stack.take_up_events() == [
        Failed("UDP: cannot open the multicast group: no such device")
    ]


def test_closing_the_stack_closes_both_sockets() -> None:
    stack, _ = opened()
    stack.stack.close()
    assert stack.take_outgoing() == [Close(1), Close(2)]


def test_messages_of_one_step_leave_as_one_datagram_in_order() -> None:
    stack, _ = opened()
    stack.down(run(None, b"one", b"two"))
    stack.down(run(None, b"three"))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and (out.handle, out.dest) == (1, GROUP)
    packet = decode_packet(out.data)
    assert packet.multicast and packet.src == A and packet.cluster == "test"
    payloads = [bytes(p) for b in packet.batches for p in b.payloads]
    assert payloads == [b"one", b"two", b"three"]


def test_bundles_are_cut_at_the_bundle_size() -> None:
    stack, _ = opened(bundler_max_size=1000)
    stack.down(run(None, *[b"x" * 300] * 10))
    sizes = [len(out.data) for out in stack.take_outgoing() if isinstance(out, SendTo)]
    assert len(sizes) == 4 and max(sizes) < 1100


def test_dont_bundle_leaves_as_packets_of_its_own() -> None:
    stack, _ = opened()
    stack.down(run(None, b"one"))
    stack.down(run(None, b"two", b"three", flags=Flag.OOB | Flag.DONT_BUNDLE))
    stack.down(run(None, b"four"))
    packets = [decode_packet(o.data) for o in stack.take_outgoing() if isinstance(o, SendTo)]
    assert [[bytes(p) for b in x.batches for p in b.payloads] for x in packets] == [
        [b"one"],
        [b"two"],
        [b"three"],
        [b"four"],
    ]


def test_messages_of_two_senders_leave_in_packets_of_their_own() -> None:
    """A member that retransmits for another one sends in the other's name."""
    stack, _ = opened()
    stack.down(run(None, b"mine"))
    stack.down(run(None, b"of b", src=B))
    packets = [decode_packet(o.data) for o in stack.take_outgoing() if isinstance(o, SendTo)]
    assert [(x.src, bytes(x.batches[0].payloads[0])) for x in packets] == [
        (A, b"mine"),
        (B, b"of b"),
    ]


def test_an_own_multicast_does_not_come_back_within_the_handler_that_sends_it() -> None:
    stack, _ = opened()
    stack.machine.enter()
    stack.stack.protocols[-1].pass_down(run(None, b"mine"))
    assert stack.take_up() == []
    stack.machine.leave()
    assert len(stack.take_up()) == 1


def test_the_largest_packet_is_that_of_a_datagram() -> None:
    stack, udp = opened()
    udp._send(bytes(65_507), THERE)
    udp._send(bytes(65_508), THERE)
    assert [len(o.data) for o in stack.take_outgoing() if isinstance(o, SendTo)] == [65_507]
    assert udp.dropped_too_large == 1


def test_an_own_multicast_comes_back_up_unserialised() -> None:
    stack, udp = opened()
    batch = run(None, b"mine")
    stack.down(batch)
    (up,) = stack.take_up()
    assert (udp.messages_received, udp.packets_received) == (1, 0)
    assert up.payloads == (b"mine",) and up.src == A and up.dest is None


def test_dont_loopback_is_only_sent() -> None:
    stack, _ = opened()
    stack.down(run(None, b"mine", transient=Transient.DONT_LOOPBACK))
    assert stack.take_up() == [] and len(stack.take_outgoing()) == 1


@pytest.mark.parametrize("dest", [A, IpAddress(*HERE)])
def test_a_unicast_to_ourselves_stays_here(dest: Any) -> None:
    stack, _ = opened()
    stack.down(run(dest, b"note"))
    assert [b.payloads for b in stack.take_up()] == [(b"note",)]
    assert stack.take_outgoing() == []


def test_a_unicast_goes_to_the_physical_address_that_was_learned() -> None:
    stack, _ = opened()
    stack.event_down(PhysicalAddress(B, IpAddress(*THERE), "Bea"))
    stack.down(run(B, b"hi"))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and out.dest == THERE
    packet = decode_packet(out.data)
    assert packet.dest == B and not packet.multicast
    assert stack.stack.name_of(B) == "Bea"


def test_a_unicast_may_name_a_physical_address() -> None:
    stack, _ = opened()
    stack.down(run(IpAddress(*THERE), b"hi"))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and out.dest == THERE


def test_packets_to_a_physical_address_without_a_host_are_counted() -> None:
    stack, udp = opened()
    udp.send_unicast(IpAddress(None, 7800), [b"1", b"2"])
    assert stack.take_outgoing() == [] and udp.dropped_unlocated == 2


def test_datagrams_before_the_socket_is_open_are_counted() -> None:
    udp = UDP()
    stack = FakeStack(udp, address=A)
    stack.event_down(Connect("test"))
    stack.down(run(B, b"1", b"2"))
    stack.take_outgoing()
    assert udp.dropped_not_open == 2


def test_other_members_do_not_tell_a_member_its_own_address() -> None:
    stack, udp = opened(logical_addr_cache_max_size=1)
    for member in (B, A, IpAddress(*HERE)):
        stack.event_down(PhysicalAddress(member, IpAddress(*THERE)))
    assert udp.dropped_address_table_full == 0
    stack.down(run(B, b"hi"))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and out.dest == THERE


def test_unicasts_to_an_unknown_member_wait_until_it_is_found() -> None:
    stack, udp = opened()
    stack.down(run(B, b"one"))
    assert stack.take_outgoing() == []
    stack.down(run(B, b"two"))
    stack.take_outgoing()
    assert stack.take_up_events() == [FindPhysical(B)]  # once, not once a message
    stack.event_down(PhysicalAddress(B, IpAddress(*THERE)))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and out.dest == THERE
    batches = decode_packet(out.data).batches
    assert [bytes(p) for b in batches for p in b.payloads] == [b"one", b"two"]
    assert udp.dropped_unlocated == 0


def test_a_member_that_is_not_found_is_asked_for_again_and_given_up() -> None:
    stack, udp = opened()
    stack.down(run(B, b"one"))
    stack.take_outgoing()
    stack.advance(1.9)
    assert stack.take_up_events() == [FindPhysical(B)] * 4
    stack.advance(0.2)
    assert udp.dropped_unlocated == 1
    stack.advance(10)
    assert stack.take_up_events() == []


def test_messages_that_wait_for_unknown_members_are_bounded_and_counted() -> None:
    stack, udp = opened(max_pending_members=2, max_pending_bytes=1000)
    stack.down(run(B, b"x" * 800))
    stack.down(run(B, b"x" * 800))
    stack.down(run(C, b"x"))
    stack.down(run(make_address(4), b"x"))
    stack.take_outgoing()
    assert udp.dropped_unlocated == 2


def test_the_address_table_is_bounded_but_keeps_members() -> None:
    stack, _ = opened(logical_addr_cache_max_size=2)
    stack.event_down(PhysicalAddress(B, IpAddress(*THERE)))
    stack.event_down(ViewChange(view(A, B), None))
    for number in range(3, 10):
        stack.event_down(PhysicalAddress(make_address(number), IpAddress("127.0.0.1", number)))
    assert stack.stack.ask(GetPhysical(B)) == IpAddress(*THERE)
    assert stack.stack.ask(GetPhysical(make_address(9))) is not None
    assert stack.stack.ask(GetPhysical(make_address(8))) is None


def test_with_each_view_the_shapes_of_packets_are_learned_anew() -> None:
    """Otherwise entries of departed members would stay until there are too many."""
    stack, udp = opened()
    stack.handle(Datagram(1, packet_of(run(A, b"x", src=B)), THERE))
    assert len(udp._reader) == 1
    stack.event_down(ViewChange(view(A, B), None))
    assert len(udp._reader) == 0


def test_a_former_member_is_forgotten_after_a_while() -> None:
    stack, _ = opened()
    stack.event_down(PhysicalAddress(B, IpAddress(*THERE), "B"))
    stack.event_down(ViewChange(view(A, B), None))
    stack.advance(1000)
    assert stack.stack.ask(GetPhysical(B)) is not None
    stack.event_down(ViewChange(view(A), view(A, B)))
    stack.advance(359)
    assert stack.stack.ask(GetPhysical(B)) is not None
    stack.advance(2)
    assert stack.stack.ask(GetPhysical(B)) is None
    assert stack.stack.name_of(B) == str(B)


def test_a_packet_comes_up_run_by_run_with_its_addresses() -> None:
    stack, udp = opened()
    stack.handle(Datagram(2, packet_of(run(None, b"x", b"y", src=B)), THERE))
    (batch,) = stack.take_up()
    assert (batch.src, batch.dest, [bytes(p) for p in batch.payloads]) == (B, None, [b"x", b"y"])
    assert (udp.packets_received, udp.messages_received) == (1, 2)


@pytest.mark.parametrize(
    ("packet", "source", "counter"),
    [
        (packet_of(run(None, b"x", src=B)), HERE, "dropped_own"),
        (packet_of(run(None, b"x", src=A)), THERE, "dropped_own"),
        (packet_of(run(None, b"x", src=B), cluster="other"), THERE, "dropped_cluster"),
        (packet_of(run(None, b"x", b"y", src=B), cluster="other"), THERE, "dropped_cluster"),
        (packet_of(run(C, b"x", src=B)), THERE, "dropped_dest"),
        (packet_of(run(C, b"x", b"y", src=B)), THERE, "dropped_dest"),
        (packet_of(run(None, b"x", src=B), version=make_version(4, 2)), THERE, "dropped_version"),
        (b"", THERE, "dropped_garbage"),
        (b"\x29\x46", THERE, "dropped_garbage"),
        (packet_of(run(None, b"x", src=B))[:-1], THERE, "dropped_garbage"),
        (packet_of(run(None, b"x", src=B)) + b"!", THERE, "dropped_garbage"),
    ],
)
def test_packets_for_others_are_dropped_and_counted(
    packet: bytes, source: tuple[str, int], counter: str
) -> None:
    stack, udp = opened()
    stack.handle(Datagram(2, packet, source))
    assert stack.take_up() == []
    assert getattr(udp, counter) == 1


def test_a_packet_that_names_no_cluster_is_turned_away() -> None:
    stack, udp = opened()
    nameless = run(None, b"x", src=B)
    head = DEFAULT_VERSION.to_bytes(2, "big") + b"\x02"
    stack.handle(Datagram(2, head + encode_nested(nameless), THERE))
    assert stack.take_up() == []
    assert udp.statistics()["turned_away_no_cluster"] == 1


def test_any_bytes_survive() -> None:
    stack, udp = opened()
    good = packet_of(run(None, b"x" * 20, b"y", src=B))
    rng = stack.machine.random
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(3, len(data))] = rng.randrange(256)
        stack.handle(Datagram(1, bytes(data[: rng.randrange(len(data) + 1)]), THERE))
    assert udp.dropped_garbage > 1000


def test_a_version_heard_before_joining_is_adopted() -> None:
    stack, _ = opened()
    theirs = make_version(5, 4, 12)
    stack.handle(Datagram(2, packet_of(run(None, b"x", src=B), version=theirs), THERE))
    assert stack.take_up_events() == [VersionHeard(theirs)]
    assert len(stack.take_up()) == 1
    stack.down(run(None, b"x"))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and decode_packet(out.data).version == theirs


def test_another_clusters_version_is_not_adopted() -> None:
    stack, udp = opened()
    theirs = make_version(5, 4, 12)
    data = packet_of(run(None, b"x", src=B), cluster="other", version=theirs)
    stack.handle(Datagram(2, data, THERE))
    assert stack.take_up_events() == [] and udp.version >> 6 != theirs >> 6


def test_a_member_keeps_its_version() -> None:
    stack, udp = opened()
    stack.event_down(ViewChange(view(A), None))
    data = packet_of(run(None, b"x", src=B), version=make_version(5, 4, 12))
    stack.handle(Datagram(2, data, THERE))
    assert stack.take_up() == [] and udp.dropped_version == 1


def test_another_micro_version_is_accepted() -> None:
    stack, _ = opened()
    data = packet_of(run(None, b"x", src=B), version=make_version(5, 5, 0))
    stack.handle(Datagram(2, data, THERE))
    assert len(stack.take_up()) == 1


def test_without_multicast_each_member_gets_a_copy() -> None:
    udp = UDP(ip_mcast=False)
    stack = FakeStack(udp, address=A)
    stack.event_down(Connect("test"))
    (bind,) = stack.take_outgoing()
    stack.handle(Bound(bind.handle, HERE))
    stack.event_down(PhysicalAddress(B, IpAddress(*THERE)))
    stack.event_down(PhysicalAddress(C, IpAddress("127.0.0.1", 5003)))
    stack.event_down(ViewChange(view(A, B, C), None))
    stack.down(run(None, b"x"))
    dests = [out.dest for out in stack.take_outgoing() if isinstance(out, SendTo)]
    assert dests == [THERE, ("127.0.0.1", 5003)]
    assert stack.stack.ask(HasMulticast()) is False


def test_a_packet_too_large_for_a_datagram_is_counted() -> None:
    stack, udp = opened()
    stack.down(run(None, b"x" * 70_000))
    assert stack.take_outgoing() == [] and udp.dropped_too_large == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"mcast_addr": "10.0.0.1"},
        {"mcast_addr": "nonsense"},
        {"mcast_port": 0},
        {"ip_ttl": 256},
        {"bind_port": 65536},
        {"port_range": -1},
        {"version": "6.0"},
        {"version": "five"},
        {"bundler_max_size": 1},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong)).replace("bundler_", "bundler.")):
        UDP(**wrong)


def test_shared_loopback_has_a_group_of_its_own(network: Any) -> None:
    config: ConfigBase = SHARED_LOOPBACK().config
    assert config != replace(UDP().config)
    a = network.add(SHARED_LOOPBACK(), address=A)
    b = network.add(SHARED_LOOPBACK(), address=B, name="B")
    for stack in (a, b):
        stack.event_down(Connect("test"))
    network.run()
    a.down(run(None, b"hello"))
    network.run()
    assert [bytes(x.payloads[0]) for x in b.take_up()] == [b"hello"]
    assert [x.payloads[0] for x in a.take_up()] == [b"hello"]


def test_an_empty_message_round_trips() -> None:
    stack, _ = opened()
    stack.down(Batch.of(None, 70, HeartbeatHeader()))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo)
    assert decode_packet(out.data).batches[0].type == MessageType.EMPTY


def test_a_name_learned_after_the_view_is_compared_too(caplog: pytest.LogCaptureFixture) -> None:
    stack, _ = opened()
    stack.event_down(ViewChange(view(A, B, C), None))
    for member in (B, C):
        stack.event_down(PhysicalAddress(member, IpAddress("127.0.0.1", 5002), "same"))
    stack.advance(11)
    told = [r.getMessage() for r in caplog.records if "two members are named" in r.getMessage()]
    assert len(told) == 1


def test_members_of_two_sites_may_share_a_name(caplog: pytest.LogCaptureFixture) -> None:
    """The relays of both sites meet in a child stack."""
    stack, _ = opened()
    stack.stack.parent = opened()[0].stack
    stack.event_down(ViewChange(view(A, B, C), None))
    for member in (B, C):
        stack.event_down(PhysicalAddress(member, IpAddress("127.0.0.1", 5002), "same"))
    stack.advance(11)
    assert not any("two members are named" in r.getMessage() for r in caplog.records)


def test_udp_counts_listeners_and_reports_only_their_absence() -> None:
    stack, _ = opened(bind_addr="127.0.0.9")
    stack.event_down(LookAround())
    assert stack.take_outgoing() == [CountListeners(2, "127.0.0.9")]
    stack.handle(Listeners(2, 1))
    assert stack.take_up_events() == []
    stack.handle(Listeners(2, 0))
    assert stack.take_up_events() == [NobodyListens()]


def test_before_its_group_is_open_it_asks_nobody() -> None:
    stack = FakeStack(UDP(), address=A)
    stack.event_down(Connect("test"))
    stack.take_outgoing()
    stack.event_down(LookAround())
    assert stack.take_outgoing() == []


def test_the_granted_receive_buffers_are_told_to_protocols_above() -> None:
    udp = UDP()
    stack = FakeStack(udp, address=A)
    stack.event_down(Connect("test"))
    assert stack.stack.ask(ReceiveBuffer(True)) is None
    stack.handle(Bound(1, HERE, 50_000), Bound(2, GROUP, 60_000))
    assert stack.stack.ask(ReceiveBuffer(True)) == 60_000
    assert stack.stack.ask(ReceiveBuffer(False)) == 50_000
    stack, _ = opened()
    assert stack.stack.ask(ReceiveBuffer(True)) is None, "the system told nothing"


def test_without_multicast_all_arrives_at_one_socket() -> None:
    stack = FakeStack(UDP(ip_mcast=False), address=A)
    stack.event_down(Connect("test"))
    stack.handle(Bound(1, HERE, 50_000))
    assert stack.stack.ask(ReceiveBuffer(True)) == 50_000
