"""Random schedules: the guarantee holds, and with one rule switched off it is seen to break."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from relay_explorer import ANYBODY, CALM, CRASHES, EVERYTHING, SPLITS, Mix, explore
from relay_faulty import RULES


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


MIXES = {
    "calm": (CALM, 10),
    "crashes": (CRASHES, 40),
    "anybody": (ANYBODY, 30),
    "everything": (EVERYTHING, 40),
    "splits": (SPLITS, 30),
}


@pytest.mark.parametrize("name", MIXES)
def test_nothing_is_lost_in_random_schedules(name: str) -> None:
    mix, seeds = MIXES[name]
    for seed in range(seeds):
        explore(seed, mix)


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXES)
def test_nothing_is_lost_in_many_random_schedules(name: str) -> None:
    for seed in range(10_000, 12_000):
        explore(seed, MIXES[name][0])


FOUND_IN: dict[str, tuple[Mix, range]] = {
    "collect": (CRASHES, range(100)),
    "own copies": (ANYBODY, range(100)),
    "forwarded from the minimum": (SPLITS, range(100)),
    "next only": (SPLITS, range(100)),
    "repeated trim": (CRASHES, range(50)),
    "joiner's digest": (EVERYTHING, range(50)),
    "cut": (CRASHES, range(2580, 2600)),
    "reports by view": (EVERYTHING, range(150)),
    "forget by stability": (CRASHES, range(50)),
    "session before sending": (CRASHES, range(50)),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    mix, seeds = FOUND_IN[rule]
    for seed in seeds:
        try:
            explore(seed, mix, relay_class=RULES[rule])
        except AssertionError:
            return
    pytest.fail(f"without {rule} nothing goes wrong in {seeds} schedules")
