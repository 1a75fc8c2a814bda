"""``jgroups-py buckets``: for administrators of a bucket store."""

from __future__ import annotations

from typing import Final

import click

from jgroups_py.tools.lazy_group import LazyGroup
from jgroups_py.tools.options import examples

COMMANDS: Final = {
    "archive": "jgroups_py.tools.commands.buckets_archive:archive",
    "init": "jgroups_py.tools.commands.buckets_plan:init",
    "repartition": "jgroups_py.tools.commands.buckets_archive:repartition",
    "validate": "jgroups_py.tools.commands.buckets_plan:validate",
}
"""Name -> ``module:function``."""


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog=examples(
        "jgroups-py buckets validate seats.yaml",
        "jgroups-py buckets init seats.yaml",
        "jgroups-py buckets repartition seats.jgb --to new.yaml --out new",
    ),
)
def buckets() -> None:
    """Plan and look after an instance of the bucket store.

    FILE is a deployment file: nodes, what runs on them, what fails together, and how many buckets there are.
    """
