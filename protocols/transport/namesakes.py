"""Two members of the view under one logical name: a warning, once for each pair.

Logs, tools and drills speak of members by name. The transport asks here after each view and each name
it learns; a pair that is still in the view ``AFTER`` seconds later is told. Until then it may be a
member that was started again while its former self has not been missed yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.protocols.transport.base import TP

AFTER: Final = 10.0
"""Seconds."""
MAX_TOLD: Final = 20
"""Warnings in the life of a stack; further pairs are not told."""


class Namesakes:
    """See the module's docstring. A child stack is not looked at: members of two sites may have one
    name, and meet in RELAY's bridge."""

    def __init__(self, transport: TP) -> None:
        self._transport = transport
        self._timer = transport.timer(self._on_timer, "_on_namesakes")
        self._told: dict[tuple[Address, Address], None] = {}
        """Of the present view."""
        self._lines = 0

    def look(self) -> None:
        """The view is new, or a name."""
        members = self._transport.view_members
        for pair in list(self._told):
            if pair[0] not in members or pair[1] not in members:
                del self._told[pair]
        if not self._timer.armed and self._lines < MAX_TOLD and self._pairs():
            self._timer.start(AFTER)

    def _pairs(self) -> list[tuple[Address, Address]]:
        """Not told yet: each member with the first one of its name."""
        transport = self._transport
        if transport.stack.parent is not None:
            return []
        first: dict[str, Address] = {}
        pairs = []
        for member in transport.view_members:
            name = transport.stack.names.get(member)
            if name is not None:
                other = first.setdefault(name, member)
                if other != member and (other, member) not in self._told:
                    pairs.append((other, member))
        return pairs

    def _on_timer(self) -> None:
        transport = self._transport
        for pair in self._pairs()[: MAX_TOLD - self._lines]:
            self._told[pair] = None
            self._lines += 1
            transport.log.warning(
                'two members are named "%s": %s and %s; give each a name of its own',
                transport.name_of(pair[0]),
                *[f"{member} at {self._place(member)}" for member in pair],
            )

    def _place(self, member: Address) -> str:
        transport = self._transport
        own = member == transport.local_address
        physical = transport.physical if own else transport.physical_of(member)
        return "an unknown address" if physical is None else str(physical)
