"""``jgroups-py dev map-explore`` and ``map-traffic``: random histories of maps, judged at their end; the cost of a put
on the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from jgroups_py.testing.explorer.many import Job
from jgroups_py.testing.explorer.maps import traffic
from jgroups_py.testing.explorer.maps.back_end import MapClusters, Maps
from jgroups_py.tools.dev.explored import explore_or_replay
from jgroups_py.tools.options import JsonCommand, examples, json_option, seeds_option
from jgroups_py.tools.outputs import write

FOLDER: Final = Path("build", "map-explore")
SEEDS_MAX: Final = 100_000_000
CHUNK: Final = 20
"""Seeds handed to a process at once."""
PROFILES: Final = (*Maps.profiles, *MapClusters.profiles)


@click.command(
    "map-explore",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev map-explore --seeds 1..10000",
        "jgroups-py dev map-explore --profile map-cluster --seeds 1..100 --json",
        "jgroups-py dev map-explore --replay build/map-explore/map-links-17.json",
    ),
)
@seeds_option(SEEDS_MAX, "A and B included. [default: 1..1000]")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="map-links",
    show_default=True,
    help="map-links: replicas with links of their own. map-shared: with links that share a lossy medium. map-cluster: whole "
    "simulated stacks.",
)
@json_option
@click.option(
    "--replay", "again", metavar="SEED|FILE", help="Play one run again, and print its steps."
)
def map_explore(seeds: range | None, profile: str, json_out: str | None, again: str | None) -> int:
    """Explore histories of multi-master maps in virtual time: writes, removals, cuts, crashes and clocks that jump. At
    the end all faults are healed, and all maps must be equal.

    A failing history is made smaller and written to build/map-explore/; --replay plays it.

    Exit 0: no violation; 1: a violation; 2: wrong usage.
    """
    return explore_or_replay(
        Job(profile, folder=FOLDER),
        seeds,
        json_out,
        again,
        chunk=CHUNK,
        runs="histories",
        events="messages",
    )


@click.command(
    "map-traffic",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev map-traffic --hosts 127 --json", "jgroups-py dev map-traffic --bytes 1000"
    ),
)
@click.option("--hosts", type=click.IntRange(2, 127), default=127, show_default=True)
@click.option("--puts", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option("--bytes", "size", type=click.IntRange(0, 100_000), default=100, show_default=True)
@json_option
def map_traffic(hosts: int, puts: int, size: int, json_out: str | None) -> int:
    """Measure the cost of a map's put on the wire, in virtual time: with a link for each peer, as over TCP, and in a
    group that multicasts, on whole simulated stacks.

    Exit 0: measured; 2: wrong usage.
    """
    measured = traffic.measure(hosts, puts=puts, value_bytes=size)
    if json_out != "-":
        for way in ("tcp", "group"):
            one = measured[way]
            print(
                f"{way}: {one['bytes_per_put']:.0f} bytes in {one['messages_per_put']:.0f} messages for a put at {hosts} hosts; "
                f"{one['idle_bytes_per_s']:.0f} bytes a second while nobody puts"
            )
    if json_out is not None:
        write(json_out, json.dumps(measured, indent=1) + "\n")
    return 0
