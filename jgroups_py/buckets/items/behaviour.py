"""The effect of a request on an item. It depends on these two only, so it is equal on master and
slave and for repeats.

Repeats (A6): an item remembers the stamps and outcomes of its last changes. A change that comes twice is not made twice; its first outcome
is given again. So ``incr`` and ``append``, which cannot be repeated by themselves, can be. Limits: an item remembers
``repeats_max`` changes, and none after it was deleted.

Source:  memcached's doc/protocol.txt.
Differs: a decremented number is not padded with spaces. The unique number is drawn at random and not counted up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from jgroups_py.buckets.items.requests import (
    NUMBER_MAX,
    Change,
    Count,
    Counted,
    Found,
    Outcome,
    Put,
    Read,
    Remove,
    Said,
    Stamped,
    Touch,
    Word,
)

_DIGITS_MAX: Final = 20  # the length of 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class ItemLimits:
    """Limits of one item."""

    value_max: int = 1_048_576
    """The most bytes of a value, also after ``append``. memcached has the same default."""
    repeats_max: int = 4
    """The most changes that an item remembers, so that a repeated one is not made twice."""


DEFAULT_LIMITS: Final = ItemLimits()


class Item(msgspec.Struct, frozen=True, array_like=True):
    """A stored value. ``expires`` is a Unix time in seconds, 0 for never."""

    data: bytes
    flags: int = 0
    expires: float = 0.0
    stamp: int = 0
    """The stamp of the last change of the value."""
    done: tuple[tuple[int, Outcome], ...] = ()
    """The last changes, the newest last: their stamps and outcomes."""

    def is_gone(self, now: float) -> bool:
        """Return whether it has expired."""
        return 0.0 < self.expires <= now


def perform(
    item: Item | None, asked: Stamped, limits: ItemLimits = DEFAULT_LIMITS
) -> tuple[Item | None, Outcome]:
    """Return the item after ``asked``, and the outcome. The same object comes back without a change.

    An expired item counts as none. It leaves memory with the next request that may change it.
    """
    request = asked.request
    live = None if item is None or item.is_gone(asked.now) else item
    if isinstance(request, Read):
        return item, _found(live)
    if live is not None:
        for stamp, outcome in live.done:
            if stamp == asked.stamp:
                return item, outcome
    match request:
        case Put():
            after, outcome = _put(live, request, asked.stamp, limits)
        case Count():
            after, outcome = _count(live, request, asked.stamp)
        case Remove():
            return _remove(live, request)
        case Touch():
            after, outcome = _touch(live, request)
    if after is not None and after.is_gone(asked.now):
        return None, outcome  # the client gave an expiry that has passed
    if after is None or after is live or isinstance(request, Touch):
        return after, outcome  # a repeated touch has the same effect by itself
    done = (*(live.done if live else ()), (asked.stamp, outcome))[-limits.repeats_max :]
    return msgspec.structs.replace(after, done=done), outcome


def _found(item: Item | None) -> Outcome:
    if item is None:
        return Said(Word.NOT_FOUND)
    return Found(item.data, item.flags, item.stamp)


def _put(
    item: Item | None, request: Put, stamp: int, limits: ItemLimits
) -> tuple[Item | None, Outcome]:
    data, flags, expires = request.data, request.flags, request.expires
    match request.change:
        case Change.ADD if item is not None:
            return item, Said(Word.NOT_STORED, item.stamp)
        case Change.REPLACE | Change.APPEND | Change.PREPEND if item is None:
            return item, Said(Word.NOT_STORED)
        case Change.CAS if item is None:
            return item, Said(Word.NOT_FOUND)
        case Change.CAS if item is not None and item.stamp != request.unique:
            return item, Said(Word.EXISTS, item.stamp)
        case Change.APPEND if item is not None:
            data, flags, expires = item.data + data, item.flags, item.expires
        case Change.PREPEND if item is not None:
            data, flags, expires = data + item.data, item.flags, item.expires
    if len(data) > limits.value_max:
        return item, Said(Word.TOO_LARGE, item.stamp if item else 0)
    word = Word.CREATED if item is None else Word.STORED
    return Item(data, flags, expires, stamp), Said(word, stamp)


def _count(item: Item | None, request: Count, stamp: int) -> tuple[Item | None, Outcome]:
    if item is None:
        return item, Said(Word.NOT_FOUND)
    digits = item.data
    if not digits.isdigit() or len(digits) > _DIGITS_MAX or int(digits) > NUMBER_MAX:
        return item, Said(Word.NOT_A_NUMBER, item.stamp)
    number = int(digits)
    if request.down:
        number = max(0, number - request.delta)
    else:
        number = (number + request.delta) & NUMBER_MAX
    after = Item(b"%d" % number, item.flags, item.expires, stamp)
    return after, Counted(number, stamp)


def _remove(item: Item | None, request: Remove) -> tuple[Item | None, Outcome]:
    if item is None:
        return None, Said(Word.NOT_FOUND)
    if request.unique is not None and item.stamp != request.unique:
        return item, Said(Word.EXISTS, item.stamp)
    return None, Said(Word.DELETED)


def _touch(item: Item | None, request: Touch) -> tuple[Item | None, Outcome]:
    if item is None:
        return item, Said(Word.NOT_FOUND)
    after = msgspec.structs.replace(item, expires=request.expires)
    return after, _found(item) if request.read else Said(Word.TOUCHED, item.stamp)
