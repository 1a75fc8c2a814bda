"""``jgroups-py export``: a member of a cache that opens an export port."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import click
import trio

from jgroups_py.errors import ConfigError
from jgroups_py.export import open_export, read_token
from jgroups_py.tools.commands.cache_options import cache_options, open_cache
from jgroups_py.tools.options import examples
from jgroups_py.tools.running import run_command


@click.command(
    epilog=examples(
        "jgroups-py export --cluster shop --token-file token",
        "jgroups-py export --cache buddy.xml --cluster shop --port 7700 --token-file token",
    )
)
@cache_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=0, show_default=True, help="0 picks a free port, which is printed.")
@click.option("--map", "map_name", default="cache", show_default=True, help="The cache's name.")
@click.option(
    "--token-file",
    required=True,
    help="The file with the token. It is made, readable for you alone, if it is missing.",
)
@click.option(
    "--allow-remote", is_flag=True, help="Allow other hosts than loopback. Nothing is encrypted."
)
def export(
    host: str,
    port: int,
    map_name: str,
    token_file: str,
    allow_remote: bool,
    **where: Any,
) -> int:
    """Join a cache and open its export port until interrupted.

    Through the port Spark and other clients take snapshots, follow changes and write in bulk. Every client with
    the token may read and write everything.
    """
    token = _token(token_file)

    async def command() -> None:
        async with (
            open_cache(where) as cache,
            open_export(
                {map_name: cache}, token=token, host=host, port=port, allow_remote=allow_remote
            ) as opened,
        ):
            there = opened.address
            click.echo(f"{cache.name} exports {map_name} at {there[0]}:{there[1]}")
            await trio.sleep_forever()

    return run_command(command)


def _token(file: str) -> str:
    """Return the token in a file. Make the file if it is missing."""
    if not Path(file).exists():
        token = secrets.token_urlsafe(32)
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(token + "\n")
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    return read_token(file)
