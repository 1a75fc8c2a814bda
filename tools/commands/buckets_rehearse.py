"""``jgroups-py buckets rehearse``: plays losses and an upgrade on a deployment in virtual time."""

from __future__ import annotations

import json

import click

from jgroups_py.buckets.deployment import load_deployment
from jgroups_py.testing.explorer.buckets.rehearsal import BUCKETS_MAX, RehearsedEvent
from jgroups_py.testing.explorer.buckets.rehearsal import rehearse as play
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import status_line


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py buckets rehearse seats.yaml",
        "jgroups-py buckets rehearse seats.yaml --detection 5s --within 8s --json",
    ),
)
@click.argument("file")
@click.option(
    "--detection",
    type=Time(),
    default=10.0,
    show_default="10s",
    help="The longest time until a loss is noticed. jgroups-py validate prints it for a stack.",
)
@click.option(
    "--within",
    type=Time(),
    default=30.0,
    show_default="30s",
    help="The longest interruption of a key that is allowed.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of chance.")
@json_option
def rehearse(file: str, detection: float, within: float, seed: int, json_out: str | None) -> int:
    """Play losses and an upgrade on a deployment, in virtual time.

    Each cause of failure takes its nodes away and brings them back, and all nodes are upgraded, each time on a new
    instance with clients. The real components run, with an application that finds lost changes. The command starts no
    process and sends no packet.

    Exit 1: an answered change was lost, a key had no answer for longer than --within, or an operation failed.
    """
    deployment = load_deployment(file)
    scenes: list[RehearsedEvent] = []
    with status_line("rehearse") as tell:
        for scene in play(deployment, seed=seed, detection=detection):
            scenes.append(scene)
            tell(scene.name)
    bad = [scene for scene in scenes if _verdict(scene, within)]
    show(
        json_out,
        lambda: json.dumps(
            {
                "name": deployment.name,
                "seed": seed,
                "detection_s": detection,
                "within_s": within,
                "passed": not bad,
                "scenes": [scene.as_json() for scene in scenes],
            },
            indent=1,
        ),
        lambda: _text(scenes, within, deployment.buckets),
    )
    return int(bool(bad))


def _verdict(scene: RehearsedEvent, within: float) -> list[str]:
    """Return the reasons why a scene has failed."""
    found = list(scene.problems)
    if scene.lost:
        found.append(f"{scene.lost} answered changes are lost")
    if scene.interruption > within:
        found.append(f"a key had no answer for {scene.interruption:.1f} s")
    return found


def _text(scenes: list[RehearsedEvent], within: float, buckets: int) -> str:
    width = max(len(scene.name) for scene in scenes)
    lines = [f"{'event':{width}}  interruption  requests  lost  without backup"]
    for scene in scenes:
        lines.append(
            f"{scene.name:{width}}  {scene.interruption:10.2f} s  {scene.requests:8}  {scene.lost:4}  {scene.without_backup:14}"
        )
        lines += [f"  ! {text}" for text in _verdict(scene, within)]
        lines += [f"  {text}" for text in scene.overloaded]
    if buckets > BUCKETS_MAX:
        lines.append(f"the first {BUCKETS_MAX} of {buckets} buckets were played")
    bad = sum(bool(_verdict(scene, within)) for scene in scenes)
    lines.append(f"{len(scenes)} events, {bad} bad: {'FAIL' if bad else 'PASS'}")
    return "\n".join(lines)
