"""explore: a Spark job that runs one simulated drill for each seed and sorts the worst first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from jgroups_py.drill.file import loader, plan, stacks
from jgroups_py.drill.file.model import Drill
from jgroups_py.drill.file.plan import Setting
from jgroups_py.errors import ConfigError, JGroupsError

SEEDS_EACH = 20
"""Seeds of one task: some take longer than others, and each task costs a second."""
FINDINGS = ("lost", "lost_inside", "duplicated", "out_of_order")
ROW = (
    "seed bigint, verdict string, lost bigint, lost_inside bigint, duplicated bigint, "
    "out_of_order bigint, unrelayed bigint, detection_s double, takeover_s double, rpo_s double, "
    "error string, result string"
)
"""The row of a seed: the judge's findings, the longest times, and the judge's whole result as JSON. The same seed gives the
same row on any worker."""


@dataclass(frozen=True, slots=True)
class Explored:
    """The result. ``worst`` has the rows of the worst seeds, as dicts, without ``result``."""

    passed: int
    failed: int
    broken: int
    worst: Sequence[dict[str, Any]]


def explore(
    spark: Any,
    drill: str,
    seeds: range,
    target: str | None = None,
    *,
    settings: Sequence[str] = (),
    worst: int = 5,
) -> Explored:
    """Run a drill file in virtual time with each of the seeds. Write all rows to ``target`` (Parquet), the worst first: drills
    that could not run, drills that failed, the longest take-over.

    Raises:
        ConfigError: the file or a setting is wrong, or ``target`` exists.
    """
    if target is not None and Path(target).exists():
        raise ConfigError(f"{target} is there already")
    if not seeds:
        raise ConfigError("no seeds given")
    parsed = [plan.parse_setting(text) for text in settings]
    loaded = loader.load(drill)
    # A mistake shows with every seed: report it once.
    stacks.check(plan.build(loaded, seeds[0], parsed))
    tasks = max(spark.sparkContext.defaultParallelism, -(-len(seeds) // SEEDS_EACH))
    numbers = spark.range(seeds.start, seeds.stop, seeds.step, min(tasks, len(seeds)))
    # Written or kept first: counting and sorting must not run the drills again.
    rows = numbers.mapInPandas(_runner_of(loaded, parsed), ROW).cache()
    try:
        order = [
            f.col("error").isNull(),
            f.col("verdict"),  # fail before pass
            f.expr(" + ".join(FINDINGS)).desc(),
            f.col("takeover_s").desc_nulls_last(),
            f.col("detection_s").desc_nulls_last(),
            f.col("seed"),
        ]
        ordered = rows.orderBy(*order)
        if target is not None:
            ordered.coalesce(1).write.parquet(target)
        counts = {row["verdict"]: row["count"] for row in rows.groupBy("verdict").count().collect()}
        first = [row.asDict() for row in ordered.drop("result").limit(worst).collect()]
    finally:
        rows.unpersist()
    return Explored(counts.get("pass", 0), counts.get("fail", 0), counts.get(None, 0), first)


def _runner_of(loaded: Drill, settings: Sequence[Setting]) -> Any:
    def run(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        for frame in frames:
            for seed in frame["id"]:
                yield pd.DataFrame([row_of(loaded, int(seed), settings)])

    return run


def row_of(loaded: Drill, seed: int, settings: Sequence[Setting]) -> dict[str, Any]:
    """Run one seed, in this process."""
    from jgroups_py.drill.judged import run, runner_of
    from jgroups_py.drill.run.runner import NoProgress

    try:
        planned = plan.build(loaded, seed, settings)
        result = run(planned, runner_of(planned, False), NoProgress()).result
    except (JGroupsError, OSError) as error:
        return _row(seed, error=str(error))
    except Exception as error:  # a bug that this seed found
        return _row(seed, error=f"{type(error).__name__}: {error}")
    del result["wall_s"]  # the only difference between two runs of a seed
    return _row(
        seed,
        verdict=result["verdict"],
        **{name: len(result[name]) for name in FINDINGS},
        unrelayed=result["unrelayed"],
        detection_s=_longest(result["detection_s"]),
        takeover_s=_longest(result["takeover_s"]),
        rpo_s=result["rpo_s"],
        result=json.dumps(result, sort_keys=True),
    )


def _row(seed: int, **found: Any) -> dict[str, Any]:
    names = [field.split()[0] for field in ROW.split(", ")]
    return {**dict.fromkeys(names), "seed": seed, **found}


def _longest(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return max(known, default=None)
