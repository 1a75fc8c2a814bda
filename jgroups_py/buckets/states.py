"""States of the index: the first one, and the next one after a changed row or a changed view. Functions on values.

Source: 4.4.4 to 4.4.6, 4.5.2.6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import Refused
from jgroups_py.buckets.messages import BucketRow, Hello, IndexState, KnownManager
from jgroups_py.buckets.rows import misplaced, without


def managers_of(members: Sequence[str], hellos: Mapping[str, Hello]) -> list[KnownManager]:
    """Return the managers that members have reported."""
    return sorted(
        (
            KnownManager(Cep(member, info.name), info)
            for member in members
            if (hello := hellos.get(member)) is not None
            for info in hello.parts
            if info.kind == "manager"
        ),
        key=lambda manager: manager.cep,
    )


def first_state(
    placement: Mapping[int, tuple[str, str]],
    names: Sequence[str],
    indices: dict[str, Cep],
    managers: list[KnownManager],
) -> IndexState:
    """Return the first state. ``names``: of the static set. Raises Refused unless all index copies and all managers of
    the placement are there."""
    missing = [name for name in names if name not in indices]
    known = {manager.cep.component: manager for manager in managers}
    missing += [n for n in {n: 0 for pair in placement.values() for n in pair} if n not in known]
    if missing:
        raise Refused(f"not there yet: {', '.join(missing[:5])}")
    rows = {}
    for bucket, (master, slave) in sorted(placement.items()):
        row = BucketRow(bucket, 1, known[master].cep, known[slave].cep, known[slave].info.version)
        problem = misplaced(row, managers)
        if problem:
            raise Refused(f"bucket {bucket}: {problem}")
        rows[bucket] = row
    return IndexState(1, rows, indices, managers)


def settled(
    state: IndexState,
    indices: dict[str, Cep],
    managers: list[KnownManager],
    members: Collection[str],
) -> IndexState:
    """Exempt lost components, promote and disable slaves, register new components. Return the old object for no
    change."""
    known = {manager.cep for manager in managers}
    gone = [manager.cep for manager in state.managers if manager.cep not in known]
    named = {cep for row in state.rows.values() for cep in (row.master, row.slave) if cep}
    lost = {cep for cep in named if cep.member not in members}
    rows = {bucket: without(row, lost) for bucket, row in state.rows.items()}
    new = IndexState(state.version + 1, rows, indices, managers, sorted({*gone, *lost}))
    same = (rows, indices, managers) == (state.rows, state.copies, state.managers)
    return state if same else new


def with_row(state: IndexState, row: BucketRow, members: Collection[str]) -> IndexState:
    """Change a row if its epoch is the one before ``row.epoch``. Return the old object for an equal row. Raises
    Refused."""
    now = state.rows.get(row.bucket)
    if now is None:
        raise Refused(f"there is no bucket {row.bucket}")
    if now == row:
        return state
    if row.epoch != now.epoch + 1:
        raise Refused(f"bucket {row.bucket} is in epoch {now.epoch}")
    known = {manager.cep for manager in state.managers}
    for cep in (row.master, row.slave):
        if cep is not None and (cep not in known or cep.member not in members):
            raise Refused(f"there is no bucket manager {cep}")
    if (row.master, row.slave) != (now.master, now.slave):
        problem = misplaced(row, state.managers)
        if problem:
            raise Refused(problem)
    rows = {**state.rows, row.bucket: row}
    return IndexState(state.version + 1, rows, state.copies, state.managers)


def difference(before: IndexState, state: IndexState) -> IndexState:
    """Return the state with only those rows that a copy with the state before lacks."""
    rows = {b: row for b, row in state.rows.items() if row != before.rows.get(b)}
    return IndexState(
        state.version, rows, state.copies, state.managers, state.exempted, whole=False
    )
