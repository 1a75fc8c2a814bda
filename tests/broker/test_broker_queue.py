"""A broker's queue: each message goes to one subscription, in order; every change can be taken back (P13)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.broker import bodies, objects
from examples.broker.changes import Change
from examples.broker.message import Delivery, Message
from examples.broker.objects import Queue


def message(text: str, expires: float = 0) -> Message:
    return Message((("n", text),), text.encode(), expires)


def texts(change: Change) -> list[str]:
    return [delivery.message.body.decode() for delivery in change.answer]


KEYS = st.sampled_from(["a", "b"])
TURNS = st.sampled_from([[1], [2], [1, 2], [2, 3]])
EXPIRES = st.sampled_from([0.0, 5.0, 15.0])
PUT = st.tuples(st.just("put"), st.tuples(st.builds(message, st.just("m"), EXPIRES)))
ACKNOWLEDGE = st.tuples(st.just("acknowledge"), st.tuples(KEYS, TURNS))
CALLS = st.one_of(
    PUT,
    PUT,
    st.tuples(st.just("subscribe"), st.tuples(KEYS, st.integers(1, 2))),
    ACKNOWLEDGE,
    st.tuples(st.sampled_from(["acknowledge", "refuse"]), st.tuples(KEYS, TURNS)),
    st.tuples(st.just("unsubscribe"), st.tuples(KEYS)),
    st.tuples(st.just("expire"), st.just(())),
)
HISTORIES = st.lists(st.tuples(CALLS, st.sampled_from([1.0, 10.0, 20.0])), min_size=6, max_size=24)


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the memory small, so that short histories use pages."""
    monkeypatch.setattr(bodies, "IN_MEMORY", 2)
    monkeypatch.setattr(bodies, "PAGE", 2)


def play(queue: Queue, history: list[Any]) -> list[tuple[Callable[[], None], Any]]:
    """Return, for each change, its reversal and the state before it."""
    found: list[tuple[Callable[[], None], Any]] = []
    for (name, arguments), now in history:
        if name == "subscribe" and arguments[0] in dict(queue.save()[5]):
            continue  # a key is used once
        before = normal(queue)
        change = getattr(queue, name)(*arguments, now)
        found.append((change.undo, before))
    return found


def normal(queue: Queue) -> Any:
    return [*queue.save(), sorted(queue._contents.expiring.items())]


@pytest.mark.seed("P13")
@given(HISTORIES)
def test_changes_are_taken_back_newest_first(history: list[Any]) -> None:
    queue = Queue()
    for undo, before in reversed(play(queue, history)):
        undo()
        assert normal(queue) == before


@given(HISTORIES, HISTORIES)
def test_a_queue_that_took_changes_back_goes_on_like_one_that_never_made_them(
    first: list[Any], second: list[Any]
) -> None:
    queue, other = Queue(), Queue()
    for undo, _ in reversed(play(queue, first)):
        undo()
    play(queue, second)
    play(other, second)
    assert normal(queue) == normal(other)


@given(HISTORIES)
def test_a_loaded_queue_goes_on_like_the_one_that_was_saved(history: list[Any]) -> None:
    queue, other = Queue(), Queue()
    half = len(history) // 2
    play(queue, history[:half])
    other.load(queue.save())
    play(queue, history[half:])
    play(other, history[half:])
    assert normal(queue) == normal(other)


@given(HISTORIES)
def test_a_message_is_in_one_place(history: list[Any]) -> None:
    queue = Queue()
    play(queue, history)
    _, _, messages, waiting, _again, subscriptions = queue.save()
    flying = [number for _, (_, _, turns) in subscriptions for _, number in turns]
    assert sorted([*waiting, *flying]) == sorted(number for number, _ in messages)
    assert all(len(turns) <= prefetch for _, (prefetch, _, turns) in subscriptions)


def test_two_subscribers_take_turns_within_their_limits() -> None:
    queue = Queue()
    queue.subscribe("a", 2, 0)
    queue.subscribe("b", 1, 0)
    got = [d for n in range(5) for d in queue.put(message(f"{n}"), 0).answer]
    assert [(d.subscription, d.turn, d.message.body) for d in got] == [
        ("a", 1, b"0"),
        ("b", 1, b"1"),
        ("a", 2, b"2"),
    ]
    assert texts(queue.acknowledge("b", [1], 0)) == ["3"]
    assert texts(queue.acknowledge("a", [2, 2, 7], 0)) == ["4"]


