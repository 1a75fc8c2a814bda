"""The bench of maps measures the right figures."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from jgroups_py.tools.bench import maps, maps_stores


def test_times_are_as_many_as_calls_and_their_quantiles_are_of_the_slow_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", (0.25 * n for n in range(100)).__next__)
        took = maps_stores.times(10.0, calls.append)
    assert len(took) == len(calls) > 10 and calls[:2] == ["k0", "k1"]
    assert set(took) == {0.25}
    found = maps.quantiles([number / 1e6 for number in range(1, 1001)])
    assert found == {"p50": 501.0, "p99": 991.0, "p99.9": 1000.0, "max": 1000.0}
    assert maps.quantiles([]) == {}


def test_a_missing_module_is_named_with_its_extra() -> None:
    store = maps_stores.BenchStore()
    store.modules = ("no_such_module",)
    assert store.missing() == "no_such_module is not installed (pip install 'jgroups_py[bench]')"


def test_each_durability_of_a_map_stands_beside_the_same_of_redis() -> None:
    options = {
        name: store.options
        for name, store in maps_stores.STORES.items()
        if hasattr(store, "options")
    }
    for level, fsync in (("interval", "everysec"), ("sync", "always")):
        assert options[f"map-{level}"] == {"durability": level}
        assert options[f"redis-{level}"][2:] == ["--appendonly", "yes", "--appendfsync", fsync]


def test_a_store_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        maps.main(["--stores", "map,mongo"])
    assert "mongo is not known: map, map-process, redis" in capsys.readouterr().err


@pytest.mark.sockets
def test_a_map_is_measured_alone_and_while_another_process_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "BLOCKED_AFTER", 20.0)  # a busy machine is no stopped process
    out = tmp_path / "maps.json"
    arguments = "--stores map --processes 2 --sizes 100 --seconds 0.1 --stops 1 --json"
    maps.main([*arguments.split(), str(out)])
    found = json.loads(out.read_text())
    (row,), (stop,) = found["rows"], found["stopped"]
    assert row["processes"] == 2 and row["put"]["per_second"] > 0 and row["get"]["p50"] > 0
    assert stop["blocked"] == 0 and stop["put"]["p50"] > 0
    assert [one["peer"] for one in found["peers"]] == ["puts too", "is stopped", "was killed"]
    assert all(one["put"]["p50"] > 0 for one in found["peers"])
