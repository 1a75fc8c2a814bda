"""STABLE between a fake NAKACK2 below and a fake above."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.reliable.stable import STABLE
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetDigest, HoldStability, Stable, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import Streamable
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import StableHeader, StableType

A, B, C = (make_address(n) for n in range(1, 4))
ID = 13
ABC = View(ViewId(A, 1), (A, B, C))


def digest(*delivered: int) -> Digest:
    return Digest({m: (n, n) for m, n in zip((A, B, C), delivered, strict=False)})


def fake(me: UUID = A, view: View = ABC, **config: Any) -> FakeStack:
    config = {"desired_avg_gossip": 5.0, "max_bytes": 1000, **config}
    stack = FakeStack(STABLE(**config), address=me, answers={GetDigest: digest(5, 6, 7)})
    stack.event_down(ViewChange(view, None))
    stack.take_down_events()
    return stack


def message(kind: StableType, src: Address, told: Any, view: ViewId | None = ABC.view_id) -> Batch:
    dest = A if kind == StableType.STABLE_GOSSIP else None
    batch = Batch.of(
        dest,
        ID,
        StableHeader(kind, view),
        payload=Streamable(10, told),
        type=MessageType.OBJECT,
        flags=21,
    )
    batch.src = src
    return batch


def gossip(src: Address, *delivered: int) -> Batch:
    return message(StableType.STABLE_GOSSIP, src, digest(*delivered))


def stability(*delivered: int, src: Address = A) -> Batch:
    return message(StableType.STABILITY, src, digest(*delivered))


def sent(stack: FakeStack) -> list[tuple[Address | None, str, int, Any]]:
    out = []
    for batch in stack.take_down():
        header = batch.header(ID, StableHeader)
        assert header is not None and header.view_id is not None
        assert batch.payloads[0].magic == 10
        out.append((batch.dest, header.type.name, batch.flags, batch.payloads[0].value))
    return out


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]


def test_a_participant_tells_the_coordinator_within_twice_the_average_interval() -> None:
    stack = fake(me=B)
    stack.advance(10)
    assert sent(stack)[0] == (A, "STABLE_GOSSIP", 21, digest(5, 6, 7))


def test_the_interval_is_random_with_the_average_asked_for() -> None:
    stack = fake(me=B)
    stack.advance(2000)
    assert 350 < len(sent(stack)) < 450


def test_a_participant_tells_when_enough_bytes_have_come() -> None:
    stack = fake(me=B, desired_avg_gossip=0, max_bytes=10_000)
    stack.up(Batch(None, [bytes(9000)], {}, C))
    stack.up(Batch(B, [bytes(50_000)], {}, C))
    assert sent(stack) == []
    stack.up(Batch(None, [bytes(1000)], {}, A))
    assert [s[1] for s in sent(stack)] == ["STABLE_GOSSIP"]
    assert len(stack.take_up()) == 3
    stack.advance(1000)
    assert sent(stack) == []


def test_the_coordinator_concludes_when_all_others_have_told() -> None:
    stack = fake()
    stack.up(gossip(B, 4, 9, 7))
    assert sent(stack) == []
    stack.up(gossip(C, 5, 5, 8))
    assert sent(stack) == [
        (None, "STABILITY", 85, Digest({A: (4, 5), B: (5, 9), C: (7, 8)})),
    ]
    stack.up(gossip(B, 9, 9, 9))
    assert sent(stack) == []


def test_a_coordinator_that_is_behind_the_others_holds_stability_back() -> None:
    stack = fake()
    stack.up(gossip(B, 9, 9, 9))
    stack.up(gossip(C, 9, 9, 9))
    assert sent(stack)[0][3] == Digest({A: (5, 9), B: (6, 9), C: (7, 9)})


def test_the_newest_word_of_a_member_counts() -> None:
    stack = fake()
    stack.up(gossip(B, 1, 1, 1))
    stack.up(gossip(B, 5, 6, 7))
    stack.up(gossip(C, 5, 6, 7))
    assert sent(stack)[0][3] == digest(5, 6, 7)


def test_a_member_alone_concludes_by_itself() -> None:
    stack = fake(view=View(ViewId(A, 1), (A,)))
    stack.answers[GetDigest] = digest(5)
    stack.advance(10)
    assert sent(stack)[0] == (None, "STABILITY", 85, digest(5))


def test_stability_goes_down_and_up() -> None:
    stack = fake(me=B)
    stack.up(stability(3, 3, 3))
    assert stack.take_down_events() == [Stable(digest(3, 3, 3))]
    assert stack.take_up_events() == [Stable(digest(3, 3, 3))]
    stack.up(stability(3, 3, 3))
    assert stack.take_down_events() == []


def test_a_member_with_nothing_to_tell_keeps_quiet() -> None:
    stack = fake(me=B)
    stack.up(stability(5, 6, 7))
    stack.advance(100)
    assert sent(stack) == []
    stack.answers[GetDigest] = digest(5, 6, 8)
    stack.advance(10)
    assert len(sent(stack)) >= 1


def test_a_word_for_the_next_round_may_come_before_the_result_of_this_one() -> None:
    stack = fake()
    stack.up(gossip(B, 1, 1, 1))
    stack.up(gossip(C, 1, 1, 1))
    stack.up(gossip(B, 5, 6, 7))
    (result,) = stack.take_down()
    result.src = A
    stack.up(result)
    stack.up(gossip(C, 5, 6, 7))
    assert sent(stack)[0][3] == digest(5, 6, 7)


def test_a_member_that_missed_the_stability_gets_it_again() -> None:
    stack = fake()
    stack.up(stability(5, 6, 7))
    stack.up(gossip(B, 5, 6, 7))
    assert sent(stack) == [(B, "STABILITY", 85, digest(5, 6, 7))]


def test_other_views_do_not_count() -> None:
    stack = fake()
    other = ViewId(A, 2)
    stack.up(message(StableType.STABLE_GOSSIP, B, digest(1, 1, 1), other))
    stack.up(message(StableType.STABLE_GOSSIP, C, digest(1, 1, 1), None))
    stack.up(message(StableType.STABILITY, B, digest(1, 1, 1), other))
    stack.up(stability(1, 1, 1, src=make_address(9)))
    assert count(stack, "wrong_view") == 4
    assert stack.take_down_events() == []


def test_a_new_view_begins_anew() -> None:
    stack = fake()
    stack.up(gossip(B, 5, 6, 7))
    stack.event_down(ViewChange(View(ViewId(A, 2), (A, B, C)), ABC))
    batch = gossip(C, 5, 6, 7)
    batch.headers = {ID: StableHeader(StableType.STABLE_GOSSIP, ViewId(A, 2))}
    stack.up(batch)
    assert sent(stack) == []


def test_rubbish_is_counted_and_dropped() -> None:
    stack = fake()
    stack.up(gossip(B, 5, 6))
    stack.up(message(StableType.STABLE_GOSSIP, B, None))
    empty = gossip(B, 1, 1, 1)
    empty.payloads = (None,)
    stack.up(empty)
    assert count(stack, "bad") == 3
    assert stack.take_up() == []


def test_no_message_is_declared_stable_while_stability_is_held() -> None:
    stack = fake()
    stack.event_down(HoldStability(True))
    stack.up(gossip(B, 5, 6, 7))
    stack.up(gossip(C, 5, 6, 7))
    stack.advance(50)
    assert sent(stack) == []
    stack.event_down(HoldStability(False))
    assert stack.take_down_events() == []
    stack.up(gossip(C, 5, 6, 7))
    assert [what for _, what, _, _ in sent(stack)] == ["STABILITY"]


def test_a_member_that_takes_part_in_a_merge_tells_its_coordinator_nothing() -> None:
    """The coordinator may not know of the merge (merge 22460)."""
    stack = fake(me=B)
    stack.event_down(HoldStability(True))
    stack.up(Batch(None, [bytes(1000)], {}, C))
    stack.advance(50)
    assert sent(stack) == []
    stack.event_down(HoldStability(False))
    stack.advance(10)
    assert sent(stack)[0][1] == "STABLE_GOSSIP"


def received(*numbers: int, delivered: int) -> Digest:
    return Digest({m: (delivered, n) for m, n in zip((A, B, C), numbers, strict=True)})


def test_a_member_that_keeps_quiet_hears_how_far_the_senders_are() -> None:
    """C has no news to report: it lacks B's last messages and does not know that (merge 21517)."""
    stack = fake()
    stack.up(gossip(B, 5, 5, 5))
    stack.up(gossip(C, 5, 5, 5))
    stack.up(stability(5, 5, 5))
    assert [what for _, what, _, _ in sent(stack)] == ["STABILITY"]
    stack.up(gossip(B, 5, 9, 5))
    stack.advance(10)
    dest, what, _, heard = sent(stack)[0]
    assert (dest, what, heard) == (None, "STABILITY", received(5, 9, 7, delivered=5))


