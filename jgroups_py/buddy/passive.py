"""Owned nodes whose values are in a store, not in memory. Ownership and backups stay as they are.

A node that is granted or pushed to a new buddy needs its value: what is on its way to others waits until
the driver has brought it back (event ``activate``: paths). Holders keep their copies; what is logged of such
a node without a write says "the value you have".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jgroups_py.buddy.values import Path

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Passive:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine

    def may(self, path: Path) -> bool:
        """Can the value leave memory? Not while the node is on the move, or a holder lacks the value; and
        not with other sites, to which it may have to be sent at any time."""
        machine = self.machine
        node = machine.own.get(path)
        return (
            node is not None
            and not (node.removed or node.passive or node.unsent or machine.config.sites)
            and node.to is None
            and node.giver is None
            and machine.log.stable(path)
        )

    def put(self, path: Path) -> bool:
        """The driver has the value in its store; False: it must stay in memory as well."""
        if not self.may(path):
            return False
        own = self.machine.own
        own[path] = replace(own[path], value=None, passive=True)
        self.machine.count("passivated")
        return True

    def need(self, paths: Iterable[Path]) -> None:
        """For the parts: these values are wanted; ``back`` comes later."""
        self.machine.event("activate", tuple(paths))

    def back(self, values: Mapping[Path, Any]) -> None:
        """These values are in memory again. Whatever is not passive any more has its value already."""
        machine = self.machine
        for path, value in values.items():
            node = machine.own.get(path)
            if node is not None and node.passive:
                machine.own[path] = replace(node, value=value, passive=False)
                machine.count("activated")
        machine.buddies.blocked = False
        machine.claims.look()
