"""STOMP frames: bytes in any pieces, and bytes that are no frames."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.broker.frames import BODY_MAX, HEAD_MAX, HEADERS_MAX, Frame, Parser

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NAME = TEXT.filter(lambda name: name not in ("", "content-length"))
HEADERS = st.dictionaries(NAME, TEXT, max_size=5)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    headers, body = draw(HEADERS), draw(st.binary(max_size=50))
    if b"\0" in body or draw(st.booleans()):
        headers["content-length"] = str(len(body))
    return Frame(draw(st.sampled_from(["SEND", "ACK", "COMMIT"])), headers, body)


@given(st.lists(frames(), max_size=4), st.randoms(use_true_random=False))
def test_frames_come_out_as_they_were_however_they_are_cut(
    sent: list[Frame], chance: random.Random
) -> None:
    data = b"".join(frame.encode() for frame in sent)
    parser, found = Parser(), []
    while data:
        size = chance.randint(1, 9)
        found += parser.feed(data[:size])
        data = data[size:]
    assert found == sent and parser.bad is None


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_frames_or_are_bad(data: bytes, size: int) -> None:
    whole, cut = Parser(), Parser()
    found = whole.feed(data)
    pieces = [frame for at in range(0, len(data), size) for frame in cut.feed(data[at : at + size])]
    assert pieces == found and str(cut.bad) == str(whole.bad)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"HELLO\n\n\0", "no command 'HELLO'; there are ABORT"),
        (b"SEND\nno colon\n\n\0", "a header is name:value, got 'no colon'"),
        (b"SEND\na:\\t\n\n\0", "no escape \\t in a header"),
        (b"SEND\na:b\\\n\n\0", "no escape \\ in a header"),
        (b"SEND\ncontent-length:x\n\n\0", "content-length must be a number of bytes, got 'x'"),
        (b"SEND\ncontent-length:2\n\nabc\0", "after 2 bytes of body there must be a NUL"),
        (b"SEND\ncontent-length:1000001\n\n", "content-length 1000001: the body may have 1000000"),
        (b"SEND\n\n" + b"x" * (BODY_MAX + 1), "the body has more than 1000000 bytes"),
        (b"SEND\na:" + b"x" * HEAD_MAX, "command and headers have more than 16384 bytes"),
        (b"SEND\n" + b"a:b\n" * (HEADERS_MAX + 1) + b"\n\0", "101 headers; a frame may have 100"),
        (b"SEND\na:\xff\n\n\0", "command and headers must be UTF-8"),
    ],
)
def test_a_malformed_frame_is_named(data: bytes, said: str) -> None:
    parser = Parser()
    good = Frame("ACK", {"id": "1"})
    assert parser.feed(good.encode() + data) == [good]
    assert said in str(parser.bad)
    assert parser.feed(good.encode()) == []


def test_line_ends_may_be_those_of_windows_and_of_two_headers_the_first_counts() -> None:
    (frame,) = Parser().feed(b"\n\r\nSEND\r\na:1\r\na:2\r\n\r\nhello\0\n")
    assert frame == Frame("SEND", {"a": "1"}, b"hello")


def test_escapes_are_for_all_but_connect() -> None:
    assert Frame("MESSAGE", {"a:b": "c\nd\\"}).encode() == b"MESSAGE\na\\cb:c\\nd\\\\\n\n\0\n"
    (frame,) = Parser().feed(b"CONNECT\nlogin:a\\c\n\n\0")
    assert frame.headers == {"login": "a\\c"}
