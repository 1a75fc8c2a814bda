"""Requests and answers of probes as bytes."""

from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.wire import probe

HEAD = struct.pack(">qdi", 1764064800000, 0.25, 20) + hashlib.sha1(b"letmein").digest()
"""The head that Probe of JGroups 5.5.6 makes: neither number is part of the digest."""


def test_an_authenticator_is_taken_with_its_passcode_only() -> None:
    assert probe.authentic(HEAD + b"keys", "letmein")
    assert not probe.authentic(HEAD + b"keys", "letmeout")
    assert not probe.authentic(HEAD[:-1], "letmein")
    changed = HEAD[:-1] + bytes([HEAD[-1] ^ 1])
    assert not probe.authentic(changed, "letmein")
    longer = struct.pack(">qdi", 1764064800000, 0.25, 21) + HEAD[20:] + b"k"
    assert not probe.authentic(longer, "letmein")


def test_the_numbers_of_an_authenticator_have_no_line_end_for_java_to_stop_at() -> None:
    made = probe.authenticator("letmein")
    assert probe.authentic(made, "letmein") and len(made) == probe.HEAD_SIZE
    assert b"\n" not in made[:20]


def test_words_and_clusters_of_a_request_are_told_apart() -> None:
    request = probe.decode_words(b" cluster=demo keys \r\n jmx=UDP ")
    assert request == probe.ProbeRequest(("keys", "jmx=UDP"), ("demo",))
    assert request.is_for("demo") and not request.is_for("other")


@pytest.mark.parametrize(
    ("pattern", "cluster", "fits"),
    [
        ("demo", "demo", True),
        ("de.*", "demo", True),
        ("*mo", "demo", True),
        ("de", "demo", False),
        ("d?mo", "demo", False),
        ("[d]emo", "demo", False),
        ("[d]*", "[d]emo", True),
        ("(a+)+$" + "a" * 40, "a" * 200, False),
        ("*a" * 30 + "b", "a" * 200, False),
    ],
)
def test_a_cluster_pattern_knows_one_sign_and_never_takes_long(
    pattern: str, cluster: str, fits: bool
) -> None:
    assert probe.matches(pattern, cluster) is fits


def test_a_request_of_more_bytes_or_words_than_allowed_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="at most 10000"):
        probe.decode_words(b"a" * 10_001)
    with pytest.raises(RemoteProtocolError, match="51 words, at most 50"):
        probe.decode_words(b"a " * 51)
    with pytest.raises(RemoteProtocolError, match="no UTF-8 at byte 2"):
        probe.decode_words(b"ab\xff")


def test_a_request_over_tcp_ends_with_a_line_even_when_its_authenticator_has_a_byte_10() -> None:
    head = b"\n" * probe.HEAD_SIZE
    incoming = probe.ProbeInput(probe.HEAD_SIZE)
    for byte in head + b"keys":
        assert incoming.feed(bytes([byte])) is None
    assert incoming.feed(b"\r\nmore") == head + b"keys"


def test_a_request_without_an_end_is_refused_at_its_limit() -> None:
    incoming = probe.ProbeInput(0)
    assert incoming.feed(b"a" * 10_000) is None
    with pytest.raises(RemoteProtocolError):
        incoming.feed(b"a")
    with pytest.raises(RemoteProtocolError):
        probe.ProbeInput(0).feed(b"a" * 10_001 + b"\n")


def test_an_answer_is_read_back() -> None:
    values = {"keys": "a b", "uuids": "A: 1\nB: 2\n", "UDP": "{a=1}"}
    data = probe.encode_answer("A [ip=1]\n", values, 1000)
    assert data == b"A [ip=1]\nkeys=a b\r\nuuids=A: 1\nB: 2\n\r\nUDP={a=1}\r\n"
    assert probe.decode_answer(data) == probe.ProbeAnswer("A [ip=1]", values)


def test_an_answer_to_no_words_is_all_head() -> None:
    data = b"A (ip=1)\nview=[A|0] (1) [A]\ncluster=demo\nversion=x\n"
    assert probe.decode_answer(data) == probe.ProbeAnswer(data.decode().rstrip(), {})


def test_values_that_do_not_fit_are_left_out_and_counted() -> None:
    data = probe.encode_answer("A\n", {"a": "x" * 500, "b": "y" * 600, "c": "z"}, 1000)
    assert len(data) <= 1000
    assert probe.decode_answer(data).values == {
        "a": "x" * 500,
        "cut": "2 of 3 values did not fit into 1000 bytes",
    }


def test_a_map_of_java_is_read_though_values_hold_commas() -> None:
    text = "{a=1, view=[A|1] (2) [A, B], b.c=x=y, empty=}"
    assert probe.decode_map(text) == {
        "a": "1",
        "view": "[A|1] (2) [A, B]",
        "b.c": "x=y",
        "empty": "",
    }
    assert probe.decode_map("a=1") is None
    assert probe.decode_map("{}") == {}


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_no_request(data: bytes) -> None:
    probe.decode_answer(data)
    assert not probe.authentic(data, "letmein")
    try:
        probe.decode_words(data)
    except RemoteProtocolError:
        pass
