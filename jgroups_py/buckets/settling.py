"""settle: a process that is a node and nothing else keeps the garbage collector away from what stays."""

from __future__ import annotations

import gc
from typing import Final

FULL_EVERY: Final = 1_000
"""Collections of the middle generation before a full one; Python's default is 10."""


def settle() -> None:
    """To be called when the buckets are there. What the process has now is looked at no more, and full collections are rare.

    A full collection stops a node with a million entries for a tenth of a second. Nodes make hardly any cycles: a collection of the younger generations finds
    those of requests. Memory that cycles of what exists now would give back is lost.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_EVERY)
