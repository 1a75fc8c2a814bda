"""``jgroups-py top``: shows running members with their views, rates and buffers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
import trio
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jgroups_py.tools.commands.probe import asking_of, asking_options
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import write
from jgroups_py.tools.probing import ProbeQuestion
from jgroups_py.tools.running import run_command
from jgroups_py.tools.top_rows import WORDS, Look, TopRow, as_json, look_of, rows_of, split
from jgroups_py.values.shown import shown

NAME_MAX: Final = 24
"""Characters of a name that are shown."""
NAMES_MAX: Final = 60
NOBODY: Final = "nobody answers; members need diag.enabled (docs: look inside a running member)"


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py top --interval 5s",
        "jgroups-py top --host 127.0.0.1:7500-7509",
        "jgroups-py top --once --json",
    ),
)
@asking_options
@click.option(
    "--interval", type=Time(), default=2.0, show_default="2s", help="Time between two looks."
)
@click.option("--once", is_flag=True, help="Look twice, show the rates between the looks, and end.")
@json_option
def top(interval: float, once: bool, json_out: str | None, **options: Any) -> int:
    """Show running members, one line each, until you end it.

    It asks members with probes, as `jgroups-py probe` does. Rates are per second: messages that were sent, delivered,
    and lost on the way. A line is marked when members of one cluster are not in one view.

    Exit code with --once or --json: 0 if a member answered, else 1.
    """
    asking = asking_of(**options)
    if interval <= 0:
        raise click.UsageError("--interval must be above 0")
    if once or json_out is not None:
        rows = trio.run(_twice, asking, interval)
        if json_out is not None:
            write(json_out, json.dumps([as_json(row) for row in rows], indent=1) + "\n")
        if json_out != "-":
            _print(rows)
        return 0 if rows else 1
    return run_command(lambda: _watch(asking, interval))


async def _look(asking: ProbeQuestion) -> list[Look]:
    at = trio.current_time()
    found = [look_of(heard, at) for heard in await asking.ask(WORDS)]
    return [look for look in found if look is not None]


async def _twice(asking: ProbeQuestion, interval: float) -> list[TopRow]:
    before = await _look(asking)
    if not before:
        return []
    await trio.sleep(interval)
    return rows_of(before, await _look(asking))


async def _watch(asking: ProbeQuestion, interval: float) -> None:
    """Show rows until cancelled: on a terminal in one place, elsewhere one below the other."""
    if not sys.stdout.isatty():
        await _repeat(asking, interval, _print)
        return
    with Live(auto_refresh=False, transient=False) as live:
        await _repeat(asking, interval, lambda rows: live.update(table_of(rows), refresh=True))


async def _repeat(
    asking: ProbeQuestion, interval: float, show: Callable[[list[TopRow]], None]
) -> None:
    before: list[Look] = []
    while True:
        due = trio.current_time() + interval
        looks = await _look(asking)
        show(rows_of(before, looks))
        before = looks
        await trio.sleep_until(due)


def _print(rows: list[TopRow]) -> None:
    # A file has no width, so its table is as wide as it must be.
    width = None if sys.stdout.isatty() else 200
    Console(file=sys.stdout, width=width).print(table_of(rows))


def table_of(rows: Iterable[TopRow]) -> Table | Text:
    """Return the text for these rows."""
    rows = list(rows)
    if not rows:
        return Text(NOBODY)
    apart = split(rows)
    relays = any(row.relay for row in rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("cluster", "member", "view", "coordinator"):
        table.add_column(name, no_wrap=True)
    for name in ("sent/s", "delivered/s", "resent/s", "unstable", "waiting", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("waits for")
    if relays:
        for name in ("relay", "buffered", "sites"):
            table.add_column(name)
    for row in rows:
        view = f"{_count(row.view)} ({_count(row.members)})"
        view += " SPLIT" if row.cluster in apart else ""
        cells = [
            *(shown(text, NAME_MAX) for text in (row.cluster, row.member)),
            view,
            shown(row.coordinator, NAME_MAX),
            *(_rate(rate) for rate in (row.sent, row.delivered, row.resent)),
            *(_count(number) for number in (row.unstable, row.waiting, row.refused)),
            shown(row.waits_for, NAMES_MAX),
        ]
        if relays:
            cells += [shown(text, NAMES_MAX) for text in (row.relay, row.buffered, row.sites)]
        style = "red" if row.cluster in apart else "yellow" if row.waiting else None
        table.add_row(*(Text(cell) for cell in cells), style=style)
    return table


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _rate(number: float | None) -> str:
    return "-" if number is None else f"{number:,.1f}" if 0 < number < 100 else f"{number:,.0f}"
