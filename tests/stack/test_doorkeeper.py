"""Doorkeeper: refusals are counted each time and logged seldom."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

import pytest

from jgroups_py.stack.doorkeeper import CAUSES_MAX, OTHER, SOURCES_MAX
from jgroups_py.stack.log_limit import INTERVAL
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import IpAddress
from jgroups_py.values.turned_away import TurnedAway


class DOOR(Protocol):
    """A protocol that refuses on demand."""

    turns_away: ClassVar[Mapping[str, str]] = {"replayed": "a packet came again"}


class Door:
    def __init__(self) -> None:
        self.protocol = DOOR()
        self.stack = FakeStack(self.protocol)
        self.told: list[TurnedAway] = []
        self.stack.machine.on_turned_away = self.told.append


@pytest.fixture
def door() -> Door:
    return Door()


def test_the_first_refusal_is_told_at_once(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        door.protocol.turn_away("replayed", IpAddress("10.0.0.7", 4444))
    event = TurnedAway("replayed", "10.0.0.7:4444", 1, "DOOR", "test", 1, ("10.0.0.7:4444",))
    assert door.told == [event]
    assert caplog.messages == [
        "A/test: DOOR turned away: replayed (a packet came again), once, from 10.0.0.7:4444; 1 so far"
    ]


def test_a_flood_is_two_lines_and_no_count_is_lost(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for port in range(1000):
            door.protocol.turn_away("replayed", ("10.0.0.7", port))
        door.stack.advance(INTERVAL - 0.1)
        assert [event.count for event in door.told] == [1]
        door.stack.advance(0.2)
    assert [event.count for event in door.told] == [1, 999]
    assert door.told[-1].total == 1000
    assert len(caplog.messages) == 2
    assert "999 times, from 10.0.0.7:1; 1000 so far" in caplog.messages[1]


def test_a_flood_that_goes_on_is_told_once_an_interval(door: Door) -> None:
    for _ in range(1000):
        door.protocol.turn_away("replayed")
        door.stack.advance(INTERVAL / 100)
    assert len(door.told) == 10
    door.stack.advance(INTERVAL)
    assert sum(event.count for event in door.told) == 1000


def test_each_cause_is_told_in_its_own_time(door: Door) -> None:
    door.protocol.turn_away("replayed")
    door.stack.advance(INTERVAL / 2)
    door.protocol.turn_away("altered")
    door.protocol.turn_away("altered")
    door.protocol.turn_away("replayed")
    assert [event.cause for event in door.told] == ["replayed", "altered"]
    door.stack.advance(INTERVAL / 2)
    assert [event.cause for event in door.told[2:]] == ["replayed"]
    door.stack.advance(INTERVAL / 2)
    assert [event.cause for event in door.told[3:]] == ["altered"]


def test_a_cause_that_was_silent_is_told_at_once_again(door: Door) -> None:
    door.protocol.turn_away("replayed")
    door.stack.advance(INTERVAL)
    door.protocol.turn_away("replayed")
    assert [event.count for event in door.told] == [1, 1]


def test_counters_are_there_before_anything_happens(door: Door) -> None:
    assert door.protocol.statistics() == {"turned_away_replayed": 0}
    door.protocol.turn_away("replayed", count=3)
    assert door.protocol.statistics() == {"turned_away_replayed": 3}
    assert door.stack.machine.turned_away == {"DOOR.replayed": 3}


def test_causes_made_of_input_do_not_fill_memory(door: Door) -> None:
    for number in range(1000):
        door.protocol.turn_away(f"cause_{number}")
    counts = door.stack.machine.turned_away
    assert len(counts) == CAUSES_MAX + 1
    assert counts[f"DOOR.{OTHER}"] == 1000 - CAUSES_MAX


def test_sources_are_few_and_hosts_are_told_apart(door: Door) -> None:
    door.protocol.turn_away("replayed")
    for host in range(100):
        door.protocol.turn_away("replayed", (f"10.0.0.{host}", 1))
        door.protocol.turn_away("replayed", (f"10.0.0.{host}", 2))
    door.stack.advance(INTERVAL)
    assert door.told[0].source == ""
    assert door.told[1].sources == tuple(f"10.0.0.{n}:1" for n in range(SOURCES_MAX))
    assert door.told[1].source == "10.0.0.0:1"


def test_a_source_cannot_steer_the_terminal(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        door.protocol.turn_away("replayed", "\x1b[2Jroot\n2026 ERROR all is lost" + "x" * 1000)
    (line,) = caplog.messages
    assert line.isprintable() or "\ufffd" in line
    assert "\x1b" not in line and "\n" not in line and len(line) < 250
    assert "\x1b" not in door.told[0].source and len(door.told[0].source) <= 100


def test_a_watcher_sees_each_refusal(door: Door) -> None:
    door.protocol.turn_away("replayed", ("::1", 7))
    door.protocol.turn_away("replayed")
    seen = [details for _, _, what, details in door.stack.traces if what == "turned away"]
    assert seen == [{"cause": "replayed", "source": "[::1]:7"}, {"cause": "replayed"}]


def test_a_closed_stack_tells_nothing_more(door: Door) -> None:
    door.protocol.turn_away("replayed")
    door.protocol.turn_away("replayed")
    door.stack.stack.close()
    door.stack.machine.advance(INTERVAL * 2)
    assert len(door.told) == 1


def test_a_source_without_a_host_is_gone(door: Door) -> None:
    """The system no longer knows the address of a client that has hung up."""
    door.protocol.turn_away("replayed", ("", 0))
    assert door.told[0].source == "somebody who is gone"
