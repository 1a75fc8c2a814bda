"""``jgroups-py buckets export`` and ``import``: write all entries of a running instance, and load entries into one."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import click

from jgroups_py.buckets.archive import ArchiveReader
from jgroups_py.buckets.archive.running import export_instance, import_archives
from jgroups_py.buckets.deployment import Deployment
from jgroups_py.buckets.node import BucketNode
from jgroups_py.tools.commands.buckets_meeting import Meeting, member_options, tell
from jgroups_py.tools.options import examples
from jgroups_py.tools.running import run_command


@click.command(epilog=examples("jgroups-py buckets export seats.yaml seats.jgb"))
@click.argument("file")
@click.argument("archive", metavar="ARCHIVE")
@member_options
def export(file: str, archive: str, **member: Any) -> int:
    """Write all entries of a running instance to an archive.

    Stop the clients first: an entry that changes during the export is there as it was at some moment, and a new entry
    may be missing. Nodes go on. The archive has no partitioning.
    """

    async def work(administrator: BucketNode, deployment: Deployment) -> None:
        end = await export_instance(
            administrator, archive, instance=deployment.name, created=time.time()
        )
        tell(f"{archive}: {end.entries} entries, {end.size} bytes")

    return run_command(lambda: Meeting(**member).administrate(file, work))


@click.command("import", epilog=examples("jgroups-py buckets import new.yaml seats.jgb"))
@click.argument("file")
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...")
@member_options
def import_entries(file: str, archives: tuple[str, ...], **member: Any) -> int:
    """Put all entries of archives into a running instance.

    Each replaces the entry of its key; other entries stay. The instance may have other nodes and another number of
    buckets. After an error give the command again.
    """

    async def work(administrator: BucketNode, deployment: Deployment) -> None:
        with ExitStack() as readers:
            opened = [readers.enter_context(ArchiveReader(archive)) for archive in archives]
            done = await import_archives(
                administrator, opened, lambda number: tell(f"{number} entries")
            )
        tell(f"{deployment.name}: {done} entries from {', '.join(archives)}")

    return run_command(lambda: Meeting(**member).administrate(file, work, classifies=True))
