from __future__ import annotations

import re
from pathlib import Path

from attack_doors import DOORS
from attack_outcomes import read
from attack_registry import FAMILIES
from write_attack_table import GUIDE, PAGE, guide, page


def test_the_table_of_attacks_is_that_of_the_registry() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run python tests/attacks/write_attack_table.py"


def test_the_table_for_users_is_that_of_the_outcomes() -> None:
    written = GUIDE.read_text(encoding="utf-8")
    assert written == guide(), "run python tests/attacks/write_attack_table.py"


def test_attacks_end_at_a_door_that_takes_nothing_in_clear() -> None:
    outcomes = read()
    for door in DOORS:
        for transport in door.on:
            stopped = outcomes[door.name][transport]
            attacks = {a.name for family in FAMILIES for a in family.attacks if transport in a.on}
            assert stopped.keys() == attacks
            assert not door.whole or set(stopped.values()) <= set(door.protocols)


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for family in FAMILIES for attack in family.attacks]
    assert len(set(names)) == len(names)


def test_the_tests_that_the_security_note_names_are_there() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[^`]*)`", (root / "design" / "security.md").read_text())
    assert len(named) > 40
    assert [name for name in named if not (root / name).is_file()] == []
