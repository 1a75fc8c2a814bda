"""Random schedules of the bucket store in virtual time: kills, cuts, moves, cancelled moves, recreations, under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jgroups_py.buckets.leaving import LeavingMoves
from jgroups_py.testing.explorer.back_ends import load
from jgroups_py.testing.explorer.buckets import repartition
from jgroups_py.testing.explorer.buckets.administered import play_orders
from jgroups_py.testing.explorer.buckets.repartition import play_repartition
from jgroups_py.testing.explorer.buckets.schedule import draw, play

FOUND = Path(__file__).parents[1] / "explore" / "found"


@pytest.mark.seed("A10", "A19", "A20", "A30", "A31", "A50")
@pytest.mark.parametrize("first", [1, 11])
def test_no_answered_change_is_lost_and_no_two_masters_answer(first: int) -> None:
    ten_seeds_hold(first)


@pytest.mark.parametrize("first", [21, 31])
def test_twenty_more_schedules_hold(first: int) -> None:
    ten_seeds_hold(first)


def ten_seeds_hold(first: int) -> None:
    for seed in range(first, first + 10):
        run = play(draw(seed))
        assert run.problems == [], f"jgroups-py dev buckets-explore --replay {seed}"


def test_a_move_that_the_index_decides_while_it_is_cancelled_is_finished() -> None:
    """The destination was ordered to drop its copy, which was the only one."""
    assert play(draw(19)).problems == []


def test_a_router_that_was_cut_off_brings_no_empty_copy_back() -> None:
    """The router's first row made a manager begin anew although its copy had moved away."""
    assert play(draw(40)).problems == []


@pytest.mark.parametrize("name", ["buckets-357", "buckets-925"])
def test_a_manager_that_was_replaced_reads_nothing_old_when_it_is_back(name: str) -> None:
    """The lease came before the rows that the manager had lost."""
    back_end, case = load(FOUND / f"{name}.json")
    assert back_end.play(case).problems == []


@pytest.mark.seed("A21", "A39", "A65")
@pytest.mark.parametrize("first", [1, 4])
def test_schedules_with_two_versions_of_the_plug_in_hold(first: int) -> None:
    """Buckets move up and down between the versions while members are killed and cut off."""
    for seed in range(first, first + 3):
        command = "jgroups-py dev buckets-explore --profile buckets-versions --replay"
        assert play(draw(seed, versions=True)).problems == [], f"{command} {seed}"


@pytest.mark.seed("A31", "A50")
@pytest.mark.parametrize("first", [1, 4])
def test_schedules_hold_where_some_messages_are_late(first: int) -> None:
    """Up to a fifth of all messages and views takes up to half a second longer. Slaves answer half of the reads."""
    for seed in range(first, first + 3):
        command = "jgroups-py dev buckets-explore --profile buckets-late --replay"
        assert play(draw(seed, late=True)).problems == [], f"{command} {seed}"


@pytest.mark.parametrize("seed", [329, 697, 845])
def test_slaves_that_a_late_settling_takes_away_are_recreated(seed: int) -> None:
    """All pairs had a slave when the schedule looked; the index decided the loss of one side of the cut later."""
    assert play(draw(seed, late=True)).problems == []


@pytest.mark.seed("A38", "A39", "A48", "A49", "A55")
@pytest.mark.parametrize("first", [1, 4])
def test_orders_are_carried_out_where_some_messages_are_late(first: int) -> None:
    runs = []
    for seed in range(first, first + 3):
        runs.append(play_orders(draw(seed, late=True, orders=True)))
        command = "jgroups-py dev buckets-explore --profile buckets-orders --replay"
        assert runs[-1].problems == [], f"{command} {seed}"
    assert sum(run.moves for run in runs) > 50
    assert play_orders(draw(first, late=True, orders=True)).story == runs[0].story


def test_a_backup_that_never_heard_of_the_first_rows_takes_over() -> None:
    """They were lost with their sender, and an order to its master was refused for ever."""
    assert play_orders(draw(5, late=True, orders=True)).problems == []


def test_an_order_that_is_refused_and_a_move_without_end_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = LeavingMoves.begin
    case = draw(2, late=True, orders=True)
    for what in ("refused", "silent"):

        def broken(self: Any, copy: Any, asker: Any, move: Any, moving: int, w: str = what) -> bool:
            if w == "silent":
                return False
            return begin(self, None, asker, move, moving)

        monkeypatch.setattr(LeavingMoves, "begin", broken)
        (first, *_) = play_orders(case).problems
        assert first.check == "orders"
        assert ("the master is not here" if what == "refused" else "no end") in first.detail


@pytest.mark.seed("A21", "A22", "A57")
@pytest.mark.parametrize("first", [1, 7])
def test_a_re_partition_that_is_disturbed_at_every_step_loses_nothing(first: int) -> None:
    """Nodes are killed and cut off and buckets move while entries are exported, sorted and put into an instance with another number of buckets."""
    runs = []
    for seed in range(first, first + 6):
        runs.append(play_repartition(draw(seed, repartition=True)))
        command = "jgroups-py dev buckets-explore --profile buckets-repartition --replay"
        assert runs[-1].problems == [], f"{command} {seed}"
    assert sum(r.kills for r in runs) > 2 < sum(r.cuts for r in runs)
    assert sum(r.moves for r in runs) > 20
    story = [line for run in runs for line in run.story]
    assert any("begins again" in line for line in story)
    assert play_repartition(draw(first, repartition=True)).story == runs[0].story


@pytest.mark.parametrize("step", ["_import", "read_contents", "_sort"])
def test_an_entry_that_a_re_partition_loses_or_a_file_that_it_leaves_is_reported(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = getattr(repartition, step)

    def broken(first: Any, second: Any, *others: Any) -> Any:
        if step == "_import":
            return usual(first, second[1:])
        if step == "read_contents":
            found = usual(first, second, *others)
            return {bucket: changes[1:] for bucket, changes in found.items()}
        (others[0] / "left").touch()
        return usual(first, second, *others)

    monkeypatch.setattr(repartition, step, broken)
    runs = [play_repartition(draw(seed, repartition=True)) for seed in range(1, 5)]
    checks = {problem.check for run in runs for problem in run.problems}
    assert checks == {"sorting" if step == "_sort" else "carried over"}


def test_a_schedule_has_kills_cuts_and_moves_and_is_the_same_each_time() -> None:
    runs = [play(draw(seed)) for seed in (1, 2, 3)]
    assert sum(r.kills for r in runs) > 0 < sum(r.cuts for r in runs)
    assert sum(r.moves for r in runs) > 10
    assert play(draw(2)).story == runs[1].story
    answers = [str(asked.answer) for asked in play(draw(3)).asked]
    assert answers == [str(asked.answer) for asked in runs[2].asked]


@pytest.mark.slow
def test_five_thousand_schedules_hold() -> None:
    failed = {seed: found for seed in range(1, 5001) if (found := play(draw(seed)).problems)}
    assert failed == {}
