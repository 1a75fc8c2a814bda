"""A drill of a bucket store for real: as real.py, with a node in each process."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.real import AskedDrill, Process, run_drill
from jgroups_py.drill.run.runner import Progress, RunLog


def run_bucket_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, BucketRealDrill)


class BucketRealDrill(AskedDrill):
    """One run of a drill of a bucket store."""

    module = "jgroups_py.drill.run.bucket_member"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._protected: dict[Process, bool] = {}
        keys = max((load.asks.keys for load in self.plan.loads), default=0)
        self.last_question = {"do": "census", "keys": keys}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        if told["what"] == "protected":
            self._protected[member] = told["protected"]
        else:
            super()._heard(member, told)

    def _settled(self) -> bool:
        return all(self._protected.get(member, False) for member in self._everybody)
