"""A stranger reports a member on another host. No member connects there."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.protocols.discovery.mping import MPING
from jgroups_py.protocols.discovery.tcpping import TCPPING
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import Accepted, Bound, Closed, Connect, Datagram, Out, Received
from jgroups_py.stack.ports import Write as Written
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Connect as ConnectEvent
from jgroups_py.values.events import FindMembers, ViewChange
from jgroups_py.values.payloads import PingData
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.connection import encode_frame, encode_handshake
from jgroups_py.wire.headers import PROTOCOL_IDS, PingHeader, PingType
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import encode_whole, make_version
from jgroups_py.wire.single import encode_mping
from jgroups_py.wire.values import write_ping_data_list

A, B, C, X = (make_address(n) for n in range(1, 5))
HERE = IpAddress("10.0.0.1", 7800)
AT_X = IpAddress("10.0.0.4", 7800)
ELSEWHERE = IpAddress("10.0.0.99", 80)
V55 = make_version(5, 5, 6)


def opened(*, joined: bool = True, **attributes: Any) -> FakeStack:
    """A's stack. Handle 1 listens."""
    stack = FakeStack(TCP(**attributes), TCPPING(port_range=0), address=A)
    stack.machine.host = "10.0.0.1"
    stack.event_down(ConnectEvent("test", False))
    stack.handle(Bound(1, ("10.0.0.1", 7800)))
    if joined:
        install(stack, A)
    stack.take_up_events()
    stack.take_outgoing()
    return stack


def install(stack: FakeStack, *members: Address, number: int = 1) -> None:
    stack.event_down(ViewChange(View(ViewId(members[0], number), members), None))


def accept(stack: FakeStack, handle: int, listens_at: IpAddress, host: str) -> None:
    stack.handle(Accepted(1, handle, (host, 40000)))
    stack.handle(Received(handle, encode_handshake(V55, listens_at)))
    stack.take_outgoing()


def said(kind: PingType, src: Address, *places: tuple[Address, IpAddress]) -> Batch:
    data = [PingData(member, 0, None, place) for member, place in places]
    header = PingHeader(kind, "test" if kind is PingType.GET_MBRS_REQ else None)
    payload = encode_whole(write_ping_data_list, data)
    return Batch(None, (payload,), {PROTOCOL_IDS["TCPPING"]: header}, src)


def say(stack: FakeStack, handle: int, batch: Batch) -> list[Out]:
    """The peer of ``handle`` sends a packet. Return A's reaction."""
    (packet,) = encode_packets([batch], "test", V55)
    stack.handle(Received(handle, encode_frame(packet)))
    return stack.take_outgoing()


def request(stack: FakeStack, handle: int, src: Address, *places: tuple[Address, IpAddress]) -> Any:
    return say(stack, handle, said(PingType.GET_MBRS_REQ, src, *places))


def dialed(outs: list[Out]) -> list[IpAddress]:
    return [IpAddress(*out.dest) for out in outs if isinstance(out, Connect)]


def refused(stack: FakeStack) -> int:
    return int(stack.protocol.statistics()["turned_away_told_elsewhere"])


def asked(stack: FakeStack) -> list[IpAddress]:
    """Return the places that the next search asks."""
    stack.event_down(FindMembers("test", 1.0, stop_at_coordinator=False))
    found = dialed(stack.take_outgoing())
    stack.advance(2.0)
    stack.take_outgoing()
    return found


def test_a_request_that_names_another_host_opens_no_connection() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    assert request(stack, -1, X, (X, ELSEWHERE)) == []
    assert refused(stack) == 1
    assert asked(stack) == []


def test_many_places_of_one_answer_are_not_asked() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    places = [(make_address(n), IpAddress("10.0.0.99", n)) for n in range(10, 100)]
    assert say(stack, -1, said(PingType.GET_MBRS_RSP, X, *places)) == []
    assert asked(stack) == []


def test_a_joiner_is_answered_over_its_own_connection() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    outs = request(stack, -1, X, (X, AT_X))
    assert [out.handle for out in outs if isinstance(out, Written)] == [-1]
    assert dialed(outs) == [] and refused(stack) == 0
    assert asked(stack) == []  # it has a connection, and uses it


