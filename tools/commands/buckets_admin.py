"""``jgroups-py buckets node``, ``top``, ``stats``, ``migrate``, ``recreate``, ``exempt``, ``restore``: run a node, and
give orders to an instance."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import trio
from rich.live import Live
from rich.text import Text

from jgroups_py.buckets.administration import (
    carry_out,
    compare_copies,
)
from jgroups_py.buckets.archive import ArchiveReader
from jgroups_py.buckets.archive.contents import export_managers, read_contents
from jgroups_py.buckets.archive.stretches import check_stretches
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import Deployment, distribute, load_deployment
from jgroups_py.buckets.deployment.application import load_application
from jgroups_py.buckets.messages import EntryChange, IndexState
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.orders import BucketOrder, evacuation, recreation, restoration
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.buckets.rates import rates
from jgroups_py.buckets.serving import serve_items
from jgroups_py.buckets.settling import settle
from jgroups_py.buckets.standing import standing_json, standing_text
from jgroups_py.buckets.statistics import InstanceStatistics
from jgroups_py.tools.commands.buckets_meeting import Meeting, member_options, tell
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.running import run_command
from jgroups_py.values.shown import shown

F = TypeVar("F", bound=Callable[..., Any])


@click.command(
    epilog=examples(
        "jgroups-py buckets node seats.yaml n1",
        "jgroups-py buckets node items.yaml n1 --memcached 127.0.0.1:11211",
        "jgroups-py buckets node seats.yaml n1 --export old",
        "jgroups-py buckets node new.yaml n1 --import new/n1.jgb",
    )
)
@click.argument("file")
@click.argument("name", metavar="NODE")
@click.option(
    "--import",
    "archives",
    multiple=True,
    metavar="ARCHIVE",
    help="The first entries of a new instance. May be given several times.",
)
@click.option(
    "--export",
    "folder",
    metavar="FOLDER",
    help="Write all entries here to FOLDER/NODE.jgb at the end.",
)
@click.option(
    "--memcached", metavar="HOST:PORT", help="Serve clients of memcached; port 0 takes a free one."
)
@click.option("--http", metavar="HOST:PORT", help="Serve clients of HTTP.")
@member_options
def node(
    file: str,
    name: str,
    archives: tuple[str, ...],
    folder: str | None,
    memcached: str | None,
    http: str | None,
    **member: Any,
) -> int:
    """Run a node of a deployment until it is interrupted.

    It runs the bucket managers, the index copy and the router that the file has for NODE, with the plug-in that the
    file names as its application; the module may lie beside the file. The instance exists when all index copies and
    bucket managers have joined.

    --memcached and --http serve items, and need an application that has them: jgroups_py.buckets.items.bucket_items:ITEMS.

    With --import give every node the archives of all entries, or those that repartition has made for it. A node that
    finds copies with different numbers of entries ends with an error. Before --export stop the clients, so that all
    copies are equal. An entry may stand in the archives of two nodes.
    """
    deployment = load_deployment(file)
    plugin = load_application(deployment)
    meeting = Meeting(**member)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    async def run() -> None:
        async with open_deployed(
            deployment,
            name,
            plugin=plugin,
            contents=_contents(archives, deployment, plugin),
            **meeting.options,
        ) as opened:
            try:
                async with trio.open_nursery() as nursery:
                    if memcached is not None or http is not None:
                        places = await nursery.start(
                            partial(serve_items, opened, memcached=memcached, http=http)
                        )
                        for kind, (host, port) in places.items():
                            tell(f"{name} serves {kind} at {host}:{port}")
                    await _serve(opened, deployment, name, meeting.patience, loaded=bool(archives))
            finally:
                if folder is not None:
                    _export(opened, deployment, Path(folder) / f"{name}.jgb")

    return run_command(run)


def _contents(
    archives: tuple[str, ...], deployment: Deployment, plugin: Plugin
) -> dict[int, list[EntryChange]]:
    check_stretches(archives)
    with ExitStack() as readers:
        return read_contents(
            [readers.enter_context(ArchiveReader(archive)) for archive in archives],
            deployment.buckets,
            plugin.provider,
            plugin.classifier.digest,
        )


async def _serve(
    opened: BucketNode, deployment: Deployment, name: str, patience: float, *, loaded: bool
) -> None:
    tell(f"{name} has joined {deployment.name}")
    with trio.move_on_after(patience):
        await opened.wait_ready()
    if not opened.state.version:
        tell(f"{name} waits: not all index copies and bucket managers have been there")
        await opened.wait_ready()
    tell(f"{name}: {len(opened.state.rows)} buckets are placed")
    if loaded:
        await compare_copies(opened)
    settle()
    await trio.sleep_forever()


def _export(opened: BucketNode, deployment: Deployment, file: Path) -> None:
    end = export_managers(
        opened.machine.managers.values(),
        file,
        instance=deployment.name,
        created=time.time(),
        buckets=deployment.buckets,
    )
    tell(f"{file}: {end.entries} entries, {end.size} bytes")


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets top seats.yaml",
        "jgroups-py buckets top seats.yaml --once --json",
    ),
)
@click.argument("file")
@click.option(
    "--interval", type=Time(), default=2.0, show_default="2s", help="Time between two looks."
)
@click.option("--once", is_flag=True, help="Look for one --interval and end.")
@member_options
@json_option
def top(file: str, interval: float, once: bool, json_out: str | None, **member: Any) -> int:
    """Show the places and the load of buckets, until you end it.

    Requests a second and latencies are those of the last --interval. A latency is shown as the edge of a step, such as
    5 ms for 4.2 ms.

    Exit 1, with --once or --json: a pair is lost or without backup, or its copies may fail together.
    """

    async def look(administrator: BucketNode, deployment: Deployment) -> dict[str, Any]:
        return await _Looks(administrator, interval).next()

    async def watch(administrator: BucketNode, deployment: Deployment) -> None:
        looks = _Looks(administrator, interval)
        if not sys.stdout.isatty():
            while True:
                tell(standing_text(await looks.next()))
        with Live(auto_refresh=False) as live:
            while True:
                live.update(Text(standing_text(await looks.next())), refresh=True)

    if not once and json_out is None:
        return run_command(lambda: Meeting(**member).administrate(file, watch))
    told = trio.run(Meeting(**member).administrate, file, look)
    show(json_out, lambda: json.dumps(told, indent=1), lambda: standing_text(told))
    return int(bool(told["without_backup"] or told["lost"] or told["together"]))


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets stats seats.yaml", "jgroups-py buckets stats seats.yaml --json"
    ),
)
@click.argument("file")
@member_options
@json_option
def stats(file: str, json_out: str | None, **member: Any) -> int:
    """Show the counters of instance, nodes and components.

    Exit 1: a member has not answered.
    """

    async def ask(administrator: BucketNode, deployment: Deployment) -> dict[str, Any]:
        return (await administrator.instance_statistics()).as_json()

    told = trio.run(Meeting(**member).administrate, file, ask)
    show(json_out, lambda: json.dumps(told, indent=1), lambda: _counts_text(told))
    return int(bool(told["missing"]))


def _counts_text(told: dict[str, Any]) -> str:
    parts = [("the instance", told["instance"])]
    parts += [(f"node {name}", counts) for name, counts in told["nodes"].items()]
    parts += list(told["components"].items())
    lines: list[str] = []
    for name, counts in parts:
        lines.append(shown(name))
        lines += [f"  {shown(count)}  {value}" for count, value in counts.items()]
    lines += [f"! no answer from {shown(name)}" for name in told["missing"]]
    return "\n".join(lines)


class _Looks:
    """Looks at an instance, ``interval`` seconds apart."""

    def __init__(self, administrator: BucketNode, interval: float) -> None:
        self._administrator, self._interval = administrator, interval
        self._before: tuple[float, InstanceStatistics] | None = None

    async def next(self) -> dict[str, Any]:
        """Return ``standing_json``, with the ``load`` of the last interval."""
        began, before = self._before or await self._counted()
        await trio.sleep(self._interval)
        ended, now = self._before = await self._counted()
        view = self._administrator.channel.view
        members = [str(member) for member in view.members] if view is not None else []
        told = standing_json(self._administrator.state, members)
        return told | {"load": rates(before, now, ended - began), "missing": now.missing}

    async def _counted(self) -> tuple[float, InstanceStatistics]:
        counted = await self._administrator.instance_statistics(buckets=True)
        return trio.current_time(), counted


def _order_options(command: F) -> F:
    for option in (
        click.option("--dry-run", is_flag=True, help="Only show the orders."),
        click.option("--pause", type=Time(), help="Wait so long between two moves."),
    ):
        command = option(command)
    return member_options(command)


@click.command(
    epilog=examples(
        "jgroups-py buckets migrate seats.yaml n1 n2",
        "jgroups-py buckets migrate seats.yaml m/n1 m/n1/2 --bucket 4 --role slave",
    )
)
@click.argument("file")
@click.argument("source", metavar="FROM")
@click.argument("destination", metavar="TO")
@click.option("--bucket", type=click.IntRange(0), help="This bucket; else any one.")
@click.option("--role", type=click.Choice(["master", "slave"]), default="master", show_default=True)
@member_options
def migrate(
    file: str,
    source: str,
    destination: str,
    bucket: int | None,
    role: str,
    **member: Any,
) -> int:
    """Move one bucket between two bucket managers while clients go on.

    FROM and TO are nodes, or names of managers.
    """

    async def move(administrator: BucketNode, deployment: Deployment) -> None:
        frm, to = administrator.manager_at(source), administrator.manager_at(destination)
        if role == "master":
            row = await administrator.migrate_master_bucket(frm, to, bucket=bucket)
        else:
            row = await administrator.migrate_slave_bucket(frm, to, bucket=bucket)
        tell(f"bucket {row.bucket}: {role} from {frm} to {to}")

    return run_command(lambda: Meeting(**member).administrate(file, move))


@click.command(
    epilog=examples(
        "jgroups-py buckets recreate seats.yaml --dry-run", "jgroups-py buckets recreate seats.yaml"
    )
)
@click.argument("file")
@_order_options
def recreate(file: str, **options: Any) -> int:
    """Make a slave for each pair that has none, where there is room.

    Slaves that were lost with a node are not made again by themselves, because the others may lack the capacity.
    """
    return _carry_out(file, recreation, **options)


@click.command(
    epilog=examples(
        "jgroups-py buckets exempt seats.yaml n2 --dry-run",
        "jgroups-py buckets exempt seats.yaml n2 --pause 1s",
    )
)
@click.argument("file")
@click.argument("name", metavar="NODE")
@_order_options
def exempt(file: str, name: str, **options: Any) -> int:
    """Move all buckets away from NODE, so that it can be stopped.

    The other nodes need room by the file's capacities; else no bucket is moved.
    """

    def plan(deployment: Deployment, state: IndexState) -> list[BucketOrder]:
        return evacuation(deployment, state, name)

    return _carry_out(file, plan, **options)


@click.command(
    epilog=examples(
        "jgroups-py buckets restore seats.yaml --dry-run", "jgroups-py buckets restore seats.yaml"
    )
)
@click.argument("file")
@_order_options
def restore(file: str, **options: Any) -> int:
    """Move all buckets back to their first places.

    Missing slaves are made again. jgroups-py buckets init shows the goal.
    """

    def plan(deployment: Deployment, state: IndexState) -> list[BucketOrder]:
        return restoration(deployment, state, distribute(deployment).components)

    return _carry_out(file, plan, **options)


def _carry_out(
    file: str,
    plan: Callable[[Deployment, IndexState], list[BucketOrder]],
    *,
    dry_run: bool,
    pause: float | None,
    **member: Any,
) -> int:
    async def work(administrator: BucketNode, deployment: Deployment) -> None:
        orders = plan(deployment, administrator.state)
        if dry_run:
            for order in orders:
                tell(str(order))
        else:
            planned, orders = orders, []

            def told(order: BucketOrder) -> None:
                orders.append(order)
                tell(str(order))

            await carry_out(
                administrator,
                planned,
                told,
                pause=pause or 0.0,
                plan=lambda state: plan(deployment, state),
            )
        tell(f"{len(orders)} moves{' would be made' if dry_run else ''}")

    return run_command(lambda: Meeting(**member).administrate(file, work))
