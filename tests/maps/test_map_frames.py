"""Frames of a map's TCP connection, as bytes."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.maps.frames import (
    GREETING_MAX,
    START,
    Away,
    BadStream,
    Greeting,
    MapFrameReader,
    first_of,
    frame,
    opening,
)

GREETING = Greeting("fx", 7, b"r" * 16)


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=60), max_size=8), st.randoms(use_true_random=False))
def test_frames_are_the_same_wherever_the_stream_is_cut(
    messages: list[bytes], chance: random.Random
) -> None:
    stream = opening(GREETING) + b"".join(map(frame, messages))
    reader, found = MapFrameReader(), []
    while stream:
        cut = chance.randint(1, len(stream))
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert first_of(found[0]) == GREETING and found[1:] == messages


@settings(max_examples=200)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_give_frames_or_a_reason(data: bytes, started: bool) -> None:
    reader = MapFrameReader()
    try:
        frames = reader.feed((START if started else b"") + data)
        for one in frames[:1]:
            first_of(one)
    except BadStream as bad:
        cause = bad.cause
    else:
        cause = "none"
    assert cause in ("none", "not_a_map", "other_version", "too_long", "bad_greeting")


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"GET / HTTP/1.1\r\n", "not_a_map"),
        (b"jgmapS", "not_a_map"),
        (b"jgmaps\x02", "other_version"),
        (START + (GREETING_MAX + 1).to_bytes(4, "big"), "too_long"),
        (opening(GREETING) + (1001).to_bytes(4, "big"), "too_long"),
    ],
)
def test_a_stream_that_is_none_of_a_map_is_refused_before_it_is_held(
    data: bytes, cause: str
) -> None:
    with pytest.raises(BadStream) as caught:
        MapFrameReader(1000).feed(data)
    assert caught.value.cause == cause


def test_the_longest_frame_is_taken() -> None:
    reader = MapFrameReader(1000)
    assert reader.feed(opening(GREETING) + frame(b"x" * 1000))[1] == b"x" * 1000


@pytest.mark.parametrize(
    "first",
    [
        Greeting("", 7, b"r" * 16),
        Greeting("fx", 0, b"r" * 16),
        Greeting("fx", 70_000, b"r" * 16),
        Greeting("fx", 7, b"r" * 15),
        Away("late", "x" * 601),
    ],
)
def test_a_greeting_with_a_field_that_is_out_of_bounds_is_refused(first: Greeting | Away) -> None:
    with pytest.raises(BadStream) as caught:
        first_of(msgspec.msgpack.encode(first))
    assert caught.value.cause == "bad_greeting"


def test_the_reason_of_an_end_is_read() -> None:
    away = Away("unknown_map", 'the map "fx" is not served here')
    assert first_of(MapFrameReader().feed(opening(away))[0]) == away
