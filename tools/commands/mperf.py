"""``jgroups-py mperf``: measures multicasts per second between processes on this machine."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from jgroups_py.channel.open import configure
from jgroups_py.tools.commands.mperf_load import SIZE_MIN
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.commands.mperf_run import MperfPlan, has_fault, measure
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import status_line
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options
from jgroups_py.units import parse_bytes


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py mperf --members 3 --size 1KB --for 10s",
        "jgroups-py mperf --stack tcp.xml --senders 1 --json",
    ),
)
@click.option("--members", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--senders", type=click.IntRange(1, 64), help="Default: every member sends.")
@click.option(
    "--size", default="1000", show_default=True, help="The size of a payload: 100, 1KB, 10K."
)
@click.option(
    "--for", "seconds", type=Time(), default="10s", show_default=True, help="The time to measure."
)
@json_option
@stack_options
def mperf(
    stack: str,
    members: int,
    senders: int | None,
    size: str,
    seconds: float,
    json_out: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Measure multicasts per second between processes.

    After a warm-up there are three windows, each a third of the time. A rate is their median and includes own messages.
    The order of every message is checked. Exit 1: a message was delivered twice, in the wrong order or not at all. Each run
    picks free ports and a multicast group.
    """
    plan = _plan(stack, members, senders or members, size, seconds, settings, properties, bind_addr)
    result: dict[str, Any] = {}

    async def command() -> int:
        result.update(await measure(plan, progress))
        return int(has_fault(result))

    with status_line("mperf") as progress:
        code = run_command(command)
    if result:
        show(json_out, lambda: json.dumps(result), lambda: text(result))
    return code


def _plan(
    stack: str,
    members: int,
    senders: int,
    size: str,
    seconds: float,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> MperfPlan:
    if senders > members:
        raise click.BadParameter(f"{senders} senders, but {members} members")
    try:
        length = parse_bytes(size)
    except ValueError as error:
        raise click.BadParameter(f"--size: {error}") from None
    if length < SIZE_MIN:
        raise click.BadParameter(
            f"--size must be at least {SIZE_MIN} (a number is in each message)"
        )
    config, host = configure(stack, bind_addr, pairs(settings), pairs(properties))
    attributes = {**private_attributes(config, members, host), **pairs(settings)}
    return MperfPlan(
        stack,
        members,
        senders,
        length,
        seconds,
        f"mperf-{os.getpid()}",
        attributes,
        pairs(properties),
        bind_addr,
    )


def text(result: dict[str, Any]) -> str:
    """Return the result as text for people."""
    rows = [f"{one['name']:>8} {one['delivered_per_s']:>14,}/s" for one in result["per_member"]]
    return "\n".join(
        [
            (
                f"{result['stack']}: {result['members']} members, {result['senders']} senders, "
                f"{result['size']} bytes, {result['seconds']:g} s"
            ),
            "  member      delivered",
            *rows,
            (
                f"    mean {result['delivered_per_s_per_member']:>14,}/s "
                f"{result['mb_per_s_per_member']:.1f} MB/s"
            ),
            (
                f"sent {result['sent']:,}, delivered {result['delivered']:,}, lost {result['lost']}, "
                f"duplicates {result['duplicates']}, out of order {result['out_of_order']}"
            ),
        ]
    )
