"""Hypothesis strategies for a cluster's messages and for its faults.

    @given(views(), digests())
    def test_mine(view, digest): ...

Everything drawn is valid: decoding its encoding returns it. Numbers and sizes are drawn near the limits where one more
byte is needed. Needs hypothesis (the extra ``testing``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from jgroups_py.testing.explorer.stacks.draw_stack import draw_settings
from jgroups_py.testing.explorer.stacks.schedule import Link, Schedule
from jgroups_py.testing.exploring import FAULTS, Factory, Faults, draw_step, weights_of
from jgroups_py.testing.exploring import draw as draw_schedule
from jgroups_py.testing.needs import st
from jgroups_py.testing.strategies_headers import CLUSTERS, USER_IDS, headers
from jgroups_py.testing.strategies_values import (
    INT32,
    addresses,
    delta_views,
    digests,
    ip_addresses,
    merge_views,
    site_addresses,
    uuids,
    view_histories,
    view_ids,
    views,
)
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag, Message, MessageType
from jgroups_py.wire.header_codec import sequence_offset
from jgroups_py.wire.headers import TpHeader
from jgroups_py.wire.objects import streamable
from jgroups_py.wire.packing import encode_packets

__all__ = [
    "addresses",
    "batches",
    "delta_views",
    "digests",
    "fault_schedules",
    "flags",
    "headers",
    "ip_addresses",
    "links",
    "merge_views",
    "messages",
    "packets",
    "payloads",
    "site_addresses",
    "stack_settings",
    "uuids",
    "view_histories",
    "view_ids",
    "views",
]


def flags() -> st.SearchStrategy[int]:
    """Draw any of the flags that travel (``Flag``), often none."""
    some = st.sets(st.sampled_from(list(Flag))).map(sum)
    return st.just(0) | st.sampled_from([int(Flag.OOB), int(Flag.NO_FC)]) | some


def payloads(max_size: int = 60) -> st.SearchStrategy[bytes]:
    """Draw the bytes of one message."""
    return st.binary(max_size=max_size)


def messages() -> st.SearchStrategy[Message]:
    """Draw messages as applications are given them."""
    return st.builds(Message, uuids(), payloads(), st.none() | uuids(), flags())


@st.composite
def batches(
    draw: st.DrawFn,
    *,
    src: Address | None = None,
    dest: Address | None = None,
    min_size: int = 1,
    max_size: int = 20,
) -> Batch:
    """Draw runs of messages with headers of any kind: runs of bytes (equal sizes, mixed, null), or one
    message of another type. ``src`` None: of any sender; ``dest`` None: to all members."""
    kind = draw(st.sampled_from([MessageType.BYTES] * 5 + list(_SINGLE)))
    if kind == MessageType.BYTES:
        size = draw(st.integers(0, 40))
        same = st.binary(min_size=size, max_size=size)
        element: st.SearchStrategy[Any] = draw(
            st.sampled_from([same, same | payloads(), same | st.none()])
        )
        chosen: Sequence[Any] = draw(st.lists(element, min_size=min_size, max_size=max_size))
    else:
        chosen = [draw(_SINGLE[kind])]
    carried = draw(st.dictionaries(USER_IDS, headers().filter(_may_be_in_a_run), max_size=3))
    sender = draw(uuids()) if src is None else src
    return Batch(dest, chosen, carried, sender, draw(flags()), type=kind)


def _may_be_in_a_run(header: Header) -> bool:
    """Return whether a header can be in a run: its number, if it counts, is on the wire, and it is not the packet's
    TpHeader."""
    counts = header.sequence is None or sequence_offset(header) is not None
    return counts and type(header) is not TpHeader


_SINGLE = {
    MessageType.EMPTY: st.none(),
    MessageType.NIO: st.none() | payloads(),
    MessageType.LONG: INT32,
    MessageType.OBJECT: st.none() | st.one_of(views(), digests(), uuids()).map(streamable),
}


@st.composite
def packets(draw: st.DrawFn, *, cluster: str | None = None, max_batches: int = 3) -> bytes:
    """Draw a UDP datagram, or a TCP frame without its length, of one sender to one destination."""
    src, dest = draw(uuids()), draw(st.none() | uuids())
    count = draw(st.integers(1, max_batches))
    queued = [draw(batches(src=src, dest=dest)) for _ in range(count)]
    name = draw(CLUSTERS) if cluster is None else cluster
    return encode_packets(queued, name, max_size=1 << 20)[0]


def links() -> st.SearchStrategy[Link]:
    """Draw links from quick and sound to slow and bad, still good enough for a group."""
    return st.builds(
        Link,
        latency=st.sampled_from([0.0002, 0.002, 0.05, 0.2]),
        jitter=st.sampled_from([0.0, 0.001, 0.02]),
        loss=st.sampled_from([0.0, 0.0, 0.01, 0.1]),
        duplicate=st.sampled_from([0.0, 0.02, 0.2]),
        reorder=st.sampled_from([0.0, 0.05, 0.3]),
        reorder_delay=st.sampled_from([0.005, 0.05]),
    )


@st.composite
def stack_settings(draw: st.DrawFn, *, small_credits: bool = False) -> tuple[str, dict[str, str]]:
    """Return a shipped stack file and settings of its protocols, as for ``SimCluster``: some as shipped,
    some small, some strange; all valid."""
    return draw_settings(random.Random(draw(_CHANCE)), flow=small_credits)


@st.composite
def fault_schedules(
    draw: st.DrawFn,
    cluster: Factory,
    faults: Faults = FAULTS,
    *,
    max_count: int = 8,
    seconds: float = 20.0,
    messages: int = 100,
) -> Schedule:
    """Draw a schedule for ``cluster``, to be played with ``check_schedule(cluster, schedule)``; arguments
    as for ``explore``. Hypothesis makes a failing one smaller itself."""
    seed = draw(st.integers(0, 1000))
    base = draw_schedule(cluster(seed), seed, [], seconds=seconds, messages=messages)
    kinds = st.sampled_from(list(weights_of(faults)))
    # Every step has its own draw, so that removing one leaves the others unchanged.
    drawn = draw(st.lists(st.tuples(kinds, _CHANCE), max_size=max_count))
    steps = [draw_step(base, kind, random.Random(n), seconds) for kind, n in drawn]
    return msgspec.structs.replace(base, steps=tuple(sorted(steps, key=lambda step: step.at)))


_CHANCE = st.integers(0, 10_000)
