"""``jgroups-py cache``: look into a tree cache and change it, as a member of its group."""

from __future__ import annotations

import sys

import click
import trio

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.errors import CacheError
from jgroups_py.tools.cache_shell import HELP, Result, checked, execute, json_of, text_of, words_of
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs

NOT_THERE = 1
FAILED = 2


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--file", default="replicated.xml", show_default=True, help="Cache file.")
@click.option("--cluster", help="Default: ClusterName of the file.")
@click.option("--name", help="Default: made from the host's name.")
@click.option("-D", "properties", multiple=True, metavar="name=value", help="For ${name}.")
@click.option("--bind-addr", metavar="ADDRESS", help="Default: the stack's, or 127.0.0.1.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each command.")
@click.argument("words", nargs=-1, metavar="[COMMAND...]", type=click.UNPROCESSED)
def cache(
    file: str,
    cluster: str | None,
    name: str | None,
    properties: tuple[str, ...],
    bind_addr: str | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Join a cache, run one command, leave; without a command, those of standard input line by line.

    \b
      get PATH [KEY]        an attribute, or all of a node
      put PATH KEY VALUE    VALUE is JSON, or else text
      rm PATH [KEY]         a node or an attribute; rm -r PATH: all below, too
      ls, tree [PATH]       names below; all nodes
      owners [PATH]         who owns the nodes, who keeps copies; nothing moves
      members, stats        who is here; counters
      buddies, groups       whose copies are where, with buddy replication
      discarded             what merges after partitions have dropped

    Exit 1 when what was asked for is not there, 2 when a command could not run. With buddy
    replication reading moves data to this member and leaving hands it over, as for any member.
    """

    if words:
        checked(list(words))  # before joining anything

    async def command() -> int:
        async with open_tree_cache(
            file,
            cluster=cluster,
            name=name,
            properties=pairs(properties),
            bind_addr=bind_addr,
        ) as opened:
            if words:
                return _show(await execute(opened, list(words)), as_json)
            return await _shell(opened, as_json)

    return run_command(command)


async def _shell(cache: TreeCache, as_json: bool) -> int:
    """Lines until the end of the input; the worst code of all, of a person's always 0."""
    interactive = sys.stdin.isatty()
    worst = 0
    while True:
        if interactive:
            print("cache> ", end="", flush=True)
        # A thread, because standard input may be a terminal, a pipe or a file.
        line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        try:
            words = words_of(line)
            if not line or words in (["quit"], ["exit"]):
                return 0 if interactive else worst
            if words == ["help"]:
                print(HELP, flush=True)
            elif words:
                worst = max(worst, _show(await execute(cache, words), as_json))
        except CacheError as error:  # of this command; the cache goes on
            print(f"jgroups-py: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
            worst = FAILED


def _show(result: Result, as_json: bool) -> int:
    if as_json:
        print(json_of(result.value), flush=True)
    elif result.found:
        for line in result.lines:
            print(text_of(line), flush=True)
    else:
        path, key = result.value["path"], result.value.get("key")
        print(f"not there: {path}{f' {key}' if key else ''}", file=sys.stderr, flush=True)
    return 0 if result.found else NOT_THERE
