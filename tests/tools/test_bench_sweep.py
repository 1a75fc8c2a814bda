"""The bench of settings compares each with the stack's own in the same run, and reports how near they are to the
best."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.channel.open import configure
from jgroups_py.tools.bench import sweep
from jgroups_py.tools.bench.sweep import DEFAULTS, SETTINGS, SweepPlan
from jgroups_py.tools.commands import mperf_run

PLAN = SweepPlan(("udp.xml",), runs=2)


@pytest.mark.parametrize(("stack", "name"), [(s, n) for s in SETTINGS for n in SETTINGS[s]])
def test_each_setting_is_one_of_its_stack(stack: str, name: str) -> None:
    attributes = dict(SETTINGS[stack][name])
    config, _ = configure(stack, None, attributes, {})
    same, _ = configure(stack, None, {}, {})
    assert (config == same) == (name == DEFAULTS)


def test_each_run_begins_with_other_settings() -> None:
    orders = [PLAN.in_turn("udp.xml", run) for run in range(3)]
    assert [order[0] for order in orders] == list(SETTINGS["udp.xml"])[:3]
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(SETTINGS["udp.xml"]))}


def _measured(monkeypatch: pytest.MonkeyPatch, **found: Any) -> dict[str, Any]:
    """Return the result when each run is half as fast as the previous one, and credits of 8 MB are twice as fast as all
    others, for twice the CPU time."""
    runs: list[float] = []

    async def measure(plan: mperf_run.MperfPlan, *_: object) -> dict[str, Any]:
        runs.append(0.5 ** (len(runs) // len(SETTINGS["udp.xml"])))
        better = 2 if plan.attributes.get("MFC.max_credits") == "8M" else 1
        fine = {
            "delivered_per_s_per_member": 1000 * runs[-1] * better,
            "cpu_us_per_message": 2 * better,
        }
        return {"lost": 0, "duplicates": 0, "out_of_order": 0} | fine | found

    monkeypatch.setattr(mperf_run, "measure", measure)
    monkeypatch.setattr(sweep, "private_attributes", lambda *_: {})
    return sweep.measure(PLAN)


def test_the_sweep_says_how_near_the_stack_is_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _measured(monkeypatch)
    assert result["nearness"]["udp.xml"] == {
        "of_best_rate": 0.5,
        "best_rate": "credits 8 MB",
        "of_best_cpu": 1.0,
        "best_cpu": DEFAULTS,
    }
    text = sweep.markdown(result)
    assert (
        "| udp.xml | credits 8 MB | 1,500 (1,000-2,000), x0.50 | 2.00 (2.00-2.00), x0.50 |" in text
    )
    assert "udp.xml: 0.50 of the best rate (credits 8 MB), 1.00 by CPU time (as they are)." in text


def test_settings_that_lose_messages_are_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="lost 1"):
        _measured(monkeypatch, lost=1)
