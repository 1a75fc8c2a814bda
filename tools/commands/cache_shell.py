"""The commands of ``jgroups-py cache``. Each takes words and returns a result. They neither read nor print.

``--json`` prints a result; ``text`` makes lines for people of it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from jgroups_py.cache import BACKUP_ROOT, Fqn, TreeCache
from jgroups_py.cache.fqn import as_fqn
from jgroups_py.errors import CacheRefused
from jgroups_py.tools.strict_json import strict_json

TREE_MAX = 10_000
"""The most nodes that one ``tree`` shows."""

HELP = """\
get PATH [KEY]        an attribute, or all of a node
put PATH KEY VALUE    VALUE is JSON, or else text
rm PATH [KEY]         a node (those below it stay), or an attribute of it
rm -r PATH            a node and all below it
ls [PATH]             names directly below
owners [PATH]         owners of all nodes from there on, and members with copies; no node moves
tree [PATH]           all nodes from there on
members               the members of the group, the coordinator first
buddies, groups       buddy groups: this member's, and those it keeps copies for
discarded             values that merges after partitions have dropped, as far as this member knows
stats                 counters of this member
help, quit"""


class Unknown(CacheRefused):
    """The command is unknown, or does not take this number of words."""


@dataclass(frozen=True)
class ShellResult:
    """The result of a command. ``value`` is JSON. ``found`` is false if the node or attribute is not there."""

    value: dict[str, Any]
    lines: list[str]
    found: bool = True


def words_of(line: str) -> list[str]:
    """Return the words of a line, quoted as in a shell. Raise Unknown for quotes that do not end."""
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise Unknown(f"{error}: {line.strip()}") from None


def checked(words: list[str]) -> tuple[Callable[..., Awaitable[ShellResult]], list[str]]:
    """Return the function of a command, and its arguments.

    Raises:
        Unknown: there is no such command.
    """
    name, arguments = words[0], words[1:]
    if name == "rm" and arguments[:1] == ["-r"]:
        name, arguments = "rm -r", arguments[1:]
    if name not in COMMANDS:
        raise Unknown(f'no command "{name}": {", ".join(COMMANDS)}')
    function, least, most, usage = COMMANDS[name]
    if not least <= len(arguments) <= most:
        raise Unknown(f"usage: {usage}")
    return function, arguments


async def execute(cache: TreeCache, words: list[str]) -> ShellResult:
    """Run one command.

    Raises:
        Unknown: there is no such command; nothing was done.
        CacheError: the cache raised it.
    """
    function, arguments = checked(words)
    return await function(cache, *arguments)


async def _get(cache: TreeCache, path: str, key: str | None = None) -> ShellResult:
    if key is None:
        node = await cache.get_node(path)
        if node is None:
            return ShellResult({"path": path, "attributes": None}, [], False)
        return ShellResult({"path": path, "attributes": node}, _attributes(node))
    value = await cache.get(path, key, _MISSING)
    if value is _MISSING:
        return ShellResult({"path": path, "key": key, "found": False}, [], False)
    return ShellResult({"path": path, "key": key, "found": True, "value": value}, [text_of(value)])


async def _put(cache: TreeCache, path: str, key: str, text: str) -> ShellResult:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = text
    await cache.put(path, key, value)
    return ShellResult({"path": path, "key": key, "value": value}, [])


def _refuse(word: str) -> None:
    """``json`` reads NaN and Infinity, and JSON has no such words."""
    raise ValueError(word)


async def _rm(cache: TreeCache, path: str, key: str | None = None) -> ShellResult:
    if key is None:
        there = await cache.remove_node(path)
    else:
        there = await cache.remove(path, key)
    return ShellResult({"path": path, "key": key, "removed": int(there)}, [], there)


async def _rm_tree(cache: TreeCache, path: str) -> ShellResult:
    count = await cache.remove_tree(path)
    lines = [f"{count} node{'s' * (count != 1)}"]
    return ShellResult({"path": path, "key": None, "removed": count}, lines, bool(count))


async def _ls(cache: TreeCache, path: str = "/") -> ShellResult:
    names = await cache.children(path)
    found = bool(names) or not as_fqn(path) or await cache.exists(path)
    return ShellResult({"path": path, "children": list(names)}, list(names), found)


async def _tree(cache: TreeCache, path: str = "/") -> ShellResult:
    nodes: dict[str, Any] = {}
    waiting = [as_fqn(path)]
    while waiting and len(nodes) < TREE_MAX:
        fqn = waiting.pop()
        node = await cache.get_node(fqn) if fqn else None
        if node is not None:
            nodes[str(fqn)] = node
        below = await cache.children(fqn)
        waiting += [fqn.child(name) for name in reversed(below) if not _is_backup(fqn, name)]
    lines = ["  ".join([at, *_attributes(node)]) for at, node in nodes.items()]
    if waiting:
        lines.append(f"... the first {TREE_MAX} only")
    value = {"path": path, "nodes": nodes, "complete": not waiting}
    return ShellResult(value, lines, bool(nodes) or not as_fqn(path))


def _is_backup(path: Fqn, name: str) -> bool:
    return not path and (name,) == tuple(BACKUP_ROOT)


async def _owners(cache: TreeCache, path: str = "/") -> ShellResult:
    found = await cache.owners(path)
    shown = [(str(at), having) for at, having in list(found.items())[:TREE_MAX]]
    lines = [
        f"{at}  {having.owner}  copies: {', '.join(having.backups) or 'none told'}"
        for at, having in shown
    ]
    if len(found) > TREE_MAX:
        lines.append(f"... the first {TREE_MAX} only")
    owners = [
        {"path": at, "owner": having.owner, "backups": list(having.backups)} for at, having in shown
    ]
    value = {"path": path, "owners": owners, "complete": len(found) <= TREE_MAX}
    return ShellResult(value, lines, bool(found) or not as_fqn(path))


async def _members(cache: TreeCache) -> ShellResult:
    members = list(cache.members)
    return ShellResult({"members": members}, members)


async def _buddies(cache: TreeCache) -> ShellResult:
    manager = cache.buddies
    group = manager.group
    buddies = [cache.name_of(member) for member in group.buddies]
    missing = cache.statistics().counters["buddies_missing"]
    value = {
        "group": group.name,
        "buddies": buddies,
        "missing": missing,
        "protected": manager.protected,
    }
    state = "protected" if manager.protected else "not protected now"
    if missing:
        state += f"; {missing} fewer than numBuddies: there are no more members"
    return ShellResult(value, [f"{group.name}: {', '.join(buddies) or 'no buddy'}; {state}"])


async def _groups(cache: TreeCache) -> ShellResult:
    nodes = {name: len(backup) for name, backup in cache.buddies.backups().items()}
    lines = [f"{name}: {count} nodes" for name, count in nodes.items()]
    return ShellResult({"groups": nodes}, lines)


async def _discarded(cache: TreeCache) -> ShellResult:
    dropped = cache.discarded
    values = [
        {"path": str(d.path), "member": d.member, "attributes": d.attributes} for d in dropped
    ]
    lines = [
        "  ".join([str(d.path), f"of {d.member}", *_attributes(dict(d.attributes or {}))])
        for d in dropped
    ]
    return ShellResult({"discarded": values}, lines)


async def _stats(cache: TreeCache) -> ShellResult:
    now = cache.statistics()
    value = {
        "nodes": now.nodes,
        "bytes": now.bytes,
        "missed_by_listeners": now.missed_by_listeners,
        **now.counters,
    }
    return ShellResult(value, [f"{name} {count}" for name, count in value.items()])


_MISSING = object()

COMMANDS: dict[str, tuple[Callable[..., Awaitable[ShellResult]], int, int, str]] = {
    "get": (_get, 1, 2, "get PATH [KEY]"),
    "put": (_put, 3, 3, "put PATH KEY VALUE"),
    "rm": (_rm, 1, 2, "rm PATH [KEY], rm -r PATH"),
    "rm -r": (_rm_tree, 1, 1, "rm -r PATH"),
    "ls": (_ls, 0, 1, "ls [PATH]"),
    "tree": (_tree, 0, 1, "tree [PATH]"),
    "owners": (_owners, 0, 1, "owners [PATH]"),
    "members": (_members, 0, 0, "members"),
    "buddies": (_buddies, 0, 0, "buddies"),
    "groups": (_groups, 0, 0, "groups"),
    "discarded": (_discarded, 0, 0, "discarded"),
    "stats": (_stats, 0, 0, "stats"),
}
"""Name -> (function, least and most words after it, usage)."""


def text_of(value: object) -> str:
    """Return a value for people: a text as it is (control characters are made visible), another value as JSON."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() or c in "\t\n" else "�" for c in value)
    return json_of(value)


def json_of(value: object) -> str:
    """Return JSON in one line. Bytes are written as ``{"bytes": hexadecimal}``."""
    return strict_json(value, ascii_only=False, other=_other)


def _other(value: object) -> object:
    return {"bytes": value.hex()} if isinstance(value, bytes) else repr(value)


def _attributes(node: dict[str, Any]) -> list[str]:
    return [f"{text_of(key)}={text_of(value)}" for key, value in sorted(node.items())]
