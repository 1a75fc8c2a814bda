"""Makes the state for a member that asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing

import trio

from jgroups_py.channel.listeners import Warn
from jgroups_py.channel.values import ChannelLimits
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import said
from jgroups_py.values.events import StateReady, StateRequested

StateProvider = Callable[[], AsyncIterator[bytes]]
"""An async generator function that yields the state in chunks."""

NO_PROVIDER = "the provider has no state to give (open_channel(state=...))"


class StateGiver:
    """Makes answers with the user's ``provider``, and counts its failures."""

    def __init__(
        self, provider: StateProvider | None, limits: ChannelLimits, warn: Warn, limit: LogLimit
    ) -> None:
        self.failures = 0
        self.packet_max: int | None = None
        """The most bytes of a state in a stack that does not cut it; None: any size up to ``state_max``."""
        self._provider = provider
        self._limits = limits
        self._warn = warn
        self._limit = limit

    async def answer(self, request: StateRequested) -> StateReady:
        """Return the answer to ``request``. If the task is cancelled, the next reader gets the request."""
        if self._provider is None:
            return StateReady(request.token, None, NO_PROVIDER)
        limits = self._limits
        state, problem = None, None
        try:
            made = await make_state(self._provider, limits.state_max, limits.state_timeout)
            if self.packet_max is not None and len(made) > self.packet_max:
                raise BadState(
                    f"the state has {len(made)} bytes, more than a packet of this stack takes (at most "
                    f"{self.packet_max} bytes): put FRAG2 into the stack, which cuts large messages"
                )
            state = made
        except BadState as error:
            problem = str(error)
            self._tell(problem, None)
        except Exception as error:  # the user's: the joiner is refused, and this member goes on
            problem = said(error)
            self._tell(f"the state provider raised {problem}", error)
        except BaseException:  # cancelled: the next reader makes the state
            if (left_out := self._limit.admit("state again")) is not None:
                text = (
                    "the reader was ended while it made the state; the next reader begins again%s"
                )
                self._warn(text, left_out)
            raise
        return StateReady(request.token, state, problem)

    def _tell(self, problem: str, error: Exception | None) -> None:
        self.failures += 1
        if (left_out := self._limit.admit(("state", type(error)))) is not None:
            text = "%s; the member that asked is told, this one goes on%s"
            self._warn(text, problem, left_out, error=error)


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
