from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.tcpping import TCPPING
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import Resolve, Resolved
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    FindMembers,
    GetPhysical,
    IsCoordinator,
    MembersFound,
    TransportReady,
    Unreachable,
    ViewChange,
)
from jgroups_py.values.payloads import PingData
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PingHeader, PingType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_ping_data_list

A, B, C = make_address(1), make_address(2), make_address(3)
FIND = FindMembers("GMS", 3.0)


def at(port: int) -> IpAddress:
    return IpAddress("127.0.0.1", port)


def view(*members: Any) -> View:
    return View(ViewId(members[0], 1), members)


def ready(*hosts: tuple[str, int], port_range: int = 0, **attributes: Any) -> FakeStack:
    stack = FakeStack(TCPPING(initial_hosts=hosts, port_range=port_range, **attributes), address=A)
    stack.event_up(TransportReady(at(7800)))
    stack.take_up_events()
    return stack


def response(*members: PingData) -> Batch:
    payload = encode_whole(write_ping_data_list, list(members))
    return Batch(A, (payload,), {9: PingHeader(PingType.GET_MBRS_RSP)}, B, 3)


def test_every_host_and_port_but_our_own_is_asked() -> None:
    stack = ready(("localhost", 7800), ("127.0.0.2", 7900), port_range=2)
    stack.event_down(FIND)
    dests = [str(b.dest) for b in stack.take_down()]
    assert dests == [
        "127.0.0.1:7801",
        "127.0.0.1:7802",
        "127.0.0.2:7900",
        "127.0.0.2:7901",
        "127.0.0.2:7902",
    ]


def test_a_member_is_alone_at_once_when_all_hosts_refuse() -> None:
    stack = ready(("localhost", 7800), port_range=2)
    stack.event_down(FIND)
    stack.event_up(Unreachable(at(7801)))
    assert stack.take_up_events() == []
    stack.event_up(Unreachable(at(7802)))
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_with_nobody_to_ask_we_are_alone_at_once() -> None:
    stack = ready(("localhost", 7800))
    stack.event_down(FIND)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_a_silent_host_is_waited_for() -> None:
    stack = ready(("localhost", 7800), ("127.0.0.2", 7800))
    stack.event_down(FIND)
    stack.event_up(Unreachable(at(7801)))
    stack.advance(2.9)
    assert stack.take_up_events() == []
    stack.advance(0.2)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_a_search_ends_when_all_hosts_have_refused_or_answered() -> None:
    stack = ready(("localhost", 7800), port_range=2)
    stack.event_down(FIND)
    stack.up(response(PingData(B, 0, "B", at(7801))))
    stack.event_up(Unreachable(at(7802)))
    (found,) = stack.take_up_events()
    assert [m.address for m in found.members] == [B] and not found.alone


def test_addresses_learned_are_asked_too_and_bounded() -> None:
    stack = ready(("localhost", 7801), max_dynamic_hosts=2)
    stack.up(response(*[PingData(make_address(n), 1, None, at(8000 + n)) for n in range(5)]))
    stack.event_down(FIND)
    assert [b.dest.port for b in stack.take_down()] == [7801, 8003, 8004]  # type: ignore[union-attr]
    stack.event_up(Unreachable(at(8003)))
    stack.event_down(FIND)
    assert [b.dest.port for b in stack.take_down()] == [7801, 8004]  # type: ignore[union-attr]


def test_a_coordinator_introduces_joiners_by_default() -> None:
    stack = ready(("localhost", 7801))
    stack.answers[GetPhysical] = lambda query: {B: at(7801), C: at(7802)}.get(query.member)
    stack.event_down(ViewChange(view(A, B, C), view(A, B)))
    assert [b.dest for b in stack.take_down()] == [C, B]


def lookups(stack: FakeStack) -> list[Resolve]:
    return [out for out in stack.take_outgoing() if isinstance(out, Resolve)]


