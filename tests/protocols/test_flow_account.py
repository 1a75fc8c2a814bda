"""The account of one sender's bytes: the bytes that may be given back, and the time when that is worth a message."""

from __future__ import annotations

import pytest

from jgroups_py.protocols.flow.account import CreditAccount


def account(*, received: int, read: int = 0, incomplete: int = 0) -> CreditAccount:
    """60 bytes are given back before a request."""
    made = CreditAccount(60)
    made.held = received
    made.hold_incomplete(incomplete)
    made.read(read)
    return made


def test_read_bytes_may_be_given_back() -> None:
    made = account(received=100, read=30)
    assert (made.held, made.due) == (70, 30)
    assert made.give() == 30
    assert (made.held, made.due) == (70, 0)


def test_bytes_of_incomplete_messages_may_be_given_in_advance() -> None:
    made = account(received=100, read=30, incomplete=20)
    assert made.give() == 50
    assert (made.held, made.owed, made.due) == (70, -20, 0)


def test_a_complete_message_turns_credit_given_in_advance_into_a_debt() -> None:
    made = account(received=100, incomplete=80)
    assert made.give() == 80
    made.hold_incomplete(0)
    assert made.due == -80
    made.read(79)
    assert made.due == -1, "bytes that are read pay the debt first"
    made.read(21)
    assert made.give() == 20


def test_the_next_incomplete_message_is_given_only_beyond_the_debt() -> None:
    made = account(received=50, incomplete=50)
    made.give()
    made.held += 70
    made.hold_incomplete(40)
    assert made.due == -10
    made.held += 25
    made.hold_incomplete(65)
    assert made.give() == 15
    assert made.held == 145
    assert made.held + made.owed == 80, "so many bytes the sender counts as under way"


def test_bytes_that_were_not_received_are_not_given() -> None:
    made = account(received=10)
    made.hold_incomplete(500)
    assert made.due == 10
    made.read(4)
    assert (made.held, made.incomplete, made.due) == (6, 6, 10)


@pytest.mark.parametrize(
    ("read", "incomplete", "wanted", "worth"),
    [
        (59, 0, 0, False),
        (60, 0, 0, True),
        (30, 30, 0, True),
        (30, 29, 0, False),
        (30, 0, 30, True),
        (30, 0, 31, False),
        (30, 10, 40, True),
        (30, 10, 41, False),
        (45, 55, 200, True),
        (1, 0, 200, False),
        (0, 0, 10, False),
    ],
)
def test_credit_is_given_when_it_is_worth_a_message(
    read: int, incomplete: int, wanted: int, worth: bool
) -> None:
    made = account(received=100, read=read, incomplete=incomplete)
    made.wanted = wanted
    assert made.is_worth_giving == worth


def test_a_sender_that_has_asked_gets_all_there_is_when_nothing_is_left_to_read() -> None:
    made = account(received=30, read=10)
    made.wanted = 100
    assert made.is_unread and not made.is_worth_giving
    made.hold_incomplete(20)
    assert not made.is_unread and made.is_worth_giving
    assert made.give() == 30
    assert made.wanted == 70
    assert not made.is_worth_giving, "nothing is due"
