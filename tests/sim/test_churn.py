"""Random membership faults on whole stacks, judged from outside; and seeds that once found a bug.

Replay one: ``python -c "from jgroups_py.testing.sim.churn import run_churn; print(run_churn(12, cuts=False))"``
"""

from __future__ import annotations

import pytest

from jgroups_py.testing.sim.churn import run_churn

FOUND = {
    (11, False): "a round ended at a member that no longer had to make the view",
    (12, False): "messages were purged between the digests of a merge and its view",
    (28, False): "a silent member made the others part without having agreed",
    (1169, True): "a member left behind in the view of a coordinator that died was never merged",
    (1164, True): "a merge did not move the window of a sender that was frozen",
    (1145, True): "a view overtook the decision of the round before it",
    (1073, True): "the coordinator gave up fetching, and who had the messages took its view",
    (1278, True): "a member took a merge view that counted it to a view it had left behind",
    (53, False): "a merge moved the windows of one's own subgroup, over messages not yet there",
}


@pytest.mark.parametrize(("seed", "cuts"), FOUND)
def test_what_was_found_once_stays_mended(seed: int, cuts: bool) -> None:
    outcome = run_churn(seed, cuts=cuts)
    assert outcome.problems == [], FOUND[seed, cuts]
    assert outcome.delivered > 1000


@pytest.mark.parametrize("seed", range(200, 205))
def test_any_schedule_of_crashes_and_cuts_heals(seed: int) -> None:
    assert run_churn(seed).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_schedules_heal(seed: int, cuts: bool) -> None:
    assert run_churn(seed, cuts=cuts).problems == []


def test_the_checker_sees_a_lost_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retransmission that never comes: the check can fail."""
    from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2

    monkeypatch.setattr(NAKACK2, "_resend", lambda *_: None, raising=True)
    problems = [p for seed in (204, 205, 209) for p in run_churn(seed).problems]
    assert problems
