"""Operations that clients start, and operations that the broker starts itself. Each runs on the live node and again on
its backups.

Arguments are plain data; a message is ``[headers, body, expires]``. An operation returns deliveries: the live node
sends them when they are confirmed.
"""

from __future__ import annotations

from typing import Any, Final

from examples.broker.changes import Change
from examples.broker.message import Delivery, Message
from examples.broker.objects import DEPTH_MAX, PostOffice, Queue, Refused, Session
from jgroups_py.livebackup import Work

OFFICE: Final = "main"
REFUSED_QUEUE: Final = "/queue/DLQ"
"""The queue for messages that a client refused (NACK)."""
PUTS_MAX: Final = 4_000
"""The most messages that one operation puts into queues; a message to a topic counts once for each subscriber. Each
makes up to two changes; an operation may make 10,000."""
REMOVED_MAX: Final = 1_000
"""The most queues that one operation removes, by three changes each. The others are removed by the next operation."""


async def connect(work: Work, session: str) -> None:
    """Note the session, so that the next live node can end it."""
    await work.get(PostOffice, OFFICE).opened(session)


async def send(work: Work, sendings: list[Any]) -> list[Delivery]:
    """``[[destination, message], ...]``, in order. Raise Refused before any message is sent if a queue is full, or if
    there are too many queues or subscribers of topics."""
    queues: dict[str, list[str]] = {}
    for destination in dict.fromkeys(destination for destination, _ in sendings):
        if not is_queue(destination):
            queues[destination] = await work.get(PostOffice, OFFICE).route(destination)
            continue
        depth, is_new = await work.get(Queue, destination).look()
        if depth >= DEPTH_MAX:
            raise Refused(f"{destination} has {depth} messages, and takes no more")
        if is_new:
            await _create(work, destination)
        queues[destination] = [destination]
    puts = sum(len(queues[destination]) for destination, _ in sendings)
    if puts > PUTS_MAX:
        raise Refused(f"{puts} subscribers would get a message at once, {PUTS_MAX} may")
    found: list[Delivery] = []
    for destination, saved in sendings:
        message = Message.load(saved)
        for queue in queues[destination]:
            if queue == destination:
                found += await _put(work, queue, message)
                continue
            # A topic does not wait for a slow subscriber, and sends nothing to one that left meanwhile.
            change = await work.get(Queue, queue).offer(message, work.now)
            await _leave(work, queue, change)
            found += change.answer
    return found


async def _put(work: Work, queue: str, message: Message) -> list[Delivery]:
    change = await work.get(Queue, queue).put(message, work.now)
    if change.is_first:  # it may have been removed since it was found unused
        await work.get(PostOffice, OFFICE).add(queue)
    return list(change.answer)


async def _create(work: Work, queue: str) -> None:
    """Remove a queue that was found unused, if it still is."""
    try:
        await work.get(PostOffice, OFFICE).create(queue)
    except Refused:
        await work.remove(Queue, queue, unless="is_used")
        raise


def is_queue(destination: str) -> bool:
    return destination.startswith("/queue/")


async def commit(work: Work, sendings: list[Any], acks: list[Any]) -> list[Delivery]:
    """A transaction: ``acks`` are ``[queue, key, turns]``. Raises Refused before any change is made."""
    found = await send(work, sendings)
    for queue, key, turns in acks:
        found += await acknowledge(work, queue, key, turns)
    return found


async def subscribe(
    work: Work, session: str, key: str, destination: str, queue: str, prefetch: int
) -> list[Delivery]:
    """``queue``: the destination, or the subscription's own queue for a topic. Raises Refused when there are too many queues."""
    topic = "" if queue == destination else destination
    if not topic:
        await work.get(PostOffice, OFFICE).create(queue)
    await work.get(Session, session).subscribed(key, queue, topic)
    change = await work.get(Queue, queue).subscribe(key, prefetch, work.now)
    if topic:
        await work.get(PostOffice, OFFICE).bind(topic, queue)
    elif change.is_first:  # the limit is that of _put
        await work.get(PostOffice, OFFICE).add(queue)
    return list(change.answer)


async def unsubscribe(work: Work, session: str, key: str) -> list[Delivery]:
    found = await work.get(Session, session).unsubscribed(key)
    return [] if found is None else await _end(work, key, *found)


async def disconnect(work: Work, session: str) -> list[Delivery]:
    """End the session. Its unacknowledged messages go to others."""
    found: list[Delivery] = []
    for key, (queue, topic) in (await work.get(Session, session).closed()).items():
        found += await _end(work, key, queue, topic)
    await work.get(PostOffice, OFFICE).closed(session)
    await work.remove(Session, session)
    return found


async def _end(work: Work, key: str, queue: str, topic: str) -> list[Delivery]:
    if topic:
        await work.get(PostOffice, OFFICE).unbind(topic, queue)
        await work.remove(Queue, queue)
        return []
    change = await work.get(Queue, queue).unsubscribe(key, work.now)
    return list(change.answer)


async def acknowledge(work: Work, queue: str, key: str, turns: list[int]) -> list[Delivery]:
    change = await work.get(Queue, queue).acknowledge(key, turns, work.now)
    await _leave(work, queue, change)
    return list(change.answer)


async def _leave(work: Work, queue: str, change: Change) -> None:
    """End a subscription of a queue. If the queue belongs to a topic's subscription that has ended meanwhile, the
    queue is removed."""
    if not change.steps and not is_queue(queue):
        await work.remove(Queue, queue, unless="is_subscribed")


async def refuse(work: Work, queue: str, key: str, turns: list[int]) -> list[Delivery]:
    """Put refused messages into a queue of their own."""
    change = await work.get(Queue, queue).refuse(key, turns, work.now)
    await _leave(work, queue, change)
    refused, found = change.answer
    if refused:
        await work.get(PostOffice, OFFICE).create(REFUSED_QUEUE)
    for message in refused:
        found += await _put(work, REFUSED_QUEUE, message)
    return list(found)


async def expire(work: Work) -> int:
    """Started by a timer. Return the number of removed messages. Remove unused queues, too."""
    gone = 0
    unused: list[str] = []
    for queue in await work.get(PostOffice, OFFICE).all_queues():
        expired, is_used = (await work.get(Queue, queue).expire(work.now)).answer
        gone += expired
        unused += [] if is_used else [queue]
    for queue in unused[:REMOVED_MAX]:
        await work.get(PostOffice, OFFICE).forget(queue)
        if not await work.remove(Queue, queue, unless="is_used"):
            await work.get(PostOffice, OFFICE).add(queue)
    return gone


async def sessions(work: Work) -> list[str]:
    found: list[str] = await work.get(PostOffice, OFFICE).open_sessions()
    return found


OPERATIONS: Final = (
    connect,
    send,
    commit,
    subscribe,
    unsubscribe,
    disconnect,
    acknowledge,
    refuse,
    expire,
    sessions,
)
KINDS: Final = (PostOffice, Queue, Session)
