"""The promises of a back end about an operation: recorded calls become the operations that are checked.

design/linearizability.md has the reasons; each rule is here once.

    all         an operation with a result is exact: it has its place between its call and its return
    replicated  an operation that did not wait (a read, an update or move that found nothing) read from the
                member's own copy: exact for that copy (``Operation.copy``)
    replicated  a line of views may end (places.py). Calls that were begun and done on it are lost with it. A call that
                was begun before that line, or was not acknowledged, may have happened. Reads on that line are not
                judged, nor reads at a member that the others went on without
    replicated, a read at a member that was lost in that view is not judged if it may have seen a change whose
    buddy       outcome no caller ever learned
    buddy       a read is not judged at a member on the smaller side of a split, or at one that others went on without
    buddy       two groups may go on side by side (no ``partition=majority``, or a member that found nobody when it
                started). A merge then chooses node by node, so only the calls before that are judged
    buddy       a group may go on without more living members than there are buddies, whatever ``partition`` says. An
                owner and all its buddies may be among these members, so only the calls before that are judged
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jgroups_py.testing.explorer.caches.callers import RecordedCall
from jgroups_py.testing.explorer.caches.places import Went
from jgroups_py.testing.explorer.caches.schedule import BackEnd
from jgroups_py.testing.histories.nodes import Call, Nodes
from jgroups_py.testing.histories.operation import NEVER, UNKNOWN, Operation

_MODEL = Nodes()


def operations(
    entries: Sequence[RecordedCall],
    back_end: BackEnd,
    lost: dict[str, float],
    went: Went | None,
    addresses: dict[str, bytes],
    split_at: float | None,
) -> list[Operation]:
    """Return the history to be checked. ``lost``: incarnations that were killed or expelled, and when; ``went``: of
    ``replicated``; ``addresses``: of incarnations; ``split_at``: of ``buddy``."""
    if split_at is not None:
        entries = _until(entries, split_at)
    changes, reads = [], []
    for entry in entries:
        if entry.reads_only or _MODEL.only_reads(entry.what):
            if entry.returned != NEVER:  # otherwise the call proves nothing
                reads.append(entry)
        else:
            changes.append(entry)
    made = [_change(entry, went) for entry in changes if not _is_gone(entry, went)]
    unsure = [op for op in made if not op.known]
    for entry in reads:
        if went is not None:
            if not went.has(entry.at_return):
                continue
            left = went.left.get((addresses[entry.member], entry.at_return.view))
            if left is not None and (entry.returned >= left or _may_have_seen(entry, unsure)):
                continue
        elif (
            entry.at_return.apart
            or entry.at_call.apart
            or (entry.member in lost and _may_have_seen(entry, unsure))
        ):
            continue
        copy = entry.member if back_end == "replicated" else ""
        made.append(
            Operation(entry.caller, entry.what, entry.call, entry.returned, entry.result, copy)
        )
    return made


def _until(entries: Sequence[RecordedCall], end: float) -> list[RecordedCall]:
    """Return the calls as an observer saw them at that time."""
    return [
        e if e.returned <= end else replace(e, returned=NEVER, result=UNKNOWN)
        for e in entries
        if e.call <= end
    ]


def _is_gone(entry: RecordedCall, went: Went | None) -> bool:
    """Was it called and acknowledged on a line that has ended? No merge brings it back."""
    if went is None or entry.returned == NEVER:
        return False
    began = entry.at_call
    return not began.waiting and began.view not in went.line and not went.has(entry.at_return)


def _change(entry: RecordedCall, went: Went | None) -> Operation:
    known = entry.returned != NEVER and (went is None or went.has(entry.at_return))
    return Operation(
        entry.caller,
        entry.what,
        entry.call,
        entry.returned if known else NEVER,
        entry.result if known else UNKNOWN,
    )


def _may_have_seen(entry: RecordedCall, unsure: Iterable[Operation]) -> bool:
    """Is there a change that is not known to have happened, at a place that was read, called before the return?"""
    return any(op.call < entry.returned and _meet(op.what, entry.what) for op in unsure)


def _meet(one: Call, other: Call) -> bool:
    return any(_related(a, b) for a in _paths(one) for b in _paths(other))


def _related(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


def _paths(what: Call) -> list[Any]:
    if what.do == "batch":
        return [path for path, _ in what.seen] + [change.path for change in what.changes]
    return [what.path] + ([what.to] if what.to else [])
