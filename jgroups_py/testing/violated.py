"""The exception for a property that does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.explorer.stacks.schedule import Schedule

STORY_LINES_MAX: Final = 30
"""The most shown lines of a run's story: the last ones before the violation."""


class PropertyViolated(Violated):
    """A check does not hold.

    ``seed``: of the run. ``check``: a name of ``CHECKS``, ``invariant`` (an assertion within a
    protocol), ``exception`` (a handler raised one), or the name of an Invariant of yours.
    ``detail``: the observation, and the member that made it. ``at``: virtual seconds since the run began. ``story``:
        the
    faults that happened, one line each. ``schedule``, ``file``: the smallest schedule found that shows it, and its
    file; None for a cluster that a test drives by hand, where the test itself is the replay. ``replay``: the way to see
    it again, in words.

    The cluster stays readable as of that moment; it does not run on.
    """

    def __init__(
        self,
        check: str,
        detail: str,
        *,
        seed: int,
        at: float,
        story: Sequence[str] = (),
        schedule: Schedule | None = None,
        file: Path | None = None,
        replay: str = "",
    ) -> None:
        self.check = check
        self.detail = detail
        self.seed = seed
        self.at = at
        self.story = tuple(story)
        self.schedule = schedule
        self.file = file
        self.replay = replay
        super().__init__(check, detail, at, self._text())

    def _text(self) -> str:
        lines = [f"{self.check}: {self.detail} (seed {self.seed}, {self.at:.3f} s)"]
        if self.schedule is not None:
            places = [f"{s.name}: {' '.join(s.members)}" for s in self.schedule.sites]
            lines.append(f"  {'; '.join(places)}; {self.schedule.stack}")
        if len(self.story) > STORY_LINES_MAX:
            lines.append(f"  ... {len(self.story) - STORY_LINES_MAX} lines before")
        lines += [f"  {line}" for line in self.story[-STORY_LINES_MAX:]]
        if self.replay:
            lines.append(f"  replay: {self.replay}")
        return "\n".join(lines)
