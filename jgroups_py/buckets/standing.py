"""The present places of buckets, for people and for programs (A23, A37, A48)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from jgroups_py.buckets.deployment.picture import ranges, table
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketLoad, IndexState, NodeStatistics
from jgroups_py.buckets.rates import rates_text
from jgroups_py.buckets.rows import losses, misplaced
from jgroups_py.values.shown import shown

NAME_MAX: Final = 40
"""The most characters of a name that are shown."""


def standing_json(state: IndexState, members: Collection[str]) -> dict[str, Any]:
    """Return the places as JSON values. ``members``: those of the view. Each manager is listed with its masters and
    slaves; ``together``: pairs that fail together."""
    managers = []
    for manager in sorted(state.managers, key=lambda m: (m.info.node, m.cep)):
        managers.append(
            {
                "manager": manager.cep.component,
                "member": manager.cep.member,
                "node": manager.info.node,
                "fails_with": [name for name in manager.info.zone.split(",") if name],
                "format": manager.info.version,
                "masters": _of(state, manager.cep, "master"),
                "slaves": _of(state, manager.cep, "slave"),
            }
        )
    found = losses(state.rows, members)
    return {
        "version": state.version,
        "buckets": len(state.rows),
        "index_copies": sorted(state.copies),
        "managers": managers,
        "without_backup": [loss.bucket for loss in found if not loss.lost],
        "lost": [
            {"bucket": loss.bucket, "first": f"{loss.first:016x}", "last": f"{loss.after - 1:016x}"}
            for loss in found
            if loss.lost
        ],
        "together": [
            {"bucket": bucket, "why": why}
            for bucket, row in sorted(state.rows.items())
            if (why := misplaced(row, state.managers))
        ],
    }


def standing_text(told: dict[str, Any]) -> str:
    """Return ``standing_json``'s result as lines. Its item ``load``, if there is one, is the result of ``rates``."""
    copies = shown(", ".join(told["index_copies"]) or "none")
    lines = [f"{told['buckets']} buckets; index copies: {copies}; change {told['version']}"]
    load = told.get("load")
    if load is not None:
        lines += rates_text(load)
    rows = [
        (
            "node",
            "manager",
            "format",
            "fails with",
            "masters",
            "slaves",
            *(["requests/s"] if load is not None else []),
            "buckets (slaves in brackets)",
        )
    ]
    rows += [
        (
            shown(manager["node"], NAME_MAX),
            shown(manager["manager"], NAME_MAX),
            str(manager["format"]),
            shown(" ".join(manager["fails_with"]) or "-", NAME_MAX),
            str(len(manager["masters"])),
            str(len(manager["slaves"])),
            *_rate_of(load, manager["node"]),
            f"{ranges(manager['masters'])} ({ranges(manager['slaves'])})",
        )
        for manager in told["managers"]
    ]
    lines += table(rows)
    if told["without_backup"]:
        bare = told["without_backup"]
        lines.append(f"! {len(bare)} without backup: {ranges(bare)} (recreate makes slaves)")
    lines += [
        f"! bucket {loss['bucket']} is lost: digests {loss['first']} to {loss['last']}"
        for loss in told["lost"]
    ]
    lines += [f"! bucket {one['bucket']}: {shown(one['why'])}" for one in told["together"]]
    return "\n".join(lines)


def _rate_of(load: dict[str, Any] | None, node: str) -> list[str]:
    """Describe the load of a whole node."""
    if load is None:
        return []
    return [f"{load['nodes'][node]['requests']:g}" if node in load["nodes"] else "?"]


def unequal(nodes: Iterable[NodeStatistics]) -> dict[int, str]:
    """Return the difference of the numbers of entries of a bucket's copies, by bucket. Changes on their way to a slave
    may show for a moment."""
    masters: dict[int, BucketLoad] = {}
    slaves: dict[int, BucketLoad] = {}
    for node in nodes:
        for load in node.buckets:
            (masters if load.role == "master" else slaves)[load.bucket] = load
    return {
        bucket: f"bucket {bucket}: its master has {master.entries} entries, its slave {slave.entries}"
        for bucket, master in sorted(masters.items())
        if (slave := slaves.get(bucket)) is not None
        and slave.epoch == master.epoch
        and slave.entries != master.entries
    }


def _of(state: IndexState, cep: Cep, role: str) -> list[int]:
    return [bucket for bucket, row in sorted(state.rows.items()) if row.role_of(cep) == role]
