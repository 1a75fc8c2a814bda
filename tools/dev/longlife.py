"""``jgroups-py dev longlife``: searches for growth in a group that lives for a day."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, TextIO

import click

from jgroups_py.drill.report.charts import Chart, between, standalone
from jgroups_py.drill.report.progress import TerminalProgress
from jgroups_py.drill.soak import plan as plans
from jgroups_py.drill.soak.plan import HOURS_MAX, Pace, SoakPlan
from jgroups_py.drill.soak.samples import TOLERANCE, Compared, SoakRun, SoakSample, compare
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import OutFile, write

SHOWN_MAX = 20
"""The most lines about growth, and about problems."""

LOW, HIGH = 0.7, 1.3
"""The least that the picture's axis shows; it is widened for curves that leave it."""


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev longlife --for 2h",
        "jgroups-py dev longlife --real --for 1h --plot build/long-life/hour.svg",
    ),
)
@click.option("--simulated/--real", default=True, help="Virtual time (default), or processes.")
@click.option(
    "--for",
    "seconds",
    type=Time(most=HOURS_MAX * 3600),
    help="The length of the run [24h simulated, 1h real].",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--sites", type=int, help="[3 simulated, 2 real]")
@click.option("--members", type=int, default=5, show_default=True, help="Of each site.")
@click.option(
    "--cycle",
    type=Time(10),
    help="The time between two calm moments [10m simulated, 150s real]; other times are in proportion.",
)
@click.option(
    "--memory",
    type=click.Choice(["traced", "counted", "none"]),
    default="counted",
    show_default=True,
    help="Simulated: by tracemalloc (three times as long), or by adding up all objects.",
)
@json_option
@click.option("--plot", "plot_out", type=OutFile(), metavar="OUT.svg", help="The curves.")
def longlife(
    simulated: bool,
    seconds: float | None,
    seed: int,
    sites: int | None,
    members: int,
    cycle: float | None,
    memory: str,
    json_out: str | None,
    plot_out: str | None,
) -> int:
    """Sites with RELAY under light traffic and churn: crashes, restarts under the same name, leaves,
    pauses, partitions, crashes of relays, the loss and return of a site.

    At calm moments every table of every member is measured, and memory. Exit 1: one is more than 5 % larger at the end
    than at a quarter of the run, or a message was lost, delivered twice or out of order, or members did not come back
    into one view.
    """
    people = sys.stderr if json_out == "-" else sys.stdout
    hours = None if seconds is None else seconds / 3600
    plan = _plan(simulated, hours, seed, sites, members, cycle)
    kind = "simulated" if simulated else "real"
    people.write(
        f"{plan.hours:g} h {kind}, {plan.sites} sites of {plan.members}, {plan.cycles} cycles of "
        f"{plan.pace.cycle:g} s, seed {plan.seed}\n"
    )
    progress = TerminalProgress(people, plan.hours * 3600)
    progress.EVERY_SECONDS = plan.hours * 36
    if simulated:
        from jgroups_py.drill.soak.simulated import run_simulated

        run = run_simulated(plan, progress, memory=memory)
        slacks: dict[str, float] = {}
    else:
        from jgroups_py.drill.soak.real import SLACKS, run_real

        run = run_real(plan, progress)
        slacks = SLACKS
    progress.done()
    samples = list(run.samples)
    run.samples.close()
    complete = run.cycles == plan.cycles and len(samples) >= plans.CYCLES_MIN
    compared = compare(samples, plan.hours * 3600, slacks) if complete else []
    result = _result(plan, kind, run, compared)
    _tell(people, result, compared)
    if json_out is not None:
        everything = {**result, "samples": [_sums(sample) for sample in samples]}
        write(json_out, json.dumps(everything, indent=1) + "\n")
    if plot_out is not None and complete:
        write(plot_out, _plot(plan, kind, samples))
    return int(not result["holds"])


def _plan(
    simulated: bool,
    hours: float | None,
    seed: int,
    sites: int | None,
    members: int,
    cycle: float | None,
) -> SoakPlan:
    pace: Pace = plans.SIMULATED if simulated else plans.REAL
    settings = plans.SIMULATED_SETTINGS if simulated else plans.REAL_SETTINGS
    if cycle is not None:
        pace, settings = plans.scaled(pace, settings, cycle / pace.cycle)
    return plans.make(
        (24.0 if simulated else 1.0) if hours is None else hours,
        seed,
        (3 if simulated else 2) if sites is None else sites,
        members,
        pace,
        settings,
    )


def _result(plan: SoakPlan, kind: str, run: SoakRun, compared: list[Compared]) -> dict[str, Any]:
    grown = [c for c in compared if not c.holds]
    return {
        "mode": kind,
        "hours": plan.hours,
        "seed": plan.seed,
        "sites": plan.sites,
        "members": plan.members,
        "cycles": run.cycles,
        "faults": dict(sorted(run.faults.items())),
        "events": run.events,
        "sent": run.sent,
        "delivered": run.deliveries,
        "virtual_s": round(run.virtual_s, 1),
        "wall_s": round(run.wall_s, 1),
        "problems": run.problems,
        "notes": run.notes,
        "grown": [c.as_json() for c in grown],
        "compared": [c.as_json() for c in compared],
        "holds": bool(compared) and not grown and not run.problems,
    }


def _sums(sample: SoakSample) -> dict[str, Any]:
    total = sample.total()
    return {
        "t": sample.t,
        "entries": sum(t.length for t in total.values()),
        "bytes": sum(t.size for t in total.values()),
        "tables": {name: t.length for name, t in total.items()},
        **sample.figures,
        **({"each": sample.each} if sample.each else {}),
    }


def _plot(plan: SoakPlan, kind: str, samples: list[SoakSample]) -> str:
    rows = [_sums(sample) for sample in samples]
    names = ["entries", "bytes", *samples[-1].figures]
    shown = {"entries": "entries of all tables", "bytes": "bytes of all tables"}
    quarter = rows[max(0, math.floor(len(rows) / 4) - 1)]
    series = {
        shown.get(name, name): [
            (row["t"] / 3600, row[name] / quarter[name]) for row in rows if quarter[name]
        ]
        for name in names
    }
    unit, per = ("hours", 1.0) if plan.hours > 2 else ("minutes", 60.0)
    values = [value for points in series.values() for _, value in points]
    chart = Chart(
        f"{plan.hours:g} h {kind}, {plan.sites} sites of {plan.members}: "
        f"{plan.sites * plan.members} members, churn",
        f"{unit}; 100 % is the value at a quarter of the run",
        {name: [(t * per, value) for t, value in points] for name, points in series.items()},
        width=760,
        scale=between(min([LOW, *values]), max([HIGH, *values])),
        form="{:.0%}".format,
        band=(plan.hours * per / 4, 1.0, 1.0 + TOLERANCE),
    )
    return standalone([chart])


def _tell(out: TextIO, result: dict[str, Any], compared: list[Compared]) -> None:
    faults = ", ".join(f"{count} {fault}" for fault, count in result["faults"].items())
    print(f"faults: {faults or 'none'}", file=out)
    print(f"delivered {result['delivered']:,} messages; {result['wall_s']:.0f} s", file=out)
    for quantity in [c for c in compared if c.kind in ("sum", "figure")][:SHOWN_MAX]:
        print(f"  {quantity}", file=out)
    tables = sum("table" in c.kind for c in compared)
    print(f"{tables} tables compared", file=out)
    for quantity in [c for c in compared if not c.holds][:SHOWN_MAX]:
        print(f"GREW {quantity}", file=out)
    for problem in result["problems"][:SHOWN_MAX]:
        print(f"PROBLEM {problem}", file=out)
    print(f"verdict: {'PASS' if result['holds'] else 'FAIL'}", file=out)
