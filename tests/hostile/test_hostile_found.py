"""Hostile packets that once broke something, each in a test of its own."""

from __future__ import annotations

import logging
import random

import pytest

from jgroups_py.config.file import parse_stack
from jgroups_py.config.settings import build
from jgroups_py.drill.log import DrillRecord
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.membership.gms import wire as gms_agree_wire
from jgroups_py.protocols.membership.gms.group import VIEW_REACH
from jgroups_py.protocols.membership.gms.merge import merge_leader
from jgroups_py.protocols.relay import wire as relay_wire
from jgroups_py.testing.explorer.bytes.cluster import Cluster, held
from jgroups_py.testing.sim import World
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.events import SharedAttribute
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import MergeId, PingData, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, View, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FragHeader,
    GmsHeader,
    GmsType,
    PingHeader,
    PingType,
    StateHeader,
    StateType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import (
    MAX_VIEW_ID,
    read_view,
    read_view_digest,
    write_ping_data_list,
    write_view,
    write_view_digest,
)

A, B, C = (UUID.make(random.Random(n)) for n in range(3))


@pytest.mark.parametrize("kind", [GmsType.VIEW, GmsType.JOIN_RSP, GmsType.MERGE_REQ])
def test_a_membership_message_whose_payload_is_a_number_is_survived(kind: GmsType) -> None:
    cluster = Cluster(1, "udp.xml")
    other, member, _ = cluster.members
    before = member.statistics()["GMS"]["bad_messages"]
    data = cluster.forged(
        {PROTOCOL_IDS["GMS"]: GmsHeader(kind, merge_id=MergeId(other.address, 1))},
        src=other.address,
        dest=member.address,
        payload=5,
        type=MessageType.LONG,
    )
    cluster.deliver(member, data)
    assert member.statistics()["GMS"]["bad_messages"] == before + 1
    cluster.talk()


def test_a_value_that_is_not_bytes_cannot_be_decoded() -> None:
    for value in (5, None, "text", ViewDigest()):
        with pytest.raises(RemoteProtocolError, match="instead of bytes"):
            decode_whole(read_view, value)  # type: ignore[arg-type]


def test_a_view_with_a_member_twice_is_refused() -> None:
    data = encode_whole(write_view, View(ViewId(A, 7), (A, B, A)))
    with pytest.raises(RemoteProtocolError, match="twice"):
        decode_whole(read_view, data)


def test_a_delta_view_adds_nobody_twice() -> None:
    old = View(ViewId(A, 1), (A, B))
    assert DeltaView(ViewId(A, 2), old.view_id, (), (B, C)).applied_to(old).members == (A, B, C)


@pytest.mark.parametrize("number", [-1, MAX_VIEW_ID + 1, 2**63 - 1, -(2**63)])
def test_a_view_after_which_none_could_follow_is_refused(number: int) -> None:
    for view in (
        View(ViewId(A, number), (A,)),
        DeltaView(ViewId(A, number), ViewId(A, 1), (), (B,)),
    ):
        data = encode_whole(write_view_digest, ViewDigest(view))
        with pytest.raises(RemoteProtocolError, match="view number"):
            decode_whole(read_view_digest, data)


def test_a_merge_of_members_without_coordinator_has_no_leader() -> None:
    gone = View(ViewId(C, 3), (C, A, B))
    older = View(ViewId(C, 2), (C, B))
    views: dict[Address, View] = {A: gone, B: older}
    assert merge_leader(views, {A: (A,), B: (B,)}) is None


def test_refused_messages_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(2, "udp.xml")
    member = cluster.members[0]
    before = held(member.host.machine)
    with caplog.at_level(logging.WARNING):
        for number in range(300):
            header = FragHeader(number, 0, 2**31 - 1)
            data = cluster.forged({PROTOCOL_IDS["FRAG2"]: header}, payload=bytes(1000))
            cluster.deliver(member, data)
    refused = int(member.statistics()["FRAG2"]["refused"])
    assert refused > 100
    warned = [r for r in caplog.records if "too large" in r.getMessage()]
    assert len(warned) == refused.bit_length()
    assert held(member.host.machine) - before < 500_000


def test_members_that_start_with_different_versions_do_not_swap_them_for_ever() -> None:
    world = World(3)
    members = [
        world.start(name, "udp.xml", "c", attributes={"UDP.version": version})
        for name, version in (("A", "5.4"), ("B", "5.6"), ("C", "5.5"))
    ]
    packets = [0]
    world.after_each_step.append(lambda host: packets.__setitem__(0, packets[0] + 1))
    world.run_for(5)
    assert packets[0] < 1000
    assert world.run_until(lambda: world.views_agree(members), limit=120)
    assert len({m.stack.ask(SharedAttribute("wire_version")) for m in members}) == 1


