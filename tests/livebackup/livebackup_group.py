"""A small message broker as objects and operations, and groups of nodes on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from split_group import SplitGroup

from jgroups_py.livebackup import (
    Every,
    LiveBackupNode,
    LiveBackupSettings,
    Stateful,
    Work,
    open_livebackup,
    undone_by,
)
from jgroups_py.livebackup.crew import Crew
from jgroups_py.livebackup.locks import Locks
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.tickets import Counters
from jgroups_py.livebackup.work import LiveObjects, LiveWork


class Session(Stateful):
    def __init__(self) -> None:
        self.sent_count = 0
        self.delivered: list[Any] = []

    def sent(self) -> int:
        self.sent_count += 1
        return self.sent_count

    def deliver(self, message: Any) -> int:
        self.delivered.append(message)
        return len(self.delivered)


class Queue(Stateful):
    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.consumers: list[str] = []

    @undone_by("unput")
    def put(self, message: Any) -> int:
        self.messages.append(message)
        return len(self.messages)

    def unput(self, size: int, message: Any) -> None:
        assert self.messages.pop() == message and len(self.messages) == size - 1

    def size(self) -> int:
        return len(self.messages)

    def take(self) -> Any:
        return self.messages.pop(0) if self.messages else None

    def subscribe(self, session: str) -> None:
        self.consumers.append(session)

    def next_consumer(self) -> str | None:
        if self.consumers:
            self.consumers.append(self.consumers.pop(0))
            return self.consumers[-1]
        return None

    async def slow_put(self, message: Any, seconds: float) -> int:
        await trio.sleep(seconds)
        return self.put(message)

    def page(self, count: int) -> int:
        """Read a batch of messages from the disk (P14)."""
        self.messages += [f"paged {len(self.messages) + n}" for n in range(count)]
        return len(self.messages)

    def expire(self) -> int:
        kept = [message for message in self.messages if not str(message).startswith("old")]
        gone = len(self.messages) - len(kept)
        self.messages = kept
        return gone


class PostOffice(Stateful):
    def __init__(self) -> None:
        self.bindings: dict[str, list[str]] = {}

    def bind(self, address: str, queue: str) -> None:
        self.bindings.setdefault(address, []).append(queue)

    def route(self, address: str) -> list[str]:
        return list(self.bindings.get(address, []))


class Counter(Stateful):
    """A kind of a user, whose work is done in a thread."""

    runs_in = "thread"

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value


async def bind(work: Work, address: str, queue: str, consumers: list[str]) -> None:
    await work.get(PostOffice, "main").bind(address, queue)
    for consumer in consumers:
        await work.get(Queue, queue).subscribe(consumer)


async def send(work: Work, session: str, address: str, message: Any) -> int:
    """Send a message to all queues of an address, and from each queue at once to its next consumer (P5)."""
    number: int = await work.get(Session, session).sent()
    for queue in await work.get(PostOffice, "main").route(address):
        consumer = await work.get(Queue, queue).next_consumer()
        if consumer is None:
            await work.get(Queue, queue).put(message)
        else:
            await work.get(Session, consumer).deliver(message)
    return number


async def put(work: Work, queue: str, message: Any) -> int:
    found: int = await work.get(Queue, queue).put(message)
    return found


async def slow_put(work: Work, queue: str, message: Any, seconds: float) -> int:
    found: int = await work.get(Queue, queue).slow_put(message, seconds)
    return found


async def put_both(work: Work, first: str, second: str, message: Any, seconds: float) -> list[int]:
    one = await work.get(Queue, first).put(message)
    await trio.sleep(seconds)
    return [one, await work.get(Queue, second).put(message)]


async def move(work: Work, source: str, target: str) -> Any:
    message = await work.get(Queue, source).take()
    if message is None:
        raise LookupError(f"{source} is empty")
    await work.get(Queue, target).put(message)
    return message


async def require(work: Work, queue: str) -> None:
    if not await work.get(Queue, queue).size():
        raise LookupError(f"{queue} is empty")


async def add(work: Work, counter: str, amount: int) -> int:
    found: int = await work.get(Counter, counter).add(amount)
    return found


async def draw(work: Work, queue: str) -> float:
    value = work.random.random() + work.now
    await work.get(Queue, queue).put(value)
    return value


async def put_all(work: Work, queue: str, count: int) -> None:
    for number in range(count):
        await work.get(Queue, queue).put(number)


async def expire(work: Work, queue: str) -> int:
    found: int = await work.get(Queue, queue).expire()
    return found


async def page(work: Work, queue: str, count: int) -> int:
    found: int = await work.get(Queue, queue).page(count)
    return found


KINDS = (Session, Queue, PostOffice, Counter)
OPERATIONS = (bind, send, put, slow_put, put_both, move, require, add, draw, expire, page, put_all)


class Group(SplitGroup[LiveBackupNode]):
    def __init__(self, nursery: trio.Nursery, settings: LiveBackupSettings, **options: Any) -> None:
        super().__init__(nursery)
        self._settings, self._options = settings, options
        self.also()

    def also(self, kinds: Any = (), operations: Any = ()) -> None:
        """Also set these attributes at nodes that start later."""
        self._kinds, self._operations = (*KINDS, *kinds), (*OPERATIONS, *operations)

    async def open(self, name: str) -> LiveBackupNode:
        """Start a node without waiting."""
        opening = open_livebackup(
            "sim.xml",
            cluster="test",
            name=name,
            kinds=self._kinds,
            operations=self._operations,
            settings=self._settings,
            transport=self.network,
            wall=trio.current_time,
            **self._options,
        )
        return await self._begin(name, opening)

    async def start(self, names: str) -> list[LiveBackupNode]:
        """Return the live node first. On a busy machine two nodes may be alone at first, and either of them
        stays live."""
        for name in names:
            await self.open(name)
        with trio.fail_after(300):
            for name in names:
                await self.nodes[name].wait_role("live", "backup")
        await self.settled()
        found = [self.nodes[name] for name in names]
        return sorted(found, key=lambda node: node.role != "live")

    @property
    def live(self) -> LiveBackupNode:
        (found,) = [node for node in self.nodes.values() if node.role == "live"]
        return found

    async def settled(self) -> None:
        """Wait until one node is live and all others confirm."""
        with trio.fail_after(300):
            while not self._is_settled():  # noqa: ASYNC110
                await trio.sleep(0.05)

    def _is_settled(self) -> bool:
        roles = sorted(node.role for node in self.nodes.values())
        if roles != ["backup"] * (len(roles) - 1) + ["live"]:
            return False
        return len(self.live.backups) == len(roles) - 1

    async def equal(self) -> dict[str, Any]:
        """Wait until all operations are confirmed and all nodes have the same objects, and return the objects."""
        with trio.fail_after(300):
            while not self._is_settled() or any(  # noqa: ASYNC110
                node.statistics().get("unconfirmed") for node in self.nodes.values()
            ):
                await trio.sleep(0.05)
        with trio.move_on_after(5):  # an operation that no backup had to confirm may be on its way
            while any(states(node) != states(self.live) for node in self.nodes.values()):  # noqa: ASYNC110
                await trio.sleep(0.05)
        first, *others = [states(node) for node in self.nodes.values()]
        for other in others:
            assert other == first
        return first


def states(node: LiveBackupNode) -> dict[str, Any]:
    found = sorted(node.space.objects, key=lambda one: one.key)
    return {one.key: dict(one.state.save()) for one in found}


def slow(node: Any, seconds: float) -> None:
    """Make the node take longer for each change."""
    found = node.space.object("Queue/q")
    usual = found.call_undoable

    async def slower(*arguments: Any) -> Any:
        await trio.sleep(seconds)
        return await usual(*arguments)

    class Slow(type(found)):  # type: ignore[misc]
        __slots__ = ()
        call_undoable = staticmethod(slower)

    found.__class__ = Slow


@asynccontextmanager
async def livebackup_group(
    *,
    timers: tuple[Every, ...] = (),
    attributes: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Group]:
    async with trio.open_nursery() as nursery:
        options: Any = {"timers": timers, "attributes": attributes}
        yield Group(nursery, LiveBackupSettings(**settings), **options)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_crew() -> AsyncIterator[Crew]:
    crew = Crew()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crew.stay)
        yield crew
        await crew.cancel()


def live_work(space: Space, counters: Counters | None = None) -> LiveWork:
    """Return an operation that runs alone, so it waits for no object."""
    counters = counters or Counters()
    locks = Locks(lambda lock: True, Crew().start)
    return LiveWork("test", 0.0, 1, LiveObjects(space, counters, locks))
