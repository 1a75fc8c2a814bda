"""A machine that tracks the protocols entered by a step: only their invariants can have changed.

A step enters few layers of a stack: a heartbeat never reaches flow control. Checking all layers after every step takes
half the time of a run. A change through another path (an answer to another protocol, say) is found when all protocols are
checked, every ``EVERY`` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from jgroups_py.stack.machine import Machine, Timer
from jgroups_py.stack.ports import Accepted, In
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.sides import ProtocolSide, StackSide

EVERY: Final = 16
"""Steps of a member between two checks of all its protocols."""


class CheckedMachine(Machine):
    """See the module's docstring. ``check`` checks all protocols, ``check_step`` the protocols entered since its last call."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._touched: dict[ProtocolSide, None] = {}
        self._steps = 0

    def check_step(self) -> None:
        touched = self._touched
        self._steps += 1
        if self._steps % EVERY == 0:
            self.check()
        else:
            for protocol in touched:
                if not protocol.stack.closed:
                    protocol.check()
        touched.clear()

    # --- the ways into a protocol

    def handle(self, inputs: Iterable[In], now: float) -> None:
        inputs = tuple(inputs)
        for item in inputs:
            protocol = self._handles.get(item.listener if type(item) is Accepted else item.handle)
            if protocol is not None:
                self._touched[protocol] = None
        super().handle(inputs, now)

    def timer(
        self, callback: Callable[[], None], name: str, owner: ProtocolSide | None = None
    ) -> Timer:
        entered = () if owner is None else (owner,)
        return super().timer(self._entering(callback, *entered), name, owner)

    def linked(self, stack: StackSide) -> None:
        for protocol in stack.protocols:
            self._touched[protocol] = None
            for way in ("pass_up", "pass_down", "pass_event_up", "pass_event_down"):
                setattr(protocol, way, self._seen(getattr(protocol, way), stack))
        for way in ("_send", "_event_down"):
            setattr(stack, way, self._seen(getattr(stack, way), stack))

    def _seen(self, handler: Callable[..., None], stack: StackSide) -> Callable[..., None]:
        target = getattr(handler, "__self__", None)
        if isinstance(target, Protocol):
            return self._entering(handler, target)
        if target is stack and stack.parent is not None:
            return self._entering(handler, *stack.parent.protocols)  # one of them is its owner
        return handler

    def _entering(
        self, handler: Callable[..., None], *entered: ProtocolSide
    ) -> Callable[..., None]:
        checked = dict.fromkeys(p for p in entered if type(p).check is not Protocol.check)
        if not checked:
            return handler
        touched = self._touched
        if len(checked) == 1:
            (only,) = checked

            def enter(*arguments: Any) -> None:
                touched[only] = None
                handler(*arguments)

            return enter

        def enter_all(*arguments: Any) -> None:
            touched.update(checked)
            handler(*arguments)

        return enter_all
