"""VERIFY_SUSPECT2: a member that does not answer is suspected, a member that answers is not."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.verify_suspect2 import VERIFY_SUSPECT2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Consumed, Suspect, Unsuspect, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import VerifyHeader2, VerifyType

A, B, C, D = (make_address(n) for n in (1, 2, 3, 4))
ID = VERIFY_SUSPECT2.protocol_id


def stack(**config: Any) -> FakeStack:
    fake = FakeStack(VERIFY_SUSPECT2(**{"timeout": 1.0, "window": 0.1, **config}), address=A)
    fake.event_down(ViewChange(View(ViewId(A, 1), (A, B, C)), None))
    fake.take_down_events()
    return fake


def message(kind: VerifyType, src: Any, dest: Any, sender: Any) -> Batch:
    batch = Batch.of(dest, ID, VerifyHeader2(kind, sender))
    batch.src = src
    return batch


def asked(fake: FakeStack) -> list[Any]:
    return [(b.dest, b.headers[ID]) for b in fake.take_down()]


ARE_YOU_DEAD = VerifyHeader2(VerifyType.ARE_YOU_DEAD, A)


def test_a_silent_member_is_suspected_after_timeout_and_window() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    assert asked(fake) == [(B, ARE_YOU_DEAD)]
    fake.advance(1.09)
    assert fake.take_up_events() == []
    fake.advance(0.02)
    assert fake.take_up_events() == [Suspect((B,))]


def test_the_time_counts_from_the_suspicion_not_from_a_tick() -> None:
    fake = stack()
    fake.advance(0.7)
    fake.event_up(Suspect((B,)))
    fake.advance(0.6)
    fake.event_up(Suspect((C,)))
    fake.advance(0.51)
    assert fake.take_up_events() == [Suspect((B,))]
    fake.advance(0.6)
    assert fake.take_up_events() == [Suspect((C,))]


def test_members_that_crash_together_leave_in_one_view() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    fake.advance(0.05)
    fake.event_up(Suspect((C,)))
    fake.advance(1.05)
    assert fake.take_up_events() == [Suspect((B, C))]


def test_a_member_that_answers_is_alive_and_both_sides_hear_it() -> None:
    fake = stack()
    fake.event_up(Suspect((B, C)))
    fake.advance(0.3)
    fake.up(message(VerifyType.I_AM_NOT_DEAD, B, A, B))
    assert fake.take_up_events() == [Unsuspect((B,))]
    assert fake.take_down_events() == [Unsuspect((B,))]
    fake.advance(1.0)
    assert fake.take_up_events() == [Suspect((C,))]
    assert fake.take_up() == []


def test_the_question_is_repeated_once() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    asked(fake)
    fake.advance(0.5)
    assert asked(fake) == [(B, ARE_YOU_DEAD)]
    fake.advance(0.59)
    assert asked(fake) == []


def test_copies_are_sent_where_configured() -> None:
    fake = stack(num_msgs=3)
    fake.event_up(Suspect((B,)))
    assert len(asked(fake)) == 3


def test_a_member_that_is_asked_answers() -> None:
    fake = stack()
    fake.up(message(VerifyType.ARE_YOU_DEAD, B, A, B))
    assert asked(fake) == [(B, VerifyHeader2(VerifyType.I_AM_NOT_DEAD, A))]


def test_questions_for_a_former_owner_of_our_port_are_not_answered() -> None:
    fake = stack()
    fake.up(message(VerifyType.ARE_YOU_DEAD, B, D, B))
    fake.up(message(VerifyType.ARE_YOU_DEAD, B, A, None))
    assert asked(fake) == []


def test_an_answer_for_somebody_else_does_not_count() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    fake.up(message(VerifyType.I_AM_NOT_DEAD, C, A, B))
    fake.advance(1.2)
    assert fake.take_up_events() == [Suspect((B,))]


def test_a_member_that_is_proved_dead_is_asked_but_not_waited_for_long() -> None:
    fake = stack(gone_timeout=0.1)
    fake.event_up(Suspect((B,)))
    fake.advance(0.05)
    fake.event_up(Suspect((B, C), gone=True))
    assert [dest for dest, _ in asked(fake)] == [B, C]
    fake.advance(0.14)
    assert fake.take_up_events() == []
    fake.advance(0.02)
    assert fake.take_up_events() == [Suspect((B, C), gone=True)]


def test_the_silent_and_the_dead_that_fall_due_together_are_told_apart() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    fake.advance(0.97)
    fake.event_up(Suspect((C,), gone=True))
    fake.advance(1.0)
    assert fake.take_up_events() == [Suspect((C,), gone=True), Suspect((B,))]


def test_a_member_that_answers_is_alive_whatever_was_proved() -> None:
    fake = stack()
    fake.event_up(Suspect((B, C), gone=True))
    fake.advance(0.04)
    fake.up(message(VerifyType.I_AM_NOT_DEAD, B, A, B))
    fake.advance(2)
    assert fake.take_up_events() == [Unsuspect((B,)), Suspect((C,), gone=True)]


def test_a_silent_one_does_not_leave_early_with_one_proved_dead() -> None:
    fake = stack()
    fake.event_up(Suspect((C,)))
    fake.event_up(Suspect((B,), gone=True))
    fake.advance(0.99)
    assert fake.take_up_events() == [Suspect((B,), gone=True)]
    fake.advance(0.12)
    assert fake.take_up_events() == [Suspect((C,))]


def test_a_proof_never_makes_it_later() -> None:
    fake = stack(timeout=0.02, window=0.0, gone_timeout=5.0)
    fake.event_up(Suspect((B,), gone=True))
    fake.advance(0.021)
    assert fake.take_up_events() == [Suspect((B,), gone=True)]


def test_a_verification_that_ran_out_while_we_stood_still_is_not_over() -> None:
    fake = stack()
    fake.event_up(Suspect((B, C)))
    fake.advance(0.99)
    asked(fake)
    fake.stand_still(20.0)
    assert fake.take_up_events() == []
    assert [dest for dest, _ in asked(fake)] == [B, C]  # the answer may have been lost meanwhile
    fake.advance(0.9)
    fake.up(message(VerifyType.I_AM_NOT_DEAD, B, A, B))
    fake.advance(0.3)
    assert fake.take_up_events() == [Unsuspect((B,)), Suspect((C,))]


def test_a_proof_waits_for_the_answer_after_a_lag_too() -> None:
    fake = stack()
    fake.event_up(Suspect((B,), gone=True))
    fake.stand_still(20.0)
    fake.advance(0.04)
    assert fake.take_up_events() == []
    fake.advance(0.1)
    assert fake.take_up_events() == [Suspect((B,), gone=True)]


def test_lag_after_lag_does_not_put_it_off_for_ever() -> None:
    fake = stack()
    fake.event_up(Suspect((B,)))
    began = fake.now
    while not fake.take_up_events() and fake.now < 100:
        fake.advance(0.05)
        fake.stand_still(0.7)
    assert 10.0 < fake.now - began < 1.1 + 10.0 + 3


def test_a_slow_process_gives_others_more_time() -> None:
    fake = stack()
    fake.machine.lateness.note(0.3, fake.now)
    fake.event_up(Suspect((B,)))
    fake.event_up(Suspect((C,), gone=True))
    fake.advance(0.12)
    assert fake.take_up_events() == []
    fake.advance(0.01)
    assert fake.take_up_events() == [Suspect((C,), gone=True)]
    fake.advance(1.46)
    assert fake.take_up_events() == []
    fake.advance(0.12)
    assert fake.take_up_events() == [Suspect((B,))]


def test_views_and_retractions_end_a_suspicion() -> None:
    fake = stack()
    fake.event_up(Suspect((B, C)))
    fake.event_up(Unsuspect((C,)))
    fake.event_down(ViewChange(View(ViewId(A, 2), (A, C)), None))
    assert fake.take_up_events() == [Unsuspect((C,))]
    fake.advance(5)
    assert fake.take_up_events() == []


def test_this_member_and_strangers_are_not_suspected() -> None:
    fake = stack()
    fake.event_up(Suspect((A, D)))
    fake.advance(5)
    assert asked(fake) == [] and fake.take_up_events() == []


def test_credits_of_swallowed_messages_are_given_back() -> None:
    fake = stack()
    batch = message(VerifyType.I_AM_NOT_DEAD, B, A, B)
    batch.credits = (Credit(B, False, 5),)
    fake.up(batch)
    assert fake.take_down_events() == [Consumed((Credit(B, False, 5),))]


@pytest.mark.parametrize(
    "wrong", [{"timeout": 0}, {"num_msgs": 0}, {"window": -1}, {"gone_timeout": 0}]
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        VERIFY_SUSPECT2(**wrong)
