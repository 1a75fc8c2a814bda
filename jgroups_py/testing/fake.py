"""For testing protocols, ours and yours: one protocol (or a few) between a fake above and below.

    stack = FakeStack(VERIFY_SUSPECT2(timeout=1.0), address=A)
    stack.event_up(Suspect((B,)))
    stack.advance(1.0)
    assert stack.take_up_events() == [Suspect((B,))]

Time does not pass until ``advance``. Everything that the protocols pass on is collected in four lists.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import In, Out
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.sim.key_pairs import seeded_key_pair
from jgroups_py.values.address import TAG, UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Query

__all__ = ["FakeStack", "make_address"]

E = TypeVar("E", bound=Event)
Answers = Mapping[type[Query], Any]


def make_address(number: int) -> UUID:
    """Return a fixed address for tests, as this package makes them. A higher number sorts higher."""
    return UUID(number.to_bytes(12, "big") + TAG)


class _Bottom(Protocol):
    """Stands in for all layers below."""

    def __init__(self, fake: FakeStack) -> None:
        super().__init__()
        self._fake = fake

    def down(self, batch: Batch) -> None:
        if batch.src is None:
            batch.src = self.local_address
        self._fake.down_batches.append(batch)

    def event_down(self, event: Event) -> None:
        self._fake.down_events.append(event)

    def answer(self, query: Query) -> Any:
        return self._fake.answered(query, "below")


class _Top(Protocol):
    """Stands in for all layers above."""

    def __init__(self, fake: FakeStack) -> None:
        super().__init__()
        self._fake = fake

    def up(self, batch: Batch) -> None:
        self._fake.up_batches.append(batch)

    def event_up(self, event: Event) -> None:
        self._fake.up_events.append(event)

    def answer(self, query: Query) -> Any:
        return self._fake.answered(query, "above")


class _Nobody:
    def deliver(self, batch: Batch) -> None:
        raise AssertionError("the fake top keeps everything")

    def notify(self, event: Event) -> None:
        raise AssertionError("the fake top keeps everything")


class FakeStack:
    """One protocol, or several (bottom first), with fakes around them.

    ``answers``: the answers to queries, by query class: a value, or a callable taking the query. It may be changed
    while the test runs.
    """

    def __init__(
        self,
        *protocols: Protocol,
        address: UUID | None = None,
        name: str = "A",
        cluster: str = "test",
        answers: Answers | None = None,
        seed: int = 0,
        now: float = 0.0,
    ) -> None:
        self.up_batches: list[Batch] = []
        self.down_batches: list[Batch] = []
        self.up_events: list[Event] = []
        self.down_events: list[Event] = []
        self.answers: dict[type[Query], Any] = dict(answers or {})
        self.traces: list[tuple[float, str, str, dict[str, Any]]] = []
        own = make_address(1) if address is None else address
        self.machine = Machine(
            name,
            random=random.Random(seed),
            now=now,
            trace=self._on_trace,
            secrets=random.Random(f"{seed}/secrets").randbytes,
            key_pairs=partial(seeded_key_pair, f"fake {own}"),
        )
        self.stack = Stack(
            self.machine,
            [_Bottom(self), *protocols, _Top(self)],
            _Nobody(),
            address=own,
        )
        self.stack.cluster = cluster
        self.protocol = protocols[0]

    @property
    def now(self) -> float:
        return self.machine.now

    @property
    def address(self) -> UUID:
        return self.stack.address

    def answered(self, query: Query, side: str) -> Any:
        answer = self.answers.get(type(query))
        return answer(query) if callable(answer) else answer

    def _on_trace(
        self, at: float, member: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        self.traces.append((at, protocol, what, details))

    # --- in

    def up(self, batch: Batch) -> None:
        """Pass a batch up from below."""
        self._step(lambda: self.stack.protocols[0].pass_up(batch))

    def down(self, batch: Batch) -> None:
        """Pass a batch down from above. Its sender is this member unless ``src`` is set."""
        if batch.src is None:
            batch.src = self.address
        self._step(lambda: self.stack.protocols[-1].pass_down(batch))

    def event_up(self, event: Event) -> None:
        self._step(lambda: self.stack.protocols[0].pass_event_up(event))

    def event_down(self, event: Event) -> None:
        self._step(lambda: self.stack.protocols[-1].pass_event_down(event))

    def handle(self, *inputs: In) -> None:
        """Pass socket inputs for handles that the protocol opened."""
        self.machine.handle(inputs, self.machine.now)
        self._end_turn()

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire at their own time, in order."""
        goal = self.machine.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= goal:
            self.machine.advance(max(due, self.machine.now))
            self._end_turn()
        self.machine.advance(goal)
        self._end_turn()

    def stand_still(self, seconds: float) -> None:
        """Stop the process for ``seconds``. Then it notices."""
        wanted = self.machine.now
        self.machine.woke(wanted + seconds, wanted, wanted)
        self._end_turn()
        self.machine.advance(wanted + seconds)
        self._end_turn()

    def _step(self, action: Callable[[], None]) -> None:
        self.machine.enter()
        action()
        self.machine.leave()
        self._end_turn()

    def _end_turn(self) -> None:
        while self.machine.has_rest:
            self.machine.do_rest()
        self.machine.check()

    # --- out

    def take_up(self) -> list[Batch]:
        taken, self.up_batches = self.up_batches, []
        return taken

    def take_down(self) -> list[Batch]:
        taken, self.down_batches = self.down_batches, []
        return taken

    def take_up_events(self, kind: type[E] | None = None) -> list[Any]:
        """Return events passed up since the last call; with ``kind`` only those (the rest is dropped)."""
        taken, self.up_events = self.up_events, []
        return [e for e in taken if kind is None or isinstance(e, kind)]

    def take_down_events(self, kind: type[E] | None = None) -> list[Any]:
        taken, self.down_events = self.down_events, []
        return [e for e in taken if kind is None or isinstance(e, kind)]

    def take_outgoing(self) -> list[Out]:
        return self.machine.take_outgoing()
