"""``jgroups-py drill``: runs a drill file and prints its result.

Exit 0: every expectation holds; 1: one does not; 2: the drill could not be run. Errors are raised:
the group of commands prints them.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TextIO

import click

from jgroups_py.drill import log
from jgroups_py.drill.file import loader as drill_loader
from jgroups_py.drill.file import plan as plans
from jgroups_py.drill.file import stacks, workloads
from jgroups_py.drill.file.model import Drill
from jgroups_py.drill.file.plan import DrillPlan, Setting
from jgroups_py.drill.judged import check, run, runner_of
from jgroups_py.drill.report import table
from jgroups_py.drill.report.progress import TerminalProgress
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.errors import ConfigError, JGroupsError
from jgroups_py.testing.explorer.pool import cores, each
from jgroups_py.tools.options import JsonCommand, examples, json_option, seeds_option
from jgroups_py.tools.outputs import OutFile, rewritten, spans
from jgroups_py.tools.progress import seeds_bar

SEEDS_MAX = 1_000_000
FAILURES_SHOWN_MAX = 20


def replay_command(
    file: str, real: bool, seed: int, settings: Sequence[str], seal: bool = False
) -> str:
    """Return the command that runs the same drill again."""
    words = ["jgroups-py", "drill", file, "--real" if real else "--simulated", "--seed", str(seed)]
    words += ["--seal"] if seal else []
    for setting in settings:
        words += ["--set", setting]
    return shlex.join(words)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py drill nyc-sfo --report build/nyc-sfo.html",
        "jgroups-py drill short --real --json",
        "jgroups-py drill site-split --seeds 1..8 --set FD_ALL3.timeout=4s",
    ),
)
@click.argument("file", type=click.Path())
@click.option("--simulated/--real", default=True, help="Virtual time (default), or processes.")
@click.option("--seed", type=click.IntRange(0), help="A seed that replaces the file's.")
@seeds_option(SEEDS_MAX, "Run with each, A and B included, on all cores.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[SITE:|bridge:]PROTOCOL.attribute=value",
    help="Override a stack attribute.",
)
@click.option("--seal", is_flag=True, help="Put SEAL into every stack, with a key for each run.")
@json_option
@click.option(
    "--report",
    "report_out",
    type=OutFile(),
    metavar="OUT.html",
    help="The report page; with --seeds one page of all runs.",
)
@click.option(
    "--log",
    "log_out",
    type=OutFile(),
    metavar="OUT.jsonl",
    help="A log with one record in each line.",
)
def drill(
    file: str,
    simulated: bool,
    seed: int | None,
    seeds: range | None,
    settings: tuple[str, ...],
    seal: bool,
    json_out: str | None,
    report_out: str | None,
    log_out: str | None,
) -> int:
    """Run a drill: sites, traffic, faults, expectations.

    FILE is a drill file or the name of a shipped drill, such as nyc-sfo.

    Exit 0: every expectation holds; 1: one does not; 2: it could not be run.
    """
    outs = [json_out, report_out, log_out]
    if outs.count("-") > 1:
        raise click.UsageError("only one of --json, --report, --log can be -")
    named = [os.path.realpath(out) for out in outs if out is not None and out != "-"]
    twice = [name for name in named if named.count(name) > 1 and not _is_device(name)]
    if twice:
        raise click.UsageError(f"--json, --report, --log: {twice[0]} would be written twice")
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    if seeds is not None and log_out:
        raise click.UsageError("--log goes with one seed")
    people = sys.stderr if "-" in outs else sys.stdout
    parsed = [plans.parse_setting(text) for text in settings]
    loaded = drill_loader.load(file)
    if seeds is not None:
        return _many(
            loaded,
            file,
            not simulated,
            seeds,
            parsed,
            settings,
            json_out,
            report_out,
            people,
            seal=seal,
        )
    plan = plans.build(loaded, seed, parsed, seal=seal)
    check(plan)
    command = replay_command(file, not simulated, plan.seed, settings, seal)
    return _one(plan, not simulated, command, json_out, report_out, log_out, people)


def _one(
    plan: DrillPlan,
    real: bool,
    command: str,
    json_out: str | None,
    report_out: str | None,
    log_out: str | None,
    people: TextIO,
) -> int:
    how = "real" if real else "simulated"
    people.write(f"{plan.name} ({how}, seed {plan.seed}{', with SEAL' if plan.seal else ''})\n")
    people.writelines(f"note: {note}\n" for note in table.direction_notes(plan))
    progress = TerminalProgress(people, plan.end)
    try:
        outcome = run(plan, runner_of(plan, real), progress)
    except (ConfigError, BrokenPipeError):
        raise
    except Exception:
        progress.done()
        click.echo(f"replay: {command}", err=True)
        raise
    progress.done()
    unwritten: list[str] = []
    if json_out is not None:
        with _output(json_out, unwritten) as out:
            json.dump(outcome.result, out, indent=1)
            out.write("\n")
    if log_out is not None:
        with _output(log_out, unwritten) as out:
            out.writelines(record.to_json() + "\n" for record in log.expand(outcome.run.records()))
    if report_out is not None:
        from jgroups_py.drill.report.page import page

        with _output(report_out, unwritten) as out:
            out.write(
                page(
                    plan,
                    outcome.evidence,
                    outcome.verdict,
                    outcome.figures,
                    outcome.result,
                    command=command,
                    limit=stacks.relay_limits(plan),
                    notes=tuple(outcome.run.notes),
                )
            )
    table.show(table.console(people), plan.name, outcome.verdict, outcome.run.notes)
    if not outcome.verdict.passed:
        people.write(f"replay: {command}\n")
    _complain(unwritten)
    return 0 if outcome.verdict.passed else 1


def _run_seed(
    loaded: Drill, real: bool, settings: Sequence[Setting], seal: bool, seed: int
) -> tuple[int, dict[str, Any] | str]:
    """Run a drill in a process of its own. Return its result, or the text of the error that kept it from running."""
    try:
        plan = plans.build(loaded, seed, settings, seal=seal)
        return seed, run(plan, runner_of(plan, real), NoProgress()).result
    except (JGroupsError, OSError) as error:
        return seed, str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return seed, f"{type(error).__name__} at {where}: {error}"


def _many(
    loaded: Drill,
    file: str,
    real: bool,
    seeds: range,
    parsed: Sequence[Setting],
    settings: Sequence[str],
    json_out: str | None,
    report_out: str | None,
    people: TextIO,
    *,
    seal: bool,
) -> int:
    first = plans.build(loaded, seeds[0], parsed, seal=seal)
    check(first)  # the mistake is the same for every seed, so report it once
    processes = 1 if real else min(cores(), len(seeds))
    sealed = ", with SEAL" if seal else ""
    people.write(f"{loaded.name} ({len(seeds)} seeds on {processes} cores{sealed})\n")
    people.writelines(f"note: {note}\n" for note in table.direction_notes(first))
    work = partial(_run_seed, loaded, real, parsed, seal)
    runs, broken = _played(loaded.name, work, seeds, processes, people)
    ordered = [runs[seed] for seed in seeds if seed in runs]
    failed = [r for r in ordered if r["verdict"] == "fail"]
    summary = {
        "runs": ordered,
        "passed": len(ordered) - len(failed),
        "failed": len(failed) + len(broken),
        "verdict": "fail" if failed or broken else "pass",
    }
    unwritten: list[str] = []
    if json_out is not None:
        with _output(json_out, unwritten) as out:
            json.dump(summary, out, indent=1)
            out.write("\n")
    if report_out is not None:
        from jgroups_py.drill.report.seeds import page

        with _output(report_out, unwritten) as out:
            out.write(
                page(
                    loaded,
                    ordered,
                    broken,
                    mode="real" if real else "simulated",
                    notes=table.direction_notes(first),
                    replay=lambda seed: replay_command(file, real, seed, settings, seal),
                )
            )
    _tell_many(people, file, real, settings, summary, failed, broken, seal=seal)
    _complain(unwritten)
    return 2 if broken else 1 if failed else 0


def _played(
    name: str,
    work: Callable[[int], tuple[int, dict[str, Any] | str]],
    seeds: range,
    processes: int,
    people: TextIO,
) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Play all seeds. Return results, and errors of seeds that could not be run. After an interrupt print the played
    seeds."""
    runs: dict[int, dict[str, Any]] = {}
    broken: dict[int, str] = {}
    step = max(1, len(seeds) // 20)
    begun = time.monotonic()
    try:
        with (
            seeds_bar(name, len(seeds)) as (_, one_more),
            closing(each(work, seeds, processes)) as outcomes,
        ):
            for seed, outcome in outcomes:
                if isinstance(outcome, str):
                    broken[seed] = outcome
                else:
                    runs[seed] = outcome
                done = len(runs) + len(broken)
                bad = len(broken) + sum(r["verdict"] == "fail" for r in runs.values())
                one_more(bad)
                if not sys.stderr.isatty() and (done % step == 0 or done == len(seeds)):
                    took = time.monotonic() - begun
                    people.write(f"  {done} of {len(seeds)}, {bad} failed, {took:.0f} s\n")
                    people.flush()
    except KeyboardInterrupt:
        failing = [seed for seed, r in runs.items() if r["verdict"] == "fail"]
        played = spans(sorted([*runs, *broken])) or "none"
        people.write(
            f"interrupted; seeds played: {played}; failed: {spans(sorted([*failing, *broken])) or 'none'}\n"
        )
        raise
    return runs, broken


def _number(found: Sequence[Any] | int | None) -> int:
    """Return the number of a run's findings, which are listed or only counted. None: the search was impossible."""
    return found or 0 if isinstance(found, int | None) else len(found)


def _tell_many(
    people: TextIO,
    file: str,
    real: bool,
    settings: Sequence[str],
    summary: dict[str, Any],
    failed: Sequence[dict[str, Any]],
    broken: dict[int, str],
    *,
    seal: bool,
) -> None:
    runs = summary["runs"]
    for key, what in (
        ("detection_s", "detection"),
        ("takeover_s", "take-over"),
        ("unprotected_s", "unprotected"),
        ("bootstrap_s", "bootstrap"),
        ("healed_s", "healed"),
        ("rpo_s", "rpo"),
    ):
        found = [r[key] for r in runs if key in r]
        values = [v for given in found for v in (given if isinstance(given, list) else [given])]
        known = sorted(v for v in values if v is not None)
        if known:
            middle = known[len(known) // 2]
            people.write(f"{what}: median {middle:.3f} s, longest {known[-1]:.3f} s\n")
    people.writelines(
        f"{name}: {sum(_number(r[name]) for r in runs)}\n"
        for name in workloads.counts()
        if all(name in r for r in runs)
    )
    from jgroups_py.drill.report.seeds import not_recovered

    lasting = not_recovered(runs, len(runs) + len(broken))
    people.write(f"{lasting}\n" if lasting else "")
    unrelayed = sum(r.get("not_relayed", 0) for r in runs)
    if unrelayed:
        people.write(f"not relayed: {unrelayed} (sent where nothing is relayed)\n")
    for r in failed[:FAILURES_SHOWN_MAX]:
        fails = [
            f"{e['name']} {'not measured' if e['measured'] is None else e['measured']}"
            f" (expected {e['limit']})"
            for e in r["expectations"]
            if not e["holds"]
        ]
        people.write(f"seed {r['seed']} fails: {', '.join(fails)}\n")
        people.write(f"  replay: {replay_command(file, real, r['seed'], settings, seal)}\n")
    if len(failed) > FAILURES_SHOWN_MAX:
        people.write(f"and {len(failed) - FAILURES_SHOWN_MAX} more failed seeds\n")
    for seed, error in list(broken.items())[:FAILURES_SHOWN_MAX]:
        click.echo(f"error: seed {seed}: {error}".replace("\n", " "), err=True)
        click.echo(f"  replay: {replay_command(file, real, seed, settings, seal)}", err=True)
    people.write(
        f"{summary['passed']} passed, {summary['failed']} failed: {summary['verdict'].upper()}\n"
    )


@contextmanager
def _output(name: str, unwritten: list[str]) -> Iterator[TextIO]:
    """Write a file. A failure is added to ``unwritten``, because the verdict is printed first."""
    if name == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        with rewritten(name) as out:
            yield out
    except OSError as error:
        unwritten.append(f"{name}: {error.strerror or error}")


def _complain(unwritten: Sequence[str]) -> None:
    if unwritten:
        raise DrillError("; ".join(unwritten))


def _is_device(name: str) -> bool:
    """Return whether ``name`` is a device such as ``/dev/null``, to which several outputs may go."""
    return os.path.exists(name) and not os.path.isfile(name)
