"""``jgroups-py cache``: reads and changes a tree cache as a member of its group."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TextIO

import click
import trio

from jgroups_py.cache import TreeCache
from jgroups_py.errors import CacheError
from jgroups_py.tools.commands.cache_options import cache_options, open_cache
from jgroups_py.tools.commands.cache_shell import (
    HELP,
    ShellResult,
    checked,
    execute,
    json_of,
    text_of,
    words_of,
)
from jgroups_py.tools.commands.shell_history import LINES_MAX, ShellHistory
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.running import run_command

NOT_THERE = 1
FAILED = 2


@click.command(
    cls=JsonCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "jgroups-py cache --cluster shop put /users/7 name Ada",
        "jgroups-py cache --cluster shop --json get /users/7",
        "jgroups-py cache --cache passivation.xml -D cache.file=store.db tree",
        "jgroups-py cache --cluster shop < commands.txt",
    ),
)
@cache_options
@json_option
@click.argument("words", nargs=-1, metavar="[COMMAND...]", type=click.UNPROCESSED)
def cache(
    json_out: str | None,
    words: tuple[str, ...],
    **where: Any,
) -> int:
    """Read and change a tree cache as a member of its group.

    With COMMAND it runs this command and leaves. Without, it runs the commands of standard input line by line.

    \b
      get PATH [KEY]        an attribute, or all of a node
      put PATH KEY VALUE    VALUE is JSON, or else text
      rm PATH [KEY]         a node or an attribute; rm -r PATH: all below, too
      ls, tree [PATH]       names below; all nodes
      owners [PATH]         owners of nodes, and members with copies; no node moves
      members, stats        the members; the counters
      buddies, groups       buddy groups: this member's, and those it keeps copies for
      discarded             values that merges after partitions have dropped

    Exit 1: there is no such node or attribute; 2: a command could not run. With buddy replication a read moves
    data to this member, and leaving hands it over, as with any member.
    """

    if words:
        checked(list(words))  # this is before the join

    async def command() -> int:
        with _json_lines(json_out) as out:
            async with open_cache(where) as opened:
                if words:
                    code = _show(await execute(opened, list(words)), out)
                    _Alone(opened).after(words)
                    return code
                return await _shell(opened, out)

    return run_command(command)


class _Alone:
    """Warns once that values of this member are lost when it leaves."""

    def __init__(self, cache: TreeCache) -> None:
        self._cache = cache
        self._said = False

    def after(self, words: Sequence[str]) -> None:
        """Note that a command has succeeded."""
        cache = self._cache
        if self._said or list(words[:1]) != ["put"] or cache.has_store or len(cache.members) > 1:
            return
        self._said = True
        who = f"{cache.name} is alone" if cache.members else "this cache is local"
        print(
            f"jgroups-py: {who} and has no store: what was put is gone when it leaves",
            file=sys.stderr,
            flush=True,
        )


async def _shell(cache: TreeCache, out: TextIO | None) -> int:
    """Run lines until the end of the input. Return the worst exit code; at a terminal it is always 0."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    worst = 0
    alone = _Alone(cache)
    with _person() if interactive else nullcontext(sys.stdin.readline) as read:
        while True:
            # A thread, because standard input may be a terminal, a pipe or a file.
            line = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
            try:
                words = words_of(line)
                if not line or words in (["quit"], ["exit"]):
                    return 0 if interactive else worst
                if words == ["help"]:
                    print(HELP, flush=True)
                elif words:
                    worst = max(worst, _show(await execute(cache, words), out))
                    alone.after(words)
            except CacheError as error:  # an error of this command; the cache continues
                print(f"jgroups-py: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
                worst = FAILED


@contextmanager
def _person() -> Iterator[Callable[[], str]]:
    """Read lines of a terminal, with keys to edit them and a history. The result is empty at the end of the input.

    Afterwards the terminal is as before, also if a line was being typed."""
    import readline
    import termios

    before = termios.tcgetattr(sys.stdin.fileno())
    history = ShellHistory("cache")
    readline.set_history_length(LINES_MAX)
    for line in history.lines:
        readline.add_history(line)
    if history.problem is not None:
        print(f"jgroups-py: no history: {history.problem}", file=sys.stderr, flush=True)

    def read() -> str:
        try:
            line = input("cache> ")
        except EOFError:
            return ""
        history.add(line)
        return f"{line}\n"

    try:
        yield read
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


@contextmanager
def _json_lines(json_out: str | None) -> Iterator[TextIO | None]:
    """Open the output for the JSON of the commands, one line for each."""
    if json_out is None or json_out == "-":
        yield None if json_out is None else sys.stdout
        return
    with open(json_out, "w", encoding="utf-8", opener=_for_owner) as out:
        yield out


def _for_owner(path: str, flags: int) -> int:
    """Open a file that holds values of the cache. If it is made, only its owner may read it."""
    return os.open(path, flags, 0o600)


def _show(result: ShellResult, out: TextIO | None) -> int:
    if out is not None:
        print(json_of(result.value), file=out, flush=True)
    if out is sys.stdout:
        pass
    elif result.found:
        for line in result.lines:
            print(text_of(line), flush=True)
    else:
        path, key = result.value["path"], result.value.get("key")
        print(f"not there: {path}{f' {key}' if key else ''}", file=sys.stderr, flush=True)
    return 0 if result.found else NOT_THERE
