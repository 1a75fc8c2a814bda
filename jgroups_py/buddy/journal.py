"""Journal: follows what owners write, at the owner and at each of its holders, under the same numbers."""

from __future__ import annotations

from typing import Protocol

from jgroups_py.buddy.messages import Changes
from jgroups_py.values.address import Address


class Journal(Protocol):
    """A journal is told in the step in which something happens. The changes of an entry are the same at the owner and at
    all holders. A journal gets the changes of entries that write; a hand-over or a confirmation does not change a
    value."""

    def begins(self, owner: Address, seq: int, wrote: int) -> None:
        """This member keeps a copy of the owner's nodes from entry ``seq`` on. The last entry that wrote was ``wrote``."""

    def logged(self, owner: Address, seq: int, changes: Changes) -> None:
        """Entry ``seq`` of an owner. Without changes: the entry wrote nothing."""

    def ended(self, owner: Address, seq: int) -> None:
        """The nodes of a dead owner are adopted as they were after entry ``seq``. Later entries are lost."""
