"""Writes design/attacks.md from the registry: ``python tests/attacks/write_attack_table.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from attack_doors import DOORS
from attack_outcomes import BEHIND, cell, read
from attack_registry import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "design" / "attacks.md"
GUIDE = ROOT / "docs" / "howto" / "security.md"
BEGIN, END = "<!-- attacks: tests/attacks -->", "<!-- end of attacks -->"
HEAD = """\
# Attacks from outside

`python tests/attacks/write_attack_table.py` writes this page, and a test compares it with the code. A stranger with a plain socket knows
every address and the name of the cluster, and has no key. It runs no protocol: it sends packets to real members on loopback, whose stacks
have the defaults. Each attack is a test (`tests/attacks`). An attack must do no harm and be counted under the cause in the table, while
members go on working together. In the tables A and B are members, "its own address" is the stranger's, and a ghost is a member that does not
exist.

A stranger who knows the name of the cluster can always join under an address of its own, and then it is a member. Only a key prevents that
([encryption.md](encryption.md), [security.md](security.md)).
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    number = sum(len(family.attacks) for family in FAMILIES)
    doors = " | ".join(door.name for door in DOORS)
    yield f"{number} attacks in {len(FAMILIES)} families. The last columns show, for each door, which part refused the attack:"
    yield "a protocol of the door, or a counter of a protocol behind it. No attack got past SEAL and TLS."
    for family in FAMILIES:
        yield f"\n## {family.name.capitalize()}\n\n{family.title}\n"
        yield f"| attack | on | the stranger sends | harm if it succeeded | {doors} |"
        yield "|---|---|---|---|" + "---|" * len(DOORS)
        for attack in family.attacks:
            cause = attack.cause.replace("{transport}", " or ".join(attack.on))
            cells = " | ".join(f"`{cell(door.name, attack.name, cause)}`" for door in DOORS)
            yield (
                f"| `{attack.name}` | {', '.join(attack.on)} | {attack.sends} | {attack.harm} "
                f"| {cells} |"
            )
    yield ""


def guide() -> str:
    """Return the page for users, with its table of families written anew."""
    text = GUIDE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    return f"{head}{BEGIN}\n" + "\n".join(_families()) + f"\n{END}{tail}"


def _families() -> Iterator[str]:
    yield (
        "| rule that strangers try to break | attacks | "
        + " | ".join(door.name for door in DOORS)
        + " |"
    )
    yield "|---|---|" + "---|" * len(DOORS)
    outcomes = read()
    for family in FAMILIES:
        cells = []
        for door in DOORS:
            stopped = [
                by
                for found in outcomes.get(door.name, {}).values()
                for name, by in found.items()
                if name in {attack.name for attack in family.attacks}
            ]
            at_door = sum(by != BEHIND for by in stopped)
            cells.append(_share(at_door, len(stopped)))
        yield f"| {family.title[:-1]} | {len(family.attacks)} | " + " | ".join(cells) + " |"


def _share(at_door: int, of: int) -> str:
    if at_door == of:
        return "all at the door"
    return f"{at_door} of {of} at the door, the others behind it" if at_door else "behind the door"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    GUIDE.write_text(guide(), encoding="utf-8")
