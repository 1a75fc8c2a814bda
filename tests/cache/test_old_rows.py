"""Old rows of a store: a row without an owner is looked at several times before it counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from faulty_store import FaultyStore

from jgroups_py.buddy.values import Path
from jgroups_py.cache import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.cache.old_rows import LOOKS, OldRows
from jgroups_py.errors import CacheRefused

ROW = Fqn(("x",))


def rows_that_are_owned(at: Sequence[int]) -> tuple[OldRows, list[int]]:
    """Return the check, and the looks that it makes. The row has an owner in looks ``at``."""
    store, looks = FaultyStore(), list[int]()
    store.is_open = True
    store.rows[ROW] = Node({})

    async def picture() -> tuple[Any, Collection[Fqn]]:
        return await store.picture(), ()

    async def owned(paths: Sequence[Path]) -> Collection[Path]:
        looks.append(len(looks))
        return paths if looks[-1] in at else ()

    keeper: Any = SimpleNamespace(began_empty=False, picture=picture)
    return OldRows(keeper, lambda: (), owned), looks


@pytest.mark.parametrize("at", [0, 5, LOOKS - 1])
async def test_a_row_that_has_an_owner_in_one_look_is_no_old_row(
    at: int, autojump_clock: Any
) -> None:
    """Its node was being removed, or made, in the other looks."""
    rows, looks = rows_that_are_owned([at])
    await rows.require_none([Fqn()], Fqn(("_buddy_backup_",)))
    assert len(looks) == at + 1


async def test_a_row_that_has_no_owner_in_any_look_is_refused(autojump_clock: Any) -> None:
    rows, looks = rows_that_are_owned([])
    with pytest.raises(CacheRefused, match="rows of 1 nodes that nobody owns, /x among them"):
        await rows.require_none([Fqn()], Fqn(("_buddy_backup_",)))
    assert len(looks) == LOOKS == 10
