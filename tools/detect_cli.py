"""``jgroups-py detect``: how soon a killed process is out of everybody's view."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from jgroups_py.channel_open import configure
from jgroups_py.tools.detect import Plan, measure
from jgroups_py.tools.mperf_ports import private_attributes
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options
from jgroups_py.units import parse_seconds


@click.command()
@click.option("--stack", default="udp.xml", show_default=True, help="Stack file.")
@click.option("--members", type=click.IntRange(2, 64), default=3, show_default=True)
@click.option("--kills", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--goal", metavar="TIME", help="Exit 1 when one took longer (200ms).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@stack_options
def detect(
    stack: str,
    members: int,
    kills: int,
    goal: str | None,
    as_json: bool,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Start members as processes of their own, kill them one after the other with SIGKILL, and
    measure the time until all others have a view without the killed one. Another one takes its place
    each time.
    """
    try:
        limit = None if goal is None else parse_seconds(goal)
    except ValueError as error:
        raise click.BadParameter(f"--goal: {error}") from None
    config, host = configure(stack, bind_addr, pairs(settings), pairs(properties))
    attributes = {**private_attributes(config, members + 1, host), **pairs(settings)}
    plan = Plan(
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
        result.update(await measure(plan, _progress))
        return int(limit is not None and result["max_s"] > limit)

    code = run_command(command)
    if result:
        click.echo(json.dumps(result) if as_json else text(result))
    return code


def text(result: dict[str, Any]) -> str:
    """The result for people."""
    shown = "  ".join(f"{key} {1000 * result[key + '_s']:.0f}" for key in _SHOWN)
    return (
        f"{result['stack']}: {result['members']} members, {result['kills']} kills, "
        f"{result['coordinators']} of coordinators\nms until the view without it: {shown}"
    )


_SHOWN = ("min", "median", "p90", "max")


def _progress(what: str) -> None:
    print(f"detect: {what}", file=sys.stderr, flush=True)
