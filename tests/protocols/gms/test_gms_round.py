"""The table of a round of agreement, without a GMS."""

from __future__ import annotations

from jgroups_py.protocols.membership.gms.round import CoordinatorRound
from jgroups_py.testing import make_address
from jgroups_py.values.address import Address
from jgroups_py.values.view import Digest

A: Address = make_address(1)
B: Address = make_address(2)
C: Address = make_address(3)
D: Address = make_address(4)


def digest(**delivered: int) -> Digest:
    names = {"a": A, "b": B, "c": C, "d": D}
    return Digest({names[n]: (number, number) for n, number in delivered.items()})


def round_without_d(*asked: Address, before: tuple[Address, ...] = ()) -> CoordinatorRound:
    return CoordinatorRound(3, (D,), (A, B, C), 7, asked, before)


def test_the_goal_is_the_highest_number_that_anybody_has_delivered() -> None:
    round = round_without_d(B, C)
    round.reports |= {B: digest(a=1, d=9), C: digest(a=4, d=2)}
    goals = round.decide(A, digest(a=3, d=5))
    assert goals == {A: (4, C), D: (9, B)}
    assert round.fetching is not None and list(round.fetching) == [B, C, A]


def test_a_reporter_that_does_not_know_a_sender_need_not_fetch_it() -> None:
    round = round_without_d(B)
    round.reports[B] = digest(a=1)
    round.decide(A, digest(a=1, d=5))
    assert round.fetching == {} and round.is_done


def test_a_leaver_reports_and_fetches_nothing() -> None:
    round = round_without_d(B, D)
    round.reports |= {B: digest(d=5), D: digest(d=5, a=0)}
    round.decide(A, digest(d=5, a=3))
    assert round.is_done
    assert list(round.to_tell()) == [(B, False)], "it is not told the goals either"


def test_the_round_is_done_when_all_have_fetched() -> None:
    round = round_without_d(B, C)
    assert not round.is_done, "nobody has reported"
    round.reports |= {B: digest(d=5), C: digest(d=3)}
    assert round.unreported == ()
    round.decide(A, digest(d=5))
    assert list(round.to_tell()) == [(B, False), (C, True)]
    assert not round.is_done
    assert not round.fetched(B), "it lacked nothing"
    assert round.fetched(C) and round.is_done
    assert not round.fetched(C), "a second answer"


def test_only_members_that_were_asked_may_report_and_only_before_the_decision() -> None:
    round = round_without_d(B)
    assert round.awaits(B) and not round.awaits(C)
    round.reports[B] = digest()
    round.decide(A, digest())
    assert not round.awaits(B)


def test_silent_members_are_not_waited_for_and_are_told_the_goals() -> None:
    round = round_without_d(B, C)
    round.reports[B] = digest(d=5)
    assert list(round.unreported) == [C]
    round.silence()
    assert not round.unreported and not round.awaits(C)
    round.decide(A, digest(d=5))
    assert list(round.to_tell()) == [(B, False), (C, False)]
    assert round.held == (B, C)


def test_a_coordinator_that_cannot_fetch_settles_for_its_own_numbers() -> None:
    round = round_without_d(B)
    round.reports[B] = digest(d=5)
    round.decide(A, digest(d=3))
    assert round.settle(A, digest(d=3)) == {D: (3, A)} == round.goals
    assert round.is_done


def test_members_of_replaced_rounds_hold_too_unless_they_are_asked_again() -> None:
    round = round_without_d(B, before=(B, C))
    assert round.held == (B, C) and list(round.before) == [C]


def test_a_round_serves_the_same_departures_until_a_leaver_that_it_asked_dies() -> None:
    round = round_without_d(B, D)
    assert round.is_about((D,), (D,))
    assert not round.is_about((C, D), (D,)), "one more departs"
    assert not round.is_about((D,), ()), "D has died"
    round.reports[D] = digest(d=5)
    assert round.is_about((D,), ()), "its report is there"
