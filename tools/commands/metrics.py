"""``jgroups-py metrics``: numbers of running members, of Python or of Java, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import trio

from jgroups_py.channel.metrics import PATH, Sample, kind_of_page, page_of, protocol_sample
from jgroups_py.driver.http_port import HttpPort, open_port, place_of
from jgroups_py.tools.commands.probe import asking_of, asking_options
from jgroups_py.tools.options import examples
from jgroups_py.tools.probing import METRICS, Heard, identity_of, numbers_of
from jgroups_py.tools.running import run_command
from jgroups_py.values.shown import shown


@click.command(
    epilog=examples(
        "jgroups-py metrics --once",
        "jgroups-py metrics --listen 9404",
        "jgroups-py metrics --listen 9404 --host 127.0.0.1:7500-7509",
    )
)
@asking_options
@click.option(
    "--listen",
    default="9404",
    show_default=True,
    metavar="[HOST:]PORT",
    help=f"Serve {PATH} there.",
)
@click.option("--once", is_flag=True, help="Print the page once, and serve nothing.")
def metrics(listen: str, once: bool, **options: Any) -> int:
    """Serve the counters of running members for Prometheus.

    Each time that the page is read, it asks members with probes, as `jgroups-py probe` does. A Python member can also
    serve
    a page of its own: open_channel(metrics=PORT), or JGROUPS_METRICS in its environment.

    It serves until it is ended. Exit code with --once: 0 if a member answered, else 1.
    """
    asking = asking_of(**options)
    kind = kind_of_page()

    async def page() -> bytes:
        return page_of(_samples(await asking.ask(METRICS)))

    if once:
        heard = trio.run(asking.ask, METRICS)
        click.echo(page_of(_samples(heard)).decode(), nl=False)
        return 0 if heard else 1
    listener = open_port("--listen", listen)
    host, port = place_of(listener)
    click.echo(f"serving http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
    return run_command(lambda: HttpPort(PATH, kind, page, _refuse).serve(listener))


def _samples(heard: list[Heard]) -> Iterator[Sample]:
    """Yield the numbers of all members that answered."""
    for one in heard:
        member, cluster = identity_of(one.answer.head)
        if not member:
            continue
        for protocol, name, value in numbers_of(one):
            yield protocol_sample(cluster, member, protocol, name, value)


def _refuse(cause: str, source: tuple[str, int]) -> None:
    host, port = source
    click.echo(f"refused {shown(host)}:{port}: {cause}", err=True)
