"""Drills of bucket stores that kill single components, also during moves and upgrades."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import trio
from played_drill import play, refuse, slow_to_suspect

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.run import bucket_simulated
from jgroups_py.drill.run.bucket_user import DrillEntry
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.errors import ConfigError

DRILL = """\
seed: 1
workload: buckets
sites:
  NYC: {{members: [A, B, C, N, X, Y, P]}}
buckets: {{buckets: 6, lease: 500ms, managers: [A, B, C, N], indices: [A, X, Y], newer: [N]}}
set: {{FD_ALL3.timeout: 500ms, FD_ALL3.interval: 100ms, VERIFY_SUSPECT2.timeout: 100ms, MERGE3.min_interval: 100ms, MERGE3.max_interval: 300ms}}
traffic:
  - {{site: NYC, rate: 12/s, keys: 9, read_ratio: 30%, stop: 1500ms}}
timeline:
{timeline}
settle: 2s
expect: {{lost: 0, undone: 0, half: 0, duplicated: 0, stale: 0, unavailable: 0, alone: 0}}
"""
HAS = {
    "manager": "ABCN",
    "master": "ABC",
    "slave": "ABC",
    "index": "A",
    "router": "PXY",
    "proxy": "P",
    "node": "A",
}


def text(*timeline: str) -> str:
    return DRILL.format(timeline="\n".join(f"  - {{{event}}}" for event in timeline))


def played(*timeline: str, seed: int | None = None) -> tuple[BucketVerdict, dict[str, Any]]:
    """Return the verdict and the result of a simulated run."""
    return play(text(*timeline), BucketVerdict, seed=seed)


def hits(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Event, member, and the role in which it was killed."""
    return [(one["event"], one["who"].partition("#")[0].removeprefix("NYC."), one["role"]) for one in result["interruptions"]]  # fmt: skip


@pytest.mark.parametrize("component", ["master", "proxy"])
def test_members_with_a_component_are_killed_and_no_answered_change_is_lost(component: str) -> None:
    verdict, found = played(f"at: 500ms, crash: NYC.{component}", "at: 1s, restart: NYC.fallen")
    assert verdict.passed, found["expectations"]
    ((event, who, role),) = hits(found)
    assert event == "crash" and who in HAS[component] and role == component
    assert found["interruptions"][0]["seconds_by_key"]


def chosen(component: str, tmp_path: Path) -> str:
    """Return the members that the fault hits with 30 seeds."""
    planned = plan.build(loader.loads(text(f"at: 500ms, pause: NYC.{component}, for: 1s")))
    known = {
        "pairs": [["A", "B"], ["B", "C"], ["C", "A"]],
        "managers": ["A", "B", "C", "N"],
        "indices": ["A", "X", "Y"],
    }
    course = bucket_simulated.BucketSimulation(planned, NoProgress(), tmp_path)
    (event,) = planned.events
    there = list(planned.sites[0].members)
    seeds = map(random.Random, range(30))
    found = {course._choose(event, event.targets[0], known, there, one) for one in seeds}
    return "".join(sorted(found))


@pytest.mark.parametrize("component", HAS)
def test_each_component_is_found_at_the_members_that_have_it(
    component: str, tmp_path: Path
) -> None:
    assert chosen(component, tmp_path) == HAS[component]


async def test_a_fault_waits_for_its_own_move(autojump_clock: Any, tmp_path: Path) -> None:
    """Other moves are carried out; in an upgrade chance picks the move."""
    planned = plan.build(loader.loads(text("at: 0s, crash: NYC.master, during: upgrade")))
    course = bucket_simulated.BucketSimulation(planned, NoProgress(), tmp_path)
    (event,) = planned.events
    turns = []
    for seed in range(8):
        async with trio.open_nursery() as nursery:

            async def told() -> None:
                await trio.sleep(0.01)
                course._move_began(upgrade=False, number=1, of=1, took=0.0)
                for number in range(1, 5):
                    await trio.sleep(0.01)
                    course._move_began(upgrade=True, number=number, of=4, took=0.0)

            course._zero = trio.current_time()
            nursery.start_soon(told)
            reached = await course._reach(event, random.Random(seed))
        assert reached["upgrade"]
        turns.append(reached["number"])
    assert sorted(set(turns)) == [1, 2, 3, 4]


def test_the_destination_falls_in_the_middle_of_a_move_and_the_move_is_given_up() -> None:
    verdict, found = played("at: 500ms, crash: NYC.target, during: move")
    assert verdict.passed, found["expectations"]
    assert [role for _, _, role in hits(found)] == ["target during move"]
    numbers = found["sites"]["NYC"]
    assert numbers["orders"] + numbers["orders_failed"] >= 1


def test_an_upgrade_moves_all_buckets_of_a_member_and_a_fall_in_its_middle_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[tuple[float, int, int]] = []
    told = bucket_simulated.BucketSimulation._move_began

    def noted(self: Any, *args: Any, **more: Any) -> None:
        if more["upgrade"]:
            begun.append((self.now, more["number"], more["of"]))
        told(self, *args, **more)

    monkeypatch.setattr(bucket_simulated.BucketSimulation, "_move_began", noted)
    upgrade = "at: 500ms, upgrade: [NYC.B, NYC.N]"
    verdict, found = played(upgrade, "at: 500ms, crash: NYC.master, during: upgrade")
    assert verdict.passed, found["expectations"]
    ((_, who, role),) = hits(found)
    assert who in "ABC" and role == "master during upgrade"
    assert [number for _, number, _ in begun] == list(range(1, len(begun) + 1)) and begun[0][2] == 4
    fell = found["interruptions"][0]["at_s"]
    assert begun[0][0] <= fell < begun[-1][0] + 0.1