def test_strangers_cannot_fill_memory_with_unicasts_beyond_a_gap() -> None:
    cluster = Cluster(4, "udp.xml")
    member = cluster.members[0]
    stranger = cluster.stranger()
    for number, first in [(1, True), *[(n, False) for n in range(3, 300)]]:
        header = UnicastHeader3(UnicastType.DATA, number, 1, first)
        headers = {PROTOCOL_IDS["UNICAST3"]: header}
        cluster.deliver(
            member,
            cluster.forged(headers, src=stranger, dest=member.address, payload=bytes(10_000)),
        )
    assert member.statistics()["UNICAST3"]["window_dropped"] > 280
    cluster.assert_small(200_000)
    for _ in range(1000):
        header = UnicastHeader3(UnicastType.DATA, 7, 1)
        data = cluster.forged(
            {PROTOCOL_IDS["UNICAST3"]: header},
            src=cluster.stranger(),
            dest=member.address,
            payload=bytes(60_000),
        )
        cluster.deliver(member, data)
    cluster.assert_small(2_000_000)


def test_strangers_cannot_fill_memory_with_fragments() -> None:
    cluster = Cluster(5, "udp.xml", attributes={"FRAG2.max_bytes": "10MB"})
    member = cluster.members[0]
    for _ in range(50):
        stranger = cluster.stranger()
        for index in range(20):
            headers = {PROTOCOL_IDS["FRAG2"]: FragHeader(1, index, 100)}
            cluster.deliver(member, cluster.forged(headers, src=stranger, payload=bytes(900)))
    cluster.assert_small(2_000_000)
    assert member.statistics()["FRAG2"]["incomplete_bytes"] <= 10_000_000


def test_a_name_without_end_is_cut() -> None:
    cluster = Cluster(6, "udp.xml")
    member = cluster.members[0]
    found = PingData(cluster.stranger(), 0, "n" * 30_000, IpAddress("10.8.8.8", 1))
    data = cluster.forged(
        {PROTOCOL_IDS["PING"]: PingHeader(PingType.GET_MBRS_RSP, f"cluster-{member.site}")},
        src=found.address,
        payload=encode_whole(write_ping_data_list, [found]),
    )
    cluster.deliver(member, data)
    assert member.stack.name_of(found.address) == "n" * 254 + "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize("kind", ["gap", "lack"])
def test_numbers_of_the_own_site_as_if_of_another_are_survived(kind: str) -> None:
    cluster = Cluster(
        7,
        "relay-udp.xml",
        attributes={"RELAY.sites": "NYC,SFO"},
        properties=lambda world, member: {"relay.site": "NYC"},
        sites=("NYC",),
        incarnations=0,
    )
    relay = cluster.members[0]
    before = relay.statistics()["RELAY"]["malformed"]
    numbers = {bytes(relay.address): 5}
    record: relay_wire.Record = relay_wire.Lack("NYC", numbers)
    dest: Address | None = relay.address
    if kind == "gap":
        record, dest = relay_wire.Gap(1, "NYC", numbers, False), None
    headers = {relay_wire.ID: relay_wire.CONTROL_HEADER}
    other = cluster.members[1].address
    payload = relay_wire.encode(record)
    cluster.deliver(relay, cluster.forged(headers, src=other, dest=dest, payload=payload))
    assert relay.statistics()["RELAY"]["malformed"] == before + 1


@pytest.mark.parametrize("kind", list(gms_agree_wire.RoundKind))
def test_a_message_of_a_round_whose_payload_is_a_number_is_survived(
    kind: gms_agree_wire.RoundKind,
) -> None:
    cluster = Cluster(8, "udp.xml")
    other, member, _ = cluster.members
    before = member.statistics()["GMS"]["bad_messages"]
    data = cluster.forged(
        {gms_agree_wire.AGREE_ID: FragHeader(1, kind, 0)},
        src=other.address,
        dest=member.address,
        payload=5,
        type=MessageType.LONG,
    )
    cluster.deliver(member, data)
    Kind = gms_agree_wire.RoundKind
    has_payload = kind not in (Kind.DONE, Kind.THAW, Kind.ASK, Kind.HAS)  # no member was asked
    assert member.statistics()["GMS"]["bad_messages"] == before + has_payload
    cluster.talk()


@pytest.mark.parametrize("name", ["..", ".a.B", "a..B", "a b.C", "os.path."])
def test_a_protocol_whose_name_is_no_import_path_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown protocol"):
        build(parse_stack(f'- "{name}": {{}}\n', language="yaml"))


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "[" * 100_000,
        '{"detail": 5}',
        '{"t": 1e400}',
        *(
            f'{{"t":1,"site":"N","member":"A","event":"send","origin":"A#1",{rest}}}'
            for rest in (
                '"seqno":"x","detail":null',
                '"seqno":1,"detail":{"count":null}',
                '"seqno":1,"detail":{"count":-1}',
                '"seqno":1,"detail":{"incarnation":null}',
                '"seqno":1,"detail":["incarnation"]',
            )
        ),
    ],
)
def test_a_line_that_is_no_record_of_a_log_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        DrillRecord.from_json(line)


