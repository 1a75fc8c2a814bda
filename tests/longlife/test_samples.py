"""The rule that decides whether a quantity has grown."""

from __future__ import annotations

import pytest

from jgroups_py.drill.soak.samples import Compared, Samples, SoakSample, compare


def sample(t: float, length: int, *, who: str = "a1#1", rss: float = 1e6) -> SoakSample:
    tables = {"P.table": (length, 100), "P.small": (1, 50), "P.big": (10_000, 50)}
    return SoakSample(t, {who: tables}, {"rss": rss}, {who: {"rss": rss}})


def grown(lengths: list[int], **more: float) -> list[str]:
    samples = [sample(float(t + 1), n, **more) for t, n in enumerate(lengths)]  # type: ignore[arg-type]
    return [c.name for c in compare(samples, float(len(lengths)), {}) if not c.holds]


def test_a_table_that_grows_is_named_of_all_and_of_its_process() -> None:
    assert grown(list(range(0, 120, 10))) == ["P.table", "a1#1 P.table"]


def test_a_size_that_stays_or_shrinks_is_fine() -> None:
    assert grown([100] * 12) == []
    assert grown(list(range(120, 0, -10))) == []


def test_a_small_table_may_grow_by_a_few_entries_and_a_large_one_by_five_percent() -> None:
    assert Compared("table", "x", 3, 10, 8).holds
    assert not Compared("table", "x", 3, 12, 8).holds
    assert Compared("table", "x", 1000, 1050, 8).holds
    assert not Compared("table", "x", 1000, 1051, 8).holds


def test_the_sum_of_all_has_no_slack() -> None:
    samples = [sample(t, 100 + 60 * t) for t in range(1, 13)]
    assert "sum of entries" in [c.name for c in compare(samples, 12, {}) if not c.holds]


def test_a_process_that_was_started_again_is_not_compared_with_itself() -> None:
    samples = [sample(t, 10 * t, who="a1#1" if t < 6 else "a1#2") for t in range(1, 13)]
    names = [c.name for c in compare(samples, 12, {})]
    assert "P.table" in names and not any(name.startswith("a1#") for name in names)


def test_a_stack_of_one_window_only_counts_in_the_sum_of_all_processes() -> None:
    def of(t: int, bridge: int) -> SoakSample:
        tables = {"P.table": (100, 100), **({"global:P.table": (bridge, 50)} if bridge else {})}
        return SoakSample(t, {"a1#1": tables}, {"rss": 1e6}, {"a1#1": {"rss": 1e6}})

    late = [of(t, 0 if t < 6 else 50) for t in range(1, 13)]
    assert {c.name for c in compare(late, 12, {}) if not c.holds} == {
        "sum of entries",
        "sum of bytes",
        "global:P.table",
    }
    grows = [of(t, 10 * t) for t in range(1, 13)]
    assert "a1#1 global:P.table" in {c.name for c in compare(grows, 12, {}) if not c.holds}


def test_figures_of_processes_have_slacks_of_their_own() -> None:
    samples = [sample(t, 1, rss=1e6 + 1e5 * t) for t in range(1, 13)]
    said = [c.name for c in compare(samples, 12, {}) if not c.holds]
    assert said == ["rss", "a1#1 rss"]
    assert not [c for c in compare(samples, 12, {"rss": 2e6}) if not c.holds]


def test_samples_are_kept_in_a_file() -> None:
    samples = Samples()
    samples.add(sample(1, 5))
    samples.add(sample(2, 6))
    assert [s.tables("a1#1")["P.table"].length for s in samples] == [5, 6]
    assert [s.t for s in samples] == pytest.approx([1, 2])
    samples.close()
