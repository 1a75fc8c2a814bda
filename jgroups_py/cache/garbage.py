"""no_collection: the garbage collector rests while hundreds of lasting nodes are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Stop the garbage collector for one step of a few milliseconds. Where all new objects stay, collecting took a
    third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
