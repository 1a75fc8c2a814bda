"""Makes the state for a member that asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing

import trio

StateProvider = Callable[[], AsyncIterator[bytes]]
"""An async generator function that yields the state in chunks."""

NO_PROVIDER = "the provider has no state to give (open_channel(state=...))"


class BadState(Exception):
    """The provider gave no usable state: not bytes, too large, or too late."""


async def make_state(provider: StateProvider, size_max: int, timeout: float) -> bytes:
    """Return the state that the provider makes. Its generator is closed in any case.

    Raises:
        BadState: the provider gave no usable state.
        Exception: the provider raised it.
    """
    chunks: list[bytes] = []
    size = 0
    with trio.move_on_after(timeout) as limit:
        async with AsyncExitStack() as cleanup:
            given = provider()
            if hasattr(given, "aclose"):
                await cleanup.enter_async_context(aclosing(given))  # type: ignore[type-var]
            async for chunk in given:
                if not isinstance(chunk, bytes | bytearray | memoryview):
                    kind = type(chunk).__name__
                    raise BadState(f"the state provider yielded {kind}, a state is made of bytes")
                part = bytes(chunk)
                size += len(part)
                if size > size_max:
                    raise BadState(f"the state is larger than {size_max} bytes (state_max)")
                chunks.append(part)
    if limit.cancelled_caught:
        raise BadState(f"the state provider took longer than {timeout:g} s (state_timeout)")
    return b"".join(chunks)