def test_members_get_no_second_stability_while_all_is_stable() -> None:
    stack = fake()
    stack.up(gossip(B, 5, 6, 7))
    stack.up(gossip(C, 5, 6, 7))
    stack.up(stability(5, 6, 7))
    assert len(sent(stack)) == 1
    stack.advance(100)
    assert sent(stack) == []


def test_before_the_first_view_nothing_is_told() -> None:
    stack = FakeStack(STABLE(max_bytes=10), address=A, answers={GetDigest: digest(1)})
    stack.up(Batch(None, [bytes(50)], {}, B))
    stack.advance(100)
    assert sent(stack) == []


@pytest.mark.parametrize("bad", [{"desired_avg_gossip": -1}, {"max_bytes": -1}, {"max_bytes": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        STABLE(**{"desired_avg_gossip": 0, **bad})


def test_without_numbers_of_its_own_the_coordinator_declares_nothing() -> None:
    stack = fake()
    stack.answers[GetDigest] = None
    for member in (B, C):
        stack.up(gossip(member, 1, 2, 3))
    assert sent(stack) == []
    stack.answers[GetDigest] = digest(5, 6, 7)
    for member in (B, C):
        stack.up(gossip(member, 1, 2, 3))
    assert [(dest, kind) for dest, kind, _, _ in sent(stack)] == [(None, "STABILITY")]
