"""``jgroups-py buckets validate`` and ``init``: checks a deployment file; shows where its buckets begin."""

from __future__ import annotations

import json

import click

from jgroups_py.buckets.deployment import distribute, findings, load_deployment
from jgroups_py.buckets.deployment.picture import as_json, as_text
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import show


@click.command(
    epilog=examples(
        "jgroups-py buckets validate seats.yaml",
        "jgroups-py buckets validate --strict seats.yaml",
    )
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Exit 1 if there is a risk, such as overload.")
def validate(files: tuple[str, ...], strict: bool) -> int:
    """Check deployment files.

    It also reports risks that the rules allow: nodes that would be overloaded after a loss, copies that may fail
    together, an index without a majority.

    Exit 1: there is a risk (with --strict); 2: a rule is broken; the error has the line and the key to change.
    """
    told = 0
    for name in files:
        deployment = load_deployment(name)
        known = findings(deployment, distribute(deployment))
        told += len(known)
        click.echo(
            f"{name}: {deployment.buckets} buckets on {len(deployment.nodes)} nodes can be placed"
        )
        for text in known:
            click.echo(f"! {text}")
    return int(strict and told > 0)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets init seats.yaml",
        "jgroups-py buckets init seats.yaml --json plan.json",
    ),
)
@click.argument("file")
@json_option
def init(file: str, json_out: str | None) -> None:
    """Show where the buckets of a deployment file begin.

    The first index copy that starts makes the instance with these places. The same file gives the same
    distribution at every node. The second table tells how many masters each node has after a loss; ! marks
    more than its capacity.
    """
    deployment = load_deployment(file)
    distribution = distribute(deployment)
    show(
        json_out,
        lambda: json.dumps(as_json(deployment, distribution), indent=1),
        lambda: as_text(deployment, distribution),
    )