def test_a_name_is_looked_up_at_searches_with_pauses_that_double() -> None:
    stack = ready(
        ("db", 7801), ("localhost", 7802), resolve_interval=5.0, resolve_max_interval=15.0
    )
    asked = []
    for _ in range(60):
        stack.event_down(FIND)
        for out in lookups(stack):
            asked.append(stack.now)
            stack.handle(Resolved(out.handle, (), "Name or service not known"))
        stack.advance(1)
    assert asked == [0.0, 5.0, 15.0, 30.0, 45.0]
    assert stack.stack.statistics()["TCPPING"]["lookups_failed"] == 5


def test_only_one_lookup_of_a_name_runs_at_a_time() -> None:
    stack = ready(("db", 7801))
    for _ in range(5):
        stack.event_down(FIND)
        stack.advance(100)
    assert len(lookups(stack)) == 1


def test_while_a_name_is_not_known_nobody_is_certain_to_be_alone() -> None:
    stack = ready(("db", 7801))
    stack.event_down(FIND)
    (out,) = lookups(stack)
    stack.handle(Resolved(out.handle, (), "unknown"))
    assert stack.take_up_events() == []
    stack.advance(3.1)
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_all_addresses_of_a_name_are_asked_at_once_and_stay_when_a_look_up_fails() -> None:
    stack = ready(("db", 7801), ("127.0.0.9", 7801), max_resolved=2)
    stack.event_down(FIND)
    (out,) = lookups(stack)
    assert [str(b.dest) for b in stack.take_down()] == ["127.0.0.9:7801"]
    stack.handle(Resolved(out.handle, ("127.0.0.2", "127.0.0.3", "127.0.0.4")))
    both = ["127.0.0.2:7801", "127.0.0.3:7801", "127.0.0.9:7801"]
    assert [str(b.dest) for b in stack.take_down()] == both
    assert stack.stack.statistics()["TCPPING"]["dropped_addresses"] == 1
    for host in ("127.0.0.2", "127.0.0.3", "127.0.0.9"):
        stack.event_up(Unreachable(IpAddress(host, 7801)))
    assert stack.take_up_events() == [MembersFound("GMS", (), alone=True)]
    stack.advance(5)
    stack.event_down(FIND)
    (out,) = lookups(stack)
    stack.take_down()
    stack.handle(Resolved(out.handle, (), "unknown"))
    stack.advance(5)
    stack.take_down()
    stack.event_down(FIND)
    assert [str(b.dest) for b in stack.take_down()] == both


def test_in_a_group_a_name_is_looked_up_less_often() -> None:
    stack = ready(("db", 7801))
    stack.event_down(FIND)
    (out,) = lookups(stack)
    stack.handle(Resolved(out.handle, ("127.0.0.2",)))
    stack.event_down(ViewChange(view(A, B), None))
    stack.advance(59)
    stack.event_down(FIND)
    assert lookups(stack) == []
    stack.advance(1)
    stack.event_down(FIND)
    assert len(lookups(stack)) == 1


def test_the_first_member_on_a_machine_is_alone_and_the_second_finds_it(network: Any) -> None:
    hosts = (("localhost", 7800),)
    a, b = (
        network.add(TCP(), TCPPING(initial_hosts=hosts, port_range=2), address=x) for x in (A, B)
    )
    a.answers[IsCoordinator] = True
    for stack in (a, b):
        stack.event_down(Connect("test"))
        network.run()
        stack.take_up_events()
        stack.event_down(FIND)
        network.run()
        if stack is a:
            assert a.take_up_events(MembersFound) == [MembersFound("GMS", (), alone=True)]
            a.event_down(ViewChange(view(A), None))
    (found,) = b.take_up_events(MembersFound)
    (member,) = found.members
    assert (member.address, member.is_coordinator, member.physical) == (A, True, at(7800))


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="port_range"):
        TCPPING(port_range=-1)
