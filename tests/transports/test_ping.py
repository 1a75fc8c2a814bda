from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.local_ping import LOCAL_PING
from jgroups_py.protocols.discovery.ping import PING
from jgroups_py.protocols.discovery.shared_loopback_ping import SHARED_LOOPBACK_PING
from jgroups_py.protocols.transport.shared_loopback import SHARED_LOOPBACK
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.ports import SendTo
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    FindMembers,
    FindPhysical,
    FoundMember,
    GetPhysical,
    IsCoordinator,
    LookAround,
    MembersFound,
    NobodyListens,
    PhysicalAddress,
    TransportReady,
    VersionHeard,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.payloads import PingData
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PingHeader, PingType
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import read_ping_data_list, write_ping_data_list

A, B, C = make_address(1), make_address(2), make_address(3)
AT_A, AT_B, AT_C = (IpAddress("127.0.0.1", 5000 + n) for n in (1, 2, 3))
SERVER, COORDINATOR = PingData.SERVER, PingData.SERVER | PingData.COORDINATOR
FIND = FindMembers("GMS", 1.0)


def view(*members: Any) -> View:
    return View(ViewId(members[0], 1), members)


def ready(**attributes: Any) -> FakeStack:
    stack = FakeStack(PING(**attributes), address=A)
    stack.event_up(TransportReady(AT_A))
    stack.take_up_events()
    return stack


def response(*members: PingData, src: Any = B) -> Batch:
    payload = encode_whole(write_ping_data_list, list(members))
    return Batch(A, (payload,), {5: PingHeader(PingType.GET_MBRS_RSP)}, src, 3)


def request(*members: PingData, src: Any = B, cluster: str = "test") -> Batch:
    payload = encode_whole(write_ping_data_list, list(members))
    return Batch(None, (payload,), {5: PingHeader(PingType.GET_MBRS_REQ, cluster, True)}, src, 3)


def asked(stack: FakeStack) -> list[PingData]:
    """Return the content of the one request that was sent."""
    (batch,) = stack.take_down()
    return decode_whole(read_ping_data_list, batch.payloads[0])


def test_a_request_has_our_name_and_place() -> None:
    stack = ready()
    stack.event_down(FIND)
    (batch,) = stack.take_down()
    assert batch.dest is None and batch.type == MessageType.BYTES
    assert batch.flags == Flag.OOB | Flag.DONT_BUNDLE
    assert batch.transient == Transient.DONT_LOOPBACK
    assert batch.headers == {5: PingHeader(PingType.GET_MBRS_REQ, "test", True)}
    assert decode_whole(read_ping_data_list, batch.payloads[0]) == [PingData(A, 0, "A", AT_A)]


def test_a_search_ends_when_a_coordinator_answers() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.up(response(PingData(B, SERVER, "B", AT_B)))
    assert stack.take_up_events() == []
    stack.up(response(PingData(C, COORDINATOR, "C", AT_C), src=C))
    assert stack.take_up_events() == [
        MembersFound(
            "GMS",
            (FoundMember(B, "B", AT_B, True, False), FoundMember(C, "C", AT_C, True, True)),
        )
    ]
    assert stack.take_down_events(PhysicalAddress) == [
        PhysicalAddress(B, AT_B, "B"),
        PhysicalAddress(C, AT_C, "C"),
    ]
    assert stack.take_up() == []


def test_a_search_ends_when_the_time_is_over() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.up(response(PingData(B, 0, "B", AT_B)))
    stack.advance(0.99)
    assert stack.take_up_events() == []
    stack.advance(0.02)
    assert stack.take_up_events() == [
        MembersFound("GMS", (FoundMember(B, "B", AT_B, False, False),))
    ]


def test_a_search_for_everybody_goes_on_after_the_coordinator() -> None:
    stack = ready()
    stack.event_down(FindMembers("MERGE3", 1.0, initial=False, stop_at_coordinator=False))
    stack.up(response(PingData(B, COORDINATOR, "B", AT_B)))
    assert stack.take_up_events() == []
    stack.advance(1)
    (found,) = stack.take_up_events()
    assert len(found.members) == 1 and not found.alone


def test_silence_is_not_certainty_and_is_asked_once_more() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.advance(1)
    assert len(stack.take_down()) == 2
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_answered_questions_are_not_asked_again() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.up(response(PingData(B, SERVER, "B", AT_B)))
    stack.advance(1)
    assert len(stack.take_down()) == 1


def test_answers_of_others_do_not_hide_that_a_member_is_coordinator() -> None:
    stack = ready()
    stack.event_down(FindMembers("MERGE3", 1.0, stop_at_coordinator=False))
    stack.up(response(PingData(B, COORDINATOR, "B", AT_B)))
    stack.up(response(PingData(B, SERVER, "B", AT_B), src=C))
    stack.advance(1)
    (found,) = stack.take_up_events()
    assert [m.is_coordinator for m in found.members] == [True]


