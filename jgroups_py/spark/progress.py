"""ProgressWatch: shows from another thread how far a job is: Spark's tasks, then the rows that the member writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Literal, Self

from jgroups_py.errors import JGroupsError
from jgroups_py.export import ExportClient
from jgroups_py.spark.options import SparkOptions

EVERY: Final = 0.25
"""Seconds between two looks."""
What = Literal["tasks", "rows written"]
Show = Callable[[What, int, int], None]
"""A function that takes the name of the work, how much is done, and how much there is."""


class ProgressWatch(threading.Thread):
    """A watch of a stream's progress for as long as a ``with`` block lasts. ``options`` are those of the cluster that
    is written, if one is."""

    def __init__(
        self, spark: Any, show: Show, options: SparkOptions | None = None, every: float = EVERY
    ) -> None:
        super().__init__(daemon=True, name="jgroups-py-spark-watch")
        self._tracker = spark.sparkContext.statusTracker()
        self._show = show
        self._options = options
        self._every = every
        self._client: ExportClient | None = None
        self._end = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._end.wait(self._every):
                self._look_at_tasks()
                self._look_at_rows()
        finally:
            if self._client is not None:
                self._client.close()

    def _look_at_tasks(self) -> None:
        infos = [self._tracker.getStageInfo(id) for id in self._tracker.getActiveStageIds()]
        known = [info for info in infos if info is not None]
        if known:
            done = sum(info.numCompletedTasks for info in known)
            self._show("tasks", done, sum(info.numTasks for info in known))

    def _look_at_rows(self) -> None:
        if self._options is None:
            return
        try:
            if self._client is None:
                self._client = self._options.connect()
            said = self._client.describe(self._options.map, self._options.kind)
        except JGroupsError:  # the job itself reports the error
            if self._client is not None:
                self._client.close()
            self._client = None
            return
        if said.writing:
            self._show("rows written", said.written, said.writing)
