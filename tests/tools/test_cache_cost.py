"""The cost of buddy replication does not depend on the size of the cluster; tests of the command that shows it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from jgroups_py.drill.run.requests import Load, Requests, home
from jgroups_py.tools.bench import cache_cost_counts as cache_cost
from jgroups_py.tools.bench.cache_cost_counts import Cost, Memory

PACKETS, MEMORY = 0.10, 0.10
"""Tolerances for packets and bytes of a write (acknowledgements of the transport are collected), and
for the nodes of the fullest and the emptiest member, beside (b + 1) X."""


async def measured(members: int, buddies: int) -> tuple[Cost, Memory]:
    async with cache_cost.cluster(members, buddies) as cluster:
        memory = await cache_cost.memory(cluster, 100)
        return (await cache_cost.operations(cluster, 200, 100, kinds=1))["write"], memory


@pytest.mark.seed("B2", "B3")
@pytest.mark.parametrize(
    ("sizes", "buddies"),
    [((5, 12), 2), *(pytest.param((5, 50), b, marks=pytest.mark.slow) for b in (1, 2, 3))],
)
async def test_a_write_costs_the_same_and_memory_is_b_plus_1_x(
    sizes: tuple[int, int], buddies: int, autojump_clock: Any
) -> None:
    small, large = [await measured(members, buddies) for members in sizes]
    for write, memory in (small, large):
        assert write.messages == {"Op": buddies, "OpAck": buddies}
        assert write.packets == pytest.approx(2 * buddies, rel=PACKETS)
        least, mean, most = memory.ratio(buddies)
        assert mean == pytest.approx(1)  # each copy is at some member
        assert least >= 1 - MEMORY and most <= 1 + MEMORY
    assert large[0].packets == pytest.approx(small[0].packets, rel=PACKETS)
    assert large[0].bytes == pytest.approx(small[0].bytes, rel=PACKETS)


@pytest.mark.seed("B4")
async def test_low_stickiness_shows_the_cost_of_gravitation(autojump_clock: Any) -> None:
    """Requests at home cost b + b messages a write; each other request costs at least a search of all members."""
    found = []
    for part in (1.0, 0.5):
        async with cache_cost.cluster(4, 1) as cluster:
            found.append(await cache_cost.stickiness(cluster, Load(40, 0.8, part, 100), 200))
    sticky, loose = found
    assert sticky.astray == sticky.gravitations == 0
    assert sticky.messages == pytest.approx(2 * 0.2, abs=0.15)  # a fifth are writes
    assert loose.astray == pytest.approx(0.5, abs=0.1)
    assert loose.gravitations > 0.3
    assert loose.messages > sticky.messages + loose.gravitations * (2 * 3 + 1)


@pytest.mark.seed("B4")
def test_requests_are_spread_evenly_and_as_sticky_as_asked() -> None:
    """Homes within 15 % for 1,000 keys; stickiness and reads within 0.03 for 2,000 requests."""
    names = ["A", "B", "C", "D"]
    keys = [home(key, names) for key in range(1000)]
    for name in names:
        assert keys.count(name) == pytest.approx(250, rel=0.15)
    for name in names:
        source = Requests(Load(1000, 0.8, 0.9, 10), name, random.Random(name))
        drawn = [source.next(names) for _ in range(2000)]
        assert [r.at_home for r in drawn] == [keys[r.key] == name for r in drawn]
        assert sum(r.at_home for r in drawn) / 2000 == pytest.approx(0.9, abs=0.03)
        assert sum(r.read for r in drawn) / 2000 == pytest.approx(0.8, abs=0.03)
    moved = [k for k in range(1000) if keys[k] != "B" and home(k, ["A", "C", "D"]) != keys[k]]
    assert moved == []  # only the keys of the departed member have another home


def test_a_member_at_which_nothing_or_everything_is_at_home_is_asked_all_the_same() -> None:
    alone = Requests(Load(5, 0.5, 0.0, 10), "A", random.Random(1))
    assert alone.next(["A"]).at_home
    names = [f"M{n}" for n in range(30)]
    homeless = next(name for name in names if name not in {home(k, names) for k in range(2)})
    source = Requests(Load(2, 0.5, 1.0, 10), homeless, random.Random(1))
    assert {source.next(names).key for _ in range(50)} == {0, 1}


def test_the_command_prints_figures_and_draws_them(tmp_path: Any) -> None:
    plot = tmp_path / "cost.svg"
    small = ["--members", "3", "--buddies", "1", "--count", "20", "--keys", "20"]
    small += ["--stickiness", "0.5"]
    command = [sys.executable, "-m", "jgroups_py.tools.bench.cache_cost", *small]
    done = subprocess.run(
        [*command, "--json", "--plot", str(plot)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (run,) = result["clusters"]
    assert run["operations"]["write"]["messages"] == 2
    assert run["operations"]["create"]["messages"] == 1 + 2 + 2 + 1 + 1
    assert [s["stickiness"] for s in result["stickiness"]] == [0.5]
    assert plot.read_text().startswith("<svg") and "gravitate" in plot.read_text()
    done = subprocess.run([*command, "--count", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--count is 1 to 600" in done.stderr
