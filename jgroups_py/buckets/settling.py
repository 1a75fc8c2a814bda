"""settle: keeps the garbage collector away from lasting objects, in a process that is only a node."""

from __future__ import annotations

import gc
from typing import Final

FULL_EVERY: Final = 1_000
"""Collections of the middle generation before a full one; Python's default is 10."""


def settle() -> None:
    """Exempt present objects from garbage collection, and make full collections rare. Call it when the buckets exist.

    A full collection stops a node with a million entries for a tenth of a second. Nodes make hardly any cycles, and
    collections of the younger generations find those of requests. Memory of present objects in cycles is never freed.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_EVERY)
