"""Holds this member's request for a state until the stack has answered. There is one request at a time."""

from __future__ import annotations

from collections.abc import Callable

import trio

from jgroups_py.channel.values import State
from jgroups_py.errors import StateTransferError
from jgroups_py.values.address import Address
from jgroups_py.values.events import StateFailed, StateReceived


class AskedState:
    """``name_of``: the logical name of a member, for errors."""

    def __init__(self, name_of: Callable[[Address], str]) -> None:
        self.is_wanted = False
        """True while a state is fetched."""
        self.is_first = False
        """True for a member that joins: the state is the first item of its stream."""
        self._name_of = name_of
        self._answer: StateReceived | StateFailed | None = None
        self._event = trio.Event()

    def begin(self, *, first: bool = False) -> None:
        self.is_wanted, self.is_first = True, first
        self._answer = None
        self._event = trio.Event()

    def end(self) -> None:
        self.is_wanted = self.is_first = False

    def answered(self, event: StateReceived | StateFailed) -> None:
        self._answer = event
        self._event.set()

    def wake(self) -> None:
        """Wake the waiting task, because the channel has ended."""
        self._event.set()

    async def wait(
        self, frm: Address | None, timeout: float, ended: Callable[[], Exception | None]
    ) -> State:
        """Return the state of ``frm``.

        Raises:
            StateTransferError: the state did not come.
            Exception: the error ``ended``, with which the channel has ended.
        """
        # The protocol's own time-out gives a better error; this one is for a stack without such a protocol.
        with trio.move_on_after(timeout + 1.0):
            await self._event.wait()
        answer, error = self._answer, ended()
        if error is not None:
            raise error
        if isinstance(answer, StateReceived):
            return State(answer.provider, answer.state or b"")
        asked = self._name_of(frm) if frm is not None else "the coordinator"
        if answer is None:
            raise StateTransferError(f"no answer within {timeout:g} s", asked)
        if answer.provider is not None:
            asked = self._name_of(answer.provider)
        raise StateTransferError(answer.problem, asked, answer.received)
