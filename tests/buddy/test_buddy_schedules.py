"""Schedules T1 to T29: told step by step, each with the rule that it needs."""

import pytest
import site_schedules
from buddy_schedules import SCHEDULES

assert site_schedules


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str) -> None:
    SCHEDULES[name]()
