"""Options that are the same in every command: times, ``--json [OUT]``, examples in ``--help``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from jgroups_py.tools.outputs import OutFile
from jgroups_py.units import parse_seconds, seconds_text

F = TypeVar("F", bound=Callable[..., Any])

STANDARD_OUTPUT: Final = "-"
TIME_FORM: Final = "a time with its unit, such as 500ms, 5s, 2m, 1h"


class Time(click.ParamType[float]):
    """A time with its unit, converted to seconds. It is more than 0, at least ``least`` and at most ``most``.

    A bare number is refused: in a stack file it is milliseconds, but elsewhere people mean seconds."""

    name = "TIME"

    def __init__(self, least: float = 0.0, most: float = math.inf) -> None:
        self.least = least
        self.most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):  # a default
            return value
        text = str(value)
        if re.fullmatch(r"[0-9.]+", text):
            self.fail(f"{text!r} has no unit ({TIME_FORM})", param, ctx)
        try:
            seconds = parse_seconds(text)
        except ValueError:
            self.fail(f"{text!r} is not a time ({TIME_FORM})", param, ctx)
        if not (seconds > 0 and self.least <= seconds <= self.most):
            self.fail(f"{text!r} is not {self._range()}", param, ctx)
        return seconds

    def _range(self) -> str:
        least = f"at least {seconds_text(self.least)}" if self.least else "more than 0"
        return least if math.isinf(self.most) else f"{least}, at most {seconds_text(self.most)}"


class Span(click.ParamType[range]):
    """``A..B``: whole numbers, both included; at most ``most`` of them."""

    def __init__(self, most: int, name: str = "A..B") -> None:
        self.name = name
        self.most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        if isinstance(value, range):  # a default
            return value
        match = re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", str(value))
        if match is None or int(match[1]) > int(match[2]):
            self.fail(f"{value!r} is not {self.name} with the first no larger", param, ctx)
        span = range(int(match[1]), int(match[2]) + 1)
        if len(span) > self.most:
            self.fail(f"more than {self.most}", param, ctx)
        return span


def seeds_option(most: int, help: str) -> Callable[[F], F]:
    """``--seeds A..B``: a range of at most ``most``, or None."""
    return click.option("--seeds", type=Span(most), help=help)


def json_option(command: F) -> F:
    """Add ``--json [OUT]``: the result as JSON, on standard output or in a file. The command's class must be JsonCommand."""
    return click.option(
        "--json",
        "json_out",
        type=OutFile(),
        metavar="[OUT]",
        help="The result as JSON, to standard output or to the file OUT.",
    )(command)


class JsonCommand(click.Command):
    """A command with ``--json [OUT]``. It decides whether the next word is OUT or an argument of the command.

    The word is OUT if enough arguments are left without it. If the command takes any number of arguments, the word is OUT
    only if it is ``-`` or ends with ``.json``. ``--json=OUT`` is always OUT.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._spelled_out(args, ctx.allow_interspersed_args))

    def _spelled_out(self, args: Sequence[str], interspersed: bool) -> list[str]:
        """Return the same words, with ``--json`` and its value as one word."""
        taking = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        found: list[str] = []
        arguments = 0
        at = 0
        json_at = followed = None
        while at < len(args) and args[at] != "--":
            word = args[at]
            if word == "--json":
                json_at, at = len(found), at + 1
                found.append("--json=-")
                if at < len(args) and (args[at] == "-" or not args[at].startswith("-")):
                    followed = args[at]
                    found.append(followed)
                    at += 1
            elif word.startswith("-") and word != "-":
                end = at + 2 if word in taking else at + 1
                found += args[at:end]
                at = end
            else:
                arguments += 1
                if not interspersed:
                    break
                found.append(word)
                at += 1
        found += args[at:]
        arguments += len(args[at + 1 :])
        if json_at is not None and followed is not None and self._is_out(followed, arguments):
            found[json_at : json_at + 2] = [f"--json={followed}"]
        return found

    def _is_out(self, word: str, others: int) -> bool:
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        needed = sum(argument.required for argument in arguments)
        if any(argument.nargs < 0 for argument in arguments):
            return (word == "-" or word.endswith(".json")) and others >= needed
        return others >= needed


def examples(*lines: str) -> str:
    """Return the examples for the end of a command's ``--help``."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
