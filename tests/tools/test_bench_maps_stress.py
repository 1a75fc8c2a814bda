"""The stress of maps and the measurement of their delay report true figures."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import blocking
from jgroups_py.tools.bench import maps_delay, maps_stress


def test_a_half_is_equal_only_with_the_same_keys_values_and_stamps(tmp_path: Path) -> None:
    with (
        blocking.open_map(tmp_path / "1", key=str, value=bytes, identifier=1) as m,
        blocking.open_map(tmp_path / "2", key=str, value=bytes, identifier=2) as other,
    ):
        one, two = maps_stress.StressHost(m), maps_stress.StressHost(other)
        written = 0
        while not written:  # the process may be stopped for all of the time
            now = time.monotonic()
            written = one.write(0, 20_000, now, now + 0.5)
        m["100000"] = b"of the other half"
        digest = one.digest(0)
        other._file.apply([(k, e) for k, e in m._file.items() if k.startswith(b"0")], {})
        at = two.wait_equal(0, digest, time.monotonic() + 20)
        assert at is not None and two.digest(1) != one.digest(1)
        key = next(iter(other))
        other[key] = other[key]  # the value is the same, and the stamp another one
        assert two.wait_equal(0, digest, time.monotonic()) is None


def test_a_writer_that_is_late_makes_that_good(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.03

        def monotonic(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += seconds + 0.002  # the same value with another stamp

    clock = Clock()
    monkeypatch.setattr(maps_stress, "time", clock)
    host = maps_stress.StressHost({})
    assert host.write(0, 10_000, 0.0, 1.0) == 10_000
    clock.now = 1.04  # the digest took some time
    assert host.write(1, 10_000, 0.0, 2.0) == 10_000


def test_a_finding_stands_beside_its_aim() -> None:
    found: dict[str, Any] = {
        "hosts": 4,
        "seconds": 2,
        "rate": 10_000.0,
        "puts": 18_000,
        "reached": 9_000,
        "checks": 6,
        "late": 1,
        "equal_after_ms": {"p50": 50, "max": 800},
        "load": 1.25,
    }
    assert list(maps_stress.lines(found)) == [
        "18,000 puts in 2 s (9,000 of 10,000 a second wanted), load 1.2",
        "6 checks, 1 of them not equal in time; equal after p50 50 ms, at most 800 ms",
    ]


def test_wrong_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        maps_stress.main(["--rate", "0"])
    assert "--rate must be above 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        maps_delay.main(["--puts", "0"])
    assert "--puts must be at least 1" in capsys.readouterr().err


def test_a_reader_notes_each_put_that_it_sees_once() -> None:
    values = iter([None, [1, 0], [1, 0], [3, 0], [2, 0], [4, 0]])

    class Map:
        def get(self, key: str) -> Any:
            return next(values)

    assert len(maps_delay.read(Map(), 4)) == 3


@pytest.mark.sockets
def test_a_writer_and_three_replicas_are_equal_every_second(tmp_path: Path) -> None:
    out = tmp_path / "stress.json"
    maps_stress.main(["--rate", "500", "--seconds", "2", "--json", str(out)])
    found = json.loads(out.read_text())
    assert found["checks"] == 6 and found["puts"] > 100


@pytest.mark.sockets
def test_a_put_is_seen_by_another_process_and_by_another_host(tmp_path: Path) -> None:
    out = tmp_path / "delay.json"
    maps_delay.main(["--puts", "20", "--json", str(out)])
    near, far = json.loads(out.read_text())["rows"]
    assert near["to"] == "another process" and near["seen"] > 0 and near["p50"] > 0
    assert far["to"] == "another host" and far["seen"] > 0
