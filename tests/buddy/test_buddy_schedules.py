"""Schedules T1 to T29, step by step, each with the rule that it needs."""

import passive_schedules
import pytest
import site_schedules
from buddy_schedules import SCHEDULES

assert passive_schedules and site_schedules


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_kept_schedule_holds(name: str) -> None:
    SCHEDULES[name]()
