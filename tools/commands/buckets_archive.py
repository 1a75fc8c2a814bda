"""``jgroups-py buckets archive`` and ``repartition``: looks at archives, saves readable entries, sorts entries for
another number of buckets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, Damage, End
from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.repartition import (
    OUTAGE,
    PROJECT_BYTES,
    Partition,
    check_projection,
)
from jgroups_py.buckets.archive.repartition import repartition as sort_entries
from jgroups_py.buckets.archive.stretches import (
    STRETCHES_MAX,
    in_processes,
    repartition_in_stretches,
)
from jgroups_py.buckets.deployment import load_deployment
from jgroups_py.buckets.deployment.application import load_application
from jgroups_py.buckets.digest import digest_of
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.units import bytes_text, parse_bytes

DAMAGES_SHOWN = 20
"""The most damages of one archive that are described in full."""


class SizeParameter(click.ParamType[int]):
    """A size such as 500gb, in bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = parse_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < 1:
            self.fail(f"{value!r} is not at least 1 byte", param, ctx)
        return size


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets archive seats.jgb",
        "jgroups-py buckets archive damaged.jgb --rescue rest.jgb",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--rescue", metavar="OUT", help="Write readable entries to this new archive.")
@json_option
def archive(files: tuple[str, ...], rescue: str | None, json_out: str | None) -> int:
    """Check archives and show their contents.

    An archive has all entries of an instance, or of one node, without their partitioning. Each damage
    is shown with the keys around it.

    Exit 1: one is damaged; 2: one cannot be read at all.
    """
    if rescue is not None and len(files) != 1:
        raise click.UsageError("--rescue takes one archive")
    if rescue is not None and Path(rescue).exists():
        raise click.UsageError(f"--rescue {rescue}: the file is there")
    results = [_looked_at(name, rescue) for name in files]
    show(json_out, lambda: json.dumps(results, indent=1), lambda: "\n".join(map(_text, results)))
    return int(any(result["damages"] for result in results))


def _looked_at(name: str, rescue: str | None) -> dict[str, Any]:
    damages: list[Damage] = []
    entries = size = 0
    first = last = ""
    versions: dict[int, int] = {}
    with ExitStack() as stack:
        reader = stack.enter_context(ArchiveReader(name))
        writer = None
        if rescue is not None:
            head = reader.head
            writer = stack.enter_context(
                ArchiveWriter(
                    rescue,
                    instance=head.instance,
                    application=head.application,
                    created=head.created,
                    buckets=head.buckets,
                )
            )
        for record in reader.records(damages.append):
            first, last = first or record.key, record.key
            entries += 1
            size += record.size
            versions[record.version] = versions.get(record.version, 0) + 1
            if writer is not None:
                writer.add(record)
        head = reader.head
        wanted = _end(reader)
    return {
        "file": name,
        "instance": head.instance,
        "application": head.application,
        "created": head.created,
        "buckets": head.buckets,
        "entries": entries,
        "entries_written": wanted.entries if wanted else None,
        "bytes": size,
        "versions": {str(version): count for version, count in sorted(versions.items())},
        "first_key": first,
        "last_key": last,
        "damages": [str(damage) for damage in damages],
    }


def _end(reader: ArchiveReader) -> End | None:
    try:
        return reader.end()
    except BadArchive:
        return None


def _text(result: dict[str, Any]) -> str:
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(result["created"]))
    written = result["entries_written"]
    of = "" if written in (None, result["entries"]) else f" of {written}"
    lines = [
        f"{result['file']}: {result['instance']} ({result['application']}), written {made}",
        f"  {result['entries']}{of} entries, {result['bytes']} bytes, formats"
        f" {', '.join(f'{v} ({n})' for v, n in result['versions'].items()) or 'none'}",
    ]
    if result["entries"]:
        lines.append(f"  keys {result['first_key']!r} to {result['last_key']!r}")
    damages = result["damages"]
    lines += [f"  ! {text}" for text in damages[:DAMAGES_SHOWN]]
    if len(damages) > DAMAGES_SHOWN:
        lines.append(f"  ! and {len(damages) - DAMAGES_SHOWN} more")
    return "\n".join(lines)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets repartition seats.jgb --to new.yaml --out new",
        "jgroups-py buckets repartition n1.jgb n2.jgb --to new.yaml --project 500gb",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="ARCHIVE...")