def test_several_runs_are_spread_over_the_time() -> None:
    stack = ready(num_discovery_runs=4)
    stack.event_down(FIND)
    stack.up(response(PingData(B, SERVER, "B", AT_B)))
    stack.advance(0.3)
    assert len(stack.take_down()) == 2
    stack.advance(0.7)
    assert len(stack.take_down()) == 2


def test_two_searches_are_kept_apart() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.event_down(FindMembers("MERGE3", 2.0, stop_at_coordinator=False))
    stack.up(response(PingData(B, COORDINATOR, "B", AT_B)))
    assert [e.requester for e in stack.take_up_events()] == ["GMS"]
    stack.advance(2)
    assert [e.requester for e in stack.take_up_events()] == ["MERGE3"]


def test_a_joiner_answers_without_being_server() -> None:
    stack = ready()
    stack.up(request(PingData(B, 0, "B", AT_B)))
    (batch,) = stack.take_down()
    assert (batch.dest, batch.flags) == (B, 3)
    assert batch.headers == {5: PingHeader(PingType.GET_MBRS_RSP)}
    assert decode_whole(read_ping_data_list, batch.payloads[0]) == [PingData(A, 0, "A", AT_A)]
    assert stack.take_down_events() == [PhysicalAddress(B, AT_B, "B")]


@pytest.mark.parametrize(("coordinator", "flags"), [(True, COORDINATOR), (None, SERVER)])
def test_a_member_tells_whether_it_is_coordinator(coordinator: Any, flags: int) -> None:
    stack = ready()
    stack.answers[IsCoordinator] = coordinator
    stack.event_down(ViewChange(view(A, C), None))
    stack.up(request(PingData(B, 0, "B", AT_B)))
    assert asked(stack) == [PingData(A, flags, "A", AT_A)]


def test_a_request_of_another_cluster_or_our_own_gets_no_answer() -> None:
    stack = ready()
    stack.up(request(PingData(B, 0, "B", AT_B), cluster="other"))
    stack.up(request(PingData(A, 0, "A", AT_A), src=A))
    assert stack.take_down() == []


def test_only_members_that_are_sought_answer() -> None:
    stack = ready()
    stack.up(request(PingData(B, 0, "B", AT_B, (C,))))
    assert stack.take_down() == []
    stack.up(request(PingData(B, 0, "B", AT_B, (C, A))))
    assert len(stack.take_down()) == 1


def test_a_missing_address_is_asked_for() -> None:
    stack = ready()
    stack.event_up(FindPhysical(C))
    assert asked(stack) == [PingData(A, 0, "A", AT_A, (C,))]
    assert stack.take_up_events() == []


def test_another_version_makes_us_ask_again() -> None:
    stack = ready()
    stack.event_up(VersionHeard(1))
    assert stack.take_down() == []
    stack.event_down(FIND)
    stack.take_down()
    stack.event_up(VersionHeard(1))
    assert len(stack.take_down()) == 1


def test_the_entire_cache_is_told_when_asked_to() -> None:
    stack = ready(return_entire_cache=True)
    stack.answers[GetPhysical] = lambda query: {B: AT_B, C: AT_C}.get(query.member)
    stack.stack.names[C] = "C"
    stack.event_down(ViewChange(view(C, A, B), None))
    stack.up(request(PingData(B, 0, "B", AT_B)))
    assert asked(stack) == [PingData(A, SERVER, "A", AT_A), PingData(C, COORDINATOR, "C", AT_C)]
    D = make_address(9)
    stack.up(request(PingData(D, 0, None, AT_B), src=D))
    assert asked(stack)[1:] == [
        PingData(C, COORDINATOR, "C", AT_C),
        PingData(B, SERVER, None, AT_B),
    ], "one coordinator"


def test_a_coordinator_introduces_joiners_and_members_to_each_other() -> None:
    stack = ready(send_cache_on_join=True)
    stack.answers[GetPhysical] = lambda query: {B: AT_B, C: AT_C}.get(query.member)
    stack.event_down(ViewChange(view(A, B, C), view(A, B)))
    told = [
        (b.dest, decode_whole(read_ping_data_list, b.payloads[0])[0].address)
        for b in stack.take_down()
    ]
    assert told == [(C, B), (B, C)]


def test_garbage_and_floods_are_counted() -> None:
    stack = ready(max_found=2, max_searches=1)
    ping = stack.stack.find(PING)
    assert ping is not None
    stack.event_down(FIND)
    stack.up(Batch(A, (b"\xff\xff",), {5: PingHeader(PingType.GET_MBRS_RSP)}, B, 3))
    assert ping.dropped_garbage == 1
    stack.up(response(*[PingData(make_address(n), SERVER, None, AT_B) for n in range(2, 9)]))
    assert ping.dropped_found == 5
    stack.event_down(FindMembers("MERGE3", 1.0))
    assert ping.dropped_searches == 1
    assert stack.take_up_events() == [MembersFound("MERGE3", ())]


