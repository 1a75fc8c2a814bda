"""Options of all commands with a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class NameValue(click.ParamType[str]):
    """``name=value``, which stays a text; see ``pairs``. The message about another text names the option and ``form``."""

    def __init__(self, form: str = "name=value") -> None:
        self.name = form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name, equals, _ = str(value).partition("=")
        if not equals or not name:
            self.fail(f'"{value}" is not {self.name}', param, ctx)
        return str(value)


SETTING: Final = NameValue("PROTOCOL.attribute=value")


def stack_options(command: F) -> F:
    """Add --stack, --set, -D and --bind-addr."""
    return click.option(
        "--stack",
        default="udp.xml",
        show_default=True,
        help="Stack file, or a shipped stack's name.",
    )(override_options(command))


def override_options(command: F) -> F:
    """Add --set, -D and --bind-addr."""
    for option in (
        click.option(
            "--set",
            "settings",
            type=SETTING,
            multiple=True,
            metavar=SETTING.name,
            help="Override an attribute of the stack file.",
        ),
        click.option(
            "-D",
            "properties",
            type=NameValue(),
            multiple=True,
            metavar="name=value",
            help="For ${name}.",
        ),
        click.option("--bind-addr", metavar="ADDRESS", help="Default: the stack's, or 127.0.0.1."),
    ):
        command = option(command)
    return command


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Return values of ``NameValue`` as a dict. The last one of a name counts."""
    result = {}
    for text in texts:
        name, _, value = text.partition("=")
        result[name] = value
    return result
