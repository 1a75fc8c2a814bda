"""``jgroups-py spark``: jobs between a cluster's export ports and files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from jgroups_py.buckets.archive.repartition import OUTAGE, check_projection
from jgroups_py.buckets.archive.stretches import STRETCHES_MAX
from jgroups_py.buckets.deployment import load_deployment
from jgroups_py.drill.file import loader
from jgroups_py.errors import ConfigError, JGroupsError
from jgroups_py.tools.commands.buckets_archive import SizeParameter, show_partition
from jgroups_py.tools.options import Time, examples
from jgroups_py.tools.stack_options import NameValue, pairs
from jgroups_py.tools.stoppable import asked, stoppable
from jgroups_py.tools.tls_options import tls_files, tls_options

F = TypeVar("F", bound=Callable[..., Any])
DIFFERENT = 1


def _cancel() -> None:
    """Let the running jobs fail, without Spark's messages about it."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if getattr(context, "_jsc", None) is not None:  # otherwise the context is just being made
        context.setLogLevel("OFF")
        context.cancelAllJobs()


@click.group(
    epilog=examples(
        "jgroups-py spark snapshot users --path /users --members HOST:PORT --token-file token"
    )
)
def spark() -> None:
    """Spark jobs that read and write at export ports.

    load, snapshot, follow and reconcile talk to the ports that jgroups-py export opens. explore runs one simulated
    drill for each seed, and drill-report analyses their logs.

    Needs jgroups_py[spark] and Java 17.
    """


SESSION: tuple[Callable[[Any], Any], ...] = (
    click.option("--master", default="local[2,4]", show_default=True, help="Spark's master."),
    click.option("--memory", default="1g", show_default=True, help="Of the driver's Java."),
    click.option(
        "--conf",
        "conf",
        type=NameValue("KEY=VALUE"),
        multiple=True,
        metavar="KEY=VALUE",
        help="Spark's own settings.",
    ),
    click.option("--ship", is_flag=True, help="Send this package to the executors."),
)


def session_options(function: F) -> F:
    """Add the options that choose a Spark."""
    for option in SESSION:
        function = option(function)
    return function


def cluster_options(function: F) -> F:
    """Add the options that choose a cluster and a Spark."""
    for option in (
        *SESSION,
        tls_options,
        click.option("--map", "map_name", help="Default: the only one."),
        click.option("--token-file", required=True, help="File with the token of the ports."),
        click.option("--members", required=True, help="Export ports: host:port,host:port"),
    ):
        function = option(function)
    return function


@spark.command(
    epilog=examples(
        "jgroups-py spark load users.parquet --path '/users/{id}' --members HOST:PORT --token-file token"
    )
)
@cluster_options
@click.argument("source")
@click.option("--path", required=True, help='Of each row\'s node: "/users/{id}".')
@click.option("--format", "form", type=click.Choice(["parquet", "csv", "json"]))
@click.option("--replace", is_flag=True, help="Nodes have the row's columns only.")
@stoppable(_cancel)
def load(source: str, path: str, form: str | None, replace: bool, **where: Any) -> None:
    """Put the rows of a Parquet, CSV or JSON file or folder into a cache."""
    from jgroups_py.spark.jobs import checked_source

    checked_source(source, form, path)
    with _session(where) as (session, jobs, cluster), _shown(session, cluster):
        rows = jobs.load(session, cluster, source, path, format=form, replace=replace)
    click.echo(json.dumps({"rows": rows}))


@spark.command(
    epilog=examples(
        "jgroups-py spark snapshot users --path /users --members HOST:PORT --token-file token"
    )
)
@cluster_options
@click.argument("target")
@click.option("--path", default="/", show_default=True, help="Nodes at and below it.")
@click.option("--schema", help='"path string, name string, ...": an attribute for each column.')
@stoppable(_cancel)
def snapshot(target: str, path: str, schema: str | None, **where: Any) -> None:
    """Write a snapshot of a cache to a new Parquet folder.

    The snapshot is of one moment and has its place in the change log. For a cache with buddies give the ports of all
    members. Then each member's part is of one moment, and the snapshot has no place in the change log.
    """
    _new(target)
    with _session(where) as (session, jobs, cluster), _shown(session):
        taken = jobs.snapshot(session, cluster, target, path=path, schema=schema)
    click.echo(json.dumps({"rows": taken.rows, "offset": jobs.json_of(taken.offset)}))


