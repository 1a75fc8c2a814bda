"""The table of senders, the round and the repair of NAKACK2, without a stack."""

from __future__ import annotations

import random
from typing import Any

from nakack2_harness import A, B, C, data

from jgroups_py.protocols.reliable.nakack2.agreement import Round, RoundStep
from jgroups_py.protocols.reliable.nakack2.repair import (
    Limited,
    NotHere,
    Repair,
    Resend,
    behind_gone,
)
from jgroups_py.protocols.reliable.nakack2.senders import Sender, Senders
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.payloads import SeqnoList

WINDOW = 10


def senders(*members: Any, max_departed: int = 10) -> Senders:
    """This member is A; all members begin at 0."""
    table = Senders(A, 1.0, max_departed)
    for member in members:
        table.begin(member, 0, False)
    return table


def takes(sender: Sender, first: int, last: int) -> None:
    """A run arrives; its messages that are in order are delivered."""
    for low, piece in sender.window.add(first, data(B, first, last)):
        sender.kept.insert(low, piece)
    while sender.window.next() is not None:
        pass


def numbers(steps: list[Batch | RoundStep]) -> list[Any]:
    """Return the messages of the runs, and the other steps."""
    return [
        step if isinstance(step, RoundStep) else [int(p) for p in step.payloads] for step in steps
    ]


def repair(**config: Any) -> Repair:
    settings: dict[str, Any] = {
        "delay": 0.02,
        "limit": 100,
        "ask_others_after": 3,
        "xmit_from_random_member": False,
        "max_xmit_bytes": 1_000_000,
        "xmit_interval": 1.0,
    }
    return Repair(A, random.Random(1), **(settings | config))


# --- senders


def test_a_sender_that_comes_back_goes_on_where_it_was() -> None:
    table = senders(B)
    takes(table.present[B], 1, 5)
    assert table.close_others((A,), 1.0) == 0
    assert B not in table.present and table.delivered(B) == 5
    table.begin(B, 3, False)
    assert table.present[B].window.delivered == 5 and B not in table.departed


def test_a_state_may_begin_a_sender_earlier_than_it_was() -> None:
    table = senders(B)
    takes(table.present[B], 1, 5)
    table.close_others((A,), 1.0)
    table.begin_as_told(B, 3, False)
    assert table.present[B].window.delivered == 3


def test_departed_senders_are_forgotten_in_two_steps() -> None:
    table = senders(B)
    takes(table.present[B], 1, 5)
    table.close_others((A,), 1.0)
    table.forget_departed(2.0, 10.0)
    assert table.find(B) is None and table.delivered(B) == 5 and table.gone((A, B)) == (B,)
    table.forget_departed(13.0, 10.0)
    assert table.delivered(B) is None and table.gone((B,)) == ()


def test_a_merge_begins_a_forgotten_sender_where_it_was_here() -> None:
    table = senders(B)
    takes(table.present[B], 1, 5)
    table.close_others((A,), 1.0)
    table.forget_departed(2.0, 10.0)
    table.begin_again(B, 3, False)
    assert table.present[B].window.delivered == 5 and table.left == {}


def test_departed_senders_beyond_max_departed_are_forgotten() -> None:
    table = senders(B, C, max_departed=1)
    assert table.close_others((A,), 1.0) == 1
    assert list(table.departed) == [C] and list(table.left) == [B]


def test_this_member_is_never_frozen_and_never_departs() -> None:
    table = senders(B)
    assert table.freeze(A) is None and table.freeze(C) is None
    table.close_others((B,), 1.0)
    assert table.present[A] is table.own


def test_a_sender_that_goes_back_hands_out_kept_messages_again() -> None:
    sender = Sender(0, 1.0)
    takes(sender, 1, 5)
    sender.purged = 2
    assert sender.not_before(1) == 2
    sender.move_to(3, False)
    assert sender.window.delivered == 3
    run = sender.window.next()
    assert run is not None and [int(p) for p in run.payloads] == [4, 5]


# --- the round


def test_a_round_hands_out_up_to_the_goals_and_asks_for_the_rest() -> None:
    table, round = senders(B, C), Round(A, WINDOW)
    takes(table.present[C], 1, 2)
    assert list(round.freeze(table, (B,))) == [B]
    takes(table.frozen[B], 1, 3)  # held
    round.fetch(table, {B: (5, C), C: (2, C)}, 0)
    assert numbers(list(round.go_on(table, 7.0))) == [[1, 2, 3], RoundStep.ASK]
    assert table.frozen[B].gaps.new_at == 7.0 and table.frozen[B].holder == C
    assert round.fetching
    table.frozen[B].window.add(4, data(B, 4, 5))
    assert numbers(list(round.go_on(table, 8.0))) == [[4, 5], RoundStep.FETCHED]
    assert not round.fetching


