"""The agreement from a survivor's side, without a GMS: its messages, and its steps for the protocol."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.agreement import (
    Agreement,
    AgreementTimers,
    Then,
    ViewReceived,
)
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.protocols.membership.gms.wire import RoundKind, encode_freeze, encode_goals
from jgroups_py.stack.machine import Machine
from jgroups_py.testing import make_address
from jgroups_py.values.address import Address
from jgroups_py.values.events import Event
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import FragHeader
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_digest

A: Address = make_address(1)
B: Address = make_address(2)
C: Address = make_address(3)
D: Address = make_address(4)


class Recorder(GmsOut):
    """Records the output of the agreement. ``known``: sender -> its last delivered number."""

    def __init__(self) -> None:
        self.known = {A: 1, B: 1, C: 1, D: 1}
        self.sent: list[tuple[Address, RoundKind, int]] = []
        self.events: list[str] = []

    def patience(self, seconds: float) -> float:
        return seconds

    def trace(self, what: str, **details: Any) -> None:
        pass

    def down(self, event: Event) -> None:
        self.events.append(type(event).__name__)

    def delivered(self) -> Digest:
        return Digest({member: (number, number) for member, number in self.known.items()})

    def send_round(
        self, dest: Address, kind: RoundKind, number: int, payload: bytes, flags: int
    ) -> None:
        self.sent.append((dest, kind, number))


class Survivor:
    """C in the view A, B, C, D. Tests decide whether ``timers`` run."""

    def __init__(self) -> None:
        machine = Machine("C", random=random.Random(1))
        self.group = Group(C)
        self.group.install(View(ViewId(A, 5), (A, B, C, D)))
        self.out = Recorder()
        timers = AgreementTimers(*[machine.timer(lambda: None, "t") for _ in range(4)])
        self.agreement = Agreement(self.out, self.group, timers, 2.0)

    def take(self, src: Address, kind: RoundKind, number: int, payload: bytes = b"") -> Any:
        then = self.agreement.take(src, FragHeader(number, kind, 0), payload)
        self.agreement.check()
        return then

    def freeze(self, src: Address, number: int, *staying: Address, proposed: int = 6) -> Any:
        return self.take(src, RoundKind.FREEZE, number, encode_freeze(proposed, staying))

    def decided(self, src: Address, number: int, goals: dict[Address, int]) -> Any:
        told = {member: (goal, src) for member, goal in goals.items()}
        return self.take(src, RoundKind.DECIDED, number, encode_goals(6, (A, B, C), told))

    def puts_off(self, src: Address) -> bool:
        """Deliver the view without D from ``src``, and return whether it has to wait."""
        return self.agreement.puts_off(src, View(ViewId(src, 6), (A, B, C)), None)


def test_a_survivor_freezes_and_reports() -> None:
    c = Survivor()
    assert c.freeze(A, 1, A, B, C) is None
    assert c.out.events == ["Freeze"] and c.out.sent == [(A, RoundKind.REPORT, 1)]
    assert c.agreement.has_promised


def test_a_member_that_is_wrongly_suspected_neither_helps_nor_freezes() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, D)
    assert c.out.events == [] and c.out.sent == []
    c.group.leave(True)
    c.freeze(A, 2, A, B, D)
    assert c.out.events == [] and c.out.sent == [(A, RoundKind.REPORT, 2)], "a leaver helps"


def test_a_round_for_an_older_view_hears_that_there_is_a_newer_one() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C, proposed=5)
    assert c.out.events == [] and c.out.sent == [(A, RoundKind.REPORT, 1)]


def test_a_view_waits_for_the_goals_and_for_missing_messages() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    assert c.puts_off(A), "nothing was decided"
    assert c.decided(A, 1, {D: 3}) is None
    assert c.out.events == ["Freeze", "Fetch"]
    assert c.agreement.fetched() is Then.TAKE_PUT_OFF
    assert c.agreement.take_put_off() is not None and c.agreement.take_put_off() is None


def test_a_view_is_taken_when_it_was_handed_over_and_nothing_is_lacking() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    assert c.decided(A, 1, {D: 1}) is Then.TAKE_PUT_OFF
    assert c.puts_off(A), "it may be of another round"
    view = View(ViewId(A, 6), (A, B, C))
    received = c.take(A, RoundKind.VIEW, 0, encode_whole(write_view_digest, ViewDigest(view)))
    assert isinstance(received, ViewReceived) and received.src == A
    assert not c.puts_off(A)


def test_a_survivor_that_has_more_of_the_departed_never_takes_the_view() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    c.out.known[D] = 9
    c.decided(A, 1, {D: 3})
    assert c.puts_off(A)


def test_a_round_that_is_given_up_lets_go() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    assert c.take(A, RoundKind.THAW, 1) is Then.LET_GO
    assert not c.agreement.has_promised
    c.agreement.hand_out()
    assert c.out.events == ["Freeze", "Thaw", "Release"]
    assert c.freeze(A, 1, A, B, C) is None
    assert c.out.events == ["Freeze", "Thaw", "Release"], "a late FREEZE of that round"


def test_a_survivor_goes_back_to_the_round_before_and_to_its_goals() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    c.decided(A, 1, {D: 3})
    c.freeze(B, 1, B, C, D)
    assert c.take(B, RoundKind.THAW, 1) is Then.LET_GO
    assert c.agreement.has_promised
    c.out.events.clear()
    assert c.agreement.resume() is None
    assert c.out.events == ["Thaw", "Freeze", "Fetch"], (
        "A stays after all, and D's goal is set anew"
    )


def test_an_installed_view_ends_rounds_that_are_not_for_a_later_one() -> None:
    c = Survivor()
    c.freeze(A, 1, A, B, C)
    c.freeze(B, 1, B, C, D, proposed=8)
    c.group.install(View(ViewId(A, 6), (A, B, C)))
    c.agreement.view_installed()
    c.out.sent.clear()
    c.agreement.go_on()
    assert c.out.sent == [(B, RoundKind.REPORT, 1)], "B's round hears what has changed"


def test_a_coordinator_that_hears_of_a_newer_view_begins_again() -> None:
    c = Survivor()
    assert c.agreement.begin((A, B), ())
    assert c.out.sent == [(D, RoundKind.FREEZE, 1)]
    assert c.agreement.evaluate() is None, "D has not reported"
    c.group.saw(7)
    assert c.agreement.begin((A, B), ())
    assert c.agreement.round is not None and c.agreement.round.proposed == 8
    assert c.agreement.round.held == (D,)


def test_no_other_kind_of_message_belongs_to_a_round() -> None:
    with pytest.raises(RemoteProtocolError):
        Survivor().take(A, RoundKind.ASK, 1)
