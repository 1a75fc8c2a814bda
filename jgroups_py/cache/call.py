"""A call on its way through the interceptors: what it touches, and what it will change.

``body`` runs synchronously, once, with all locks held and everything it touches in memory and owned. It reads the container
and returns modifications, or it raises and changes nothing. ``compute`` runs it, in the interceptor ``Computing`` or, with
buddies, ``Owning``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from jgroups_py.cache.changes import Changes, Modification, fold
from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.options import DEFAULT, Options
from jgroups_py.cache.turns import Turn


class CacheCall(msgspec.Struct, eq=False):
    """One call. The interceptors fill in the fields below the line."""

    name: str
    scopes: Sequence[Scope]
    body: Callable[[CacheCall, Container], Sequence[Modification]]
    options: Options = DEFAULT
    depends: Sequence[Scope] = ()
    """The reads that the modifications were worked out from. If those differ when they would take effect, the modifications must not
    (BatchConflict)."""
    turn: Turn | None = None
    """The caller's, if it queues with others that read and write the same paths (turns.py)."""
    names_of: Fqn | None = None
    """The call wants the names below this path, also those of nodes that are not in memory."""
    # ---
    stored_names: Sequence[str] = ()
    modifications: Sequence[Modification] = ()
    changes: Changes = ()
    computed: bool = False
    """The body has run."""
    expected: Sequence[tuple[Scope, bytes]] = ()
    """The value of ``depends`` in the turn in which the body ran. See ``Replication.promise``."""
    ticket: Any = None
    """The replication's own, between ``claim`` and ``commit``."""
    result: Any = None
    writes: bool = False
    """May it change something?"""

    def __post_init__(self) -> None:
        for scope in self.scopes:
            if scope.write:
                self.writes = True


def compute(call: CacheCall, container: Container) -> None:
    """Runs the call's body, and works out what its modifications change."""
    call.modifications = call.body(call, container)
    if call.modifications:
        call.changes = fold(call.modifications, container.get, container.within)
    call.computed = True
