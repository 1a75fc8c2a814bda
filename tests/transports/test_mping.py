from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.mping import MPING
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import Bind, BindFailed, Bound, Datagram, JoinGroup, SendTo
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import (
    Connect,
    Failed,
    FindMembers,
    IsCoordinator,
    TransportReady,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PingHeader
from jgroups_py.wire.single import decode_mping

A, B = make_address(1), make_address(2)
HERE = IpAddress("127.0.0.1", 7800)
VECTORS = Path(__file__).parents[1] / "wire" / "vectors"


def ready(**attributes: Any) -> FakeStack:
    stack = FakeStack(MPING(**attributes), address=A)
    stack.event_up(TransportReady(HERE))
    return stack


def test_mping_opens_its_sockets_before_the_transport_is_ready() -> None:
    stack = ready()
    bind, join = stack.take_outgoing()
    assert isinstance(bind, Bind) and (bind.kind, bind.host, bind.port) == ("udp", "127.0.0.1", 0)
    assert isinstance(join, JoinGroup) and join.group == ("232.5.6.7", 7555)
    stack.handle(Bound(bind.handle, ("127.0.0.1", 41000)))
    assert stack.take_up_events() == []
    stack.handle(Bound(join.handle, join.group))
    assert stack.take_up_events() == [TransportReady(HERE)]
    stack.event_down(FindMembers("GMS", 1.0))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo) and (out.handle, out.dest) == (bind.handle, join.group)
    batch = decode_mping(out.data)
    assert batch.src == A and isinstance(batch.headers[6], PingHeader)
    assert stack.take_down() == []


def test_a_socket_that_does_not_open_fails_the_stack() -> None:
    stack = ready()
    stack.handle(BindFailed(2, "no multicast here"))
    assert stack.take_up_events() == [Failed("MPING: cannot open its socket: no multicast here")]


def test_any_bytes_survive() -> None:
    stack = ready()
    bind, join = stack.take_outgoing()
    assert isinstance(join, JoinGroup)
    stack.handle(Bound(bind.handle, ("127.0.0.1", 41000)), Bound(join.handle, join.group))
    stack.event_down(FindMembers("GMS", 1.0))
    (out,) = stack.take_outgoing()
    assert isinstance(out, SendTo)
    good = out.data
    rng = stack.machine.random
    for _ in range(2000):
        data = bytearray(good)
        data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randrange(len(data) + 1)])
        stack.handle(Datagram(join.handle, cut, ("127.0.0.1", 41001)))
    assert stack.stack.statistics()["MPING"]["dropped_garbage"] > 500


def test_two_members_find_each_other(network: Any) -> None:
    a, b = (network.add(TCP(), MPING(), address=x, name=n) for x, n in ((A, "A"), (B, "B")))
    b.answers[IsCoordinator] = True
    for stack in (a, b):
        stack.event_down(Connect("test"))
    network.run()
    assert len(a.take_up_events(TransportReady)) == 1
    b.event_down(ViewChange(View(ViewId(B, 0), (B,)), None))
    a.event_down(FindMembers("GMS", 1.0))
    network.run()
    (found,) = a.take_up_events()
    (member,) = found.members
    assert (member.address, member.name) == (B, "B")
    assert isinstance(member.physical, IpAddress) and member.physical.port == 7801


def test_a_java_members_request_is_answered() -> None:
    conversation = json.loads((VECTORS / "conversation_tcp_mping.json").read_text())
    requests = [e for e in conversation["events"] if e.get("kind") == "mping_packet"]
    assert requests
    data = bytes.fromhex(requests[0]["hex"])
    header = decode_mping(data).headers[6]
    assert isinstance(header, PingHeader) and header.cluster
    stack = ready()
    stack.stack.cluster = header.cluster
    _, join = stack.take_outgoing()
    stack.handle(Datagram(join.handle, data, ("127.0.0.1", 41001)))
    (batch,) = stack.take_down()
    assert batch.dest == decode_mping(data).src and 6 in batch.headers


@pytest.mark.parametrize("wrong", [{"mcast_addr": "1.2.3.4"}, {"mcast_port": 0}, {"ip_ttl": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        MPING(**wrong)
