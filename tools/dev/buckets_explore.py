"""``jgroups-py dev buckets-explore``: random schedules of a bucket store, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from jgroups_py.testing.explorer.buckets.back_end import Buckets
from jgroups_py.testing.explorer.many import Job
from jgroups_py.tools.dev.explored import explore_or_replay
from jgroups_py.tools.options import JsonCommand, examples, json_option, seeds_option

FOLDER: Final = Path("build", "buckets-explore")
SEEDS_MAX: Final = 100_000_000
CHUNK: Final = 10
"""Seeds handed to a process at once."""


@click.command(
    "buckets-explore",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev buckets-explore --seeds 1..5000",
        "jgroups-py dev buckets-explore --profile buckets-blips --seeds 1..1000 --json",
        "jgroups-py dev buckets-explore --replay build/buckets-explore/buckets-17.json",
    ),
)
@seeds_option(SEEDS_MAX, "A and B included. [default: 1..1000]")
@click.option(
    "--profile",
    type=click.Choice(Buckets.profiles),
    default=Buckets.profiles[0],
    show_default=True,
    help="blips: cuts are so short that views hardly last. versions: buckets move between two versions of the plug-in. "
    "repartition: the entries go into an instance with another number of buckets. late: some messages take up to half a second longer. "
    "orders: an administrator's orders are carried out then.",
)
@json_option
@click.option(
    "--replay", "again", metavar="SEED|FILE", help="Play one run again, and print its steps."
)
def buckets_explore(
    seeds: range | None, profile: str, json_out: str | None, again: str | None
) -> int:
    """Explore schedules of a bucket store in virtual time: clients at all nodes, kills, cuts and moves. No answered
    change may be lost, and no two masters may answer.

    A failing schedule is made smaller and written to build/buckets-explore/; --replay plays it.

    Exit 0: no violation; 1: a violation; 2: wrong usage.
    """
    job = Job(profile, folder=FOLDER)
    return explore_or_replay(
        job, seeds, json_out, again, chunk=CHUNK, runs="schedules", events="requests"
    )
