"""The parts of ``--json`` that results of all workloads have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jgroups_py.drill.judge.rules import Judged, Measured


class Verdicts(Protocol):
    """A verdict of any workload."""

    @property
    def passed(self) -> bool: ...
    @property
    def expectations(self) -> Sequence[Judged]: ...


def said(
    workload: str, verdict: Verdicts, *, name: str, mode: str, seed: int, **_times: Any
) -> dict[str, Any]:
    """Return the beginning of the object: the run, and whether expectations hold."""
    return {
        "name": name,
        "mode": mode,
        "workload": workload,
        "seed": seed,
        "verdict": "pass" if verdict.passed else "fail",
        "expectations": [
            {
                "name": judged.expectation.name,
                "limit": judged.expectation.text,
                "measured": rounded(judged.measured),
                "holds": judged.holds,
            }
            for judged in verdict.expectations
        ],
    }


def durations(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the durations: seconds of virtual time (None: a real run) and of the clock."""
    return {"virtual_s": rounded(about["virtual_s"]), "wall_s": round(about["wall_s"], 3)}


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def times_of(measured: Sequence[Measured]) -> list[float | None]:
    return [rounded(one.seconds) for one in measured]
