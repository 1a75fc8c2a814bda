"""``jgroups-py health``: tells whether a member of a group is alive and not alone."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any, Final

import click

from jgroups_py.channel.health import VARIABLE
from jgroups_py.tools.options import Time, examples
from jgroups_py.units import seconds_text

SIZE_MAX: Final = 1_000_000
"""Bytes of a health file that are read."""


@click.command(
    epilog=examples(
        "jgroups-py health /run/shop/health.json",
        "jgroups-py health --members 2 /run/shop/health.json",
    )
)
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--members",
    "least",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="The least number of members in the view.",
)
@click.option(
    "--max-age",
    type=Time(),
    default=10.0,
    show_default="10s",
    help="A member with an older file hangs or has died.",
)
def health(file: str | None, least: int, max_age: float) -> int:
    """Check the health file of a member.

    A member that was opened with health_file=FILE, or with JGROUPS_HEALTH_FILE in its environment, writes the file. Without
    FILE the command reads that variable. It is made for HEALTHCHECK of Docker, exec probes of Kubernetes, and monitoring.

    Exit 0: the member is well; 1: it is not, and the command prints the reason.
    """
    place = file or os.environ.get(VARIABLE)
    if not place:
        raise click.UsageError(f"name the FILE, or set {VARIABLE}")
    well, words = judge(Path(place), least, max_age)
    click.echo(words, err=not well)
    return 0 if well else 1


def judge(file: Path, least: int, max_age: float) -> tuple[bool, str]:
    """Return whether the member is well, and the reason as a sentence."""
    try:
        with open(file, "rb", opener=_open) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                return False, f"{file} is no file"
            text = opened.read(SIZE_MAX)
    except OSError as error:
        return False, f"no member has written {file}: {error.strerror}"
    told = _read(text)
    if told is None:
        return False, f"{file} is no health file"
    who = f"{told['name']} of {told['cluster']}"
    age = time.time() - status.st_mtime
    if age > max_age:
        return (
            False,
            f"{who} has written nothing for {age:.0f} s (allowed: {seconds_text(max_age)})",
        )
    size = told["size"]
    view = f"view {told['view']} with {size} member{'s' if size != 1 else ''}"
    if size < least:
        return False, f"{who} has {view}, at least {least} wanted"
    return True, f"{who} has {view}, coordinator {told['coordinator']}"


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe must not block the command


def _read(text: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kinds = {"name": str, "cluster": str, "coordinator": str, "view": int, "size": int}
    if not isinstance(told, dict) or not all(type(told.get(k)) is kinds[k] for k in kinds):
        return None
    return told
