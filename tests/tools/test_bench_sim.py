"""`bench-sim`: small runs; all messages arrive, and the shares of a profile add up to the whole time."""

from __future__ import annotations

import cProfile

import pytest

from jgroups_py.tools.bench import sim as bench_sim


@pytest.mark.parametrize("rate", [1, 20])
def test_every_sent_message_arrives(rate: int) -> None:
    result = bench_sim.run(4, 12, rate=rate)
    assert result["delivered"] == result["expected"] == 4 * 12 * rate
    assert result["one_view"] == 1
    assert result["delivered_per_cpu_s"] > 0


def test_all_members_send_in_turns() -> None:
    result = bench_sim.run(4, 3, rate=80, turns=10)
    assert result["delivered"] == result["expected"] == 3 * 4 * 80


def test_the_shares_of_a_profile_are_all_of_the_time() -> None:
    profile = cProfile.Profile()
    profile.enable()
    bench_sim.run(3, 2)
    profile.disable()
    found = bench_sim.shares(profile)
    assert len(found) == bench_sim.SHOWN + 1
    assert sum(share for _, share in found) == pytest.approx(1)
    assert any(name.startswith("protocols/") for name, _ in found)
