"""Messages without a number, sent by strangers or in the name of members, are refused."""

from __future__ import annotations

import pytest

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.rpc.early import EarlyCalls
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.explorer.bytes.cluster import Cluster
from jgroups_py.values.address import Address, IpAddress, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import ViewChange
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, UnicastHeader3, UnicastType

A, B, C = (make_address(n) for n in range(1, 4))
OOB, NO_RELIABILITY = int(Flag.OOB), int(Flag.NO_RELIABILITY)
VIEW = View(ViewId(A, 1), (A, B))


def message(src: Address, dest: Address | None, flags: int = 0) -> Batch:
    return Batch(dest, (b"x",), {}, src, flags)


@pytest.mark.parametrize("dest", [A, IpAddress("10.0.0.1", 7800)], ids=["uuid", "place"])
@pytest.mark.parametrize("flags", [0, OOB])
def test_a_unicast_without_a_number_is_turned_away(dest: Address, flags: int) -> None:
    fake = FakeStack(UNICAST3(), address=A)
    fake.event_down(ViewChange(VIEW, None))
    fake.up(message(B, dest, flags))
    assert fake.take_up() == []
    assert fake.protocol.statistics()["turned_away_unnumbered"] == 1


def test_unreliable_and_own_unicasts_pass_unicast3() -> None:
    fake = FakeStack(UNICAST3(), address=A)
    fake.up(message(B, A, NO_RELIABILITY))
    fake.up(message(A, A))
    assert len(fake.take_up()) == 2


@pytest.mark.parametrize("flags", [0, OOB])
def test_a_multicast_without_a_number_is_turned_away(flags: int) -> None:
    fake = FakeStack(NAKACK2(), address=A)
    fake.event_down(ViewChange(VIEW, None))
    fake.up(message(B, None, flags))
    assert fake.take_up() == []
    assert fake.protocol.statistics()["turned_away_unnumbered"] == 1


def test_an_unreliable_multicast_passes_if_a_member_sent_it() -> None:
    fake = FakeStack(NAKACK2(), address=A)
    fake.up(message(B, None, NO_RELIABILITY))
    assert fake.take_up() == []
    fake.event_down(ViewChange(VIEW, None))
    fake.up(message(C, None, NO_RELIABILITY))
    assert fake.take_up() == []
    assert fake.protocol.statistics()["non_member_dropped"] == 2
    fake.up(message(B, None, NO_RELIABILITY))
    fake.up(message(A, None, NO_RELIABILITY))
    assert [batch.src for batch in fake.take_up()] == [B, A]


def test_an_unreliable_unicast_reaches_the_application_only_from_a_member() -> None:
    cluster = Cluster(1, "udp.xml")
    member, other = cluster.members[:2]
    came: list[Address | None] = []
    member.on_batch = lambda _, batch: came.append(batch.src)
    stranger = cluster.stranger()
    for src in (stranger, other.address):
        cluster.deliver(member, cluster.forged({}, src=src, dest=member.address, payload=b"x"))
    assert came == [other.address]
    assert member.host.machine.turned_away == {"GMS.not_member": 1}


def test_only_the_relay_speaks_for_another_site() -> None:
    cluster = Cluster(
        7,
        "relay-udp.xml",
        attributes={"RELAY.sites": "NYC,SFO"},
        properties=lambda world, member: {"relay.site": "NYC"},
        sites=("NYC",),
        incarnations=0,
    )
    member = cluster.members[0]
    came: list[Address | None] = []
    member.on_batch = lambda _, batch: came.append(batch.src)
    src = SiteUUID(bytes(cluster.stranger()), "SFO", "Z")
    headers = {PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.DATA, 1, 1, True)}
    data = cluster.forged(headers, src=src, dest=member.address, payload=b"forged")
    cluster.deliver(member, data)
    assert member.host.machine.turned_away == {"RELAY.forged_site": 1}
    assert came == []


# --- calls


def call(src: Address, size: int = 10) -> Batch:
    return Batch(A, (bytes(size),), {}, src)


def test_an_early_call_waits_for_the_view_with_its_caller() -> None:
    early = EarlyCalls(10, 1000, 5.0)
    first, second, stranger = call(B), call(B), call(C)
    for batch in (first, stranger, second):
        assert early.take(batch, 0.0) == []
    assert early.view((A,)) == []
    assert early.view((A, B)) == [first, second]
    assert (len(early), early.bytes) == (1, 10)
    assert early.expire(4.9) == []
    assert early.expire(5.0) == [stranger]
    assert (len(early), early.bytes, early.deadline) == (0, 0, None)


def test_early_calls_are_bounded_and_the_oldest_goes_first() -> None:
    early = EarlyCalls(2, 100, 5.0)
    calls = [call(C) for _ in range(3)]
    assert [early.take(batch, 0.0) for batch in calls] == [[], [], [calls[0]]]
    large = call(C, 95)
    assert early.take(large, 1.0) == calls[1:]
    assert early.take(call(C, 101), 1.0)[0] is large
    assert early.bytes == 0
