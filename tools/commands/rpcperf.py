"""``jgroups-py rpcperf``: measures round trips per second between two processes on this machine."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from jgroups_py.channel.open import configure
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.commands.rpcperf_run import NAMES, RpcperfPlan, measure, median_of
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import status_line
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options
from jgroups_py.units import parse_bytes

CALLERS_MAX = 10_000


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py rpcperf --callers 1,8,64 --for 3s",
        "jgroups-py rpcperf --stack tcp.xml --size 100 --repeat 3 --json",
    ),
)
@click.option(
    "--callers",
    default="1,8",
    show_default=True,
    help="Numbers of calling tasks, measured in turn.",
)
@click.option(
    "--size", default="1000", show_default=True, help="The size of argument and value: 100, 1KB."
)
@click.option(
    "--for",
    "seconds",
    type=Time(),
    default="3s",
    show_default=True,
    help="The time for each number of callers.",
)
@click.option(
    "--repeat", type=click.IntRange(1, 99), default=1, show_default=True, help="The number of runs."
)
@click.option("--async", "slow", is_flag=True, help="Call an async method (a task for each call).")
@json_option
@stack_options
def rpcperf(
    stack: str,
    callers: str,
    size: str,
    seconds: float,
    repeat: int,
    slow: bool,
    json_out: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Measure calls per second between two processes.

    After a warm-up there are three windows, each a third of the time. A rate is their median; with --repeat it is the median
    of the runs. Exit 1: a call returned another value than its argument.
    """
    chosen = _callers(callers)
    length = _bytes(size)
    results: list[dict[str, Any]] = []

    async def command() -> int:
        for run in range(repeat):
            config, host = configure(stack, bind_addr, pairs(settings), pairs(properties))
            plan = RpcperfPlan(
                stack,
                chosen,
                length,
                seconds,
                slow,
                f"rpcperf-{os.getpid()}-{run}",
                {**private_attributes(config, len(NAMES), host), **pairs(settings)},
                pairs(properties),
                bind_addr,
            )
            results.append(await measure(plan, progress))
        return int(any(result["wrong"] for result in results))

    with status_line("rpcperf") as progress:
        code = run_command(command)
    if results:
        result = median_of(results)
        show(json_out, lambda: json.dumps(result), lambda: text(result, len(results)))
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


def text(result: dict[str, Any], repeat: int) -> str:
    """Return the result as text for people."""
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
