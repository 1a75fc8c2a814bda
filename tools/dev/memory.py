"""``jgroups-py dev memory``: tests whether a member stays within its limits without readers or acknowledgements."""

from __future__ import annotations

import json
from typing import Any

import click

from jgroups_py.tools.dev.memory_run import FACTOR, READER, RELAY, MemoryPlan, measure, plan_for
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import status_line
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import SETTING, pairs


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev memory --for 1m",
        "jgroups-py dev memory --scenario relay --set RELAY.max_bytes=10M --json",
    ),
)
@click.option(
    "--scenario",
    type=click.Choice([READER, RELAY, "all"]),
    default="all",
    show_default=True,
    help="A reader that never reads; a relay whose other site never returns.",
)
@click.option(
    "--for", "seconds", type=Time(1), default="5m", show_default=True, help="Of traffic, each."
)
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    metavar=SETTING.name,
    help="Override an attribute of the stack (with one --scenario).",
)
@json_option
def memory(scenario: str, seconds: float, settings: tuple[str, ...], json_out: str | None) -> int:
    """Start members as processes of their own, and watch their resident memory.

    Scenario "reader": udp.xml, two members send as fast as they may, 1 KB and 100 B, to everybody and
    to the third member alone, whose reader never reads. Scenario "relay": relay-udp.xml, one site
    of three members; the other site never starts; traffic at a rate that fills RELAY's buffer
    within the first half.

    Exit 1 when a member needed more than its idle size and twice the sum of its limits.
    """
    scenarios = [READER, RELAY] if scenario == "all" else [scenario]
    if settings and len(scenarios) > 1:
        raise click.BadParameter("--set needs --scenario: the stacks differ")
    results: list[dict[str, Any]] = []

    async def command() -> int:
        for name in scenarios:
            plan: MemoryPlan = plan_for(name, seconds, pairs(settings), {})
            results.append(await measure(plan, progress))
        return int(not all(result["holds"] for result in results))

    with status_line("memory") as progress:
        code = run_command(command)
    if len(results) == len(scenarios):
        show(
            json_out,
            lambda: json.dumps({"scenarios": results, "holds": code == 0}),
            lambda: "\n\n".join(text(result) for result in results),
        )
    return code


def text(result: dict[str, Any]) -> str:
    """Return a scenario's text for people. MB are 1,000,000 bytes."""
    head = f"{result['scenario']}: {result['stack']}, {result['seconds']:g} s"
    if result["rate"]:
        head += f", {result['rate']:.0f} messages/s of each member"
    lines = [head, "  member     idle     peak   limits  allowed  holds"]
    for row in result["members"]:
        sizes = "".join(f"{row[key] / 1e6:9.1f}" for key in ("idle", "peak", "limits", "allowed"))
        lines.append(f"  {row['name']:<6}{sizes}  {'yes' if row['holds'] else 'NO'}")
    lines.append(f"  MB of resident memory; allowed is idle + {FACTOR} x limits, which are")
    for limit in result["members"][0]["limit"]:
        name = f"{limit['owner']}.{limit['attribute']}"
        lines.append(f"    {limit['bytes'] / 1e6:7.1f}  {name} ({limit['cluster']})")
    for row in result["members"]:
        lines.append(f"  {row['name']}: {_held(row)}")
    return "\n".join(lines)


def _held(row: dict[str, Any]) -> str:
    parts = [f"sent {row['sent']:,}", f"received {row['received']:,}"]
    parts.append(f"{row['waiting']:,} unread, send waited {row['send_waits']:,} times")
    if "buffered_bytes" in row:
        parts.append(
            f"relay buffer {row['buffered_bytes'] / 1e6:.1f} MB, {row['buffered_messages']:,} "
            f"messages, {row['dropped']:,} dropped"
        )
    return ", ".join(parts)
