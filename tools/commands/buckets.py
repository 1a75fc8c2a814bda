"""``jgroups-py buckets``: for administrators of a bucket store."""

from __future__ import annotations

from typing import Final

import click

from jgroups_py.tools.lazy_group import LazyGroup
from jgroups_py.tools.options import examples

COMMANDS: Final = {
    "archive": "jgroups_py.tools.commands.buckets_archive:archive",
    "exempt": "jgroups_py.tools.commands.buckets_admin:exempt",
    "export": "jgroups_py.tools.commands.buckets_entries:export",
    "import": "jgroups_py.tools.commands.buckets_entries:import_entries",
    "init": "jgroups_py.tools.commands.buckets_plan:init",
    "migrate": "jgroups_py.tools.commands.buckets_admin:migrate",
    "node": "jgroups_py.tools.commands.buckets_admin:node",
    "recreate": "jgroups_py.tools.commands.buckets_admin:recreate",
    "rehearse": "jgroups_py.tools.commands.buckets_rehearse:rehearse",
    "repartition": "jgroups_py.tools.commands.buckets_archive:repartition",
    "restore": "jgroups_py.tools.commands.buckets_admin:restore",
    "stats": "jgroups_py.tools.commands.buckets_admin:stats",
    "top": "jgroups_py.tools.commands.buckets_admin:top",
    "validate": "jgroups_py.tools.commands.buckets_plan:validate",
}
"""Name -> ``module:function``."""


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog=examples(
        "jgroups-py buckets validate seats.yaml",
        "jgroups-py buckets init seats.yaml",
        "jgroups-py buckets rehearse seats.yaml",
        "jgroups-py buckets node seats.yaml n1",
        "jgroups-py buckets top seats.yaml",
        "jgroups-py buckets export seats.yaml seats.jgb",
        "jgroups-py buckets repartition seats.jgb --to new.yaml --out new",
    ),
)
def buckets() -> None:
    """Plan and manage an instance of the bucket store.

    FILE is a deployment file: nodes, their components, causes of common failure, and the number of buckets.
    """
