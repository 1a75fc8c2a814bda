"""Random schedules: the guarantee holds; with one rule switched off its violation is found."""

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
def test_no_message_is_lost_in_random_schedules(name: str) -> None:
    mix, seeds = MIXES[name]
    for seed in range(seeds):
        explore(seed, mix)


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXES)
def test_no_message_is_lost_in_many_random_schedules(name: str) -> None:
    for seed in range(10_000, 12_000):
        explore(seed, MIXES[name][0])


# At present the first schedule of each range needs the rule; the later ones remain for the case that the schedules of
# seeds change.
FOUND_IN: dict[str, tuple[Mix, range]] = {
    "collect": (CRASHES, range(29, 130)),
    "own copies": (ANYBODY, range(21, 120)),
    "forwarded from the minimum": (SPLITS, range(10, 110)),
    "next only": (SPLITS, range(8, 110)),
    "repeated trim": (CRASHES, range(4, 60)),
    "joiner's digest": (EVERYTHING, range(50)),
    "cut": (CRASHES, range(2591, 2620)),
    "reports by view": (EVERYTHING, range(10, 160)),
    "forget by stability": (CRASHES, range(3, 60)),
    "session before sending": (CRASHES, range(6, 60)),
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