def test_the_topmost_discovery_asks_those_below_and_merges() -> None:
    stack = FakeStack(LOCAL_PING(), PING(), address=A)
    stack.event_up(TransportReady(AT_A))
    stack.take_up_events()
    stack.event_down(FIND)
    assert sorted(next(iter(b.headers)) for b in stack.take_down()) == [5, 68]
    stack.up(
        Batch(
            A,
            (encode_whole(write_ping_data_list, [PingData(B, COORDINATOR, "B", AT_B)]),),
            {68: PingHeader(PingType.GET_MBRS_RSP)},
            B,
            3,
        )
    )
    assert stack.take_up_events() == [MembersFound("GMS", (FoundMember(B, "B", AT_B, True, True),))]
    stack.advance(5)
    assert stack.take_up_events() == []


def test_a_certain_silence_below_does_not_make_an_uncertain_one_above_certain() -> None:
    stack = FakeStack(LOCAL_PING(), PING(), address=A)
    stack.event_up(TransportReady(AT_A))
    stack.take_up_events()
    stack.event_down(FIND)
    stack.advance(0.9)
    assert stack.take_up_events() == []
    stack.advance(0.1)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_alone_in_a_process_is_certain_at_once(network: Any) -> None:
    a = network.add(SHARED_LOOPBACK(), SHARED_LOOPBACK_PING(), address=A)
    a.event_down(Connect("test"))
    network.run()
    a.take_up_events()
    a.event_down(FIND)
    network.run(0.02)
    assert a.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_a_process_that_is_late_gives_the_others_in_it_the_time_after_the_second_request(
    network: Any,
) -> None:
    a = network.add(SHARED_LOOPBACK(), SHARED_LOOPBACK_PING(), address=A)
    a.event_down(Connect("test"))
    network.run()
    a.take_up_events()
    a.event_down(FIND)
    a.take_outgoing()
    a.machine.advance(a.now + 0.05)
    assert a.take_up_events() == [], "it was not alone for 0.01 s, but late"
    assert sum(type(out) is SendTo for out in a.take_outgoing()) == 1
    a.machine.advance(a.now + 0.004)
    assert a.take_up_events() == []
    a.machine.advance(a.now + 0.05)
    assert a.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_two_members_find_each_other(network: Any) -> None:
    a = network.add(UDP(), PING(), address=A)
    b = network.add(UDP(), PING(), address=B, name="B")
    b.answers[IsCoordinator] = True
    for stack in (a, b):
        stack.event_down(Connect("test"))
    network.run()
    b.event_down(ViewChange(view(B), None))
    a.take_up_events()
    a.event_down(FIND)
    network.run()
    (found,) = a.take_up_events()
    (member,) = found.members
    assert (member.address, member.name, member.is_coordinator) == (B, "B", True)
    assert a.stack.name_of(B) == "B" and b.stack.name_of(A) == "A"
    a.down(Batch(B, (b"hi",), {}))
    network.run()
    assert [bytes(x.payloads[0]) for x in b.take_up()] == [b"hi"]


def test_a_lost_request_is_repeated(network: Any) -> None:
    a = network.add(UDP(), PING(), address=A)
    b = network.add(UDP(), PING(), address=B, name="B")
    for stack in (a, b):
        stack.event_down(Connect("test"))
    network.run()
    a.take_up_events()
    lost: list[SendTo] = []

    def drop(out: SendTo) -> bool:
        if lost:
            return False
        lost.append(out)
        return True

    network.drop = drop
    a.event_down(FIND)
    network.run(1.1)
    (found,) = a.take_up_events()
    assert [m.address for m in found.members] == [B] and len(lost) == 1


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_discovery_runs"):
        PING(num_discovery_runs=0)
    with pytest.raises(ConfigError, match="wait"):
        LOCAL_PING(wait=0.0)


def test_the_first_search_looks_around_and_ends_when_nobody_listens() -> None:
    stack = ready()
    stack.event_down(FIND)
    assert stack.take_down_events(LookAround) == [LookAround()]
    stack.event_up(NobodyListens())
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]
    stack.event_up(NobodyListens())
    assert stack.take_up_events() == []


def test_later_searches_do_not_look_around() -> None:
    stack = ready()
    stack.event_down(FindMembers("MERGE3", 1.0, initial=False))
    assert stack.take_down_events(LookAround) == []


def test_a_member_that_answered_is_found_though_it_listens_no_more() -> None:
    stack = ready()
    stack.event_down(FIND)
    stack.up(response(PingData(B, 0, "B", AT_B)))
    stack.event_up(NobodyListens())
    assert stack.take_up_events() == [
        MembersFound("GMS", (FoundMember(B, "B", AT_B, False, False),), alone=False)
    ]
