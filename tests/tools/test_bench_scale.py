"""``bench.scale``: each event in a group is measured, and the group is complete after each."""

from __future__ import annotations

import pytest

from jgroups_py.tools.bench import scale


def test_every_event_of_a_small_group_has_a_cost_and_ends_in_one_view() -> None:
    rows = scale.measure(4)
    costs = [row for row in rows if "packets" in row]
    assert [row["what"].split()[0] for row in costs] == [
        "form,",
        "join",
        "leave",
        "crash",
        "8",
        "one",
    ]
    assert all(row["one_view"] and row["packets"] > 0 and row["bytes"] > 0 for row in costs)
    assert [row["members"] for row in costs] == [4, 5, 4, 3, 3, 3]


def test_growth_is_the_exponent_between_neighbouring_sizes() -> None:
    rows = [{"what": "join", "members": n, "packets": n * n} for n in (10, 20, 40)]
    assert [row["packets"] for row in scale.growth(rows, "packets")] == pytest.approx([2, 2])
    assert scale.growth(rows, "cpu_ms") == []


def test_the_table_divides_costs_by_members() -> None:
    row = {
        "members": 10,
        "what": "join",
        "packets": 30,
        "bytes": 1000,
        "cpu_ms": 5.0,
        "virtual_s": 1,
    }
    assert scale.markdown([row]).splitlines()[-1] == "| 10 | join | 3.0 | 100 | 0.50 | 1 |"
