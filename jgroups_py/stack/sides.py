"""The sides that a machine, a stack and its protocols show each other.

A machine holds stacks, a stack holds protocols, and a protocol calls its stack and its machine. Each is written against
these interfaces, so machine.py, protocol.py and stack.py import each other in one direction only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from typing import Protocol as Interface

from jgroups_py.stack.ports import (
    Bind,
    Connect,
    Consult,
    Handle,
    In,
    JoinGroup,
    Out,
    Resolve,
)
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Query

P = TypeVar("P")


class StackOwner(Interface):
    """The side above the top protocol."""

    def deliver(self, batch: Batch) -> None:
        """Take a run of messages. ``Stack.consumed`` gives its credits back."""

    def notify(self, event: Event) -> None:
        """Take an event that reached the top: ViewChange, StateRequested, Failed, ..."""


class ProtocolSide(Interface):
    """A protocol's side towards its machine."""

    name: str

    @property
    def stack(self) -> StackSide:
        """Return its stack."""

    def on_input(self, item: In) -> None:
        """Take an input of one of its handles."""

    def check(self) -> None:
        """Assert its invariants."""


class DoorwaySide(Interface):
    """The place of a door in its stack, for protocols. doors.py explains the names."""

    @property
    def door(self) -> Any:
        """Return the door itself."""

    def open(self, item: Bind | JoinGroup | Connect | Resolve | Consult, /) -> None: ...

    def adopt(self, handle: Handle, /) -> None: ...

    def put(self, item: Out, /) -> None: ...


class StackSide(Interface):
    """A stack's side towards its machine and its protocols. stack.py explains the names."""

    name: str
    address: UUID
    cluster: str
    names: dict[Address, str]
    closed: bool

    @property
    def parent(self) -> StackSide | None:
        """Return the stack whose protocol opened this stack."""

    @property
    def children(self) -> Sequence[StackSide]:
        """Return the stacks that its protocols opened."""

    @property
    def protocols(self) -> Sequence[Any]:
        """Return its protocols, bottom first."""

    @property
    def checks(self) -> Sequence[Callable[[], None]]:
        """Return the invariants of its protocols."""

    @property
    def ports(self) -> dict[Handle, Any]:
        """Return the handles that its protocols opened."""

    @property
    def doorway(self) -> DoorwaySide | None:
        """Return the place of the stack's door. None: there is no door."""

    def install(self, door: Any) -> None: ...

    def connect(self, cluster: str, *, with_state: bool = False) -> None: ...

    def disconnect(self) -> None: ...

    def close(self) -> None: ...

    def send(self, batch: Batch) -> None: ...

    def event_down(self, event: Event) -> None: ...

    def consumed(self, batch: Batch) -> None: ...

    def find(self, cls: type[P], /) -> P | None: ...

    def ask(self, query: Query, asker: Any = None, direction: int = -1) -> Any: ...

    def name_of(self, member: Address | None) -> str: ...

    def open_child(
        self,
        stack: str,
        cluster: str,
        owner: StackOwner,
        *,
        name: str | None = None,
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> StackSide: ...
