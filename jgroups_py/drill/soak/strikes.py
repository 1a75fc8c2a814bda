"""Faults of an endless run. A fault that finds no member is counted, and the run continues."""

from __future__ import annotations

from jgroups_py.drill.file.plan import PlannedEvent
from jgroups_py.drill.run.course import Course, M
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.soak.samples import SoakRun


class SparingCourse(Course[M]):
    """A course whose faults pass over members and sites that are absent already. ``result`` counts what happened."""

    result: SoakRun

    async def _strike(self, event: PlannedEvent) -> None:
        try:
            await self._fire(event)
        except DrillError:
            self.result.count("nobody there")  # the target is absent already
        else:
            self.result.count(event.fault)

    async def _hit(self, event: PlannedEvent, site: str, name: str) -> None:
        if self._runs(self._member(site, name)):
            await super()._hit(event, site, name)

    async def _fail_site(self, event: PlannedEvent, site: str) -> None:
        if self._living()[site]:
            await super()._fail_site(event, site)
