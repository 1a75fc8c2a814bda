"""Nodes that come from other members have names that a cache could have given."""

from __future__ import annotations

import pytest

from jgroups_py.buddy.messages import Chunk
from jgroups_py.buddy.values import OwnedNode as Entry
from jgroups_py.buddy.values import Stamp
from jgroups_py.cache.buddy_wire import message_of, payload_of
from jgroups_py.cache.node import MAX_KEY_BYTES
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.testing import make_address

A = make_address(1)
TAG = (1, A)
LONG = "n" * MAX_KEY_BYTES


def arrived(name: object) -> object:
    entry = Entry({name: b"v"}, (1, 0), Stamp(0, (1, 0), 1, A))
    return message_of(payload_of(TAG, Chunk(((("users",), entry),))))


@pytest.mark.parametrize("name", ["a", LONG, "ä" * (MAX_KEY_BYTES // 2)])
def test_names_that_a_cache_takes_are_taken_from_others(name: str) -> None:
    assert arrived(name)


@pytest.mark.parametrize("name", ["", LONG + "n", "ä" * (MAX_KEY_BYTES // 2 + 1), 7])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(RemoteProtocolError, match="not a node of a cache"):
        arrived(name)
