"""Outcomes: the part that turned each attempt away, door by door. ``outcomes.json`` has them, and the pages are made
from it.

The tests of attacks compare each outcome with the file. ``REWRITE=1 pytest -n 0 tests/attacks`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE = Path(__file__).parent / "outcomes.json"
REWRITE = os.environ.get("REWRITE") == "1"
BEHIND = "behind"
"""A protocol behind the door."""
Outcomes = dict[str, dict[str, dict[str, str]]]
"""Door, transport, attack: a protocol of the door, or BEHIND."""


def read() -> Outcomes:
    found: Outcomes = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def compared(door: str, transport: str, stopped: dict[str, str]) -> list[str]:
    """Return how ``stopped`` differs from the file, in words. With REWRITE the file is changed instead."""
    all_of_them = read()
    known = all_of_them.setdefault(door, {}).setdefault(transport, {})
    if REWRITE:
        known.update(stopped)
        FILE.write_text(json.dumps(all_of_them, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return [
        f"{attack} was turned away by {by}, and {FILE.name} has {known.get(attack)}"
        for attack, by in stopped.items()
        if known.get(attack) != by
    ]


def cell(door: str, attack: str, cause: str) -> str:
    """Return the text of a cell: the protocol of the door, or the cause behind it, with the transports where they
    differ."""
    by_transport = {
        transport: stopped[attack].replace(BEHIND, cause)
        for transport, stopped in read().get(door, {}).items()
        if attack in stopped
    }
    if len(set(by_transport.values())) == 1:
        return next(iter(by_transport.values()))
    return ", ".join(f"{by} ({transport})" for transport, by in by_transport.items())
