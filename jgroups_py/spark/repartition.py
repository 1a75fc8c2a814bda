"""repartition: the entries of bucket stores' archives, sorted for another deployment by a Spark job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from jgroups_py.buckets.archive import ArchiveReader
from jgroups_py.buckets.archive.repartition import Partition
from jgroups_py.buckets.archive.stretches import (
    Run,
    StretchDone,
    StretchTask,
    repartition_in_stretches,
)
from jgroups_py.buckets.deployment import load_deployment


def repartition(
    spark: Any,
    archives: Sequence[str],
    deployment: str,
    *,
    folder: str | None = None,
    tasks: int | None = None,
) -> Partition:
    """Sort the entries of archives by the buckets of a deployment file. Each task sorts a stretch of the keys.

    Executors read the archives and write to the folder by the paths that are given here, so these are on a file system that all have.

    Args:
        folder: gets NODE.1of4.jgb and so on of each node with a bucket manager; None: only count.
        tasks: the default is the number that Spark runs at once.

    Raises:
        BadArchive, ConfigError: as ``repartition_in_stretches``. No file of the folder has changed.
    """
    count = tasks or spark.sparkContext.defaultParallelism
    with ExitStack() as opened:
        return repartition_in_stretches(
            [opened.enter_context(ArchiveReader(file)) for file in archives],
            load_deployment(deployment),
            _by(spark),
            processes=count,
            clock=time.perf_counter,
            created=time.time(),
            folder=folder,
        )


def _by(spark: Any) -> Run:
    def run(
        do: Callable[[StretchTask], StretchDone], tasks: Sequence[StretchTask]
    ) -> list[StretchDone]:
        if not tasks:
            return []
        found: list[StretchDone] = (
            spark.sparkContext.parallelize(tasks, len(tasks)).map(do).collect()
        )
        return found

    return run