@spark.command(
    epilog=examples(
        "jgroups-py spark follow changes --after users --members HOST:PORT --token-file token"
    )
)
@cluster_options
@click.argument("table")
@click.option("--after", metavar="SNAPSHOT", help="Begin where this snapshot was taken.")
@click.option("--latest", is_flag=True, help="Begin now; default: with the oldest kept change.")
@click.option("--once", is_flag=True, help="Only present changes; default: until interrupted.")
@click.option("--schema", help="As for snapshot; and origin, number, time, removed.")
@click.option("--checkpoint", help="Default: TABLE.checkpoint")
@stoppable(lambda: None)
def follow(
    table: str,
    after: str | None,
    latest: bool,
    once: bool,
    schema: str | None,
    checkpoint: str | None,
    **where: Any,
) -> None:
    """Append changes to a Parquet table, each once, also after a restart. After an interrupt it ends with the current
    batch."""
    if after and latest:
        raise ConfigError("--after and --latest exclude each other")

    def tell(said: Mapping[str, Any]) -> None:
        if sys.stderr.isatty():
            print(f"batch {said['batchId']}: {said['numInputRows']} changes", file=sys.stderr)

    from jgroups_py.spark.jobs import offset_of

    starting = offset_of(after) if after else "latest" if latest else "earliest"
    with _session(where) as (session, jobs, cluster):
        rows = jobs.follow(
            session,
            cluster,
            table,
            checkpoint=checkpoint,
            starting=starting,
            schema=schema,
            once=once,
            progress=tell,
            until=asked.is_set,
        )
    click.echo(json.dumps({"rows": rows}))


@spark.command(
    epilog=examples(
        "jgroups-py spark reconcile --other-members HOST:PORT --repair --members HOST:PORT --token-file token"
    )
)
@cluster_options
@click.option(
    "--other-members", required=True, help="The other cluster, which is compared and repaired."
)
@click.option("--other-token-file", help="Default: the same token.")
@click.option("--other-map", help="Default: the only one.")
@click.option("--path", default="/", show_default=True, help="Nodes at and below it.")
@click.option("--repair", is_flag=True, help="Make the other cluster equal; default: only count.")
@click.option("--to", "target", help="Write the differing paths to this Parquet folder.")
@stoppable(_cancel)
def reconcile(
    other_members: str,
    other_token_file: str | None,
    other_map: str | None,
    path: str,
    repair: bool,
    target: str | None,
    **where: Any,
) -> int:
    """Compare two clusters, deletions included. Exit 1: they differ and were not repaired."""
    _new(target)
    other = {
        "members": other_members,
        "tokenfile": other_token_file or where["token_file"],
        **_tls(where),
    }
    if other_map:
        other["map"] = other_map
    _reached(other)
    with _session(where) as (session, jobs, cluster):
        with _shown(session, other):
            found = jobs.reconcile(session, cluster, other, path=path, repair=repair)
        if target:
            found.frame.write.parquet(target)
    click.echo(
        json.dumps(
            {
                "missing": found.left,
                "surplus": found.right,
                "different": found.both,
                "repaired": found.repaired,
            }
        )
    )
    return DIFFERENT if found.left + found.right + found.both and not repair else 0


@spark.command(epilog=examples("jgroups-py spark explore stacks/drills/short.yaml --seeds 1..500"))
@click.argument("drill")
@click.option("--seeds", required=True, metavar="A..B", help="Both included.")
@click.option("--to", "target", help="Write all rows to this Parquet folder, the worst first.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="As for drill.")
@session_options
@stoppable(_cancel)
def explore(
    drill: str, seeds: str, target: str | None, settings: tuple[str, ...], **which: Any
) -> int:
    """Run a drill file in virtual time with each seed. Exit 1 if one fails, 2 if one cannot run."""
    first, dots, last = seeds.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal()) or int(first) > int(last):
        raise ConfigError(f'--seeds is written "1..500", got "{seeds}"')
    loader.load(drill)
    _new(target)
    with _spark(which) as session:
        from jgroups_py.spark.explore import explore as run

        with _shown(session):
            found = run(session, drill, range(int(first), int(last) + 1), target, settings=settings)
    click.echo(
        json.dumps(
            {
                "passed": found.passed,
                "failed": found.failed,
                "broken": found.broken,
                "worst": found.worst,
            }
        )
    )
    return 2 if found.broken else 1 if found.failed else 0


