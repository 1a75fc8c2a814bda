"""Each rule is left out once; its named tests must find that."""

import passive_rules
import passive_schedules
import pytest
import site_rules
import site_schedules
from buddy_rules import RULES, Rule
from buddy_schedules import SCHEDULES
from buddy_script import violated

from jgroups_py.testing.explorer.buddies.explore import explore

assert passive_rules and passive_schedules  # importing them adds to RULES and SCHEDULES
assert site_rules and site_schedules


@pytest.mark.parametrize("rule", RULES, ids=[rule.what.replace(" ", "-") for rule in RULES])
def test_absence_of_a_rule_is_found(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name, instead in rule.without:
        monkeypatch.setattr(where, name, instead)
    for beginning in rule.schedules:
        named = [s for n, s in SCHEDULES.items() if n.startswith(beginning)]
        assert named and any(violated(schedule) for schedule in named), beginning
    if rule.seeds is not None:
        profile, first, last = rule.seeds
        assert any(explore(seed, profile)[1].problems for seed in range(first, last + 1))
