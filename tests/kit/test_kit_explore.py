"""Exploring with the kit: schedules are drawn; faults are found, made smaller, written and played again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Event, Protocol, ViewChange
from jgroups_py.testing import (
    FAULTS,
    Invariant,
    PropertyViolated,
    SimCluster,
    SimMember,
    draw,
    explore,
    replay,
)
from jgroups_py.testing.__main__ import main
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Message

SHORT: dict[str, Any] = {"count": 3, "seconds": 4.0, "messages": 40}


class LOSES(Protocol):
    """Loses one message after a member has left."""

    def start(self) -> None:
        self.lose = False

    def event_up(self, event: Event) -> None:
        if isinstance(event, ViewChange) and event.old is not None:
            self.lose = self.lose or len(event.view) < len(event.old)
        self.pass_event_up(event)

    def up(self, batch: Batch) -> None:
        if self.lose and batch.dest is None and len(batch) == 1:
            self.lose = False
            self.consume(batch)
        else:
            self.pass_up(batch)


def sound(seed: int) -> SimCluster:
    return SimCluster("ABC", seed=seed)


def loses(seed: int) -> SimCluster:
    return SimCluster("ABC", ["sim.xml", LOSES], seed=seed)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> PropertyViolated:
    folder = tmp_path_factory.mktemp("explore")
    with pytest.raises(PropertyViolated) as caught:
        explore(
            loses,
            seeds=range(1, 30),
            faults=["crash", "drift"],
            shrink_runs=60,
            folder=folder,
            **SHORT,
        )
    return caught.value


def test_a_sound_run_holds_and_the_report_has_its_figures(tmp_path: Path) -> None:
    report = explore(sound, seeds=range(1, 3), folder=tmp_path, **SHORT)
    assert report.runs == 2 and report.faults >= 2
    assert 40 <= report.sent < report.delivered and report.virtual_s > 8 and report.events > 500
    assert str(report).startswith("2 runs held")
    assert list(tmp_path.iterdir()) == []


def test_no_seed_is_begun_when_time_is_up(tmp_path: Path) -> None:
    assert explore(sound, stop_after=0.0, folder=tmp_path, **SHORT).runs == 1


def test_a_bug_is_found_and_the_schedule_made_as_small_as_it_gets(found: PropertyViolated) -> None:
    assert found.check in ("gap", "healing")
    assert found.schedule is not None and found.file is not None
    # Or a member has left for good when the others heal.
    assert [step.do for step in found.schedule.steps] in (["crash"], [])
    assert len(found.schedule.loads) <= 1
    assert ("crash" in str(found) or "for good" in str(found)) and str(found.file) in str(found)
    assert f"seed {found.seed}" in str(found)


def test_the_file_is_played_as_it_was(found: PropertyViolated) -> None:
    assert found.file is not None
    for _ in range(2):
        with pytest.raises(PropertyViolated) as again:
            replay(loses, found.file)
        assert str(again.value) == str(found)


def test_the_command_plays_it(
    found: PropertyViolated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f"{__name__}:"
    assert main([module + "loses", str(found.file)]) == 1
    assert str(found) in capsys.readouterr().out
    assert found.schedule is not None
    mended = tmp_path / "mended.json"
    mended.write_text(found.schedule.to_json().replace("sim.xml + LOSES", "sim.xml"))
    assert main([module + "sound", str(mended)]) == 0
    assert capsys.readouterr().out.endswith("holds\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "usage: python -m jgroups_py.testing"),
        (["no_such_module:f", "x.json"], "cannot import 'no_such_module'"),
        (["json:nothing", "x.json"], "json has no function 'nothing'"),
        ([f"{__name__}:sound", "no-such-file.json"], "no-such-file.json"),
        ([f"{__name__}:sound", __file__], "not a schedule"),
    ],
)
def test_the_command_reports_a_mistake_in_one_line(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert problem in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"colour": "red"}, "unknown field `colour`"),
        ({"seed": "one"}, "Expected `int`, got `str` - at `$.seed`"),
        ({"steps": [{"at": 1, "do": "explode"}]}, "Invalid enum value 'explode'"),
        ({"steps": [{"at": 1, "do": "crash", "whom": "A"}]}, "unknown field `whom`"),
        ({"seconds": -1}, "`float` >= 0.0 - at `$.seconds`; there is '-1'"),
        ({"sites": []}, "every site needs members"),
        ({"stack": "udp.xml"}, "is for the stack udp.xml, not sim.xml"),
    ],
)
def test_the_error_of_a_wrong_file_names_the_mistake(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "schedule.json"
    values = json.loads(draw(sound(1), 1, **SHORT).to_json())
    file.write_text(json.dumps(values))
    assert replay(sound, file).problems == []
    file.write_text(json.dumps(values | change))
    with pytest.raises(ConfigError) as caught:
        replay(sound, file)
    assert problem in str(caught.value) and "schedule.json" in str(caught.value)


def test_drawing_needs_nothing_but_the_seed() -> None:
    assert draw(sound(5), 5) == draw(sound(5), 5) != draw(sound(6), 6)
    kinds = {step.do for seed in range(30) for step in draw(sound(seed), seed).steps}
    assert kinds == set(FAULTS)
    only = draw(sound(1), 1, {"crash": 1, "pause": 0}, count=5, seconds=7.0, messages=0)
    assert [step.do for step in only.steps] == ["crash"] * 5
    assert only.loads == () and all(0 <= step.at <= 7 for step in only.steps)
    assert draw(sound(1), 1, []).steps == ()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"faults": ["explode"]}, "no fault is called 'explode'"),
        ({"faults": {"crash": -1}}, "crash: a weight is at least 0"),
        ({"count": -1}, "count 0 to"),
        ({"seconds": 0}, "seconds > 0"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        draw(sound(1), 1, **arguments)


class Replies(Invariant):
    """An application that answers, and checks that it gets answers."""

    def __init__(self) -> None:
        self.asked = 0

    def on_message(self, member: SimMember, message: Message) -> None:
        if message.payload.startswith(b"ask"):
            asker = next((m for m in member_cluster(member) if m.address == message.sender), None)
            if asker is not None and asker is not member:
                self.asked += 1
                member.send(b"answer", to=asker)

    def at_rest(self, cluster: SimCluster) -> None:
        assert self.asked > 0, "nobody has asked"


def member_cluster(member: SimMember) -> SimCluster:
    cluster = member._scene.cluster
    assert isinstance(cluster, SimCluster)
    return cluster


def test_a_workload_of_ones_own_acts_by_the_schedule_and_repeats() -> None:
    judges: list[Replies] = []

    def cluster(seed: int) -> SimCluster:
        judges.append(Replies())
        return SimCluster(
            "AB",
            seed=seed,
            invariants=[judges[-1]],
            workload=lambda member, rng: member.send(b"ask %d" % rng.randrange(1000)),
        )

    schedule = draw(cluster(3), 3, ["drift"], **SHORT)
    assert cluster(3).play(schedule) == cluster(3).play(schedule)
    assert judges[-1].asked == judges[-2].asked > 5


def test_a_cluster_plays_once() -> None:
    cluster = sound(1)
    assert cluster.play(draw(sound(1), 1, [], **SHORT)).problems == []
    with pytest.raises(ConfigError, match="used once"):
        cluster.play()
