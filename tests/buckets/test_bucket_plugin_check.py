"""check_plugin: plug-ins that keep their contract and plug-ins that do not."""

from __future__ import annotations

import pytest

from jgroups_py.buckets import (
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    Plugin,
    ProxyId,
    Request,
    RequestClassifier,
)
from jgroups_py.testing.explorer.buckets.ledger import ledger
from jgroups_py.testing.plugins import check_plugin


class Tags(Entry):
    """A set: adding twice does no harm."""

    others: list[Tags] = []

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.friend: Tags | None = None

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        word = request.body.decode()
        if word == "peek and write":
            bucket.save_serialised_entry(b"x")
        elif word == "peek and change":
            self.tags.add("changed")
        elif word == "befriend":
            self.friend = Tags.others[0]
        elif word != "look":
            self.tags.add(word)
        Tags.others.append(self)
        if word != "look" and not word.startswith("peek"):
            bucket.save_serialised_entry(self.serialise(2))

    def serialise(self, version: int) -> bytes:
        return " ".join(sorted(self.tags)).encode()

    def unserialise(self, data: bytes, version: int) -> None:
        if version == 1:
            raise ValueError("what is this?")
        self.tags = set(data.decode().split())


class TagsProvider(EntryBehaviourProvider):
    application, version = "tags", 2

    def create_entry(self, key: str) -> Entry:
        return Tags()


class TagsClassifier(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        return Classification(key=request.key, modifies=request.body[:4] not in (b"look", b"peek"))


def requests(*words: str) -> list[Request]:
    return [Request(word.encode(), f"key{n // 2}") for n, word in enumerate(words)]


@pytest.mark.seed("A5", "A6")
def test_a_plug_in_that_keeps_its_contract_has_no_problems() -> None:
    tags = Plugin(TagsProvider(), TagsClassifier())
    assert check_plugin(tags, requests("red", "look", "green", "red")) == []


@pytest.mark.seed("A6")
def test_a_plug_in_whose_requests_cannot_be_repeated_is_found() -> None:
    (problem,) = check_plugin(ledger(), [Request(b"+x", "k"), Request(b"?", "k")])
    assert problem == "request 0 b'+x': carried out twice it leaves another entry than once"


@pytest.mark.parametrize("word", ["peek and write", "peek and change"])
def test_a_read_that_changes_an_entry_is_found(word: str) -> None:
    tags = Plugin(TagsProvider(), TagsClassifier())
    (problem,) = check_plugin(tags, requests("red", word))
    assert "classified as read-only and changes entry 'key0'" in problem


def test_a_version_that_is_written_and_cannot_be_read_is_found() -> None:
    provider = TagsProvider()
    provider.writes = (1,)
    (problem,) = check_plugin(Plugin(provider, TagsClassifier()), requests("red"))
    assert "version 1 cannot be read: ValueError: what is this?" in problem


@pytest.mark.seed("A5")
def test_an_entry_that_refers_to_another_one_is_found() -> None:
    tags = Plugin(TagsProvider(), TagsClassifier())
    problems = check_plugin(tags, requests("red", "red", "befriend"))
    assert "entry 'key1' refers to another entry" in problems
