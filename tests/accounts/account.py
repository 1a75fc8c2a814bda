"""Accounts: counts of all messages and reports of machines in a scene, as lines of text for people.

A scene has no randomness, so its account is the same every time. The latest accounts are in ``tests/traces/accounts``;
a change of code without a change of behaviour leaves them as they are. They find faults that no invariant forbids: a
message that is sent twice, a late repetition, a table that is not cleared.

After an intended change: ``REWRITE=1 pytest tests/accounts``, then read the diff.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jgroups_py.stack.machine import Machine
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.native import attributes

ACCOUNTS: Final = Path(__file__).parent.parent / "traces" / "accounts"


OURS: Final = ("jgroups_py.protocols.", "jgroups_py.stack.windows")
PARTS_DEEP: Final = 2
"""Tables of a protocol's parts and of their parts are counted, no deeper ones."""
AGAIN: Final = "if that is meant: REWRITE=1 pytest tests/accounts"


class Account:
    """Entries by kind and name: their number, and the times of the first and the last if time has passed."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, int]] = {}
        self._span: dict[tuple[str, str], tuple[float, float]] = {}

    def add(self, kind: str, name: str, at: float = 0.0, times: int = 1) -> None:
        entries = self._times.setdefault(kind, {})
        entries[name] = entries.get(name, 0) + times
        first, _ = self._span.get((kind, name), (at, at))
        self._span[kind, name] = (first, at)

    def add_all(self, kind: str, counters: Mapping[str, float]) -> None:
        """Add counters of the machine itself; zeros are left out."""
        for name, value in counters.items():
            if value:
                self.add(kind, name, times=round(value))

    def lines(self) -> list[str]:
        return [line for kind in sorted(self._times) for line in self._lines(kind)]

    def _lines(self, kind: str) -> list[str]:
        """Return entries without times in one line, and each other entry in a line of its own."""
        timeless, timed = [], []
        for name, times in sorted(self._times[kind].items()):
            first, last = self._span[kind, name]
            if last:
                timed.append(f"{kind}: {name} {times}, {first:.4f} to {last:.4f}")
            else:
                timeless.append(f"{name} {times}")
        return ([f"{kind}: {', '.join(timeless)}"] if timeless else []) + timed


def kept(machine: Machine) -> dict[str, int]:
    """Entries in the tables of a machine's protocols and of their parts, by protocol."""
    entries: dict[str, int] = {}
    for stack in machine.stacks:
        for protocol in stack.protocols:
            if type(protocol).__module__.startswith("jgroups_py.protocols."):
                name = protocol.name
                entries[name] = entries.get(name, 0) + _entries_in(protocol, PARTS_DEEP, {})
    return entries


def _entries_in(thing: object, deep: int, seen: dict[int, object]) -> int:
    """``seen``: parts and tables that are already counted. Parts refer to each other, but each counts once."""
    count = 0
    seen[id(thing)] = thing
    for value in list(attributes(thing).values()):
        if id(value) in seen:
            continue
        if isinstance(value, dict | list | set | deque):
            seen[id(value)] = value
            count += len(value)
            if isinstance(value, dict) and deep:
                count += sum(_entries_in(inner, 0, seen) for inner in value.values())
        elif deep and _is_part(value):
            count += _entries_in(value, deep - 1, seen)
    return count


def _is_part(value: object) -> bool:
    return type(value).__module__.startswith(OURS) and not isinstance(value, Protocol)


def check(name: str, accounts: dict[str, Account]) -> None:
    """Compares with the accounts in the file ``name``.txt, scene by scene.

    With REWRITE in the environment the file is written instead. A scene without an entry in the file is skipped, so a
    new test needs no account at once. Raises AssertionError with the first scenes that differ or are missing, and
    with removed (-) and new (+) lines.
    """
    text = "".join(
        f"{scene}\n" + "".join(f"    {line}\n" for line in account.lines())
        for scene, account in accounts.items()
    )
    file = ACCOUNTS / f"{name}.txt"
    if "REWRITE" in os.environ:
        file.write_text(text, "utf-8")
    before, now = scenes(file.read_text("utf-8")), scenes(text)
    told = []
    for scene, old in before.items():
        new = now.get(scene, [])
        told += [f"{scene}: - {line}" for line in old if line not in new]
        told += [f"{scene}: + {line}" for line in new if line not in old]
    assert not told, "\n".join([f"{name}: {len(told)} lines differ ({AGAIN})", *told[:40]])


def scenes(text: str) -> dict[str, list[str]]:
    """Return the lines of each scene of a file of accounts."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            lines.append(line.strip())
        else:
            lines = found[line] = []
    return found
