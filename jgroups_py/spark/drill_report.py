"""drill_report: a Spark job that judges drills from their logs (``jgroups-py drill --log``).

It finds loss, duplicates, order, detection, take-over and delivery times, by site and origin. It comes to the verdict of the
drill's judge, but computes it apart. Spark parses the lines. One task judges the messages of one origin. The driver keeps
only views and faults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import functions as f

from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.rules import Who, held, largest
from jgroups_py.errors import ConfigError
from jgroups_py.spark.drill_course import SMALL, RecordedEvent, RunRecord, course_of
from jgroups_py.spark.drill_origin import BINS, FOUND, judging, percentile
from jgroups_py.spark.drill_picture import draw

LINE: Final = (
    "t double, site string, member string, event string, origin string, seqno bigint, "
    "detail struct<incarnation: bigint, count: bigint, `from`: string>"
)
FINDINGS: Final = ("lost", "lost_inside", "duplicated", "out_of_order")
COUNTS: Final = ("sent", "delivered", "unsent")
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
SHOWN: Final = 100
"""The most findings of each kind that the report of a run names. All are counted, and are in the Parquet file."""
BULK: Final = ("send", "deliver")


@dataclass(frozen=True, slots=True)
class DrillReport:
    """The result. ``runs`` has one object for each log, in the form of the judge's result. ``lags`` has percentiles in seconds by
    site and origin. ``events`` counts the records."""

    events: int
    runs: Sequence[dict[str, Any]]
    lags: Sequence[dict[str, Any]]

    @property
    def passed(self) -> bool:
        return all(run["verdict"] == "pass" for run in self.runs)


def drill_report(
    spark: Any, drill: str, logs: Sequence[str], target: str | None = None
) -> DrillReport:
    """Judge logs of one drill file, with any seeds.

    Args:
        drill: the drill file, with sites, primary, grace and expectations.
        logs: files, each of one run, or folders with ``*.jsonl``.
        target: a new folder for ``report.json``, ``report.svg`` and ``findings.parquet``.

    Raises:
        ConfigError: there are no logs, ``target`` exists, the drill is not of messages, or a log cannot be read.
    """
    files = _files(logs)
    if target is not None and Path(target).exists():
        raise ConfigError(f"{target} is there already")
    loaded = loader.load(drill)
    planned = plan.build(loaded, loaded.seed, ())
    if planned.workload != "messages":
        raise ConfigError(f"{drill} is a drill of a {planned.workload}: only messages are analysed")
    lines = _lines(spark, files)
    courses, events = _courses(lines, planned)
    found = _found(lines, courses).cache()
    try:
        runs = _runs(found, courses, planned.expect)
        lags = _Lags(found)
        percentiles = lags.percentiles()
        if target is not None:
            Path(target).mkdir(parents=True)
            found.where("what != 'lag'").drop("bins").write.parquet(f"{target}/findings.parquet")
            said = {"events": events, "runs": runs, "lags": percentiles}
            Path(target, "report.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")
            draw(Path(target, "report.svg"), lags.seconds, list(courses.values()))
    finally:
        found.unpersist()
    return DrillReport(events, runs, percentiles)


def _files(logs: Sequence[str]) -> list[str]:
    files: list[Path] = []
    for log in map(Path, logs):
        files += sorted(log.glob("*.jsonl")) if log.is_dir() else [log]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file}: no such log")
    if not files:
        raise ConfigError("no logs: write them with jgroups-py drill --log")
    return [str(file.resolve()) for file in files]


def _lines(spark: Any, files: Sequence[str]) -> Any:
    """Return the columns run (the file), order (place in it), value (the line)."""
    # The byte at which a block begins orders the blocks of a file. Within a block, ids rise in their 33 low bits. They
    # stay below the next block's number, because blocks are larger than 8 KB and the beginning is shifted by 20 bits.
    inside = f.monotonically_increasing_id().bitwiseAND(f.lit((1 << 33) - 1))
    order = f.col("_metadata.file_block_start") * f.lit(1 << 20) + inside
    return spark.read.text(list(files)).select(
        f.col("_metadata.file_path").alias("run"), order.alias("order"), "value"
    )


def _event() -> Any:
    """Return the event of a line, without parsing it."""
    return f.regexp_extract("value", r'"event":"([a-z_]+)"', 1)


def _courses(lines: Any, planned: Any) -> tuple[dict[str, RunRecord], int]:
    """Return the courses by run, and the number of records. ConfigError: a line that is no record."""
    counted = lines.groupBy("run").agg(
        f.count("*").alias("lines"),
        f.count(f.when(_event() == "", 1)).alias("bad"),
    )
    lines_of = {row.run: (row.lines, row.bad) for row in counted.collect()}
    for run, (_, bad) in lines_of.items():
        if bad > 1:  # a single one was cut short by a kill
            raise ConfigError(f"{_name(run)}: {bad} lines are no records of a drill")
    small: dict[str, list[tuple[int, str]]] = {run: [] for run in lines_of}
    for row in lines.where(_event().isin(*SMALL)).collect():
        small[row.run].append((row.order, row.value))
    sites = [site.name for site in planned.sites]
    courses = {}
    for run, texts in small.items():
        try:
            events = [_parsed(order, text) for order, text in sorted(texts)]
            courses[run] = course_of(
                events, sites, planned.primary, planned.grace, planned.primary_only
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{_name(run)}: not a log of a drill: {error!r}") from None
    return courses, sum(lines - bad for lines, bad in lines_of.values())


def _parsed(order: int, text: str) -> RecordedEvent:
    record = json.loads(text)
    detail = record["detail"] or {}
    site, name = record["site"], record["member"]
    member = None
    if site is not None and name is not None:
        member = Who(site, name, int(detail.get("incarnation", 1)))
    return RecordedEvent(order, float(record["t"]), site, member, record["event"], detail)


def _found(lines: Any, courses: Mapping[str, RunRecord]) -> Any:
    """Return the rows of ``FOUND`` of all origins."""
    record = f.from_json("value", LINE, {"mode": "FAILFAST"})
    rows = (
        lines.where(_event().isin(*BULK))
        .select("run", "order", record.alias("r"))
        .select(
            "run",
            "order",
            "r.t",
            "r.event",
            "r.site",
            f.concat_ws("#", "r.member", f.coalesce("r.detail.incarnation", f.lit(1))).alias(
                "member"
            ),
            f.coalesce("r.detail.from", "r.site").alias("origin_site"),
            f.col("r.origin"),
            "r.seqno",
        )
    )
    rows = rows.withColumn(
        "origin", f.when(f.col("event") == "send", f.col("member")).otherwise(f.col("origin"))
    )
    return rows.groupBy("run", "origin_site", "origin").applyInPandas(judging(dict(courses)), FOUND)


def _runs(
    found: Any, courses: Mapping[str, RunRecord], expect: Sequence[Expectation]
) -> list[dict[str, Any]]:
    counted: dict[str, dict[tuple[str, str], float]] = {run: {} for run in courses}
    for row in (
        found.where("what not in ('lag', 'takeover')")
        .groupBy("run", "what", "site")
        .agg(f.sum("number").alias("n"), f.max("number").alias("most"), f.count("*").alias("rows"))
        .collect()
    ):
        value = row.n if row.what in COUNTS else row.most if row.what == "unrelayed" else row.rows
        counted[row.run][row.what, row.site] = value
        if row.what == "unrelayed":
            counted[row.run]["unrelayed rows", row.site] = row.rows
    taken: dict[str, dict[int, float]] = {run: {} for run in courses}
    least = found.where("what = 'takeover'").groupBy("run", "seqno").agg(f.min("number").alias("n"))
    for row in least.collect():
        taken[row.run][row.seqno] = row.n
    named: dict[str, list[Any]] = {run: [] for run in courses}
    for row in (
        found.where(f.col("what").isin(*FINDINGS))
        .orderBy("run", "what")
        .limit(SHOWN * len(FINDINGS) * len(courses))
        .collect()
    ):
        named[row.run].append(row)
    return [
        _run(run, course, counted[run], taken[run], named[run], expect)
        for run, course in sorted(courses.items())
    ]


def _run(
    run: str,
    course: RunRecord,
    counted: Mapping[tuple[str, str], float],
    taken: Mapping[int, float],
    named: Sequence[Any],
    expect: Sequence[Expectation],
) -> dict[str, Any]:
    def total(what: str) -> int:
        return int(sum(n for (name, _), n in counted.items() if name == what and n is not None))

    falls = course.rules.falls()
    takeovers = [
        replace(fall.detected, seconds=taken.get(n), required=True)
        for n, fall in enumerate(falls)
        if fall.taken
    ]
    rpo = course.rules.rpo(
        n for (name, _), n in counted.items() if name == "unrelayed" and n is not None
    )
    measured: dict[str, float | None] = {name: total(name) for name in FINDINGS}
    measured["detection"] = largest([fall.detected for fall in falls])
    measured["takeover"] = largest(takeovers)
    judged = held(expect, measured, otherwise=rpo)
    said = [
        {
            "name": one.expectation.name,
            "limit": one.expectation.text,
            "measured": _round(one.measured),
            "holds": one.holds,
        }
        for one in judged
    ]
    return {
        "log": _name(run),
        "verdict": "pass" if all(one["holds"] for one in said) else "fail",
        "expectations": said,
        "sites": {
            site: {
                **{name: int(counted.get((name, site), 0) or 0) for name in COUNTS},
                "lost": int(counted.get(("lost", site), 0)),
                "lost_inside": int(counted.get(("lost_inside", site), 0)),
                "views": len(
                    {v.key for m in course.members(site) for v in course.views.get(m, ())}
                ),
            }
            for site in course.sites
        },
        **{name: total(name) for name in FINDINGS},
        "unrelayed": total("unrelayed rows"),
        "detection_s": [_round(fall.detected.seconds) for fall in falls],
        "takeover_s": [_round(one.seconds) for one in takeovers],
        "rpo_s": _round(rpo),
        "findings": [
            {
                "what": r.what,
                "site": r.origin_site,
                "origin": r.origin,
                "seqno": r.seqno,
                "at": r.at,
            }
            for r in named
        ],
    }


class _Lags:
    """Bins, added up over all runs."""

    def __init__(self, found: Any) -> None:
        self.origins: dict[tuple[str, str, str | None], Any] = {}
        """Bins by site, origin's site and origin. None as origin: of all origins there."""
        self.seconds: dict[tuple[str, str], dict[int, Any]] = {}
        """Bins by site and origin's site, then by second of the drill."""
        for row in found.where("what = 'lag'").toLocalIterator():
            for origin in (row.origin, None):
                _add(self.origins, (row.site, row.origin_site, origin), row.bins)
            _add(self.seconds.setdefault((row.site, row.origin_site), {}), row.seqno, row.bins)

    def percentiles(self) -> list[dict[str, Any]]:
        return [
            {
                "site": site,
                "origin_site": origin_site,
                "origin": origin,
                "deliveries": int(bins.sum()),
                **{name: _round(percentile(bins, part)) for name, part in PERCENTILES.items()},
            }
            for (site, origin_site, origin), bins in sorted(self.origins.items(), key=str)
        ]


def _add(merged: dict[Any, Any], key: Any, bins: Sequence[int]) -> None:
    import numpy as np

    if key not in merged:
        merged[key] = np.zeros(BINS, dtype=np.int64)
    merged[key][: len(bins)] += np.asarray(bins, dtype=np.int64)


def _round(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)


def _name(run: str) -> str:
    return run.removeprefix("file:").lstrip("/").rpartition("/")[2]
