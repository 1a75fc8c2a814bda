"""A distribution for people (text) and for programs (JSON values)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from jgroups_py.buckets.deployment.distribution import Distribution, masters_after
from jgroups_py.buckets.deployment.findings import findings
from jgroups_py.buckets.deployment.model import Deployment

BUCKETS_SHOWN: Final = 60
"""The most characters of a list of buckets. Longer lists are cut."""
CAUSES_SHOWN: Final = 20
"""The most lines of the table of losses."""


def as_json(deployment: Deployment, distribution: Distribution) -> dict[str, Any]:
    """Return all as JSON values: nodes, placement by components, index copies, findings."""
    masters, slaves = _by_node(distribution)
    return {
        "name": deployment.name,
        "buckets": deployment.buckets,
        "separate": deployment.separate,
        "index_copies": list(deployment.settings.index_copies),
        "index_quorum": deployment.settings.quorum,
        "nodes": [
            {
                "name": node.name,
                "fails_with": list(node.causes),
                "components": [name for kind in "mirp" for name in node.components(kind)],
                "masters": masters.get(node.name, []),
                "slaves": slaves.get(node.name, []),
                "masters_max": node.masters,
                "buckets_max": node.buckets,
            }
            for node in deployment.nodes
        ],
        "placement": {str(b): list(pair) for b, pair in distribution.components.items()},
        "findings": findings(deployment, distribution),
    }


def as_text(deployment: Deployment, distribution: Distribution) -> str:
    """Return a text: nodes with their buckets; masters after each loss; findings."""
    masters, slaves = _by_node(distribution)
    copies = len(deployment.settings.index_copies)
    lines = [
        f"{deployment.name}: {deployment.buckets} buckets, {copies} index copies of which {deployment.settings.quorum} decide",
        "",
    ]
    rows = [
        ("node", "fails with", "components", "masters", "copies", "buckets (slaves in brackets)")
    ]
    for node in deployment.nodes:
        mine, theirs = masters.get(node.name, []), slaves.get(node.name, [])
        parts = [
            f"{kind}{'' if count == 1 else f'*{count}'}"
            for kind, count in (
                ("manager", node.managers), ("index", node.indices), ("router", node.routers), ("proxies", node.proxies),
            )
            if count
        ]  # fmt: skip
        rows.append(
            (
                node.name,
                " ".join(node.causes) or "-",
                " ".join(parts) or "-",
                f"{len(mine)} of {node.masters}",
                f"{len(mine) + len(theirs)} of {node.buckets}",
                f"{ranges(mine)} ({ranges(theirs)})",
            )
        )
    lines += table(rows)
    lines += ["", *table(_losses(deployment, distribution))]
    left_out = len(deployment.causes) - CAUSES_SHOWN
    if left_out > 0:
        lines.append(f"... and {left_out} more")
    told = findings(deployment, distribution)
    if told:
        lines += ["", *(f"! {text}" for text in told)]
    return "\n".join(lines)


def _losses(deployment: Deployment, distribution: Distribution) -> list[Sequence[str]]:
    """Return rows: a cause, the masters of each node after its loss (! beyond its capacity), and the number of pairs
    that then lack a copy."""
    names = [node.name for node in deployment.nodes if node.managers]
    rows: list[Sequence[str]] = [("loss of", *names, "without backup")]
    pairs = distribution.pairs()
    for cause, lost in list(deployment.causes.items())[:CAUSES_SHOWN]:
        after = masters_after(pairs, lost)
        bare = sum(n for pair, n in pairs.items() if any(name in lost for name in pair))
        cells = [
            "lost"
            if name in lost
            else f"{after[name]}{'!' if after[name] > deployment.by_name[name].masters else ''}"
            for name in names
        ]
        rows.append((cause, *cells, str(bare)))
    return rows


def _by_node(distribution: Distribution) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    masters: dict[str, list[int]] = {}
    slaves: dict[str, list[int]] = {}
    for bucket, (master, slave) in distribution.nodes.items():
        masters.setdefault(master, []).append(bucket)
        slaves.setdefault(slave, []).append(bucket)
    return masters, slaves


def ranges(buckets: Iterable[int]) -> str:
    """Return buckets as a text such as ``0-3 7``, cut where it is too long."""
    ends: list[list[int]] = []
    for bucket in buckets:
        if ends and ends[-1][1] == bucket - 1:
            ends[-1][1] = bucket
        else:
            ends.append([bucket, bucket])
    text = ""
    for first, last in ends:
        part = str(first) if first == last else f"{first}-{last}"
        if len(text) + len(part) + 1 > BUCKETS_SHOWN:
            return f"{text} ..."
        text = f"{text} {part}" if text else part
    return text or "-"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
