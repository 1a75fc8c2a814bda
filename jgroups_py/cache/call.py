"""A call on its way through the interceptors: its paths and its changes.

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
    """The reads on which the modifications are based. If these values have changed by then, the modifications do not
    take effect (BatchConflict)."""
    turn: Turn | None = None
    """The caller's turn, if it queues with others that read and write the same paths (turns.py)."""
    names_of: Fqn | None = None
    """List the names below this path, nodes outside memory included."""
    # ---
    stored_names: Sequence[str] = ()
    modifications: Sequence[Modification] = ()
    changes: Changes = ()
    computed: bool = False
    """The body has run."""
    expected: Sequence[tuple[Scope, bytes]] = ()
    """Digests of ``depends`` when the body ran. See ``MemberReplication.promise``."""
    ticket: Any = None
    """Data of the replication, between ``claim`` and ``commit``."""
    result: Any = None
    writes: bool = False
    """May it change something?"""

    def __post_init__(self) -> None:
        for scope in self.scopes:
            if scope.write:
                self.writes = True


def compute(call: CacheCall, container: Container) -> None:
    """Run the call's body and fold its modifications into changes."""
    call.modifications = call.body(call, container)
    if call.modifications:
        call.changes = fold(call.modifications, container.get, container.within)
    call.computed = True
