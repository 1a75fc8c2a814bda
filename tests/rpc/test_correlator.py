"""The correlator: numbers, missing answers, late replies. Without trio."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from jgroups_py import UUID
from jgroups_py.rpc.correlator import GROUP_IDS, Correlator, OutcomeKind, PendingCall
from jgroups_py.rpc.limits import RpcCounters, RpcLimits

A, B, C = (UUID.make(random.Random(n)) for n in range(3))


def correlator(**limits: Any) -> tuple[Correlator, RpcCounters]:
    counters = RpcCounters()
    return Correlator(RpcLimits(**limits), counters), counters


def answer(
    c: Correlator, src: UUID, first: int, *payloads: bytes, kind: OutcomeKind = OutcomeKind.VALUE
) -> None:
    c.replied(src, kind, first, payloads, 0, sum(map(len, payloads)))


def taken(c: Correlator, pending: PendingCall) -> list[tuple[UUID, OutcomeKind, Any]]:
    found = []
    while (outcome := c.take(pending)) is not None:
        found.append((outcome.member, outcome.kind, outcome.payload))
    return found  # type: ignore[return-value]


def test_calls_to_each_member_count_for_themselves() -> None:
    c, _ = correlator()
    assert [c.call_one(m).id for m in (A, B, A, B, A)] == [1, 1, 2, 2, 3]
    assert [c.call_many([A, B]).id for _ in range(2)] == [GROUP_IDS, GROUP_IDS + 1]


def test_a_run_of_replies_finds_its_calls_and_wakes_their_callers() -> None:
    c, counters = correlator()
    calls = [c.call_one(A) for _ in range(3)]
    woken: list[int] = []
    calls[1].wake = lambda: woken.append(1)
    answer(c, A, 1, b"x", b"y", b"z")
    assert [taken(c, call) for call in calls] == [
        [(A, OutcomeKind.VALUE, p)] for p in (b"x", b"y", b"z")
    ]
    assert woken == [1] and all(call.done for call in calls)
    assert (c.pending, c.held, counters.late) == (0, 0, 0)


def test_a_reply_of_another_member_does_not_count() -> None:
    c, counters = correlator()
    one, many = c.call_one(A), c.call_many([A, B])
    answer(c, B, one.id, b"no")
    answer(c, C, many.id, b"no")
    assert not one.outcomes and not many.outcomes and counters.late == 2


def test_a_second_reply_is_late() -> None:
    c, counters = correlator()
    one, many = c.call_one(A), c.call_many([A, B])
    for call in (one, many):
        answer(c, A, call.id, b"1")
        answer(c, A, call.id, b"2")
    assert taken(c, one) == taken(c, many) == [(A, OutcomeKind.VALUE, b"1")]
    assert counters.late == 2 and c.pending == 1


def test_replies_to_several_are_copied_out_of_their_packet() -> None:
    c, _ = correlator()
    many = c.call_many([A])
    c.replied(A, OutcomeKind.VALUE, many.id, [memoryview(bytearray(b"abc"))], 0, 3)
    assert type(taken(c, many)[0][2]) is bytes


def test_a_member_that_leaves_the_view_is_suspected_once_and_an_answer_before_counts() -> None:
    c, counters = correlator()
    one, other, many = c.call_one(A), c.call_one(B), c.call_many([A, B, C])
    answer(c, A, many.id, b"in time")
    c.view_changed([B, C])
    assert taken(c, one) == [(A, OutcomeKind.SUSPECTED, None)]
    assert taken(c, many) == [(A, OutcomeKind.VALUE, b"in time")]
    assert list(many.waiting) == [B, C] and not other.outcomes
    answer(c, A, one.id, b"late")
    assert counters.late == 1
    c.view_changed([B])
    assert taken(c, many) == [(C, OutcomeKind.SUSPECTED, None)]
    c.check()


def test_a_member_that_comes_back_gets_no_old_replies() -> None:
    """A member that a merge brings back has the same address, and may still send old replies."""
    c, counters = correlator()
    old = c.call_one(A)
    c.view_changed([B])
    taken(c, old)
    again = c.call_one(A)
    assert again.id > old.id
    answer(c, A, old.id, b"old")
    assert not again.outcomes and counters.late == 1


def test_a_forgotten_call_leaves_nothing() -> None:
    c, counters = correlator()
    one, many = c.call_one(A), c.call_many([A, B])
    answer(c, A, many.id, b"held")
    c.forget(one)
    c.forget(many)
    assert (c.pending, c.held) == (0, 0)
    c.check()
    answer(c, A, one.id, b"x")
    answer(c, B, many.id, b"x")
    assert counters.late == 2


def test_a_call_to_nobody_is_done_at_once() -> None:
    c, _ = correlator()
    assert c.call_many([]).done and c.pending == 0


def test_at_pending_max_it_is_full() -> None:
    c, _ = correlator(pending_max=2)
    first = c.call_one(A)
    assert not c.is_full
    c.call_many([A, B])
    assert c.is_full
    answer(c, A, first.id, b"")
    assert not c.is_full


def test_replies_beyond_replies_max_are_lost_and_counted() -> None:
    c, counters = correlator(replies_max=10)
    many = c.call_many([A, B, C])
    answer(c, A, many.id, bytes(8))
    answer(c, B, many.id, bytes(8))
    answer(c, C, many.id, bytes(2))
    kinds = [kind for _, kind, _ in taken(c, many)]
    assert kinds == [OutcomeKind.VALUE, OutcomeKind.LOST, OutcomeKind.VALUE]
    assert counters.lost == 1 and c.held == 0


def test_one_reply_larger_than_replies_max_still_arrives() -> None:
    c, _ = correlator(replies_max=10)
    one = c.call_one(A)
    answer(c, A, one.id, bytes(1000))
    assert taken(c, one)[0][1] is OutcomeKind.VALUE


def test_the_end_loses_calls_under_way() -> None:
    c, _ = correlator()
    one, many = c.call_one(A), c.call_many([A, B])
    answer(c, B, many.id, b"x")
    c.end()
    assert taken(c, one) == [(A, OutcomeKind.LOST, None)]
    assert taken(c, many) == [(B, OutcomeKind.VALUE, b"x"), (A, OutcomeKind.LOST, None)]
    c.check()


MEMBERS = st.sampled_from([A, B, C])


class Calls(RuleBasedStateMachine):
    """Every called member gives exactly one outcome, in any order of events."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.c, self.counters = correlator(replies_max=50)
        self.view = [A, B, C]
        self.open: dict[int, tuple[PendingCall, list[UUID]]] = {}

    def new(self, pending: PendingCall, members: list[UUID]) -> PendingCall:
        self.open[id(pending)] = (pending, members)
        return pending

    @rule(target=calls, member=MEMBERS)
    def call_one(self, member: UUID) -> Any:
        if member not in self.view:
            return multiple()
        return self.new(self.c.call_one(member), [member])

    @rule(target=calls)
    def call_many(self) -> PendingCall:
        return self.new(self.c.call_many(self.view), list(self.view))

    @rule(call=calls, member=MEMBERS, size=st.sampled_from([0, 10, 60]))
    def reply(self, call: PendingCall, member: UUID, size: int) -> None:
        answer(self.c, member, call.id, bytes(size))

    @rule(view=st.lists(MEMBERS, min_size=1, unique=True))
    def change_view(self, view: list[UUID]) -> None:
        self.view = view
        self.c.view_changed(view)

    @rule(call=calls)
    def forget(self, call: PendingCall) -> None:
        self.open.pop(id(call), None)
        self.c.forget(call)

    @rule(call=calls)
    def take(self, call: PendingCall) -> None:
        outcome = self.c.take(call)
        if outcome is not None:
            self.open[id(call)][1].remove(outcome.member)  # type: ignore[arg-type]

    @invariant()
    def each_member_is_waited_for_or_has_an_outcome(self) -> None:
        self.c.check()
        for pending, members in self.open.values():
            known = [*pending.waiting, *[o.member for o in pending.outcomes]]
            assert sorted(known) == sorted(members)

    @invariant()
    def held_is_what_is_held(self) -> None:
        held = sum(o.size for pending, _ in self.open.values() for o in pending.outcomes)
        assert self.c.held == held


Calls.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_calls = pytest.mark.filterwarnings("default")(Calls.TestCase)