@click.option(
    "--to", "deployment_file", required=True, metavar="FILE", help="The new deployment file."
)
@click.option(
    "--out", "folder", metavar="FOLDER", help="Write NODE.jgb for each node; else only count."
)
@click.option(
    "--processes",
    type=click.IntRange(1, STRETCHES_MAX),
    default=1,
    show_default=True,
    help="The number of sorting processes. Each node then has a file of each process, NODE.1of4.jgb and so on.",
)
@click.option(
    "--project", type=SizeParameter(), help="Exit 1 if this size needs longer than --within."
)
@click.option(
    "--within", type=Time(), default=OUTAGE, show_default="3h", help="The planned outage."
)
@json_option
def repartition(
    files: tuple[str, ...],
    deployment_file: str,
    folder: str | None,
    processes: int,
    project: int | None,
    within: float,
    json_out: str | None,
) -> int:
    """Sort the entries of archives for other nodes or other buckets.

    Several archives, such as one of each node, are merged; an entry that is in two of them must be equal. Each node's
    file has the entries of which the node will hold a copy. --project computes from this run the time for your size,
    with as many processes on this machine; archives of 10 MB, or of a hundredth of your size, are needed. jgroups-py
    spark repartition does the same on many machines.

    Exit 1: --project needs longer than --within.
    """
    deployment = load_deployment(deployment_file)
    digest: Callable[[str], int] = digest_of
    if deployment.application:
        digest = load_application(deployment).classifier.digest
    if project is not None:
        check_projection(files, project)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        readers = [stack.enter_context(ArchiveReader(name)) for name in files]
        options: dict[str, Any] = {
            "clock": time.perf_counter,
            "created": time.time(),
            "folder": folder,
        }
        if processes == 1:
            found = sort_entries(readers, deployment, digest=digest, **options)
        else:
            run = in_processes(processes)
            found = repartition_in_stretches(
                readers, deployment, run, processes=processes, **options
            )
    if found.processes < processes:
        note = f"the archives are too small for {processes} processes: they were sorted by {found.processes}"
        click.echo(note, err=True)
    return show_partition(found, project, within, json_out)


def show_partition(
    found: Partition, project: int | None, within: float, json_out: str | None
) -> int:
    """Print the result. Return the exit code."""
    result = found.as_json()
    if project is not None:
        result["projected_s"] = found.projected(project)
    show(
        json_out,
        lambda: json.dumps(result, indent=1),
        lambda: _partition_text(found, project, within),
    )
    return int(project is not None and found.projected(project) > within)


def _partition_text(found: Partition, project: int | None, within: float) -> str:
    told = found.as_json()
    spread = told["entries_of_a_bucket"]
    lines = [
        f"{told['entries']} entries with {told['bytes']} bytes in {told['buckets']} buckets of {told['name']}",
        f"entries of a bucket: {spread['least']} to {spread['most']}, half of them at most {spread['median']:g}",
    ]
    width = max(map(len, found.nodes))
    lines += [
        f"  {name:{width}}  {load.entries} entries, {load.size} bytes"
        for name, load in found.nodes.items()
    ]
    by = "one process" if found.processes == 1 else f"{found.processes} processes"
    rate = f"{_about(found.within(OUTAGE))} in 3 h at this rate"
    if found.total.size < PROJECT_BYTES:
        rate = "too few bytes to tell a rate"
    lines.append(f"{found.seconds:.2f} s by {by}; {rate}")
    if project is not None:
        seconds = found.projected(project)
        verdict = "within" if seconds <= within else "longer than"
        lines.append(f"{bytes_text(project)} would need {seconds:.0f} s, {verdict} {within:g} s")
    return "\n".join(lines)


def _about(size: int) -> str:
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
