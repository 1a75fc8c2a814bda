"""``jgroups-py flight``: shows the events that members recorded before a fault."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from jgroups_py.channel.flight import FORMAT
from jgroups_py.errors import ConfigError
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import write
from jgroups_py.tools.strict_json import strict_json
from jgroups_py.values.shown import shown

SIZE_MAX: Final = 50_000_000
"""Bytes of a file that are read."""
LINE_MAX: Final = 2_000
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class FlightLine:
    """One event of one member. ``at`` is in seconds since 1970, by the clock of its machine."""

    at: float
    member: str
    by: str
    what: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """One file: its first line, the events, and unreadable lines."""

    head: Mapping[str, Any]
    events: tuple[FlightLine, ...]
    odd: int


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py flight flight.json",
        "jgroups-py flight a.json b.json --protocol GMS --protocol FD_ALL3",
        "jgroups-py flight flight.json --last 50 --json",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--protocol", "protocols", multiple=True, metavar="NAME", help="Only its events.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N events.")
@json_option
def flight(
    files: tuple[str, ...], protocols: tuple[str, ...], last: int | None, json_out: str | None
) -> None:
    """Show what members recorded before something went wrong.

    A member that was opened with flight_file=FILE, or with JGROUPS_FLIGHT_FILE in its environment, writes the file after a
    suspicion or a split, and when it ends with an error. Events of several files are put in order by the clocks of their
    machines.
    """
    recordings = [read(file) for file in files]
    events = sorted((e for r in recordings for e in r.events), key=lambda event: event.at)
    if protocols:
        events = [event for event in events if event.by in protocols]
    events = events[-last:] if last else events
    if json_out is not None:
        lines = [strict_json(_as_json(event)) + "\n" for event in events]
        write(json_out, "".join(lines))
    if json_out == "-":
        return
    for file, recording in zip(files, recordings, strict=True):
        click.echo(_heading(file, recording))
    width = max((len(event.member) for event in events), default=0)
    click.echo("".join(f"{_line(event, width)}\n" for event in events), nl=False)


def read(file: str) -> Recording:
    """Return the content of a file.

    Raises:
        ConfigError: it cannot be read, or is no recording.
    """
    try:
        with open(file, "rb") as opened:
            first, *rest = opened.read(SIZE_MAX).decode(errors="replace").splitlines() or [""]
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    head = _json(first)
    if head.get("format") != FORMAT or not all(_is_time(head.get(k)) for k in ("written", "now")):
        raise ConfigError(
            f"{file} is no recording of a member (its first line has no format {FORMAT})"
        )
    member, written = shown(str(head.get("name"))), head["written"]
    events: list[FlightLine] = []
    odd = 0
    for line in rest:
        told = _json(line)
        if _is_time(told.get("at")) and isinstance(told.get("details"), dict):
            by, what = shown(str(told.get("by"))), shown(str(told.get("what")))
            events.append(FlightLine(written + told["at"], member, by, what, told["details"]))
        elif "protocol" not in told:
            odd += 1
    return Recording(head, tuple(events), odd)


def _json(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e11


def _heading(file: str, recording: Recording) -> str:
    head = recording.head
    lost = f", {head.get('dropped')} older ones were dropped" if head.get("dropped") else ""
    odd = f", {recording.odd} lines are no events" if recording.odd else ""
    return shown(
        f"{file}: {head.get('name')} of {head.get('cluster')}, {_clock(head['written'])} UTC: {head.get('why')}; view "
        f"{head.get('view')}; {len(recording.events)} events{lost}{odd}",
        LINE_MAX,
    )


def _line(event: FlightLine, width: int) -> str:
    details = " ".join(f"{key}={_text(value)}" for key, value in event.details.items())
    return shown(
        f"{_clock(event.at)} {event.member:{width}}  {event.by} {event.what} {details}".rstrip(),
        LINE_MAX,
    )


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(max(at, 0.0), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _as_json(event: FlightLine) -> dict[str, Any]:
    return {
        "at": event.at,
        "member": event.member,
        "by": event.by,
        "what": event.what,
        "details": event.details,
    }
