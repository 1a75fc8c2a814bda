"""A drill of live and backup for real: as real.py, with a node in each process."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.real import AskedDrill, Process, run_drill
from jgroups_py.drill.run.runner import Progress, RunLog


def run_live_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, LiveRealDrill)


class LiveRealDrill(AskedDrill):
    """One run of a drill of live and backup."""

    module = "jgroups_py.drill.run.live_member"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._roles: dict[Process, str] = {}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        if told["what"] == "role":
            self._roles[member] = told["role"]
        else:
            super()._heard(member, told)

    def _settled(self) -> bool:
        """Is there a live node with all others as its backups?"""
        roles = sorted(self._roles.get(member, "") for member in self._everybody)
        return roles == [*["backup"] * (len(self._everybody) - 1), "live"]
