"""``jgroups-py export``: a member of a cache that opens an export port."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import click
import trio

from jgroups_py.config.private_file import write_private
from jgroups_py.export import open_export
from jgroups_py.tools.commands.cache_options import cache_options, open_cache
from jgroups_py.tools.options import examples
from jgroups_py.tools.running import run_command
from jgroups_py.tools.tls_options import tls_from, tls_options


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
    help="The file with the token, or tokens with their rights. If the file is missing, it is made with a new token.",
)
@tls_options
@click.option(
    "--allow-remote", is_flag=True, help="Allow other hosts than loopback although there is no TLS."
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

    Through the port Spark and other clients take snapshots, follow changes and write in bulk. Every client with the
    token may read and write everything, unless the file has several tokens with limited rights. Tokens and certificates
    are read again when their files change.
    """
    tls = tls_from(where)
    _made(token_file)

    async def command() -> None:
        async with (
            open_cache(where) as cache,
            open_export(
                {map_name: cache},
                token_file=token_file,
                tls=tls,
                host=host,
                port=port,
                allow_remote=allow_remote,
            ) as opened,
        ):
            there = opened.address
            click.echo(f"{cache.name} exports {map_name} at {there[0]}:{there[1]}")
            await trio.sleep_forever()

    return run_command(command)


def _made(file: str) -> None:
    """Make the file with a token if it is missing."""
    if not Path(file).exists():
        write_private(file, (secrets.token_urlsafe(32) + "\n").encode())
