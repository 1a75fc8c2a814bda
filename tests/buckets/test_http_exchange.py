"""Requests over HTTP become requests to an item, and outcomes become answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.buckets.http.exchange import Answer, Ask, answered, asked, etag
from jgroups_py.buckets.items import (
    Change,
    Count,
    Counted,
    Found,
    Item,
    ItemRequest,
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

NOW = 1000.0


def ask(method: str, target: str, body: bytes = b"", **headers: str) -> Ask | Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asked(method, target, named, body, NOW, lambda: "invented")


@pytest.mark.parametrize(
    ("method", "target", "headers", "expected"),
    [
        ("GET", "/entries/LH400/12A", {}, Read("LH400/12A")),
        ("HEAD", "/entries/%C3%BC%20x", {}, Read("ü x")),
        ("PUT", "/entries/k", {}, Put("k", Change.SET, b"v")),
        ("PUT", "/entries/k?expires=5", {}, Put("k", Change.SET, b"v", 0, NOW + 5)),
        ("PUT", "/entries/k", {"if_match": "*"}, Put("k", Change.REPLACE, b"v")),
        ("PUT", "/entries/k", {"if_match": '"1f"'}, Put("k", Change.CAS, b"v", 0, 0, 31)),
        ("PUT", "/entries/k", {"if_none_match": "*"}, Put("k", Change.ADD, b"v")),
        ("DELETE", "/entries/k", {}, Remove("k")),
        ("DELETE", "/entries/k", {"if_match": '"1f"'}, Remove("k", 31)),
        ("POST", "/entries", {}, Put("invented", Change.ADD, b"v")),
        ("POST", "/entries/k?change=append", {}, Put("k", Change.APPEND, b"v")),
        ("POST", "/entries/k?change=incr&by=3", {}, Count("k", 3)),
        ("POST", "/entries/k?change=decr", {}, Count("k", 1, down=True)),
        ("POST", "/entries/k?change=touch&expires=9", {}, Touch("k", NOW + 9)),
    ],
)
def test_a_request_asks_for_one_thing_of_one_item(
    method: str, target: str, headers: dict[str, str], expected: ItemRequest
) -> None:
    found = ask(method, target, b"v", **headers)
    assert isinstance(found, Ask) and found.request == expected


@pytest.mark.parametrize(
    ("method", "target", "headers", "status"),
    [
        ("GET", "/", {}, 404),
        ("GET", "/entries", {}, 404),
        ("GET", "/entries/", {}, 400),
        ("GET", "/entries/%FF", {}, 400),
        ("GET", "/entries/" + "k" * 1001, {}, 400),
        ("PUT", "/entries/k?expires=-1", {}, 400),
        ("PUT", "/entries/k?expires=99999999999", {}, 400),
        ("PUT", "/entries/k", {"if_match": "1f"}, 400),
        ("PUT", "/entries/k", {"if_match": '"1", "2"'}, 400),
        ("PUT", "/entries/k", {"if_none_match": '"1f"'}, 400),
        ("DELETE", "/entries/k", {"if_none_match": '"1f"'}, 400),
        ("GET", "/entries/k?" + "a=1&" * 21, {}, 400),
        ("PATCH", "/entries/k", {}, 405),
        ("POST", "/entries/k", {}, 400),
        ("POST", "/entries/k?change=incr&by=x", {}, 400),
        ("POST", "/entries/k?change=incr&by=18446744073709551616", {}, 400),
    ],
)
def test_an_http_request_without_an_ask_is_refused_with_the_reason(
    method: str, target: str, headers: dict[str, str], status: int
) -> None:
    answer = ask(method, target, b"", **headers)
    assert isinstance(answer, Answer) and answer.status == status and answer.content


@pytest.mark.parametrize(
    ("method", "target", "headers", "outcome", "status"),
    [
        ("GET", "/entries/k", {}, Found(b"v", 0, 31), 200),
        ("GET", "/entries/k", {"if_none_match": '"1f"'}, Found(b"v", 0, 31), 304),
        ("GET", "/entries/k", {"if_none_match": '"1e"'}, Found(b"v", 0, 31), 200),
        ("GET", "/entries/k", {}, Said(Word.NOT_FOUND), 404),
        ("PUT", "/entries/k", {}, Said(Word.CREATED, 31), 201),
        ("PUT", "/entries/k", {}, Said(Word.STORED, 31), 204),
        ("PUT", "/entries/k", {}, Said(Word.TOO_LARGE), 413),
        ("PUT", "/entries/k", {"if_none_match": "*"}, Said(Word.NOT_STORED, 31), 412),
        ("PUT", "/entries/k", {"if_match": "*"}, Said(Word.NOT_STORED), 412),
        ("PUT", "/entries/k", {"if_match": '"1"'}, Said(Word.EXISTS, 31), 412),
        ("PUT", "/entries/k", {"if_match": '"1"'}, Said(Word.NOT_FOUND), 412),
        ("DELETE", "/entries/k", {}, Said(Word.DELETED), 204),
        ("DELETE", "/entries/k", {}, Said(Word.NOT_FOUND), 404),
        ("DELETE", "/entries/k", {"if_match": '"1"'}, Said(Word.EXISTS, 31), 412),
        ("POST", "/entries", {}, Said(Word.CREATED, 31), 201),
        ("POST", "/entries/k?change=append", {}, Said(Word.NOT_STORED), 404),
        ("POST", "/entries/k?change=incr", {}, Counted(5, 31), 200),
        ("POST", "/entries/k?change=incr", {}, Said(Word.NOT_A_NUMBER, 31), 409),
        ("POST", "/entries/k?change=touch", {}, Said(Word.TOUCHED, 31), 204),
        ("GET", "/entries/k", {}, StoreUnavailable("no master", retry_after=3), 503),
    ],
)
def test_an_outcome_has_its_status(
    method: str,
    target: str,
    headers: dict[str, str],
    outcome: Found | Said | Counted | StoreUnavailable,
    status: int,
) -> None:
    found = ask(method, target, b"", **headers)
    assert isinstance(found, Ask)
    answer = answered(found, outcome)
    assert answer.status == status
    if getattr(outcome, "stamp", 0):
        assert answer.headers["ETag"] == '"1f"'
    if status == 503:
        assert answer.headers["Retry-After"] == "3" and b"it may have run" in answer.content
    if target == "/entries":
        assert answer.headers["Location"] == "/entries/invented"


@pytest.mark.seed("A6")
def test_a_change_with_the_same_idempotency_key_is_made_once() -> None:
    item: Item | None = Item(b"5")
    for repeat in ("one", "one", "two", "one"):
        found = ask("POST", "/entries/k?change=incr", idempotency_key=repeat)
        assert isinstance(found, Ask) and found.stamp is not None
        item, _ = perform(item, Stamped(found.request, found.stamp, NOW))
    assert item is not None and item.data == b"7"
    other = ask("POST", "/entries/other?change=incr", idempotency_key="one")
    again = ask("POST", "/entries/k?change=incr", idempotency_key="one")
    assert isinstance(other, Ask) and isinstance(again, Ask) and other.stamp != again.stamp


_texts = st.text(max_size=60)


@settings(max_examples=300)
@given(
    st.sampled_from(["GET", "HEAD", "PUT", "DELETE", "POST", "X"]),
    st.sampled_from(["/entries/", "/entries", "/entries/k?", "/entries/k?change=incr&", "/", ""]),
    _texts,
    st.dictionaries(
        st.sampled_from(["if-match", "if-none-match", "idempotency-key"]),
        _texts | st.just("*") | st.just('"1f"'),
    ),
)
def test_any_http_request_gives_an_ask_or_a_refusal(
    method: str, path: str, rest: str, headers: dict[str, str]
) -> None:
    found = asked(method, path + rest, headers, b"", NOW, lambda: "invented")
    if isinstance(found, Ask):
        assert 0 < len(found.request.key.encode()) <= 1000
        assert found.stamp is None or 0 < found.stamp < 2**63
    else:
        assert 400 <= found.status < 500


def test_an_etag_is_read_back() -> None:
    for stamp in (1, 31, 2**63 - 1):
        found = ask("DELETE", "/entries/k", if_match=etag(stamp))
        assert isinstance(found, Ask) and found.request == Remove("k", stamp)
