"""Call: a read or a change that an application asks of this member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jgroups_py.buddy.messages import Mode
from jgroups_py.buddy.values import OwnedNode, Path, Wanted
from jgroups_py.values.address import Address

Values = Mapping[Path, Any]
Change = Callable[[Values], Values]
"""Maps the values of the existing nodes to the values to be written. None removes a node."""
Inner = Callable[[Mapping[Path, Address]], None]
"""The body of a call that the machine makes itself. It gets the owners of nodes that this member does not own."""


class BuddyCall:
    """``change`` None: the call reads. ``mode`` "look": the result names the owners (``Claims.seen``). ``new``: the caller guarantees that no
    other member creates the path. ``inner``: the machine makes the call itself."""

    __slots__ = (
        "applied",
        "change",
        "dropped",
        "id",
        "inner",
        "mode",
        "new",
        "nodes",
        "result",
        "wanted",
    )

    def __init__(
        self,
        id: int,
        wanted: tuple[Wanted, ...],
        change: Change | None = None,
        *,
        mode: Mode = "take",
        new: bool = False,
        inner: Inner | None = None,
    ) -> None:
        self.id = id
        self.wanted = wanted
        self.change = change
        self.mode = mode
        self.new = new
        self.inner = inner
        self.applied = False
        self.dropped = False
        """A merge dropped something that the call has written."""
        self.nodes: Mapping[Path, OwnedNode] = {}
        """The nodes that the call has written."""
        self.result: Values = {}


class OwnedElsewhere(Exception):
    """Another member owns the node, and the call may not take it."""


class NotBegun(Exception):
    """The call was not begun: too many calls wait, or this member is leaving."""
