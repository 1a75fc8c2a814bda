"""FD_ALL3: heartbeats, silence, and delays of its own process."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.fd_all3 import FD_ALL3
from jgroups_py.protocols.red import RED
from jgroups_py.protocols.reliable.barrier import BARRIER
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.events import Lag, Suspect, Unsuspect, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import HeartbeatHeader

A, B, C = (make_address(n) for n in (1, 2, 3))
ID = FD_ALL3.protocol_id


def stack(*members: Any, **config: Any) -> FakeStack:
    fake = FakeStack(FD_ALL3(**{"timeout": 5.0, "interval": 1.0, **config}), address=A)
    fake.event_down(ViewChange(View(ViewId(A, 1), members or (A, B, C)), None))
    fake.take_down_events()
    return fake


def from_(src: Any, *, heartbeat: bool = False) -> Batch:
    headers: Headers = {ID: HeartbeatHeader()} if heartbeat else {}
    return Batch(None, (b"x",), headers, src)


def test_a_heartbeat_goes_to_all_every_interval() -> None:
    fake = stack()
    fake.advance(10.0)
    beats = fake.take_down()
    assert len(beats) == 10
    assert all(b.dest is None and b.headers == {ID: HeartbeatHeader()} for b in beats)


def test_a_multicast_stands_for_a_heartbeat() -> None:
    fake = stack()
    for _ in range(50):
        fake.down(Batch(None, (b"x",), {}))
        fake.advance(0.2)
    assert all(ID not in b.headers for b in fake.take_down())
    fake.advance(2.0)
    assert any(ID in b.headers for b in fake.take_down())


def test_the_silence_of_a_new_member_begins_when_it_joins() -> None:
    fake = stack(A)
    fake.advance(100.0)
    view = View(ViewId(A, 2), (A, B))
    fake.event_down(ViewChange(view, None))
    fake.advance(4.9)
    assert fake.take_up_events(Suspect) == []
    fake.advance(1.2)
    assert fake.take_up_events(Suspect) == [Suspect((B,))]


def test_unicasts_do_not_stand_for_heartbeats() -> None:
    fake = stack()
    for _ in range(10):
        fake.down(Batch(B, (b"x",), {}))
        fake.advance(0.2)
    assert any(ID in b.headers for b in fake.take_down())


def test_a_silent_member_is_suspected_once_within_timeout_and_interval() -> None:
    fake = stack()
    for _ in range(50):
        fake.advance(0.1)
        fake.up(from_(C))
    assert fake.take_up_events() == []
    for _ in range(11):
        fake.advance(0.1)
        fake.up(from_(C))
    assert fake.take_up_events() == [Suspect((B,))]
    for _ in range(50):
        fake.advance(0.1)
        fake.up(from_(C))
    assert fake.take_up_events() == []


def test_members_that_fall_silent_together_are_one_suspicion() -> None:
    fake = stack()
    fake.advance(6.0)
    assert fake.take_up_events() == [Suspect((B, C))]


def test_any_message_counts_and_heartbeats_go_no_further() -> None:
    fake = stack()
    for _ in range(20):
        fake.advance(0.5)
        fake.up(from_(B, heartbeat=True))
        fake.up(from_(C))
    assert fake.take_up_events() == []
    assert {b.src for b in fake.take_up()} == {C}


def test_a_member_that_is_heard_again_is_not_suspected_any_more() -> None:
    fake = stack(A, B)
    fake.advance(6.0)
    fake.take_up_events()
    fake.up(from_(B))
    assert fake.take_up_events() == [Unsuspect((B,))]
    fake.advance(6.1)
    assert fake.take_up_events() == [Suspect((B,))]


def test_a_refuted_suspicion_starts_the_time_anew() -> None:
    fake = stack(A, B)
    fake.advance(6.0)
    fake.take_up_events()
    fake.event_down(Unsuspect((B,)))
    fake.advance(4.9)
    assert fake.take_up_events() == []
    fake.advance(1.2)
    assert fake.take_up_events() == [Suspect((B,))]


def test_alone_nothing_is_sent_and_no_timer_runs() -> None:
    fake = stack(A)
    fake.advance(20)
    assert fake.take_down() == [] and fake.machine.next_deadline() is None
    fake.event_down(ViewChange(View(ViewId(A, 2), (A, B)), None))
    fake.advance(2)
    assert fake.take_down()
    fake.event_down(ViewChange(View(ViewId(A, 3), (A,)), None))
    assert fake.machine.next_deadline() is None


def test_a_member_that_was_stopped_suspects_nobody_when_it_goes_on() -> None:
    fake = stack()
    fake.advance(3.0)
    fake.stand_still(30.0)
    assert fake.take_up_events() == []
    fake.advance(1.0)
    fake.up(from_(B))
    fake.advance(14.0)  # it waits longer for a while: 10 s, lag_allowance
    assert fake.take_up_events() == [Suspect((C,))]


def test_a_lag_is_forgiven_and_the_others_hear_at_once_that_we_are_back() -> None:
    fake = stack(A, B)
    fake.advance(4.5)
    fake.take_down()
    fake.event_down(Lag(3.0))
    (beat,) = fake.take_down()
    assert ID in beat.headers
    fake.advance(2.9)
    assert fake.take_up_events() == []
    fake.advance(2.0)
    assert fake.take_up_events() == [Suspect((B,))]


def test_a_process_that_always_lags_forgives_no_more_than_the_allowance() -> None:
    """Each second has a lag of 0.9 s; B's death must be found all the same."""
    fake = stack(A, B)
    began = fake.now
    while not fake.take_up_events() and fake.now < 100:
        fake.advance(0.1)
        fake.stand_still(0.9)
    assert 14.0 < fake.now - began < 5.0 + 10.0 + 2 * 0.9 + 3


def test_a_member_that_is_heard_between_lags_has_the_whole_allowance_again() -> None:
    fake = stack(A, B)
    for _ in range(10):
        fake.advance(0.5)
        fake.stand_still(9.0)
        fake.up(from_(B))
    assert fake.take_up_events() == []


def test_a_slow_process_waits_a_little_longer() -> None:
    fake = stack(A, B)
    fake.machine.lateness.note(0.4, fake.now)
    fake.advance(5.7)
    assert fake.take_up_events() == []
    fake.advance(1.1)
    assert fake.take_up_events() == [Suspect((B,))]


@pytest.mark.parametrize("wrong", [{"interval": 0}, {"timeout": 1.0, "interval": 2.0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        FD_ALL3(**wrong)


@pytest.mark.parametrize("cls", [BARRIER, RED])
def test_protocols_without_effect_let_everything_pass(cls: Any) -> None:
    fake = FakeStack(cls(), address=A)
    batch, event = from_(B), Suspect((B,))
    fake.up(batch)
    fake.event_up(event)
    fake.down(batch)
    assert (fake.take_up(), fake.take_up_events(), fake.take_down()) == ([batch], [event], [batch])
