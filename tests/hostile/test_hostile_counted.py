"""Each dropped packet is counted by the protocol that it was for."""

from __future__ import annotations

import random

import pytest

from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.testing.explorer.bytes.cluster import Cluster
from jgroups_py.values.address import UUID
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import Streamable
from jgroups_py.values.view import Digest, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FragHeader,
    GmsHeader,
    GmsType,
    NakAckHeader2,
    NakAckType,
    StableHeader,
    StableType,
    TpHeader,
    UnicastHeader3,
    UnicastType,
)

STRANGER = UUID.make(random.Random(99))
COUNTERS = {
    "GMS": "bad_messages",
    "NAKACK2": "bad",
    "UNICAST3": "bad",
    "STABLE": "bad",
    "MFC": "bad",
    "UFC": "bad",
    "FRAG2": "bad",
    "STATE_TRANSFER": "bad_messages",
}


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster(8, "udp.xml")


@pytest.mark.parametrize(("protocol", "counter"), COUNTERS.items())
def test_a_header_of_another_protocol_is_survived(
    protocol: str, counter: str, cluster: Cluster
) -> None:
    other, member, _ = cluster.members
    before = member.statistics()[protocol][counter]
    headers = {PROTOCOL_IDS[protocol]: TpHeader("test")}
    cluster.deliver(member, cluster.forged(headers, src=other.address, dest=member.address))
    assert member.statistics()[protocol][counter] == before + 1


def test_a_round_of_a_stranger_is_ignored(cluster: Cluster) -> None:
    member = cluster.members[1]
    before = member.statistics()["GMS"]["bad_messages"]
    headers = {AGREE_ID: FragHeader(1, RoundKind.FREEZE, 0)}
    cluster.deliver(member, cluster.forged(headers, src=STRANGER, dest=member.address))
    assert member.statistics()["GMS"]["bad_messages"] == before + 1


@pytest.mark.parametrize("kind", [GmsType.VIEW, GmsType.GET_DIGEST_REQ])
def test_membership_of_a_stranger(kind: GmsType, cluster: Cluster) -> None:
    member = cluster.members[1]
    stack = member.statistics()["GMS"]
    headers = {PROTOCOL_IDS["GMS"]: GmsHeader(kind)}
    cluster.deliver(member, cluster.forged(headers, src=STRANGER, dest=member.address))
    now = member.statistics()["GMS"]
    risen = {name for name in now if now[name] > stack[name]}
    assert risen == ({"bad_messages"} if kind == GmsType.VIEW else {"views_ignored"})


def test_multicasts_of_a_stranger_are_not_delivered(cluster: Cluster) -> None:
    member = cluster.members[1]
    nakack = member.stack.find(NAKACK2)
    assert nakack is not None
    limit = nakack.config.max_buffered_before_join
    before = member.statistics()["NAKACK2"]["non_member_dropped"]
    headers = {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.MSG, 1)}
    for _ in range(limit + 2):
        cluster.deliver(member, cluster.forged(headers, src=STRANGER, payload=b"x"))
    assert member.statistics()["NAKACK2"]["non_member_dropped"] == before + 2


def test_unicasts_that_have_come_and_questions_of_nobody(cluster: Cluster) -> None:
    member = cluster.members[2]
    before = member.statistics()["UNICAST3"]
    data = {PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.DATA, 1, 7, True)}
    for _ in range(2):
        cluster.deliver(
            member, cluster.forged(data, src=STRANGER, dest=member.address, payload=b"x")
        )
    first = {PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.SEND_FIRST_SEQNO, timestamp=1)}
    cluster.deliver(member, cluster.forged(first, src=STRANGER, dest=member.address))
    now = member.statistics()["UNICAST3"]
    assert now["duplicates"] == before["duplicates"] + 1
    assert now["stale_acks"] == before["stale_acks"] + 1


def test_stability_that_is_not_of_this_view_or_not_for_this_member(cluster: Cluster) -> None:
    coordinator, member, other = cluster.members
    view = member.view
    assert view is not None and view.coordinator == coordinator.address
    before = member.statistics()["STABLE"]["wrong_view"]
    digest = Streamable(10, Digest({m: (0, 0) for m in view}))
    for view_id in (ViewId(STRANGER, 99), view.view_id):
        headers = {PROTOCOL_IDS["STABLE"]: StableHeader(StableType.STABLE_GOSSIP, view_id)}
        data = cluster.forged(
            headers,
            src=other.address,
            dest=member.address,
            payload=digest,
            type=MessageType.OBJECT,
        )
        cluster.deliver(member, data)
    assert member.statistics()["STABLE"]["wrong_view"] == before + 2
