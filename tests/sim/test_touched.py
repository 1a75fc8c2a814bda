"""Invariants are checked in the step that may have broken them, and all of them now and then."""

from __future__ import annotations

import pytest

from jgroups_py.protocols.transport.shared_loopback import SHARED_LOOPBACK
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.sim import Member, World
from jgroups_py.testing.sim.touched import EVERY
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event


class COUNTED(Protocol):
    """Counts checks, and records the calls that entered it."""

    def start(self) -> None:
        self.looked = 0
        self.fine = True
        self.tick = self.timer(self._on_tick)

    def _on_tick(self) -> None:
        pass

    def check(self) -> None:
        self.looked += 1
        assert self.fine


class UPPER(COUNTED):
    protocol_id = 2001

    def down(self, batch: Batch) -> None:
        self.pass_down(batch)

    def event_down(self, event: Event) -> None:
        self.pass_event_down(event)


class LOWER(COUNTED):
    protocol_id = 2002

    def down(self, batch: Batch) -> None:
        """Keeps what it gets."""

    def event_down(self, event: Event) -> None:
        """Keeps what it gets."""

    def event_up(self, event: Event) -> None:
        self.pass_event_up(event)


@pytest.fixture
def member() -> Member:
    world = World()
    found = world.start("A", lambda *_: [SHARED_LOOPBACK(), LOWER(), UPPER()], "c")
    return found


def lower(member: Member) -> LOWER:
    found = member.stack.find(LOWER)
    assert found is not None
    return found


def upper(member: Member) -> UPPER:
    found = member.stack.find(UPPER)
    assert found is not None
    return found


def test_the_entries_of_a_batch_are_looked_at(member: Member) -> None:
    looked = lower(member).looked
    member.send(b"x")
    assert lower(member).looked == looked + 1
    lower(member).fine = False
    with pytest.raises(AssertionError):
        member.send(b"y")


def test_a_timer_enters_its_protocol_and_no_other(member: Member) -> None:
    before = lower(member).looked, upper(member).looked
    member.act(lambda: upper(member).tick.start(1.0))
    assert isinstance(member.world, World)
    member.world.run_for(2.0)
    assert (lower(member).looked, upper(member).looked) == (before[0], before[1] + 1)


def test_an_invariant_that_breaks_unseen_is_found_within_some_steps(member: Member) -> None:
    lower(member).fine = False
    seen = []
    for _ in range(EVERY):
        try:
            member.act(lambda: None)
        except AssertionError:
            seen.append(True)
    assert seen == [True]
