"""``jgroups-py dev starts-explore``: simultaneous starts on one machine, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from jgroups_py.testing.explorer.many import Job
from jgroups_py.testing.explorer.starts import Starts
from jgroups_py.tools.dev.explored import explore_or_replay
from jgroups_py.tools.options import JsonCommand, examples, json_option, seeds_option

FOLDER: Final = Path("build", "starts-explore")
SEEDS_MAX: Final = 100_000_000
CHUNK: Final = 20
"""Seeds handed to a process at once."""


@click.command(
    "starts-explore",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev starts-explore --seeds 1..10000",
        "jgroups-py dev starts-explore --replay 357",
        "jgroups-py dev starts-explore --replay build/starts-explore/17.json",
    ),
)
@seeds_option(SEEDS_MAX, "A and B included. [default: 1..1000]")
@json_option
@click.option(
    "--replay", "again", metavar="SEED|FILE", help="Play one run again, and print its steps."
)
def starts_explore(seeds: range | None, json_out: str | None, again: str | None) -> int:
    """Explore simultaneous starts of members on one machine, with slow loops, pauses and a crash, in virtual time. All
    must form one group, and a single member must not wait.

    A failing start is made smaller and written to build/starts-explore/; --replay plays it.

    Exit 0: no violation; 1: a violation; 2: wrong usage.
    """
    job = Job(Starts.profiles[0], folder=FOLDER)
    return explore_or_replay(
        job, seeds, json_out, again, chunk=CHUNK, runs="plans", events="starts"
    )