@spark.command(
    "drill-report",
    epilog=examples("jgroups-py spark drill-report stacks/drills/short.yaml run.jsonl --to report"),
)
@click.argument("drill")
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "--to", "target", help="Write report.json, report.svg, findings.parquet to this folder."
)
@session_options
@stoppable(_cancel)
def drill_report(drill: str, logs: tuple[str, ...], target: str | None, **which: Any) -> int:
    """Judge drills from their logs.

    LOGS are files that drill --log wrote for the drill file DRILL, or folders of *.jsonl. The report has loss,
    duplicates, order, take-over and delivery times. Exit 1: a run does not hold what the file expects.
    """
    loader.load(drill)
    _new(target)
    with _spark(which) as session:
        from jgroups_py.spark.drill_report import drill_report as run

        with _shown(session):
            found = run(session, drill, logs, target)
    failed = [one["log"] for one in found.runs if one["verdict"] != "pass"]
    said = {"events": found.events, "runs": len(found.runs), "failed": failed}
    click.echo(json.dumps({**said, "lags": [lag for lag in found.lags if lag["origin"] is None]}))
    return 1 if failed else 0


@spark.command(
    epilog=examples("jgroups-py spark repartition n1.jgb n2.jgb --to new.yaml --out /shared/new")
)
@click.argument("archives", nargs=-1, required=True, metavar="ARCHIVE...")
@click.option(
    "--to", "deployment_file", required=True, metavar="FILE", help="The new deployment file."
)
@click.option(
    "--out", "folder", metavar="FOLDER", help="Write NODE.1of4.jgb and so on; else only count."
)
@click.option(
    "--tasks", type=click.IntRange(1, STRETCHES_MAX), help="Default: as many as run at once."
)
@click.option(
    "--project", type=SizeParameter(), help="Exit 1 if this size needs longer than --within."
)
@click.option(
    "--within", type=Time(), default=OUTAGE, show_default="3h", help="The outage that is planned."
)
@session_options
@stoppable(_cancel)
def repartition(
    archives: tuple[str, ...],
    deployment_file: str,
    folder: str | None,
    tasks: int | None,
    project: int | None,
    within: float,
    **which: Any,
) -> int:
    """Sort the entries of bucket archives for other nodes.

    It does the work of jgroups-py buckets repartition on all executors: they read the archives and write to FOLDER by
    the same paths. A node loads all of its files. Exit 1: --project needs longer than --within.
    """
    load_deployment(deployment_file)
    if project is not None:
        check_projection(archives, project)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with _spark(which) as session:
        from jgroups_py.spark.repartition import repartition as run

        with _shown(session):
            found = run(session, archives, deployment_file, folder=folder, tasks=tasks)
    return show_partition(found, project, within, "-")


@contextmanager
def _shown(session: Any, written: Mapping[str, str] | None = None) -> Iterator[None]:
    """Show a progress bar on a terminal. ``written`` is the cluster that the job writes to."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from jgroups_py.spark.options import options_of
    from jgroups_py.spark.progress import ProgressWatch, What

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, force_terminal=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("Spark starts", total=None)

        def show(what: What, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        with ProgressWatch(session, show, options_of(written) if written else None):
            yield


@contextmanager
def _session(where: Mapping[str, Any]) -> Iterator[tuple[Any, Any, dict[str, str]]]:
    """Return a session, the jobs, and the cluster."""
    cluster = {"members": where["members"], "tokenfile": where["token_file"], **_tls(where)}
    if where["map_name"]:
        cluster["map"] = where["map_name"]
    _reached(cluster)
    with _spark(where) as session:
        from jgroups_py.spark import jobs

        yield session, jobs, cluster


def _tls(where: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of the data source for TLS."""
    return dict(zip(("tlscertificate", "tlskey", "tlsca"), tls_files(where), strict=False))


def _new(target: str | None) -> None:
    """Check a target before Spark starts."""
    if target is not None and Path(target).exists():
        raise ConfigError(f"{target} is there already")


def _reached(cluster: Mapping[str, str]) -> None:
    """Check, before Spark starts, that Java is installed, and that a member accepts token and map."""
    from jgroups_py.spark.options import options_of
    from jgroups_py.spark.session import check_java

    options = options_of(cluster)
    check_java()
    with options.connect() as client:
        client.describe(options.map, options.kind)


@contextmanager
def _spark(which: Mapping[str, Any]) -> Iterator[Any]:
    """Return a session. Its errors are one line; --verbose shows all lines of Spark."""
    from jgroups_py.spark import open_session, problem_of

    config = dict(pairs(which["conf"]))
    master, memory = which["master"], which["memory"]
    try:
        with open_session(master, memory=memory, config=config, ship=which["ship"]) as session:
            yield session
    except JGroupsError:
        raise
    except Exception as error:
        line = problem_of(error)
        if line is None:
            raise
        raise JGroupsError(line) from error
