"""The lab's histories of maps, and the cost of a put on the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.testing.explorer.lab import shrunk
from jgroups_py.testing.explorer.maps.back_end import MapClusters, Maps
from jgroups_py.testing.explorer.maps.clusters import explore_cluster
from jgroups_py.testing.explorer.maps.traffic import measure
from jgroups_py.tools import cli


@pytest.mark.seed("K6")
def test_maps_of_whole_simulated_clusters_end_equal_after_any_faults() -> None:
    for seed in range(5):
        outcome = explore_cluster(seed)
        assert not outcome.problems, (seed, outcome.first)


def test_a_late_word_to_all_does_not_let_a_removal_be_forgotten_too_early() -> None:
    """A peer's earlier report to all hosts was taken for a part of its later acknowledgement."""
    assert not explore_cluster(9199).problems


def test_a_cluster_is_the_same_for_the_same_seed() -> None:
    first, second = explore_cluster(11), explore_cluster(11)
    assert (first.story, first.events) == (second.story, second.events)


def test_a_history_that_fails_is_made_smaller_and_can_be_written_and_played_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MapStamp, "is_newer", lambda self, other: True)
    back_end = Maps()
    for seed in range(50):
        case, outcome = back_end.explore(seed, "map-links")
        if outcome.problems:
            break
    else:
        pytest.fail("nothing was found")
    smaller = shrunk(back_end, case, outcome, 60)
    assert len(smaller.steps) <= len(case.steps) // 2
    again = back_end.read(back_end.write(smaller), "file")
    assert again == smaller
    found = back_end.play(again).first
    assert found is not None and outcome.first is not None
    assert found.check == outcome.first.check


@pytest.mark.parametrize(
    "change", [{"hosts": 0}, {"rule": "none"}, {"window": "wide"}, {"more": 1}]
)
def test_a_file_that_is_no_history_of_maps_is_refused(change: dict[str, Any]) -> None:
    back_end = Maps()
    content = json.loads(back_end.write(back_end.draw(1, "map-shared")))
    content["setting"] |= change
    with pytest.raises(ConfigError, match=r"here\.json"):
        back_end.read(json.dumps(content), "here.json")
    with pytest.raises(ConfigError, match=r"here\.json"):
        MapClusters().read("[]", "here.json")


@pytest.mark.seed("K2")
def test_a_put_in_a_group_costs_one_copy_and_over_tcp_one_for_each_peer() -> None:
    measured = measure(8, puts=2, value_bytes=1000)
    tcp, group = measured["tcp"], measured["group"]
    assert 7 * 1000 < tcp["bytes_per_put"] < 7 * 1400
    assert (
        tcp["messages_per_put"] == 7 + 7 + 8 * 7
    )  # changes, acknowledgements, and the reports between each two hosts
    assert tcp["idle_messages_per_s"] == 8 * 7 / 5  # in each tenth of half a second
    assert 1000 < group["bytes_per_put"] < 2200
    assert group["idle_messages_per_s"] < 8


@pytest.mark.slow
@pytest.mark.seed("K5")
def test_127_hosts_are_linked_and_get_a_put_with_one_message() -> None:
    group = measure(127, puts=1)["group"]
    assert group["bytes_per_put"] < 126 * 100


def test_the_commands_print_their_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["dev", "map-explore", "--seeds", "1..4", "--json", "found.json"]) == 0
    found = json.loads(Path("found.json").read_text())
    assert (found["runs"], found["violations"]) == (4, [])
    assert cli.run(["dev", "map-explore", "--replay", "3", "--profile", "map-shared"]) == 0
    assert "nothing was violated" in capsys.readouterr().out
    assert cli.run(["dev", "map-traffic", "--hosts", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == 3
