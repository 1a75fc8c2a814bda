"""An upgrade, or a fallback, of software: the buckets of one manager go to another one with another version of the plug-in (A39).

    start a member                              with the new version on the same node; its manager is empty
    move_all(node, old, new, at_most=3)         a few buckets; look at them
    move_all(node, new, old)                    back, if these are not right: the new version writes for the old one
    move_all(node, old, new)                    the rest
    stop the old member                         let the new one create its index copy (create_index)

Clients go on meanwhile. A bucket is moved at most once, and is locked for about two round trips (transfer.py). The provider of
the newer version converts in both directions.

Source: 4.2.5, 4.4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError, OutcomeUnknown, Refused
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.node import BucketNode

ATTEMPTS_MAX: Final = 5
"""The most attempts for a bucket that is locked or whose pair has changed meanwhile."""
AGAIN_AFTER: Final = 0.2
"""Seconds between two attempts."""


@dataclass
class Moves:
    """The result. ``refused``: buckets that stayed, and why."""

    moved: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


async def move_all(
    node: BucketNode,
    frm: Cep,
    to: Cep,
    *,
    at_most: int | None = None,
    pause: float = 0.0,
    before_move: Callable[[BucketRow], None] | None = None,
    on_move: Callable[[BucketRow], None] | None = None,
) -> Moves:
    """Move the buckets of one manager to another one, masters and slaves, one after the other, in the order of their numbers.

    If the caller is cancelled, finished moves stay, and the running move continues. A further call moves the rest.

    Args: at_most: the most buckets; None: all.
        pause: seconds between two buckets, for the load.
        before_move: called with each row that is to change.
        on_move: called with each new row.

    Raises:
        Refused: there is no such manager. Nothing was changed. A refused bucket is in the result, and the next one is
            tried. When a manager is lost, all remaining buckets are in the result, too.
    """
    for cep in (frm, to):
        if not _is_known(node, cep):
            raise Refused(f"there is no bucket manager {cep}")
    done = Moves()
    rows = [row for _, row in sorted(node.state.rows.items()) if row.role_of(frm) is not None]
    for row in rows[:at_most]:
        if gone := [str(cep) for cep in (frm, to) if not _is_known(node, cep)]:
            done.refused[row.bucket] = f"{gone[0]} is gone"
            continue
        if before_move is not None:
            before_move(row)
        try:
            moved = await _move(node, row.bucket, frm, to)
        except BucketError as error:
            done.refused[row.bucket] = str(error)
            continue
        done.moved.append(row.bucket)
        if on_move is not None:
            on_move(moved)
        if pause:
            await trio.sleep(pause)
    return done


def _is_known(node: BucketNode, cep: Cep) -> bool:
    return any(manager.cep == cep for manager in node.managers)


async def _move(node: BucketNode, bucket: int, frm: Cep, to: Cep) -> BucketRow:
    """Move one bucket. Its row shows the result of an attempt whose answer was lost."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        row = node.state.rows[bucket]
        role = row.role_of(frm)
        if role is None and row.role_of(to) is not None:
            return row
        migrate = node.migrate_master_bucket if role == "master" else node.migrate_slave_bucket
        try:
            return await migrate(frm, to, bucket=bucket)
        except (Refused, OutcomeUnknown):
            if attempt == ATTEMPTS_MAX:
                raise
            await trio.sleep(AGAIN_AFTER)
    raise AssertionError("the last attempt returns or raises")
