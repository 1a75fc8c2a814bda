"""Plug-ins that return nonsense: the caller gets an error at once, the entry stays as it was, and its bucket goes on at
both copies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from seed_instance import Instance, key_in

from jgroups_py.buckets import BadKey, EntryFailed, NotSensible, ProxyId, Reply, Request
from jgroups_py.buckets.bucket import ENTRY_BYTES_MAX, PIECES_MAX, Bucket
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.plugin import BODY_MAX, Classification
from jgroups_py.testing.explorer.buckets.ledger import ledger


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


BIG = bytes(BODY_MAX)
MANY = ENTRY_BYTES_MAX // BODY_MAX + 1
ANYBODY = ProxyId(Cep("a", "p"), 1)


def replies(*given: Any) -> Callable[[Any], None]:
    return lambda bucket: bucket.specify_replies(given)


def pieces(*names: Any, data: Any = b"x") -> Callable[[Any], None]:
    def save(bucket: Any) -> None:
        bucket.save_serialised_entry(b"")
        for name in names:
            bucket.save_serialised_entry(data, name)

    return save


def raises(error: BaseException) -> Callable[[Any], None]:
    def do(bucket: Any) -> None:
        raise error

    return do


def later_pieces(bucket: Any) -> None:
    """The value grows by a piece with each request."""
    if bucket.is_new:
        bucket.save_serialised_entry(b"")
    bucket.save_serialised_entry(BIG, f"p{later_pieces.number}")  # type: ignore[attr-defined]
    later_pieces.number += 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (replies("nobody"), "is no Reply"),
        (replies(Reply("p", b"")), "is no Reply to a ProxyId"),  # type: ignore[arg-type]
        (replies(Reply(ProxyId("p", 1), b"")), "is no Reply to a ProxyId"),  # type: ignore[arg-type]
        (replies(Reply(ProxyId(Cep("a", "p"), "1"), b"")), "is no Reply to a ProxyId"),  # type: ignore[arg-type]
        (replies(Reply(ANYBODY, "text")), "a reply is at most"),  # type: ignore[arg-type]
        (replies(*[Reply(ANYBODY, BIG)] * MANY), "replies have at most"),
        (pieces(5), "name of a piece: key '5': a text is expected, not int"),
        (pieces("\ud800"), "name of a piece"),
        (pieces("p", data="text"), "bytes can be saved"),
        (pieces(*map(str, range(MANY)), data=BIG), "its pieces have at most"),
        (pieces(*map(str, range(PIECES_MAX + 1))), f"at most {PIECES_MAX} pieces"),
        (raises(SystemExit(3)), "SystemExit: 3"),
        (raises(KeyboardInterrupt()), "KeyboardInterrupt"),
        (raises(asyncio.CancelledError("ended")), "CancelledError: ended"),
        (raises(Untold()), "Untold, which has no text"),
        (raises(ValueError("\ud800")), r"ValueError: \ud800"),
        (raises(ValueError("x" * 5_000)), "ValueError: xxx"),
    ],
)  # fmt: skip
def test_an_entry_that_returns_nonsense_fails_and_its_bucket_goes_on(
    does: Callable[[Any], None], words: str
) -> None:
    instance = Instance(plugin=ledger())
    provider: Any = instance.plugin.provider
    usual = provider.create_entry
    key = key_in(4)
    assert instance.ask("n1", key, "+x") == "0"

    def create(key: str) -> Any:
        entry: Any = usual(key)
        entry.manipulate = lambda bucket, request, proxy_id: does(bucket)
        return entry

    provider.create_entry = create
    for name in ("n2", "n3"):
        instance.manager(name).copies[3].bucket._live.clear()
    failed = instance.ask("n1", key, "+y")
    assert isinstance(failed, EntryFailed) and words in str(failed), failed
    provider.create_entry = usual
    assert instance.ask("n1", key, "+z") == "1"
    instance.kill("n2")
    assert instance.ask("n1", key, "?") == "x z"


def test_an_entry_does_not_grow_by_pieces_beyond_the_size_of_a_move() -> None:
    provider: Any = ledger().provider
    usual = provider.create_entry

    def create(key: str) -> Any:
        entry: Any = usual(key)
        entry.manipulate = lambda bucket, request, proxy_id: later_pieces(bucket)
        entry.unserialise_piece = lambda piece, data, version: None
        return entry

    provider.create_entry = create
    later_pieces.number = 0  # type: ignore[attr-defined]
    bucket = Bucket(0, provider, 10)
    errors = [
        bucket.forward_to_entry("k", Request(b"+x"), None, modifies=True, now=0.0).error
        for _ in range(MANY)
    ]
    assert not any(errors[:-1]) and "its pieces have at most" in errors[-1]


def test_an_entry_that_encodes_itself_into_no_bytes_fails() -> None:
    provider: Any = ledger().provider
    usual, provider.version = provider.create_entry, 2

    def create(key: str) -> Any:
        entry: Any = usual(key)
        entry.serialise = lambda version: b"" if version == 2 else "text"
        return entry

    provider.create_entry = create
    bucket = Bucket(0, provider, 10)
    request = Request(b"+x")
    done = bucket.forward_to_entry("k", request, None, modifies=True, now=0.0, version=1)
    assert "bytes can be saved" in done.error and not len(bucket)
    assert not bucket.forward_to_entry("k", request, None, modifies=True, now=0.0).error


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        (None, NotSensible, "the classifier returned 'None', not a Classification"),
        ("k", NotSensible, "not a Classification"),
        (Classification(key="k", modifies="yes"), NotSensible, "not a Classification"),  # type: ignore[arg-type]
        (Classification(key=5), BadKey, "a text is expected, not int"),  # type: ignore[arg-type]
    ],
)
def test_a_classifier_that_returns_nonsense_reaches_no_entry(
    found: Any, error: type[Exception], words: str
) -> None:
    instance = Instance()
    classifier: Any = (router := instance.router("n1")).classifier
    usual = classifier.classify
    classifier.classify = lambda request: found
    told: list[Any] = []
    router.route_a_request(Request(b"+x", "k"), None, told.append)
    assert isinstance(told[0], error) and words in str(told[0])
    assert router.counts["classifier_failed"] == (error is NotSensible)
    classifier.classify = usual
    assert instance.ask("n1", "k", "+x") == "0"


def test_a_classifier_that_ends_its_process_ends_nothing() -> None:
    instance = Instance()
    classifier: Any = (router := instance.router("n1")).classifier
    classifier.classify = lambda request: raises(SystemExit(3))(request)
    told: list[Any] = []
    router.route_a_request(Request(b"+x", "k"), None, told.append)
    assert isinstance(told[0], NotSensible) and "SystemExit: 3" in str(told[0])
