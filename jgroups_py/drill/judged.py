"""A plan is run and judged: what the command, the page for many seeds and Spark have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import Plan
from jgroups_py.drill.judge import cache_figures, cache_judge, cache_result
from jgroups_py.drill.judge import figures as operators
from jgroups_py.drill.judge import verdict as judge
from jgroups_py.drill.judge.cache_judge import CacheVerdict
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.rules import reigns
from jgroups_py.drill.judge.verdict import Verdict
from jgroups_py.drill.run.runner import Progress, RunLog, Runner


@dataclass
class Outcome:
    """One run, judged."""

    plan: Plan
    run: RunLog
    evidence: Evidence
    verdict: Verdict | CacheVerdict
    figures: Figures
    result: dict[str, Any]


def runner(real: bool) -> Runner:
    """The way to run a plan; imported when needed."""
    if real:
        from jgroups_py.drill.run.real import run_real

        return run_real
    from jgroups_py.drill.run.simulated import run_simulated

    return run_simulated


def runner_of(plan: Plan, real: bool) -> Runner:
    """The way to run this plan."""
    if plan.workload != "cache":
        return runner(real)
    if real:
        from jgroups_py.drill.run.cache_real import run_cache_real

        return run_cache_real
    from jgroups_py.drill.run.cache_simulated import run_cache_simulated

    return run_cache_simulated


def check(plan: Plan) -> None:
    """Raises ``ConfigError`` for files with which no member could start."""
    stacks.check(plan)
    if plan.workload == "cache":
        from jgroups_py.drill.file import cache_settings

        cache_settings.check(plan)


def run(plan: Plan, how: Runner, progress: Progress) -> Outcome:
    """Run and judge. Raises ``DrillError``, ``ConfigError``."""
    logged = how(plan, progress)
    evidence = Evidence.of(logged.records(), [site.name for site in plan.sites])
    said: dict[str, Any] = {
        "name": plan.name,
        "mode": logged.mode,
        "seed": plan.seed,
        "virtual_s": logged.virtual_s,
        "wall_s": logged.wall_s,
    }
    verdict: Verdict | CacheVerdict
    if plan.workload == "cache":
        verdict = cache_judge.judge(evidence, expect=plan.expect)
        directed = (
            reigns(evidence.faults, evidence.sites, plan.primary, plan.grace)
            if len(plan.sites) > 1
            else []
        )
        asked = cache_figures.requests(evidence)
        figures = cache_figures.figures(evidence, asked, directed)
        result = {**cache_result.result(verdict, **said), "primary": plan.primary or "all"}
    else:
        verdict = judge.judge(
            evidence,
            primary=plan.primary,
            grace=plan.grace,
            expect=plan.expect,
            primary_only=plan.primary_only,
        )
        figures = operators.figures(evidence, verdict)
        result = judge.result(verdict, **said)
    return Outcome(plan, logged, evidence, verdict, figures, {**result, **figures.printed()})
