"""Running and judging a plan, for the command, the page of many seeds and Spark.

``_KINDS`` names each workload's runner and judge; they are imported on demand.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.judge import (
    bucket_judge,
    bucket_result,
    cache_figures,
    cache_judge,
    cache_result,
    live_judge,
    live_result,
    map_judge,
    map_result,
)
from jgroups_py.drill.judge import figures as operators
from jgroups_py.drill.judge import verdict as judge
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.results import Verdicts
from jgroups_py.drill.judge.rules import reigns
from jgroups_py.drill.run.runner import Progress, RunLog, Runner

Judged = tuple[Verdicts, Figures, dict[str, Any]]


@dataclass
class JudgedRun:
    """One run, judged."""

    plan: DrillPlan
    run: RunLog
    evidence: Evidence
    verdict: Verdicts
    figures: Figures
    result: dict[str, Any]


def _of_messages(plan: DrillPlan, evidence: Evidence, about: dict[str, Any]) -> Judged:
    verdict = judge.judge(
        evidence,
        primary=plan.primary,
        grace=plan.grace,
        expect=plan.expect,
        primary_only=plan.primary_only,
    )
    return verdict, operators.figures(evidence, verdict), judge.result(verdict, **about)


def _of_caches(plan: DrillPlan, evidence: Evidence, about: dict[str, Any]) -> Judged:
    verdict = cache_judge.judge(evidence, expect=plan.expect)
    directed = (
        reigns(evidence.faults, evidence.sites, plan.primary, plan.grace)
        if len(plan.sites) > 1
        else []
    )
    asked = cache_figures.requests(evidence)
    figures = cache_figures.figures(evidence, asked, directed)
    result = {**cache_result.result(verdict, **about), "primary": plan.primary or "all"}
    return verdict, figures, result


def _of_maps(plan: DrillPlan, evidence: Evidence, about: dict[str, Any]) -> Judged:
    verdict = map_judge.judge(evidence, expect=plan.expect)
    return verdict, map_judge.figures(verdict, evidence), map_result.result(verdict, **about)


def _of_live(plan: DrillPlan, evidence: Evidence, about: dict[str, Any]) -> Judged:
    verdict = live_judge.judge(evidence, expect=plan.expect)
    return verdict, live_judge.figures(verdict), live_result.result(verdict, **about)


def _of_buckets(plan: DrillPlan, evidence: Evidence, about: dict[str, Any]) -> Judged:
    verdict = bucket_judge.judge(evidence, expect=plan.expect)
    return verdict, bucket_judge.figures(verdict), bucket_result.result(verdict, **about)


@dataclass(frozen=True)
class _Kind:
    """The runners and the judge of a workload. ``simulated``, ``real``, ``check``: ``module:function``, below
    ``jgroups_py.drill``."""

    judged: Callable[[DrillPlan, Evidence, dict[str, Any]], Judged]
    simulated: str
    real: str
    check: str = ""
    """Raises ``ConfigError`` for files with which no member could start."""


_KINDS: Final = {
    "messages": _Kind(_of_messages, "run.simulated:run_simulated", "run.real:run_real"),
    "cache": _Kind(
        _of_caches,
        "run.cache_simulated:run_cache_simulated",
        "run.cache_real:run_cache_real",
        "file.cache_settings:check",
    ),
    "map": _Kind(
        _of_maps,
        "run.map_simulated:run_map_simulated",
        "run.map_real:run_map_real",
        "file.map_settings:check",
    ),
    "livebackup": _Kind(
        _of_live, "run.live_simulated:run_live_simulated", "run.live_real:run_live_real"
    ),
    "buckets": _Kind(
        _of_buckets,
        "run.bucket_simulated:run_bucket_simulated",
        "run.bucket_real:run_bucket_real",
        "file.bucket_settings:check",
    ),
}


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"jgroups_py.drill.{module}"), name)


def runner_of(plan: DrillPlan, real: bool) -> Runner:
    """Return the runner of this plan."""
    kind = _KINDS[plan.workload]
    found: Runner = _found(kind.real if real else kind.simulated)
    return found


def check(plan: DrillPlan) -> None:
    """Raise ``ConfigError`` for files with which no member could start."""
    stacks.check(plan)
    if _KINDS[plan.workload].check:
        _found(_KINDS[plan.workload].check)(plan)


def run(plan: DrillPlan, how: Runner, progress: Progress) -> JudgedRun:
    """Run and judge. Raises ``DrillError``, ``ConfigError``."""
    logged = how(plan, progress)
    evidence = Evidence.of(logged.records(), [site.name for site in plan.sites])
    about: dict[str, Any] = {
        "name": plan.name,
        "mode": logged.mode,
        "seed": plan.seed,
        "virtual_s": logged.virtual_s,
        "wall_s": logged.wall_s,
    }
    verdict, figures, result = _KINDS[plan.workload].judged(plan, evidence, about)
    return JudgedRun(plan, logged, evidence, verdict, figures, {**result, **figures.printed()})
