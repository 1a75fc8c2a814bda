"""``jgroups-py dev fuzz``: hostile bytes for every decoder and for whole simulated clusters."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

import click

from jgroups_py.errors import LocalProtocolError
from jgroups_py.testing.explorer.bytes.engine import (
    RSS_GROWTH_MAX,
    FuzzPlan,
    FuzzReport,
    catalogue,
    fuzz,
    shrunk,
)
from jgroups_py.testing.explorer.bytes.guard import HANG_CPU, Guard, address_space
from jgroups_py.testing.explorer.bytes.work import Attacked, FuzzFinding
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import write
from jgroups_py.tools.progress import status_line
from jgroups_py.values.native import compiled_modules

FOLDER: Final = Path("build/fuzz")
INPUTS: Final = 100_000


def _chosen(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> list[str]:
    known = catalogue()
    if not names or "all" in names:
        return list(known)
    found = [n for n in known if n in names or any(n.startswith(f"{w}:") for w in names)]
    for name in names:
        if name not in known and not any(n.startswith(f"{name}:") for n in known):
            raise click.BadParameter(f"no target {name!r}; all, or some of {', '.join(known)}")
    return found


NOT_TRACED = "note: compiled modules are not traced, so inputs reach less of them"


@click.command(
    name="fuzz",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev fuzz --for 1m",
        "jgroups-py dev fuzz --target wire --inputs 100000 --seed 5 --json",
        "jgroups-py dev fuzz --target kind:view --replay build/fuzz/kind-view-0a1b2c3d.bin",
    ),
)
@click.option("--inputs", type=click.IntRange(min=1), help=f"How many.  [{INPUTS:,}]")
@click.option(
    "--target",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_chosen,
    help="The attacked part: a target, a group (kind, wire, control, file, stack), or all. [all]",
)
@click.option("--seed", default="1", show_default=True, help="The same seed gives the same inputs.")
@click.option(
    "--for",
    "seconds",
    type=Time(1),
    help="Give inputs for this time.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1, max=256),
    default=os.cpu_count() or 1,
    help="Processes.  [one per core]",
)
@json_option
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Give the file of a finding to its --target again.",
)
@click.option(
    "--hang",
    "hang_cpu",
    type=click.IntRange(min=1),
    default=HANG_CPU,
    show_default=True,
    help="Seconds of CPU time that one input may take.",
)
def fuzz_command(
    inputs: int | None,
    names: list[str],
    seed: str,
    seconds: float | None,
    jobs: int,
    json_out: str | None,
    replay: Path | None,
    hang_cpu: int,
) -> int:
    """Give hostile bytes to decoders and simulated clusters, and check that they survive.

    Inputs are made from what our own encoders and honest members write. An input that causes a fault (an unexpected
    error, an endless loop, memory out of proportion, a cluster that does not recover) is made small, written to
    build/fuzz/, and printed with the command that shows it again.

    Exit 1: a fault was found.
    """
    targets = [target for name, target in catalogue().items() if name in names]
    if replay is not None:
        return _replay(replay, targets, hang_cpu)
    if inputs is not None and seconds is not None:
        raise click.UsageError("--inputs or --for, not both")
    if inputs is None and seconds is None:
        inputs = INPUTS
    if compiled_modules():
        click.echo(NOT_TRACED, err=True)
    with status_line("fuzz") as progress:
        report = fuzz(FuzzPlan(targets, seed, inputs, seconds, jobs, hang_cpu), progress)
    found = [_written(finding, hang_cpu) for finding in report.findings]
    if report.rss_growth > RSS_GROWTH_MAX:
        found.append(_growth(report, names, seed))
    result = as_json(report, found)
    if json_out != "-":
        click.echo(as_text(report, found))
    if json_out is not None:
        write(json_out, json.dumps(result, indent=1) + "\n")
    return 1 if found else 0


def _replay(file: Path, targets: list[Attacked], hang_cpu: int) -> int:
    if len(targets) != 1:
        raise click.UsageError("--replay needs the one --target that the file is for")
    with Guard(hang_cpu) as guard, address_space():
        try:
            problem = targets[0].replay(file.read_bytes(), guard)
        except ValueError as error:
            raise LocalProtocolError(f"{file}: not an episode: {error}") from None
    if problem is None:
        click.echo(f"{file}: nothing goes wrong with it")
        return 0
    click.echo(f"{targets[0].name}: {problem.detail}")
    return 1


def _written(finding: FuzzFinding, hang_cpu: int) -> dict[str, str]:
    """Make the finding small and write it down."""
    data = shrunk(finding, catalogue()[finding.target], hang_cpu)
    name = finding.target.replace(":", "-")
    file = FOLDER / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}.bin"
    FOLDER.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    replay = f"jgroups-py fuzz --target {finding.target} --replay {file}"
    return {"target": finding.target, "detail": finding.problem.detail, "replay": replay}


def _growth(report: FuzzReport, names: list[str], seed: str) -> dict[str, str]:
    targets = "".join(f" --target {name}" for name in names) if len(names) < 5 else ""
    return {
        "target": "memory",
        "detail": f"a process grew by {report.rss_growth:,} bytes, {RSS_GROWTH_MAX:,} allowed",
        "replay": f"jgroups-py fuzz --seed {seed} --inputs {report.total}{targets}",
    }


def as_json(report: FuzzReport, found: list[dict[str, str]]) -> dict[str, Any]:
    """Return the object that ``--json`` writes."""
    return {
        "inputs": report.total,
        "targets": {
            name: {
                "inputs": count,
                "edges": len(report.corpora[name].edges),
                "corpus": len(report.corpora[name].entries),
                "findings": sum(one["target"] == name for one in found),
            }
            for name, count in report.inputs.items()
        },
        "findings": found,
        "wall_s": round(report.wall_s, 1),
        "rss_growth": report.rss_growth,
    }


def as_text(report: FuzzReport, found: list[dict[str, str]]) -> str:
    """Return a table for people, with the findings last."""
    lines = ["target                        inputs  edges  corpus"]
    for name, count in report.inputs.items():
        corpus = report.corpora[name]
        lines.append(f"{name:<27}{count:9,}{len(corpus.edges):7,}{len(corpus.entries):8,}")
    per_second = report.total / max(report.wall_s, 0.001)
    lines.append(
        f"{report.total:,} inputs in {report.wall_s:.0f} s ({per_second:,.0f}/s); the processes grew by "
        f"{report.rss_growth / 1e6:.1f} MB; {len(found)} findings"
    )
    for one in found:
        lines += [f"{one['target']}: {one['detail']}", f"  {one['replay']}"]
    return "\n".join(lines)
