"""Writes design/attacks.md from the registry: ``python tests/attacks/write_attack_table.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from attack_doors import DOORS
from attack_registry import FAMILIES

PAGE = Path(__file__).resolve().parents[2] / "design" / "attacks.md"
HEAD = """\
# Attacks from outside

Written by `python tests/attacks/write_attack_table.py`; a test compares. A stranger with a plain socket knows every
address and the name of the cluster, and has no key. It runs no protocol: it sends packets to real members on loopback, whose stacks
have the defaults. Each attempt is a
test (`tests/attacks`). It must harm nobody and be counted under the cause in the table, while members go on to work with each other.

A stranger who knows the name of the cluster can always join under an address of its own, and then it is a member. Only a key prevents that
([encryption.md](encryption.md), [security.md](security.md)).
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    number = sum(len(family.attacks) for family in FAMILIES)
    doors = ", ".join(door.name for door in DOORS)
    yield f"{number} attacks in {len(FAMILIES)} families, against each of the doors: {doors}."
    for family in FAMILIES:
        yield f"\n## {family.name.capitalize()}\n\n{family.title}\n"
        yield "| attack | on | the stranger sends | harm that it would be | counted as |"
        yield "|---|---|---|---|---|"
        for attack in family.attacks:
            cause = attack.cause.replace("{transport}", " or ".join(attack.on))
            yield (
                f"| `{attack.name}` | {', '.join(attack.on)} | {attack.sends} | {attack.harm} "
                f"| `{cause}` |"
            )
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
