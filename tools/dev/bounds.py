"""``jgroups-py dev bounds``: compares simulated faults with the worst cases of ``jgroups-py validate``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from jgroups_py.tools.dev.bounds_run import KINDS, MeasuredFault, faults
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.progress import seeds_bar


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev bounds --faults 2000",
        "jgroups-py dev bounds --of take-over relay-tcp.xml --faults 200 --json",
    ),
)
@click.argument("stack", required=False, metavar="[STACK]")
@click.option(
    "--of",
    "what",
    type=click.Choice(["detection", "take-over"]),
    default="detection",
    show_default=True,
)
@click.option(
    "--faults", "count", type=click.IntRange(1, 1_000_000), default=100, show_default=True
)
@click.option(
    "--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed."
)
@click.option(
    "--latency",
    type=Time(),
    default=0.001,
    show_default="1ms",
    help="The simulated network's latency, one way.",
)
@json_option
def bounds(
    what: str, stack: str | None, count: int, first: int, latency: float, json_out: str | None
) -> int:
    """Simulate crashes, vanishings and pauses of members, as many of each as --faults says.

    Each is a whole group in virtual time, drawn from a seed. The time until the others have noticed, or until another
    relay has taken over, is compared with the worst case that `jgroups-py validate --latency` prints for STACK
    (default: udp.xml; for a take-over relay-udp.xml).

    Exit 1: one took longer.
    """
    stack = stack or ("udp.xml" if what == "detection" else "relay-udp.xml")
    results: list[dict[str, Any]] = []
    bad = 0
    with _quiet(), seeds_bar("bounds", count * len(KINDS)) as (console, one_more):
        for kind in KINDS:
            found: list[MeasuredFault] = []
            for one in faults(what, stack, kind, range(first, first + count), latency):
                found.append(one)
                if not one.is_within:
                    bad += 1
                    console.print(
                        f"{kind}, seed {one.seed}: {_text(one.seconds)}, the bound is {_text(one.bound)}"
                    )
                one_more(bad)
            results.append(_summary(found))
    show(
        json_out,
        lambda: json.dumps(
            {"what": what, "stack": stack, "latency_s": latency, "kinds": results}, indent=1
        ),
        lambda: "\n".join(_line(what, item) for item in results),
    )
    return 1 if bad else 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings about sites that do not relay: each simulated fault would repeat them."""
    logger = logging.getLogger("jgroups_py")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _summary(found: list[MeasuredFault]) -> dict[str, Any]:
    times = sorted(one.seconds for one in found if one.seconds is not None)
    worst = max(found, key=lambda one: float("inf") if one.seconds is None else one.seconds)
    return {
        "kind": found[0].kind,
        "faults": len(found),
        "exceeded": sum(not one.is_within for one in found),
        "bound_s": found[0].bound,
        "median_s": times[len(times) // 2] if times else None,
        "max_s": worst.seconds,
        "max_seed": worst.seed,
    }


def _line(what: str, item: dict[str, Any]) -> str:
    return (
        f"{what} after a {item['kind']}: {item['exceeded']} of {item['faults']} took longer than {_text(item['bound_s'])}; "
        f"median {_text(item['median_s'])}, at most {_text(item['max_s'])} (seed {item['max_seed']})"
    )


def _text(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.4g} s"
