"""A process measures its own lateness, and its timers depend on it."""

from __future__ import annotations

import random

import pytest

from jgroups_py.stack.lateness import WINDOW, Lateness
from jgroups_py.stack.machine import Machine


def test_only_more_than_the_threshold_is_a_lag() -> None:
    lateness = Lateness(threshold=0.5)
    assert [lateness.note(late, 0.0) for late in (0.1, 0.5, 0.51, 3.0)] == [
        False,
        False,
        True,
        True,
    ]
    assert (lateness.lags, lateness.longest) == (2, 3.0)


def test_recent_lateness_is_forgotten() -> None:
    lateness = Lateness()
    lateness.note(0.3, 1.0)
    assert lateness.recent(1.0) == 0.3
    assert lateness.recent(WINDOW + 0.5) == 0.3
    assert lateness.recent(2 * WINDOW + 2.0) == 0.0
    lateness.note(0.2, 3 * WINDOW + 3.0)
    assert lateness.recent(6 * WINDOW) == 0.0


def test_patience_is_a_round_trip_and_bounded() -> None:
    lateness = Lateness(allowance=2.0)
    assert lateness.patience(0.0) == 0.0
    lateness.note(0.3, 0.0)
    assert lateness.patience(0.0) == pytest.approx(0.6)
    lateness.note(60.0, 0.0)
    assert lateness.patience(0.0) == 2.0


def test_long_lags_are_forgiven_wholly_short_ones_up_to_the_allowance() -> None:
    lateness = Lateness(allowance=10.0)
    assert lateness.forgiven(60.0, 1000.0) == 60.0
    assert [lateness.forgiven(4.0, before) for before in (0.0, 4.0, 8.0, 12.0)] == [4, 4, 2, 0]


def machine() -> tuple[Machine, list[float]]:
    made = Machine("A", random=random.Random(0))
    return made, []


def test_time_stands_still_for_timers_while_the_process_does() -> None:
    made, fired = machine()
    timer = made.timer(lambda: fired.append(made.now), "t")
    timer.start(5.0)
    assert made.woke(20.0, 4.0, 1.0)
    made.advance(20.0)
    assert fired == [] and timer.deadline == 24.0
    made.advance(24.0)
    assert fired == [24.0]


def test_a_timer_started_anew_has_the_whole_allowance_again() -> None:
    made, fired = machine()
    timer = made.timer(lambda: fired.append(made.now), "t")
    timer.start(1.0)
    made.woke(9.0, 1.0, 0.0)
    made.woke(18.0, 10.0, 9.0)
    assert timer.deadline == 11.0
    timer.start(1.0)
    made.woke(27.0, 19.0, 18.0)
    assert timer.deadline == 19.0 + 9.0


def test_small_lateness_moves_no_timer() -> None:
    made, fired = machine()
    timer = made.timer(lambda: fired.append(made.now), "t")
    timer.start(1.0)
    cancelled = made.timer(lambda: fired.append(-1.0), "u")
    cancelled.start(0.5)
    cancelled.cancel()
    assert not made.woke(1.4, 1.0, 0.0)
    made.advance(1.4)
    assert fired == [1.4]
