from __future__ import annotations

from attack_registry import FAMILIES
from write_attack_table import PAGE, page


def test_the_table_of_attacks_is_that_of_the_registry() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run python tests/attacks/write_attack_table.py"


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for family in FAMILIES for attack in family.attacks]
    assert len(set(names)) == len(names)
