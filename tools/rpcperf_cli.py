"""``jgroups-py rpcperf``: round trips per second between two processes on this machine."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from jgroups_py.channel_open import configure
from jgroups_py.tools.mperf_ports import private_attributes
from jgroups_py.tools.rpcperf import NAMES, Plan, measure, median_of
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options
from jgroups_py.units import parse_bytes, parse_seconds

CALLERS_MAX = 10_000


@click.command()
@click.option("--stack", default="udp.xml", show_default=True, help="Stack file.")
@click.option("--callers", default="1,8", show_default=True, help="Tasks that call, one after one.")
@click.option("--size", default="1000", show_default=True, help="Bytes there and back: 100, 1KB.")
@click.option("--time", "seconds", default="3s", show_default=True, help="For each of the callers.")
@click.option("--repeat", type=click.IntRange(1, 99), default=1, show_default=True, help="Runs.")
@click.option("--async", "slow", is_flag=True, help="Call an async method (a task for each call).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@stack_options
def rpcperf(
    stack: str,
    callers: str,
    size: str,
    seconds: str,
    repeat: int,
    slow: bool,
    as_json: bool,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Start two members as processes of their own and let one call the other for a while.

    After a warm-up, three windows of a third of the time each; rates are their median, with --repeat
    the median of runs. Exit 1 when a call gave another value than it was called with.
    """
    chosen = _callers(callers)
    length, duration = _bytes(size), _seconds(seconds)
    results: list[dict[str, Any]] = []

    async def command() -> int:
        for run in range(repeat):
            config, host = configure(stack, bind_addr, pairs(settings), pairs(properties))
            plan = Plan(
                stack,
                chosen,
                length,
                duration,
                slow,
                f"rpcperf-{os.getpid()}-{run}",
                {**private_attributes(config, len(NAMES), host), **pairs(settings)},
                pairs(properties),
                bind_addr,
            )
            results.append(await measure(plan, _progress))
        return int(any(result["wrong"] for result in results))

    code = run_command(command)
    if results:
        result = median_of(results)
        click.echo(json.dumps(result) if as_json else text(result, len(results)))
    return code


def _callers(text: str) -> tuple[int, ...]:
    try:
        chosen = tuple([int(part) for part in text.split(",")])
    except ValueError:
        raise click.BadParameter(f'--callers: "{text}" is no list of numbers') from None
    if not all(0 < one <= CALLERS_MAX for one in chosen):
        raise click.BadParameter(f"--callers must be within 1..{CALLERS_MAX}")
    return chosen


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(f"--size: {error}") from None


def _seconds(text: str) -> float:
    try:
        duration = float(text) if text.replace(".", "", 1).isdigit() else parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(f"--time: {error}") from None
    if duration <= 0:
        raise click.BadParameter("--time must be more than 0")
    return duration


def text(result: dict[str, Any], repeat: int) -> str:
    """The result for people."""
    rows = [
        f"{run['callers']:>7} {run['calls_per_s']:>12,.0f}/s {run['p50_us']:>9,.0f} us "
        f"{run['p99_us']:>9,.0f} us {run['caller_cpu_us']:>9,.0f} us"
        for run in result["runs"]
    ]
    return "\n".join(
        [
            (
                f"{result['stack']}: {result['size']} bytes there and back, {result['method']} "
                f"method, {result['seconds']:g} s, median of {repeat}"
            ),
            "callers  round trips          p50          p99  caller's CPU",
            *rows,
            f"gain of the last over the first: {result['gain']:.2f}; wrong values: {result['wrong']}",
        ]
    )


def _progress(what: str) -> None:
    print(f"rpcperf: {what}", file=sys.stderr, flush=True)
