"""Checks for a drill of maps: maps of several sites need RELAY, and every site must relay."""

from __future__ import annotations

from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.errors import ConfigError


def check(plan: DrillPlan) -> None:
    """Check a plan. Raises ``ConfigError``."""
    stacks.need_relay(plan, "maps")
    if plan.primary is not None and len(plan.sites) > 1:
        raise ConfigError(
            f"RELAY.primary is {plan.primary}: hosts of all sites write, so it must be all",
            file=plan.file,
        )
