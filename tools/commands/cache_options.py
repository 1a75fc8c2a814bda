"""Options of commands that join a cache: the cache, the stack, the group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, TypeVar

import click

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.cache.settings_file import load_cache_settings
from jgroups_py.tools.stack_options import override_options, pairs

F = TypeVar("F", bound=Callable[..., Any])


def cache_options(command: F) -> F:
    """Add --cache, --stack, --cluster, --name, --set, -D and --bind-addr."""
    command = override_options(command)
    for option in (
        click.option("--name", help="Default: made from the host's name."),
        click.option("--cluster", help="Default: ClusterName of the cache file."),
        click.option("--stack", help="Stack file. Default: ClusterConfig of the cache file."),
        click.option(
            "--cache",
            "file",
            default="replicated.xml",
            show_default=True,
            help="Cache file, or a shipped one's name.",
        ),
    ):
        command = option(command)
    return command


def open_cache(where: Mapping[str, Any]) -> AbstractAsyncContextManager[TreeCache]:
    """Open the cache that the values of ``cache_options`` name. Errors are those of ``open_tree_cache``."""
    properties = pairs(where["properties"])
    settings = load_cache_settings(where["file"], properties=properties)
    if where["stack"] is not None:
        settings = replace(settings, stack=where["stack"])
    return open_tree_cache(
        settings,
        cluster=where["cluster"],
        name=where["name"],
        properties=properties,
        attributes=pairs(where["settings"]),
        bind_addr=where["bind_addr"],
    )
