"""``jgroups-py dev requirements``: lists numbered requirements with the tests that show them.

Numbers and their lines come from ``design/requirements.md``, tests from ``build/requirements.json``, which ``make
test`` writes. Both belong to a checkout, so the command works only there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import click

from jgroups_py.errors import ConfigError
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import write

_LINE: Final = re.compile(r"^- \*\*([A-Z]\d+)\*\* (.+)$", re.MULTILINE)


@click.command(
    cls=JsonCommand,
    epilog=examples("jgroups-py dev requirements --open", "jgroups-py dev requirements --json"),
)
@json_option
@click.option("--open", "only_open", is_flag=True, help="Only what no test shows.")
def requirements(json_out: str | None, only_open: bool) -> None:
    """Print each requirement's number with the tests that showed it in the last `make test`.

    JSON: {"R12": ["tests/..."], ...}
    """
    root = _checkout()
    lines = read_lines(root / "design" / "requirements.md")
    shown = read_shown(root / "build" / "requirements.json")
    table = {number: shown.get(number, []) for number in lines}
    if only_open:
        table = {number: tests for number, tests in table.items() if not tests}
    if json_out is not None:
        write(json_out, json.dumps(table, indent=1) + "\n")
    if json_out == "-":
        return
    for number, tests in table.items():
        click.echo(f"{number:4} {lines[number]}")
        for test in tests or ["open"]:
            click.echo(f"       {test}")
    click.echo(summary(table))
    if not shown:
        click.echo("no run is recorded here: make test records one", err=True)


def summary(table: dict[str, list[str]]) -> str:
    """Return the numbers of shown requirements, by letter and in all."""
    letters: dict[str, list[bool]] = {}
    for number, tests in table.items():
        letters.setdefault(number[0], []).append(bool(tests))
    each = ", ".join(f"{letter} {sum(has)} of {len(has)}" for letter, has in letters.items())
    return f"{sum(map(bool, table.values()))} of {len(table)} shown" + (f": {each}" if each else "")


def read_lines(file: Path) -> dict[str, str]:
    """Number -> its line, in the order of the file. ConfigError when one stands there twice."""
    found = _LINE.findall(file.read_text(encoding="utf-8"))
    lines: dict[str, str] = {}
    for number, line in found:
        if number in lines:
            raise ConfigError(f"{number} stands there twice", file=str(file))
        lines[number] = line
    return lines


def read_shown(file: Path) -> dict[str, list[str]]:
    """Number -> tests of the last recorded run; empty when there was none."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        table = json.loads(text)
        return {str(number): [str(test) for test in tests] for number, tests in table.items()}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError("is damaged; `make test` writes it anew", file=str(file)) from None


def _checkout() -> Path:
    """Return the checkout around the current directory, else the one from which this package runs."""
    here = Path.cwd()
    for directory in (here, *here.parents, Path(__file__).resolve().parent.parent):
        if (directory / "design" / "requirements.md").is_file():
            return directory
    raise ConfigError("design/requirements.md not found: run this inside a checkout")