def forged_view(cluster: Cluster, at: int, view: View) -> None:
    """Let ``view`` reach the member number ``at`` as if its coordinator had sent it."""
    member = cluster.members[at]
    assert member.view is not None
    payload = encode_whole(write_view_digest, ViewDigest(view, Digest()))
    headers = {PROTOCOL_IDS["GMS"]: GmsHeader(GmsType.VIEW)}
    src = member.view.coordinator
    if src == member.address:
        src = member.view.members[1]
    cluster.deliver(member, cluster.forged(headers, src=src, dest=member.address, payload=payload))


@pytest.mark.parametrize("number", [MAX_VIEW_ID, MAX_VIEW_ID - 1, 2**32])
def test_one_forged_view_does_not_use_up_the_numbers(number: int) -> None:
    cluster = Cluster(9, "udp.xml")
    member = cluster.members[1]
    before = member.statistics()["GMS"]["bad_messages"]
    view = View(ViewId(member.address, number), (member.address,))
    forged_view(cluster, 1, view)
    assert member.statistics()["GMS"]["bad_messages"] == before + 1
    cluster.talk()


def test_a_group_recovers_from_the_highest_view_that_is_believed() -> None:
    cluster = Cluster(10, "udp.xml")
    member, now = cluster.members[1], cluster.members[1].view
    assert now is not None
    members = dict.fromkeys((member.address, *now.members))
    view = View(ViewId(member.address, now.id + VIEW_REACH), tuple(members))
    forged_view(cluster, 1, view)
    assert member.view == view
    cluster.talk()


def test_members_that_follow_each_other_in_a_circle_merge() -> None:
    cluster = Cluster(11, "udp.xml")
    first, second, _ = cluster.members
    now = first.view
    assert now is not None and now.coordinator == first.address
    members = tuple(dict.fromkeys((second.address, *now.members)))
    forged_view(cluster, 0, View(ViewId(second.address, now.id + 9), members))
    assert first.view is not None and first.view.coordinator == second.address
    assert second.view is not None and second.view.coordinator == first.address
    cluster.talk()


def test_a_request_for_the_state_with_a_number_behind_a_digest_is_survived() -> None:
    cluster = Cluster(12, "udp.xml")
    asking, asked, _ = cluster.members
    assert asking.statistics()["NAKACK2"]["seqno"] > 0, "it is behind a number that is not 0"
    digest = Digest({asking.address: (0, 2**63 - 1)})
    headers = {PROTOCOL_IDS["STATE_TRANSFER"]: StateHeader(StateType.STATE_REQ, digest)}
    cluster.deliver(asked, cluster.forged(headers, src=asking.address, dest=asked.address))
    cluster.perform(("run", 5.0))
    cluster.talk()


def test_a_dead_member_is_not_brought_back() -> None:
    """Neither its own old packets nor forged ones make the dead member a sender again: its old multicasts would be
    delivered again."""
    cluster = Cluster(6, "udp.xml")
    living = {member.address for member in cluster.members}
    dead = [data for data in cluster.packets if decode_packet(data).src not in living]
    # Joiners are asked in the name of a random number, so not every unknown sender in the recording was a member.
    (gone,) = {
        packet.src
        for packet in map(decode_packet, dead)
        if any(PROTOCOL_IDS["NAKACK2"] in batch.headers for batch in packet.batches)
    }
    assert gone is not None
    for data in dead:
        for member in cluster.members:
            cluster.deliver(member, data)
        cluster.perform(("run", 0.01))
    for number, member in enumerate(cluster.members):
        headers = {
            PROTOCOL_IDS["GMS"]: GmsHeader(GmsType.JOIN_REQ, gone),
            PROTOCOL_IDS["UNICAST3"]: UnicastHeader3(UnicastType.DATA, 1, number, True),
        }
        data = cluster.forged(
            headers,
            src=cluster.stranger(),
            dest=member.address,
            payload=None,
            type=MessageType.EMPTY,
        )
        cluster.deliver(member, data)
    cluster.perform(("run", 1.0))
    assert all(set(m.view) == living for m in cluster.members if m.view is not None)
    assert sum(m.statistics()["GMS"]["bad_messages"] for m in cluster.members) == 3
    for data in dead:
        for member in cluster.members:
            cluster.deliver(member, data)
    cluster.talk()
    cluster.once_in_order()