def test_a_joiner_behind_address_translation_is_answered_over_its_own_connection() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "192.0.2.1")
    outs = request(stack, -1, X, (X, AT_X))
    assert [out.handle for out in outs if isinstance(out, Written)] == [-1]
    assert refused(stack) == 0


def test_a_place_on_the_reporters_own_host_is_connected_to() -> None:
    stack = opened()
    other_port = IpAddress("10.0.0.4", 7900)
    accept(stack, -1, AT_X, "10.0.0.4")
    assert dialed(request(stack, -1, X, (X, other_port))) == [other_port]
    assert refused(stack) == 0


def test_hearsay_takes_the_place_of_nothing_that_is_believed() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    accept(stack, -2, IpAddress("10.0.0.66", 7800), "10.0.0.66")
    request(stack, -1, X, (X, AT_X))
    request(stack, -2, C, (X, ELSEWHERE))
    assert refused(stack) == 1
    outs = request(stack, -1, X, (X, AT_X))
    assert [out.handle for out in outs if isinstance(out, Written)] == [-1]


def test_a_members_report_is_believed() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    request(stack, -1, X, (X, AT_X))
    install(stack, A, X, number=2)
    stack.take_outgoing()
    say(stack, -1, said(PingType.GET_MBRS_RSP, X, (C, ELSEWHERE)))
    assert ELSEWHERE in asked(stack)


def test_a_joiner_believes_answers() -> None:
    stack = opened(joined=False)
    accept(stack, -1, AT_X, "10.0.0.4")
    say(stack, -1, said(PingType.GET_MBRS_RSP, X, (C, ELSEWHERE)))
    assert asked(stack) == [ELSEWHERE]


def test_a_new_member_of_the_view_is_connected_to() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    request(stack, -1, X, (C, ELSEWHERE))
    install(stack, A, C, number=2)
    stack.down(Batch(C, (b"x",), {}, A))
    assert dialed(stack.take_outgoing()) == [ELSEWHERE]


def test_hearsay_does_not_stop_discovery_from_asking_a_place_of_its_own() -> None:
    stack = opened()
    accept(stack, -1, AT_X, "10.0.0.4")
    request(stack, -1, X, (C, ELSEWHERE))
    stack.down(Batch(ELSEWHERE, (b"x",), {}, A))
    assert dialed(stack.take_outgoing()) == [ELSEWHERE]


def test_without_the_check_every_place_is_believed() -> None:
    stack = opened(source_check=False)
    accept(stack, -1, AT_X, "10.0.0.4")
    assert dialed(request(stack, -1, X, (X, ELSEWHERE))) == [ELSEWHERE]


@pytest.mark.parametrize(("host", "dials"), [("10.0.0.99", [ELSEWHERE]), ("10.0.0.4", [])])
def test_a_multicast_request_is_answered_at_its_own_host_only(
    host: str, dials: list[IpAddress]
) -> None:
    stack = FakeStack(TCP(), MPING(), address=A)
    stack.machine.host = "10.0.0.1"
    stack.event_down(ConnectEvent("test", False))
    stack.handle(Bound(1, ("10.0.0.1", 7800)))
    stack.handle(Bound(2, ("10.0.0.1", 7000)))
    stack.handle(Bound(3, ("232.5.6.7", 7555)))
    install(stack, A)
    stack.take_outgoing()
    payload = encode_whole(write_ping_data_list, [PingData(X, 0, None, ELSEWHERE)])
    header = PingHeader(PingType.GET_MBRS_REQ, "test")
    batch = Batch(None, (payload,), {PROTOCOL_IDS["MPING"]: header}, X)
    stack.handle(Datagram(3, encode_mping(batch), (host, 33333)))
    assert dialed(stack.take_outgoing()) == dials
    assert refused(stack) == 1 - len(dials)


def test_a_connection_that_ends_leaves_no_place_to_connect_to() -> None:
    """A stranger claims another place in its handshake, too, and closes the connection before the answer."""
    stack = opened()
    accept(stack, -1, ELSEWHERE, "10.0.0.4")
    request(stack, -1, X, (X, ELSEWHERE))
    stack.handle(Closed(-1, False))
    stack.down(Batch(X, (b"x",), {}, A))
    assert dialed(stack.take_outgoing()) == []
    assert refused(stack) == 1
