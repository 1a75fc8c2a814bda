"""Tap: the interface of a block on top of a channel, such as RPC. It gets all items first and is the only reader.

A tap is called in the stack's order while the stack hands batches and events up. So it must not wait and must not
run a user's code before that step has ended (``Machine.soon``). An item that it does not take goes into the stream, which only the tap may read.
"""

from __future__ import annotations

from typing import Protocol as Interface

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View


class Tap(Interface):
    """See the module's docstring and ``Channel.attach``."""

    def deliver(self, batch: Batch) -> bool:
        """Look at a run of messages. Return True to take it, and its credits go back at once. Return False to leave it to the
        stream."""

    def view_changed(self, view: View) -> None:
        """Look at a view. It goes into the stream in any case."""

    def excluded(self, gone: tuple[Address, ...]) -> None:
        """Note that the members ``gone`` went on without this member. They may never answer."""

    def state_replaced(self, unread: list[Batch]) -> None:
        """Note that a fetched state contains the ``unread`` multicasts and all that the tap itself holds."""

    def reading(self) -> tuple[object, int]:
        """Return how far the application has read, as a value to compare, and the number of unread messages."""

    def ended(self, error: Exception) -> None:
        """Note that the channel has ended: it sends nothing more, and the stack hands up nothing more."""
