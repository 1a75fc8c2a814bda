"""Values that the strategies draw are valid: they can be encoded, and decoding gives them back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from jgroups_py.stack.stack import make_protocols
from jgroups_py.testing import PropertyViolated, SimCluster, check_schedule, make_address
from jgroups_py.testing import strategies as kit
from jgroups_py.testing.explorer.stacks.schedule import Schedule, from_json
from jgroups_py.values.address import IpAddress, SiteMaster
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import DeltaView, Digest, MergeView, View
from jgroups_py.wire import values as s
from jgroups_py.wire.header_codec import HEADER_CLASSES, encode_header, read_header
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.primitives import Reader, Writer, decode_whole, encode_whole
from jgroups_py.wire.single import decode_nested, encode_nested

FIND = settings(max_examples=2000, database=None, phases=[Phase.generate])
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
T = TypeVar("T")
A = make_address(1)


def again(read: Any, write: Any, value: T) -> T:
    found: T = decode_whole(read, encode_whole(write, value))
    return found


@given(kit.addresses())
@QUICK
def test_addresses_are_drawn(address: Any) -> None:
    back = again(Reader.addr, Writer.addr, address)
    assert (type(back), back, vars(back)) == (type(address), address, vars(address))


@given(kit.views(), kit.merge_views(), kit.delta_views(), kit.digests())
@QUICK
def test_views_and_digests(view: View, merge: MergeView, delta: DeltaView, digest: Digest) -> None:
    assert again(s.read_view, s.write_view, view) == view
    assert again(s.read_merge_view, s.write_merge_view, merge) == merge
    assert again(s.read_delta_view, s.write_delta_view, delta) == delta
    assert again(s.read_digest, s.write_digest, digest) == digest
    assert sorted(m for group in merge.subgroups for m in group) == sorted(merge.members)
    assert len(merge.subgroups) >= 2 and all(group.id < merge.id for group in merge.subgroups)


@given(st.data())
@QUICK
def test_views_of_known_members(data: st.DataObject) -> None:
    members = [make_address(n) for n in range(1, 5)]
    view = data.draw(kit.views(members, min_size=2))
    assert 2 <= len(view) <= 4 and set(view) <= set(members)
    delta = data.draw(kit.delta_views(view))
    after = delta.applied_to(view)
    assert after.id > view.id or view.id == s.MAX_VIEW_ID
    assert after.joined_since(view) == delta.joined and set(after.left_since(view)) == set(
        delta.left
    )
    assert tuple(data.draw(kit.digests(members))) == tuple(members)
    history = data.draw(kit.view_histories(A))
    assert all(A in view and len(set(view)) == len(view) for view in history)
    assert all(a.id < b.id for a, b in pairwise(history))


@pytest.mark.parametrize("cls", HEADER_CLASSES.values())
def test_headers_of_every_class_are_survived(cls: type[Header]) -> None:
    @given(kit.headers(cls), st.integers(1, 2**15 - 1))
    @settings(QUICK, max_examples=6)
    def check(header: Header, protocol_id: int) -> None:
        assert type(header) is cls
        reader = Reader(encode_header(protocol_id, header))
        assert read_header(reader) == (protocol_id, header)
        reader.expect_end()

    check()


def flat(batches: list[Batch]) -> list[Any]:
    return [
        (batch.type, batch.flags, batch.src, batch.dest, batch.slice(i, i + 1).headers, plain(p))
        for batch in batches
        for i, p in enumerate(batch.payloads)
    ]


def plain(payload: Any) -> Any:
    return bytes(payload) if isinstance(payload, memoryview) else payload


@given(kit.batches())
@QUICK
def test_batches_are_drawn(batch: Batch) -> None:
    for i in range(len(batch)):
        one = batch.slice(i, i + 1)
        assert flat([decode_nested(encode_nested(one))]) == flat([one])


@given(kit.packets(cluster="demo"))
@QUICK
def test_packets(data: bytes) -> None:
    packet = decode_packet(data)
    assert packet.is_for("demo") and not packet.is_for("other") and packet.batches
    assert packet.multicast == (packet.dest is None)


@pytest.mark.parametrize(
    ("strategy", "what"),
    [
        (kit.addresses(), lambda a: isinstance(a, SiteMaster)),
        (kit.ip_addresses(), lambda a: isinstance(a, IpAddress) and a.scope > 0),
        (kit.uuids(ours=True), lambda a: a.is_ours),
        (kit.uuids(ours=False), lambda a: not a.is_ours),
        (kit.batches(), lambda b: b.type == MessageType.OBJECT),
        (kit.batches(), lambda b: len(b) > 1 and None in b.payloads and b.headers),
        (kit.messages(), lambda m: m.multicast and m.flags),
        (kit.digests(), lambda d: any(d.delivered(m) > 2**32 for m in d)),
    ],
)
def test_the_interesting_is_drawn(strategy: st.SearchStrategy[Any], what: Any) -> None:
    try:
        find(strategy, what, settings=FIND)
    except NoSuchExample:  # pragma: no cover
        pytest.fail("never drawn")


@given(kit.stack_settings(), kit.stack_settings(small_credits=True))
@settings(QUICK, max_examples=4)
def test_stack_settings_are_drawn(
    any_stack: tuple[str, dict[str, str]], small: tuple[str, dict[str, str]]
) -> None:
    assert make_protocols(*any_stack) and make_protocols(*small)
    assert "MFC.max_credits" in small[1]


def two(seed: int) -> SimCluster:
    return SimCluster("AB", seed=seed)


@given(kit.fault_schedules(two, max_count=5), kit.links())
@settings(QUICK, max_examples=15)
def test_fault_schedules_stand_in_files(schedule: Schedule, link: Any) -> None:
    assert from_json(schedule.to_json(), "x.json") == schedule
    assert len(schedule.steps) <= 5
    assert SimCluster("AB", inside=link).schedule.inside == link


@given(kit.fault_schedules(two, ["crash", "drift"], max_count=2, seconds=3, messages=10))
@settings(QUICK, max_examples=3)
def test_fault_schedules_can_be_played(schedule: Schedule) -> None:
    assert check_schedule(two, schedule).virtual_s > 3


@pytest.mark.slow
def test_hypothesis_makes_a_violated_schedule_small() -> None:
    def never_alone(cluster: SimCluster) -> None:
        assert all(len(m.views) < 2 or len(m.view_names) > 1 for m in cluster.living), "alone"

    def cluster(seed: int) -> SimCluster:
        return SimCluster("AB", seed=seed, checks=[], invariants=[never_alone])

    def fails(schedule: Schedule) -> bool:
        try:
            check_schedule(cluster, schedule)
        except PropertyViolated as violated:
            return violated.check == "never_alone"
        return False

    drawn = kit.fault_schedules(cluster, ["crash", "drift"], max_count=4, seconds=4, messages=0)
    smallest = find(drawn, fails, settings=settings(QUICK, max_examples=50, database=None))
    assert [step.do for step in smallest.steps] == ["crash"]
