"""A drill of maps for real: as real.py, with a map in each process."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.real import AskedDrill, Process, run_drill
from jgroups_py.drill.run.runner import Progress, RunLog


def run_map_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, MapRealDrill)


class MapRealDrill(AskedDrill):
    """One run of a drill of maps."""

    module = "jgroups_py.drill.run.map_member"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._links: dict[Process, int] = {}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        if told["what"] == "linked":
            self._links[member] = told["links"]
        else:
            super()._heard(member, told)

    def _settled(self) -> bool:
        """Are all hosts of a site linked, and the first hosts of all sites?"""
        several = len(self.plan.sites) - 1
        for member in self._everybody:
            names = self.plan.site(member.site).members
            wanted = len(names) - 1 + several * (member.name == names[0])
            if self._links.get(member, 0) < wanted:
                return False
        return True
