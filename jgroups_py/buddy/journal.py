"""Journal: follows the writes of owners. Owner and holders see the same entry numbers."""

from __future__ import annotations

from typing import Protocol

from jgroups_py.buddy.messages import Changes
from jgroups_py.values.address import Address


class Journal(Protocol):
    """A journal is called in the step that makes the change. Owner and holders see the same changes of an entry. A
    journal gets only entries that write: a hand-over or a confirmation changes no value."""

    def begins(self, owner: Address, seq: int, wrote: int) -> None:
        """Note that this member keeps a copy of the owner's nodes from entry ``seq`` on. The last entry that wrote was
        ``wrote``."""

    def logged(self, owner: Address, seq: int, changes: Changes) -> None:
        """Note entry ``seq`` of an owner. Without changes: the entry wrote nothing."""

    def ended(self, owner: Address, seq: int) -> None:
        """Note that the nodes of a dead owner are adopted as they were after entry ``seq``. Later entries are lost."""
