"""``jgroups-py export``: a member of a cache that opens an export port."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click
import trio

from jgroups_py.cache import open_tree_cache
from jgroups_py.errors import ConfigError
from jgroups_py.export import open_export, read_token
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs


@click.command()
@click.option("--file", default="replicated.xml", show_default=True, help="Cache file.")
@click.option("--cluster", help="Default: ClusterName of the file.")
@click.option("--name", help="Default: made from the host's name.")
@click.option("-D", "properties", multiple=True, metavar="name=value", help="For ${name}.")
@click.option("--bind-addr", metavar="ADDRESS", help="Default: the stack's, or 127.0.0.1.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the port listens.")
@click.option("--port", default=0, show_default=True, help="0: a free one, which is printed.")
@click.option("--map", "map_name", default="cache", show_default=True, help="The cache's name.")
@click.option(
    "--token-file", required=True, help="With the token; made, for you alone, if it is not there."
)
@click.option("--allow-remote", is_flag=True, help="Other hosts than loopback: not encrypted.")
def export(
    file: str,
    cluster: str | None,
    name: str | None,
    properties: tuple[str, ...],
    bind_addr: str | None,
    host: str,
    port: int,
    map_name: str,
    token_file: str,
    allow_remote: bool,
) -> int:
    """Join a cache and export it, until interrupted: snapshots, changes, bulk writes.

    Whoever has the token may read and write everything. See design/export.md.
    """
    token = _token(token_file)

    async def command() -> None:
        async with (
            open_tree_cache(
                file,
                cluster=cluster,
                name=name,
                properties=pairs(properties),
                bind_addr=bind_addr,
            ) as cache,
            open_export(
                {map_name: cache}, token=token, host=host, port=port, allow_remote=allow_remote
            ) as opened,
        ):
            there = opened.address
            click.echo(f"{cache.name} exports {map_name} at {there[0]}:{there[1]}")
            await trio.sleep_forever()

    return run_command(command)


def _token(file: str) -> str:
    """The token in a file, which is made if it is not there."""
    if not Path(file).exists():
        token = secrets.token_urlsafe(32)
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(token + "\n")
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    return read_token(file)
