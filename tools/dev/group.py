"""``jgroups-py dev``: the commands that developers of jgroups_py need."""

from __future__ import annotations

from typing import Final

import click

from jgroups_py.tools.lazy_group import LazyGroup
from jgroups_py.tools.options import examples

COMMANDS: Final = {
    "bounds": "jgroups_py.tools.dev.bounds:bounds",
    "buckets-explore": "jgroups_py.tools.dev.buckets_explore:buckets_explore",
    "buddy-explore": "jgroups_py.tools.dev.buddy_explore:buddy_explore",
    "fuzz": "jgroups_py.tools.dev.fuzz:fuzz_command",
    "longlife": "jgroups_py.tools.dev.longlife:longlife",
    "map-explore": "jgroups_py.tools.dev.map_explore:map_explore",
    "map-traffic": "jgroups_py.tools.dev.map_explore:map_traffic",
    "memory": "jgroups_py.tools.dev.memory:memory",
    "requirements": "jgroups_py.tools.dev.requirements:requirements",
    "simulate": "jgroups_py.tools.dev.simulate:simulate",
    "starts-explore": "jgroups_py.tools.dev.starts_explore:starts_explore",
}
"""Name -> ``module:function``."""


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog=examples(
        "jgroups-py dev simulate --profile all --seeds 1..500",
        "jgroups-py dev requirements --open",
    ),
)
def dev() -> None:
    """Commands for developers of jgroups_py.

    They also run without the word dev: jgroups-py simulate.
    """
