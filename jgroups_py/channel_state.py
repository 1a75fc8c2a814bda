"""Making the state for a member that asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

StateProvider = Callable[[], AsyncIterator[bytes]]
"""An async generator function that yields the state in chunks."""


async def make_state(
    provider: StateProvider | None, size_max: int
) -> tuple[bytes | None, str | None]:
    """The state, or None and the problem. What the provider raises goes on to the reader."""
    if provider is None:
        return None, "the provider has no state to give (open_channel(state=...))"
    chunks: list[bytes] = []
    size = 0
    async for chunk in provider():
        size += len(chunk)
        if size > size_max:
            return None, f"the state is larger than {size_max} bytes (state_max)"
        chunks.append(bytes(chunk))
    return b"".join(chunks), None
