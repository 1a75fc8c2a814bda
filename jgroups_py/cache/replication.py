"""Replication: how a change takes effect here and at other members. ``LocalReplication`` has no other members.

The replicating end of a cache is one object behind this interface. It gets a whole batch at once. It may suspend a call
until ownership has come or buddies have acknowledged. It alone applies changes, by ``Tree.apply`` in one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.values import Path
from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.container import Container
from jgroups_py.cache.discarded import DiscardedValues
from jgroups_py.cache.holding import PlaceOfMember
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.tree import Tree
from jgroups_py.cache.turns import Turn
from jgroups_py.channel.channel import Channel


class MemberReplication(ABC):
    """One member's part in replication."""

    keeps_copies: bool = False
    """Other members have the change when ``commit`` returns, so a store may fall behind."""
    runs_bodies: bool = False
    """The body of a call runs within ``claim``, in the step in which this member owns everything; the change then has
    taken effect, and ``commit`` waits for the others."""
    allows_local_writes: bool = True
    """May a call change this member's tree only? (option ``local_only``)"""
    container: Container | None = None
    """The replication's own container, if it has one."""
    channel: Channel | None = None
    """The channel that it works on, if it has joined a group."""

    def __init__(self) -> None:
        self.tree: Tree
        self.discarded = DiscardedValues()
        """Values that merges have dropped."""

    @abstractmethod
    async def claim(self, call: CacheCall, missing: Sequence[Scope], *, search: bool) -> None:
        """Get all nodes that this member must own or know before the body of the call runs.

        Called with the locks held and after the store was asked. For a write everything in
        ``call.scopes`` must be owned on return, in one claim; for a read, ``missing`` are the
        scopes that were not found (deep ones always). With ``runs_bodies`` it runs the body (``compute``),
        unless there is nothing to be claimed.

        Args:
            search: may nodes be taken from other members? (gravitation)

        Raises:
            CacheError: definite; no node is changed.
        """

    def promise(self, call: CacheCall) -> None:
        """Note in ``call.expected`` the values that the body read, if others may change them before ``commit``. Called
        right after the body, without a wait in between."""

    async def come_up(self, turn: Turn) -> None:
        """Return when a caller that has the turn here may read the nodes that it will write (turns.py).

        Raises:
            ReplicationError: nothing was changed.
        """

    def step_back(self, turn: Turn) -> None:
        """End the caller's place: it is done or gives up."""

    @abstractmethod
    async def commit(self, call: CacheCall) -> None:
        """Apply ``call.changes`` here and where copies are kept, and return when the call may be acknowledged.
        ``call.changes`` then has the actual changes, also if others were first.

        Raises:
            ReplicationError: the changes may have taken effect.
        """

    def position(self) -> Mapping[str, int] | None:
        """Return the batches that the tree contains: by origin, the number of the last one. None: batches have no
        numbers."""
        return None

    def holding(self) -> PlaceOfMember | None:
        """Report the part of the nodes that this member owns. None: each member has all nodes."""
        return None

    def follow_owners(self, journal: Journal) -> Callable[[], None]:
        """Report owners' writes to ``journal`` (``BuddyMachine.follow``). Only where ``holding`` is not None."""
        raise NotImplementedError

    def passive_paths(self) -> Sequence[Path]:
        """Return this member's nodes whose values are only in its store, if the replication knows of such nodes."""
        return ()

    def statistics(self) -> Mapping[str, int]:
        """Counters by name."""
        return {}


class LocalReplication(MemberReplication):
    """Replication in CacheMode LOCAL: there are no other members."""

    async def claim(self, call: CacheCall, missing: Sequence[Scope], *, search: bool) -> None:
        """Claim no node, because this member owns all nodes."""

    async def commit(self, call: CacheCall) -> None:
        self.tree.apply(call.changes, local=True)
