"""What a block on top of a channel (RPC) is to the channel: it sees things first, and reads.

A tap is called in the stack's order, while the stack hands things up: it must not wait and must not
run anybody's code. What it leaves goes on into the stream, which from then on only it may read.
"""

from __future__ import annotations

from typing import Protocol as Interface

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View


class Tap(Interface):
    """See the module's docstring and ``Channel.attach``."""

    def deliver(self, batch: Batch) -> bool:
        """A run of messages. True: taken, its credits go back at once; False: into the stream."""

    def view_changed(self, view: View) -> None:
        """The view goes into the stream in any case."""

    def excluded(self, gone: tuple[Address, ...]) -> None:
        """``gone`` went on without this member: what they were asked may never be answered."""

    def state_replaced(self, unread: list[Batch]) -> None:
        """A fetched state contains these unread multicasts, and all that the tap itself holds."""

    def reading(self) -> tuple[object, int]:
        """How far the application has read, as something to compare, and the messages it has not."""

    def ended(self, error: Exception) -> None:
        """The channel sends nothing any more, and the stack hands up nothing any more."""
