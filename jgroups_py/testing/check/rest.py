"""At rest: when no member sends and all have all messages, all queues are empty."""

from __future__ import annotations

from typing import Final

from jgroups_py.stack.stack import Stack

EMPTY: Final = {
    "NAKACK2": ("unstable", "pending"),
    "UNICAST3": ("unacked", "pending"),
    "MFC": ("queued", "held"),
    "UFC": ("queued", "held"),
    "FRAG2": ("incomplete",),
}
"""For each protocol, the statistics that are 0 at rest."""


def waiting(stack: Stack) -> str | None:
    """Describe the work that still waits in a stack. None: nothing."""
    for protocol in stack.protocols:
        numbers = protocol.statistics()  # an error in it is found
        for key in EMPTY.get(protocol.name, ()):
            if numbers.get(key):
                return f"{protocol.name}.{key} is {numbers[key]}"
    return None
