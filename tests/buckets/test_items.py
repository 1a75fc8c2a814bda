"""The effect of requests on an item, without I/O."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.buckets.items import (
    Change,
    Count,
    Counted,
    Found,
    Item,
    ItemLimits,
    ItemRequest,
    MemoryStore,
    Outcome,
    Put,
    Read,
    Remove,
    Said,
    Stamped,
    StoreUnavailable,
    Touch,
    Word,
    perform,
)
from jgroups_py.buckets.items.asking import Asking
from jgroups_py.buckets.items.requests import outcome_from, request_from, written
from jgroups_py.errors import RemoteProtocolError

NOW = 1000.0


class Bench:
    """One item and requests with stamps 1, 2, 3..."""

    def __init__(self, limits: ItemLimits | None = None) -> None:
        self.item: Item | None = None
        self.limits = limits or ItemLimits(value_max=20)
        self.stamp = 0
        self.now = NOW

    def __call__(self, request: ItemRequest) -> Outcome:
        self.stamp += 1
        return self.again(request)

    def again(self, request: ItemRequest) -> Outcome:
        """Repeat the last request."""
        self.item, outcome = perform(self.item, Stamped(request, self.stamp, self.now), self.limits)
        return outcome


def put(data: bytes, change: Change = Change.SET, unique: int = 0) -> Put:
    return Put("k", change, data, 3, 0, unique)


def test_each_change_depends_on_the_present_value() -> None:
    ask = Bench()
    assert ask(put(b"a", Change.REPLACE)) == Said(Word.NOT_STORED)
    assert ask(put(b"a", Change.APPEND)) == Said(Word.NOT_STORED)
    assert ask(put(b"a", Change.CAS, 9)) == Said(Word.NOT_FOUND)
    assert ask(put(b"a", Change.ADD)) == Said(Word.CREATED, 4)
    assert ask(put(b"b", Change.ADD)) == Said(Word.NOT_STORED, 4)
    assert ask(put(b"c", Change.APPEND)) == Said(Word.STORED, 6)
    assert ask(put(b"p", Change.PREPEND)) == Said(Word.STORED, 7)
    assert ask(Read("k")) == Found(b"pac", 3, 7)
    assert ask(put(b"z", Change.CAS, 6)) == Said(Word.EXISTS, 7)
    assert ask(put(b"z", Change.CAS, 7)) == Said(Word.STORED, 10)
    assert ask(Remove("k", 7)) == Said(Word.EXISTS, 10)
    assert ask(Remove("k")) == Said(Word.DELETED)
    assert ask(Remove("k")) == Said(Word.NOT_FOUND)
    assert ask.item is None


def test_a_number_wraps_upwards_and_stops_at_zero() -> None:
    ask = Bench()
    assert ask(Count("k", 1)) == Said(Word.NOT_FOUND)
    ask(put(b"18446744073709551615"))
    assert ask(Count("k", 2)) == Counted(1, 3)
    assert ask(Count("k", 5, down=True)) == Counted(0, 4)
    assert ask(Read("k")) == Found(b"0", 3, 4)
    for text in (b"", b"x", b"-1", b"1 ", b"18446744073709551616", b"9" * 20):
        ask(put(text))
        assert ask(Count("k", 1)) == Said(Word.NOT_A_NUMBER, ask.stamp - 1)


def test_an_item_that_would_be_too_large_stays_as_it_was() -> None:
    ask = Bench()
    assert ask(put(b"x" * 21)) == Said(Word.TOO_LARGE)
    ask(put(b"x" * 20))
    assert ask(put(b"x", Change.APPEND)) == Said(Word.TOO_LARGE, 2)
    assert ask(Read("k")) == Found(b"x" * 20, 3, 2)


def test_an_expired_item_counts_as_none() -> None:
    ask = Bench()
    ask(Put("k", Change.SET, b"a", 0, NOW + 5))
    assert ask(Touch("k", NOW + 8, read=True)) == Found(b"a", 0, 1)
    ask.now = NOW + 7
    assert ask(Read("k")) == Found(b"a", 0, 1)
    ask.now = NOW + 8
    assert ask(Read("k")) == Said(Word.NOT_FOUND)
    assert ask.item is not None, "a reader changes nothing"
    assert ask(Touch("k", 0)) == Said(Word.NOT_FOUND)
    assert ask.item is None
    assert ask(put(b"b", Change.ADD)) == Said(Word.CREATED, ask.stamp)


_requests = st.one_of(
    st.builds(
        Put,
        st.just("k"),
        st.sampled_from(Change),
        st.sampled_from([b"", b"1", b"41", b"x"]),
        st.integers(0, 3),
        st.sampled_from([0.0, NOW + 5, NOW - 5]),
        st.integers(0, 4),
    ),
    st.builds(Count, st.just("k"), st.integers(0, 3), st.booleans()),
    st.builds(Touch, st.just("k"), st.sampled_from([0.0, NOW + 5, NOW - 5]), st.booleans()),
    st.just(Read("k")),
)
_removals = st.builds(Remove, st.just("k"), st.sampled_from([None, 1, 2]))


@pytest.mark.seed("A6")
@settings(max_examples=200)
@given(st.lists(_requests | _removals, max_size=12))
def test_a_repeated_request_changes_nothing_and_has_the_same_outcome(
    requests: list[ItemRequest],
) -> None:
    ask = Bench()
    for request in requests:
        first = ask(request)
        item = ask.item
        again = ask.again(request)
        assert ask.item == item
        if isinstance(request, Remove) and first == Said(Word.DELETED):
            assert again == Said(Word.NOT_FOUND), "nothing remembers a deletion"
        elif item is not None and not item.is_gone(NOW):
            assert again == first


@settings(max_examples=100)
@given(_requests | _removals, st.lists(_requests, max_size=6))
def test_requests_and_outcomes_travel(request: ItemRequest, before: list[ItemRequest]) -> None:
    asked = Stamped(request, 5, NOW)
    assert request_from(written(asked)) == asked
    ask = Bench()
    for one in before:
        ask(one)
    outcome = ask(request)
    assert outcome_from(written(outcome)) == outcome


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    for read in (request_from, outcome_from):
        with pytest.raises(RemoteProtocolError):
            read(data)


@pytest.mark.seed("A4")
async def test_a_full_store_refuses_a_new_item_and_drops_none() -> None:
    store = MemoryStore(items_max=2)
    for key in ("a", "b"):
        await store.perform(Stamped(Put(key, Change.SET, b"1"), 1, NOW))
    with pytest.raises(StoreUnavailable) as caught:
        await store.perform(Stamped(Put("c", Change.SET, b"1"), 1, NOW))
    assert caught.value.definite and store.statistics()["items_refused"] == 1
    await store.perform(Stamped(Put("a", Change.SET, b"2"), 2, NOW))
    assert {key: item.data for key, item in store.items.items()} == {"a": b"2", "b": b"1"}


async def test_a_store_that_raises_or_is_silent_has_no_outcome(autojump_clock: object) -> None:
    raised: list[Exception] = []

    class Store(MemoryStore):
        async def perform(self, asked: Stamped) -> Outcome:
            if asked.request.key == "raise":
                raise ZeroDivisionError("my own mistake")
            await trio.sleep_forever()
            raise AssertionError

    asking = Asking(Store(), 5, raised.append, clock=lambda: NOW)
    with pytest.raises(StoreUnavailable, match="the request failed") as caught:
        await asking.ask(Read("raise"))
    assert not caught.value.definite and isinstance(raised[0], ZeroDivisionError)
    with pytest.raises(StoreUnavailable, match="no answer within 5 s"):
        await asking.ask(Read("silent"))
