"""LazyGroup: a group of commands, each imported when it is called."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import click

from jgroups_py.config.model import nearest


class LazyGroup(click.Group):
    """A group whose commands are named by ``module:function``.

    ``commands_at`` are listed in ``--help``. ``hidden_at`` can be called and are not listed.
    A command whose module is not installed is left out.
    """

    def __init__(
        self,
        *args: Any,
        commands_at: Mapping[str, str],
        hidden_at: Mapping[str, str] | None = None,
        **attrs: Any,
    ) -> None:
        super().__init__(*args, **attrs)
        self.commands_at = commands_at
        self.hidden_at = hidden_at or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, place in self.commands_at.items() if _is_installed(place)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.commands_at.get(cmd_name) or self.hidden_at.get(cmd_name)
        if place is None or not _is_installed(place):
            return None
        module, _, function = place.partition(":")
        command = getattr(importlib.import_module(module), function)
        assert isinstance(command, click.Command), f"{place} is not a click command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [*self.list_commands(ctx), *self.hidden_at]
        if args and args[0] not in known and not args[0].startswith("-"):
            hint = nearest(args[0], known) or " (--help lists them)"
            ctx.fail(f'no command "{args[0]}"{hint}')
        return super().resolve_command(ctx, args)


def _is_installed(place: str) -> bool:
    return importlib.util.find_spec(place.partition(":")[0]) is not None
