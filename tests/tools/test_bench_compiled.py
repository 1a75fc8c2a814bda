"""The bench of compiled modules: its groups, its ratios, and figures of two real members."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jgroups_py.tools.bench import compiled
from jgroups_py.tools.bench.compiled import ALL, GROUPS, NONE, CompiledPlan
from jgroups_py.tools.bench.compiled_pair import PairPlan, calls_of, delivery
from jgroups_py.values.native import compiled_modules

LISTED = compiled.listed_modules()
GROUP_NAMES = [name for name in GROUPS if name not in (NONE, ALL) and " and " not in name]


def test_each_module_is_in_one_group() -> None:
    grouped = [module for name in GROUP_NAMES for module in compiled.modules(name, LISTED)]
    assert sorted(grouped) == sorted(LISTED)
    assert compiled.modules(ALL, LISTED) == LISTED and compiled.modules(NONE, LISTED) == []


def test_each_run_begins_with_another_set() -> None:
    plan = CompiledPlan(sets=("none", "codec", "all"))
    assert plan.in_turn(0) == ["none", "codec", "all"]
    assert plan.in_turn(4) == ["codec", "all", "none"]


def test_a_ratio_is_the_median_of_those_of_each_run() -> None:
    def run(none: float, codec: float) -> dict[str, dict[str, float]]:
        return {NONE: {"x": none}, "codec": {"x": codec}}

    none, codec = compiled.summary([run(10, 9), run(100, 70), run(20, 16)], ["x"])
    assert none["x"] == {"min": 10, "median": 20, "max": 100, "ratio": 1}
    assert codec["x"] == {"min": 9, "median": 16, "max": 70, "ratio": 0.8}
    result = {
        "machine": "m",
        "load_average": 1,
        "stack": "udp.xml",
        "level": "3",
        "runs": 3,
        "figures": ["x"],
        "rows": [none, codec],
    }
    count = len(compiled.modules("codec", LISTED))
    assert f"| codec | {count} | 16.0 (9.00-70.0), x0.80 |" in compiled.markdown(result)


@pytest.mark.skipif(bool(compiled_modules()), reason="the modules here are compiled")
@pytest.mark.sockets
def test_two_real_members_are_measured() -> None:
    plan = PairPlan("udp.xml", (100,), (1, 2), 500, 20, "test-pair")
    found = compiled.one(NONE, compiled.ROOT, plan)
    assert set(found) == {delivery(100), calls_of(1), calls_of(2)}
    assert all(us > 0 for us in found.values())
    with pytest.raises(RuntimeError, match="compiled are"):
        compiled.one("codec", compiled.ROOT, replace(plan, calls=2))


@pytest.mark.skipif(not (compiled.ROOT / "setup.py").is_file(), reason="it copies a checkout")
def test_the_compiler_gets_the_modules_of_the_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "BUILD", tmp_path)
    folder = compiled.build(NONE, "0")
    assert (folder / compiled.LIST).read_text().split() == []
    assert (folder / "jgroups_py" / "protocols").is_symlink()
    assert (folder / "setup.py").exists()
