"""Each scenario runs with one seed; ``-m slow`` runs each with twenty more."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from relay_scenarios import LOSING, SCENARIOS

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.drill.run.simulated import run_simulated

EVERY = {**SCENARIOS, **LOSING}
FOUND: dict[str, tuple[int, ...]] = {
    # A run that was partly acknowledged came back from the spill file, above the limit.
    "spilled to a file while the WAN is cut": (1,),
    # A joiner of the bridge took a crash for a refusal of its wire version, and stayed alone for ever.
    "relay after relay leaves": (21,),
    "three sites, each loses its relay": (19,),
    # The oracle missed copies of messages that were sent just before news of the promotion came.
    "promoted after the old primary is gone, which returns": (31,),
}
"""Seeds that found faults, now repaired."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(name: str, seed: int) -> None:
    planned = plan.build(loader.loads(EVERY[name], f"{name}.yaml"), seed, [])
    outcome = judged.run(planned, run_simulated, NoProgress())
    failed = [e for e in outcome.result["expectations"] if not e["holds"]]
    assert not failed, f"seed {seed}: {failed}"


@pytest.mark.parametrize("name", EVERY)
def test_a_named_scenario_holds(name: str) -> None:
    check(name, 2)


@pytest.mark.parametrize(("name", "seed"), [(n, s) for n, seeds in FOUND.items() for s in seeds])
def test_a_bug_that_was_found_does_not_come_back(name: str, seed: int) -> None:
    check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_a_scenario_with_many_seeds(name: str) -> None:
    for seed in range(100, 120):
        check(name, seed)
