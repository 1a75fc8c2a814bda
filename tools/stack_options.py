"""Options of all commands with a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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
            multiple=True,
            metavar="PROTOCOL.attribute=value",
            help="Override an attribute of the stack file.",
        ),
        click.option("-D", "properties", multiple=True, metavar="name=value", help="For ${name}."),
        click.option("--bind-addr", metavar="ADDRESS", help="Default: the stack's, or 127.0.0.1."),
    ):
        command = option(command)
    return command


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """``name=value`` texts as a dict."""
    result = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f'"{text}" is not name=value')
        result[name] = value
    return result
