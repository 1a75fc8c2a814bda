"""Members under pressure: the bench sends tiny and huge messages, slows one member down, and reports when a group
fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio

from jgroups_py.tools.bench.peers import libraries, measures
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.children import ChildError
from jgroups_py.tools.commands import mperf_run
from jgroups_py.tools.commands.mperf_load import (
    SEQNO_BITS,
    SMALL_BETWEEN_HUGE,
    SlowTaker,
    mean_size,
    payloads,
)
from jgroups_py.tools.commands.mperf_run import Check, MperfPlan

PLAN = PeersPlan(("udp.xml", "tcp.xml"), (), (), (), (), 0.4, 0.2, 1, overload=True)


def test_huge_payloads_come_between_small_ones_and_are_numbered_with_them() -> None:
    made, check = payloads(10, 1000), Check(2)
    for _ in range(3):
        turn = made.beginning((1 << SEQNO_BITS) + check.total)
        assert [len(one) for one in turn] == [10] * SMALL_BETWEEN_HUGE + [1000]
        check.take(turn)
    assert check.delivered == [0, 3 * made.count]
    assert not check.duplicates and not check.out_of_order


def test_without_huge_payloads_all_are_alike() -> None:
    assert {len(one) for one in payloads(100, 0).beginning(0)} == {100}
    assert mean_size(100, 0) == 100
    assert mean_size(10, 1030) == 30


async def test_a_slow_member_takes_the_given_bytes_a_second(autojump_clock: Any) -> None:
    slow, began = SlowTaker(1000.0), trio.current_time()
    await slow.take([b"x" * 100, b"y" * 400])
    assert trio.current_time() - began == pytest.approx(0.5)
    await trio.sleep(1)
    await slow.take([b"x" * 500])
    assert trio.current_time() - began == pytest.approx(2.0), "it does not catch up on a pause"


def test_each_stack_has_a_case_for_each_pressure() -> None:
    cases: list[Case] = list(PLAN.cases())
    assert [case.arguments for case in cases] == [
        (False, False, False),
        (True, False, False),
        (True, False, True),
        (True, True, False),
    ] * 2
    assert libraries.names(cases[0]) == ["jgroups_py", "Java JGroups 5.5.6.Final"]


async def _measured(
    monkeypatch: pytest.MonkeyPatch, case: Case, **found: Any
) -> tuple[MperfPlan, dict[str, float]]:
    """Run a case whose members measure ``found``. Return the plan that they get, and the figures of the bench."""
    asked: list[MperfPlan] = []

    async def measure(plan: MperfPlan, *_: object) -> dict[str, Any]:
        asked.append(plan)
        fine = {
            "delivered_per_s_per_member": 500,
            "mb_per_s_per_member": 2.0,
            "least_window_per_s": 100,
            "cpu_us_per_message": 8.0,
            "view_changes": 0,
            "lost": 0,
            "duplicates": 0,
            "out_of_order": 0,
        }
        return fine | found

    monkeypatch.setattr(mperf_run, "measure", measure)
    monkeypatch.setattr(measures, "private_attributes", lambda *_: {"own": "ports"})
    figures = await measures.one_overload(PLAN, libraries.Ours(), case, "test")
    return asked[0], figures[""]


async def test_the_pressure_is_that_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    easy, _, fitting, hard = [case for case in PLAN.cases() if case.stack == "tcp.xml"]
    plan, figures = await _measured(monkeypatch, easy)
    assert plan.attributes == {"own": "ports"}
    assert (plan.size, plan.huge, plan.slow) == (measures.TINY, measures.HUGE, 0.0)
    assert figures["cpu_us"] == 2.0, "of each of four deliveries"
    assert figures["least_mb_per_s"] == pytest.approx(0.393)
    plan, _ = await _measured(monkeypatch, hard)
    assert plan.attributes["TCP.recv_buf_size"] == "65536"
    assert plan.slow == measures.SLOW
    assert "MFC.max_credits" not in plan.attributes
    plan, _ = await _measured(monkeypatch, fitting)
    assert plan.attributes["MFC.max_credits"] == measures.FITTING_CREDITS


@pytest.mark.parametrize(
    ("found", "problem"),
    [({"lost": 2}, "lost 2, twice 0"), ({"view_changes": 1}, "1 views changed")],
)
async def test_a_group_that_does_not_bear_it_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, int], problem: str
) -> None:
    with pytest.raises(ChildError, match=problem):
        await _measured(monkeypatch, next(PLAN.cases()), **found)


@pytest.mark.sockets
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_four_real_members_with_small_buffers_and_a_slow_one_lose_nothing(stack: str) -> None:
    case, most = [case for case in PLAN.cases() if case.stack == stack][-1], 2 * measures.SLOW / 1e6
    for seconds in (PLAN.seconds, 5.0):  # after a pause of a busy machine there is a burst
        plan = replace(PLAN, seconds=seconds)
        found = trio.run(measures.one_overload, plan, libraries.Ours(), case, "test-overload")[""]
        if 0 < found["mb_per_s"] < most:
            break
    assert 0 < found["mb_per_s"] < most, "flow control holds all to the slow one"
