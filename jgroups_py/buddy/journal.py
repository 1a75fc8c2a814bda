"""Journal: who wants to know what owners write, at the owner and at each of its holders, by the same numbers."""

from __future__ import annotations

from typing import Protocol

from jgroups_py.buddy.messages import Changes
from jgroups_py.values.address import Address


class Journal(Protocol):
    """Told in the step in which it happens. An entry's changes are the same at the owner and at all holders; only those
    that write are told with them: a node that moves on, or a confirmation, is no news of its value."""

    def begins(self, owner: Address, seq: int, wrote: int) -> None:
        """A copy of this owner's nodes is kept here from entry ``seq`` on; the last that wrote was ``wrote``."""

    def logged(self, owner: Address, seq: int, changes: Changes) -> None:
        """Entry ``seq`` of an owner; without changes: it wrote nothing."""

    def ended(self, owner: Address, seq: int) -> None:
        """A dead owner's nodes are adopted, as they were after entry ``seq``; others it had are lost."""
