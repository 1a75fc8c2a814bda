"""``jgroups-py keys``: makes, rotates and shows the key ring of SEAL."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jgroups_py.config.private_file import write_private
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.ring import KEYS_MAX, NO_KEYS, Ring, read_ring
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import show as show_result


@click.group(
    epilog=examples(
        "jgroups-py keys new ring.keys",
        "jgroups-py keys show ring.keys",
        "jgroups-py keys rotate ring.keys",
    )
)
def keys() -> None:
    """Make, rotate and show the key ring of SEAL.

    A key ring is a file with the keys that members of a group share.

    To change the key of a running group: new, copy the file to all members; rotate, copy it again. Members read the file
    again by themselves. A dropped key decrypts no packet any more.
    """


@keys.command(epilog=examples("jgroups-py keys new ring.keys"))
@click.argument("file")
def new(file: str) -> None:
    """Make a key.

    If FILE is missing, it is made, readable for you alone, and its key encrypts. Otherwise the key is added at the end:
    it only decrypts, until rotate.
    """
    ring = read_ring(file) if Path(file).exists() else NO_KEYS
    ring = _changed(file, lambda: ring.with_new(int(time.time()), os.urandom))
    added = ring.keys[-1].id.hex()
    if len(ring.keys) == 1:
        click.echo(f"{file} is made with key {added}, which encrypts")
    else:
        click.echo(
            f"{file} has the new key {added}, which only decrypts. Give the file to all members, then rotate."
        )


@keys.command(epilog=examples("jgroups-py keys rotate ring.keys --keep 3"))
@click.argument("file")
@click.option(
    "--keep",
    type=click.IntRange(2, KEYS_MAX),
    default=2,
    show_default=True,
    metavar="N",
    help="The number of newest keys that are kept.",
)
def rotate(file: str, keep: int) -> None:
    """Let the newest key encrypt.

    All members must have the newest key already (new, copy): a member without it cannot decrypt packets under it.
    """
    before = read_ring(file)
    ring = _changed(file, lambda: before.rotated(keep))
    click.echo(f"{file}: key {ring.writer.id.hex()} encrypts, in place of {before.writer.id.hex()}")
    for key in before.keys:
        if key not in ring.keys:
            click.echo(f"{file}: key {key.id.hex()} is dropped and decrypts no packet any more")


@keys.command(
    cls=JsonCommand,
    epilog=examples("jgroups-py keys show ring.keys", "jgroups-py keys show ring.keys --json"),
)
@click.argument("file")
@json_option
def show(file: str, json_out: str | None) -> None:
    """Show ids, ages and order of the keys. The keys themselves are not shown."""
    now = int(time.time())
    rows = [
        {
            "id": key.id.hex(),
            "made": key.made_text,
            "age_seconds": max(0, now - key.made),
            "does": "reads" if index else "writes and reads",
        }
        for index, key in enumerate(read_ring(file).keys)
    ]
    show_result(
        json_out,
        lambda: json.dumps({"file": file, "keys": rows}, indent=2),
        lambda: "\n".join(_line(row) for row in rows),
    )


def _changed(file: str, change: Callable[[], Ring]) -> Ring:
    """Apply a change and write the file."""
    try:
        ring = change()
    except ConfigError as error:
        raise ConfigError(error.problem, file=file) from None
    write_private(file, ring.text().encode())
    return ring


def _line(row: dict[str, Any]) -> str:
    return f"{row['id']}  made {row['made']}  {_age(row['age_seconds'])} old  {row['does']}"


def _age(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
