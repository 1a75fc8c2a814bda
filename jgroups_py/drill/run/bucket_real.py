"""A drill of a bucket store for real: as real.py, with a node in each process."""

from __future__ import annotations

from typing import Any, Final

import trio

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.bucket_course import BucketCourse
from jgroups_py.drill.run.patience import patient
from jgroups_py.drill.run.real import AskedDrill, Process, run_drill
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress, RunLog

STANDING_SECONDS: Final = 10.0
"""Seconds for a member to report the components of all members, on an idle machine."""


def run_bucket_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, BucketRealDrill)


class BucketRealDrill(BucketCourse[Process], AskedDrill):
    """One run of a drill of a bucket store."""

    module = "jgroups_py.drill.run.bucket_member"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._protected: dict[Process, bool] = {}
        self._stands: dict[str, Any] | None = None
        keys = max((load.asks.keys for load in self.plan.loads), default=0)
        self.last_question = {"do": "census", "keys": keys}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        match told["what"]:
            case "protected":
                self._protected[member] = told["protected"]
            case "moving":
                self._move_began(told)
            case "standing":
                self._stands = told
            case _:
                super()._heard(member, told)

    async def _standing(self, administrator: Process) -> dict[str, Any]:
        self._stands = None
        await self._tell(administrator, do="standing")
        with trio.move_on_after(self._patient(STANDING_SECONDS)):
            await self._until(lambda: self._stands is not None)
        if self._stands is None:
            raise DrillError(
                f"{self.plan.file}: {administrator} does not report the places of components"
            )
        return self._stands

    def _patient(self, seconds: float) -> float:
        return patient(seconds)

    async def _order(self, administrator: Process, do: str, **what: str) -> None:
        await self._tell(administrator, do=do, **what)

    def _settled(self) -> bool:
        return all(self._protected.get(member, False) for member in self._everybody)
