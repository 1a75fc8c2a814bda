"""``jgroups-py detect``: measures the time until a killed process is out of all views."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from jgroups_py.channel.open import configure
from jgroups_py.tools.commands.detect_run import DetectPlan, measure
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import status_line
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py detect --kills 5",
        "jgroups-py detect --stack relay-udp.xml --goal 200ms --json",
    ),
)
@click.option("--members", type=click.IntRange(2, 64), default=3, show_default=True)
@click.option("--kills", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--goal", type=Time(), help="Exit 1 if one took longer (200ms).")
@json_option
@stack_options
def detect(
    stack: str,
    members: int,
    kills: int,
    goal: float | None,
    json_out: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Measure the time until the others notice a killed member.

    Members are started as processes and killed with SIGKILL one after the other. The time ends when all others
    have a view without the killed one. Each killed member is replaced.
    """
    config, host = configure(stack, bind_addr, pairs(settings), pairs(properties))
    attributes = {**private_attributes(config, members + 1, host), **pairs(settings)}
    plan = DetectPlan(
        stack,
        members,
        kills,
        f"detect-{os.getpid()}",
        attributes,
        pairs(properties),
        bind_addr,
    )
    result: dict[str, Any] = {}

    async def command() -> int:
        result.update(await measure(plan, progress))
        return int(goal is not None and result["max_s"] > goal)

    with status_line("detect") as progress:
        code = run_command(command)
    if result:
        show(json_out, lambda: json.dumps(result), lambda: text(result))
    return code


def text(result: dict[str, Any]) -> str:
    """Return the result as text for people."""
    shown = "  ".join(f"{key} {1000 * result[key + '_s']:.0f}" for key in _SHOWN)
    return (
        f"{result['stack']}: {result['members']} members, {result['kills']} kills, "
        f"{result['coordinators']} of coordinators\nms until the view without it: {shown}"
    )


_SHOWN = ("min", "median", "p90", "max")