@pytest.mark.seed("P13")
def test_subscribers_keep_their_turn_when_a_change_is_taken_back() -> None:
    queue = Queue()
    for key in "abc":
        queue.subscribe(key, 2, 0)
    before = normal(queue)
    queue.put(message("0"), 0).undo()
    assert normal(queue) == before
    queue.unsubscribe("b", 0).undo()
    assert normal(queue) == before


def test_unacknowledged_messages_come_again_first_and_are_marked() -> None:
    queue = Queue()
    for n in range(4):
        queue.put(message(f"{n}"), 0)
    queue.subscribe("a", 2, 0)
    queue.unsubscribe("a", 0)
    change = queue.subscribe("b", 9, 0)
    assert texts(change) == ["0", "1", "2", "3"]
    assert [d.redelivered for d in change.answer] == [True, True, False, False]


def test_refused_messages_are_given_out() -> None:
    queue = Queue()
    queue.put(message("poison"), 0)
    queue.subscribe("a", 1, 0)
    refused, deliveries = queue.refuse("a", [1], 0).answer
    assert [m.body for m in refused] == [b"poison"] and deliveries == []
    assert queue.look() == (0, False)


def test_an_expired_message_reaches_nobody() -> None:
    queue = Queue()
    queue.put(message("old", 10), 0)
    queue.put(message("new", 30), 0)
    assert texts(queue.subscribe("a", 5, 20)) == ["new"]
    queue.put(message("x", 40), 0)
    queue.put(message("y", 90), 0)
    queue.unsubscribe("a", 0)
    assert queue.expire(50).answer == (2, True)
    assert texts(queue.subscribe("b", 5, 50)) == ["y"]


def test_a_deep_queue_is_paged_and_keeps_its_order() -> None:
    queue = Queue()
    for n in range(50):
        queue.put(message(f"{n}"), 0)
    assert queue._contents.bodies.paged == 48
    got: list[Delivery] = queue.subscribe("a", 1, 0).answer
    while len(got) < 50:
        assert len(queue._contents.bodies._memory) <= 4
        got += queue.acknowledge("a", [got[-1].turn], 0).answer
    assert [d.message.body.decode() for d in got] == [f"{n}" for n in range(50)]
    queue.acknowledge("a", [50], 0)
    assert len(queue._contents.bodies) == queue._contents.bodies.paged == 0


def test_a_full_queue_of_a_topic_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "DEPTH_MAX", 1)
    queue = Queue()
    queue.subscribe("a", 1, 0)
    queue.offer(message("1"), 0)
    assert queue.offer(message("2"), 0).answer == []
    assert queue.look() == (1, False)


def test_a_queue_that_nobody_uses_leaves_nothing_in_the_file() -> None:
    def rows() -> int:
        (found,) = bodies._file().execute("SELECT count(*) FROM body").fetchone()
        return int(found)

    before = rows()
    queue = Queue()
    for n in range(5):
        queue.put(message(f"{n}"), 0)
    assert rows() == before + 3
    del queue
    gc.collect()
    assert rows() == before


def test_a_topics_queue_takes_nothing_without_its_subscriber() -> None:
    queue = Queue()
    assert queue.offer(message("early"), 0).steps == [] and not queue.is_used()
    queue.subscribe("a", 1, 0)
    assert texts(queue.offer(message("x"), 0)) == ["x"] and queue.is_used()


def test_messages_of_a_queue_that_begins_anew_have_other_names() -> None:
    queue, later = Queue(), Queue()
    for one, now in ((queue, 1.0), (later, 2.0)):
        assert one.subscribe("a", 2, now).is_first
        assert not one.put(message("x"), now).is_first
        assert [d.born for d in one.put(message("y"), now + 5).answer] == [int(now * 1000)]
    other = Queue()
    other.load(later.save())
    assert normal(other) == normal(later)
