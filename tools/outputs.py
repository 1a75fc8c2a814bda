"""The outputs of commands: files are tried before anything begins."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import click

NAME_KEPT: Final = 40
"""Characters of a file's name in the name of its new version, which must not become too long."""


class OutFile(click.ParamType[str]):
    """A file that is written at the end, and whose name is tried before the command begins. ``-``: standard output."""

    name = "OUT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        why = _problem(str(value))
        if why is not None:
            self.fail(f"{str(value)!r} cannot be written: {why}", param, ctx)
        return str(value)


def write(name: str, text: str) -> None:
    """Write ``text``, with the folders above. ``OSError``: it cannot be written; standard output has the text then."""
    if name == "-":
        sys.stdout.write(text)
        return
    try:
        with rewritten(name) as out:
            out.write(text)
    except OSError:
        sys.stdout.write(text)
        raise


@contextmanager
def rewritten(name: str) -> Iterator[TextIO]:
    """Write a file anew, with the folders above. Until all is written the former file stays as it was.

    A device, a pipe, and a file in a folder that takes no new files are written in place. Raises OSError.
    """
    place = Path(os.path.realpath(name))
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name[:NAME_KEPT]}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)  # of a process that was killed
        in_place = place.exists() and not place.is_file()
        out = None if in_place else new.open("x", encoding="utf-8")
    except PermissionError:
        out = None
    if out is None:
        with place.open("w", encoding="utf-8") as direct:
            yield direct
        return
    try:
        with out:
            yield out
        if place.exists():
            new.chmod(place.stat().st_mode & 0o7777)
        try:
            new.replace(place)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            shutil.copyfile(
                new, place
            )  # a file that is mounted, as into a container, cannot be replaced
            new.unlink()
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def show(json_out: str | None, json_text: Callable[[], str], text: Callable[[], str]) -> None:
    """Print a result for people, unless its JSON takes standard output; write the JSON if asked to."""
    if json_out != "-":
        sys.stdout.write(f"{text()}\n")
    if json_out is not None:
        write(json_out, f"{json_text()}\n")


def _problem(name: str) -> str | None:
    """Return the reason why this cannot be written. The trial leaves no file behind."""
    if name == "-":
        return None
    if not name:
        return "the name of a file is needed, or - for standard output"
    file = Path(name)
    folder = file.parent
    try:
        if file.exists():
            with file.open("ab"):
                return None
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def spans(numbers: Sequence[int]) -> str:
    """Return the text of rising numbers: ``1..3, 5``."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in ends)