def test_a_copy_that_forgets_in_an_upgrade_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = DrillEntry.unserialise

    def forget(self: DrillEntry, data: bytes, version: int) -> None:
        read(self, data, version)
        if self._version == 81:
            self.entries = self.entries[:-1]

    monkeypatch.setattr(DrillEntry, "unserialise", forget)
    verdict, found = played("at: 1s, upgrade: [NYC.B, NYC.N]", "at: 1400ms, leave: NYC.B")
    assert not verdict.passed and found["lost"]


async def test_a_restart_waits_for_the_fall_that_comes_late(
    autojump_clock: Any, tmp_path: Path
) -> None:
    timeline = ("at: 0s, crash: NYC.slave, during: upgrade", "at: 1s, restart: NYC.fallen")
    planned = plan.build(loader.loads(text(*timeline)))
    course = bucket_simulated.BucketSimulation(planned, NoProgress(), tmp_path)
    course._zero = trio.current_time()
    gone: list[str] = []

    async def fall() -> None:
        await trio.sleep(1.5)
        gone.append("C")

    course._not_there = lambda: {"NYC": gone}  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fall)
        (found,) = await course._fallen(planned.events[1], random.Random(1))
    assert found.what == "C" and 1.5 <= course.now < 1.6
    gone.clear()
    with pytest.raises(DrillError, match=r"<drill>:11: nobody has fallen in 1\.\d s"):
        await course._fallen(planned.events[1], random.Random(1))


def test_an_event_without_a_victim_is_told_with_its_place() -> None:
    with pytest.raises(DrillError, match=r"<drill>:10: no upgrade began in 2\.8 s"):
        played("at: 200ms, crash: NYC.master, during: upgrade")
    with pytest.raises(DrillError, match=r"<drill>:11: there is no NYC.proxy"):
        played("at: 200ms, crash: NYC.proxy", "at: 400ms, crash: NYC.proxy")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("crash: NYC.target, during: move", "crash: NYC.target", 10, "NYC.target is the member to which a bucket moves: say 'during' as well"),
        ("during: move", "during: sleep", 10, "'sleep' is no work"),
        ("crash: NYC.target, during: move", "restart: NYC.master", 10, "'master' is no member of NYC"),
        ("crash: NYC.target, during: move", "upgrade: NYC.B", 10, "timeline[0].upgrade: two members expected"),
        ("crash: NYC.target, during: move", "upgrade: [NYC.B, NYC.index]", 10, "'index' is no member of NYC"),
        ("crash: NYC.target, during: move", "partition: [[NYC.index], [NYC.A]]", 10, "'index' is no member or role of NYC"),
        ("crash: NYC.target", "partition: [[NYC.B], [NYC.A]]", 10, "key 'during' goes with crash, vanish, pause, leave only"),
        ("[A, B, C, N, X, Y, P]", "[A, B, C, N, X, Y, proxy]", 4, "'proxy' is a selector"),
        ("[A, B, C, N, X, Y, P]", "[A, B, C, N, X, Y, fallen]", 4, "'fallen' is a selector"),
        ("indices: [A, X, Y]", "indices: [A, A]", 5, "buckets.indices: 'A' stands twice"),
        ("buckets: 6", "buckets: [6, 7]", 5, "buckets.buckets: '6, 7' is not a whole number"),
    ],
)  # fmt: skip
def test_an_impossible_target_is_reported_with_its_place(
    old: str, new: str, line: int, words: str
) -> None:
    refuse(text("at: 500ms, crash: NYC.target, during: move"), old, new, line, words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("newer: [N]", "newer: [Z]", "'Z' is no member .*buckets.newer|buckets.newer.*'Z' is no member"),
        ("newer: [N]", "newer: [A, B, N]", "a bucket store needs two members"),
        ("newer: [N]", "index_copies: 3", "give one of both"),
    ],
)  # fmt: skip
def test_an_instance_that_cannot_be_is_refused(old: str, new: str, words: str) -> None:
    drill = text("at: 500ms, crash: NYC.index").replace(old, new)
    with pytest.raises(ConfigError, match=words):
        judged.check(plan.build(loader.loads(drill)))


def test_the_shipped_drill_is_read_and_could_be_run() -> None:
    planned = plan.build(loader.load("buckets-components"))
    judged.check(planned)
    assert {event.during for event in planned.events} == {"", "move", "upgrade"}


@pytest.mark.sockets
def test_a_real_drill_kills_components(tmp_path: Path) -> None:
    drill = text(
        "at: 500ms, upgrade: [NYC.B, NYC.N]", "at: 500ms, crash: NYC.slave, during: upgrade"
    )
    drill = slow_to_suspect(drill).replace("settle: 2s", "settle: 6s")
    drill = drill.replace("alone: 0", "alone: <= 6")
    verdict, result = play(drill, BucketVerdict, real=True)
    assert verdict.passed, result["expectations"]
    assert [role for _, _, role in hits(result)] == ["slave during upgrade"]