def test_messages_beyond_the_goal_are_not_handed_out_before_the_view() -> None:
    table, round = senders(B), Round(A, WINDOW)
    round.freeze(table, ())
    takes(table.present[B], 1, 6)
    round.fetch(table, {B: (4, B)}, 0)
    assert numbers(list(round.go_on(table, 0.0))) == [[1, 2, 3, 4], RoundStep.FETCHED]
    assert round.release(table)
    takes(table.present[B], 7, 7)
    assert table.present[B].window.delivered == 7
    assert not round.release(table), "nothing is held any more"


def test_a_round_that_ends_while_it_hands_out_does_nothing_more() -> None:
    table, round = senders(B), Round(A, WINDOW)
    round.freeze(table, (B,))
    takes(table.frozen[B], 1, 1)
    takes(table.frozen[B], 2, 2)
    round.fetch(table, {B: (2, C)}, 0)
    steps = round.go_on(table, 0.0)
    assert numbers([next(steps)]) == [[1]]
    round.thaw(table, B)
    assert list(steps) == []


def test_a_goal_for_this_member_is_no_higher_than_its_sent_number() -> None:
    table, round = senders(B), Round(A, WINDOW)
    round.freeze(table, ())
    round.fetch(table, {A: (9, B)}, 0)
    assert table.own.goal == 0 and list(round.go_on(table, 0.0)) == [RoundStep.FETCHED]


def test_runs_of_a_frozen_sender_are_cut_at_the_goal_and_at_the_window() -> None:
    table, round = senders(B), Round(A, WINDOW)
    round.freeze(table, (B,))
    round.fetch(table, {B: (100, C)}, 0)
    sender = table.frozen[B]
    wanted = round.wanted(sender, data(B, 8, 20), 8)
    assert wanted is not None and [int(p) for p in wanted.payloads] == [8, 9, 10]
    assert round.wanted(sender, data(B, 11, 12), 11) is None


# --- the repair


def test_the_sender_is_asked_first_and_others_after_vain_requests() -> None:
    table, part = senders(B, C), repair(ask_others_after=1)
    window, gaps = table.present[B].window, table.present[B].gaps
    window.known = 3
    gaps.saw(3, 0.0)
    asked: list[Address] = []
    now: float | None = 0.0
    while now is not None and len(asked) < 4:
        requests, now = part.due(table, (A, B, C), now)
        asked += [request.to for request in requests]
    assert asked == [B, C, B, C]


def test_a_frozen_sender_is_asked_for_at_its_holder_up_to_the_goal() -> None:
    table, part, round = senders(B, C), repair(), Round(A, WINDOW)
    round.freeze(table, (B,))
    round.fetch(table, {B: (3, C)}, 0)
    list(round.go_on(table, 1.0))
    table.frozen[B].window.known = 6
    ((request),), _ = part.due(table, (A, C), 1.0)
    assert (request.sender, request.to, list(request.wanted)) == (B, C, [1, 2, 3])


def test_an_answer_names_missing_and_forgotten_messages() -> None:
    table, part = senders(B), repair()
    sender = table.present[B]
    takes(sender, 1, 3)
    takes(sender, 4, 6)
    sender.purged = 3
    sender.kept.drop_to(3)
    answer = part.answer(C, sender, SeqnoList.of([2, 3, 4, 5, 8]), 0.0)
    first, *others = answer.steps
    assert isinstance(first, Resend) and first.first == 4 and len(first.run) == 2
    assert others == [NotHere(2, 5, 2), NotHere(8, 8, 1)] and answer.gone == 3


def test_an_asker_gets_its_share_of_an_interval() -> None:
    table, part = senders(B), repair(max_xmit_bytes=2)
    sender = table.present[B]
    takes(sender, 1, 2)
    takes(sender, 3, 4)
    wanted = SeqnoList.of([1, 2, 3, 4])
    steps = part.answer(C, sender, wanted, 0.0).steps
    assert [type(step) for step in steps] == [Resend, Limited]
    assert part.answer(C, sender, wanted, 0.5).steps == [Limited(1)]
    assert isinstance(part.answer(C, sender, wanted, 1.0).steps[0], Resend), "a new interval"


def test_messages_behind_a_gap_are_not_passed_over() -> None:
    sender = Sender(0, 1.0)
    takes(sender, 4, 5)
    assert behind_gone(sender.window, 7) == 3
    assert behind_gone(Sender(0, 1.0).window, 7) == 7
