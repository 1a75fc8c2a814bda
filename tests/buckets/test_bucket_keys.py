"""Keys, digests, buckets; answers of plug-ins; proxies."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.buckets import (
    BadKey,
    BadPlugin,
    Busy,
    Cep,
    Classification,
    Entry,
    EntryBehaviourProvider,
    Plugin,
    ProxyManager,
    Refused,
    Request,
    RequestClassifier,
    bucket_of,
    digest_of,
)
from jgroups_py.buckets.digest import DIGESTS, range_of


@pytest.mark.seed("A29")
def test_a_digest_is_the_same_in_every_process() -> None:
    known = {"LH400/12A": 14987122946423612059, "ü": 6192904641445441335}
    code = "from jgroups_py.buckets import digest_of; print(digest_of('LH400/12A'), digest_of('ü'))"
    out = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, check=True
    )
    assert [int(word) for word in out.stdout.split()] == [digest_of(key) for key in known]
    assert {key: digest_of(key) for key in known} == known


@pytest.mark.seed("A29")
@given(st.integers(0, DIGESTS - 1), st.integers(1, 70_000))
def test_each_digest_belongs_to_one_bucket_and_its_range(digest: int, buckets: int) -> None:
    bucket = bucket_of(digest, buckets)
    first, after = range_of(bucket, buckets)
    assert 0 <= bucket < buckets
    assert first <= digest < after


@pytest.mark.seed("A29")
@given(st.integers(0, DIGESTS - 1), st.integers(1, 30_000))
def test_doubling_the_buckets_splits_each_one(digest: int, buckets: int) -> None:
    assert bucket_of(digest, 2 * buckets) // 2 == bucket_of(digest, buckets)


@pytest.mark.parametrize("key", ["", "x" * 1001, "é" * 501, "\ud800"])
def test_a_key_that_cannot_be_is_refused(key: str) -> None:
    with pytest.raises(BadKey, match="key"):
        digest_of(key)


class Silent(Entry):
    def manipulate(self, bucket: object, request: object, proxy_id: object) -> None: ...

    def serialise(self, version: int) -> bytes:
        return b""

    def unserialise(self, data: bytes, version: int) -> None: ...


class Provider(EntryBehaviourProvider):
    application, version = "silent", 81

    def create_entry(self, key: str) -> Entry:
        return Silent()


class Classifier(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        return Classification(key=request.key)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("application", ""),
        ("version", 0),
        ("version", "8.1"),
        ("reads", (81,)),
        ("writes", (82,)),
        ("backup", "never"),
        ("read_at", "anywhere"),
    ],
)
@pytest.mark.seed("A34")
def test_a_plug_in_that_contradicts_itself_is_refused(name: str, value: object) -> None:
    provider = Provider()
    setattr(provider, name, value)
    with pytest.raises(BadPlugin, match=f"Provider.{name}|{name}"):
        Plugin(provider, Classifier())


@pytest.mark.seed("A45", "A59", "A60")
def test_a_proxy_manager_maps_channels_to_ids_and_back() -> None:
    manager = ProxyManager(Cep("n1", "proxies"), proxies_max=2)
    heard: list[bytes] = []
    first = manager.create_proxy("socket 1", heard.append)
    second = manager.create_proxy("socket 2", heard.append, attributes={"airline": "LH"})
    assert manager.get_proxy_id("socket 1") == first
    assert manager.get_client_channel(second) == "socket 2"
    with pytest.raises(Refused, match="socket 1"):
        manager.create_proxy("socket 1", heard.append)
    with pytest.raises(Busy, match="proxies_max"):
        manager.create_proxy("socket 3", heard.append)
    assert manager.findable() == [(second, {"airline": "LH"})]
    assert manager.deliver(first, b"hello")
    assert manager.delete_proxy("socket 1")
    assert manager.delete_proxy(second)
    assert not manager.delete_proxy("socket 1")
    assert not manager.deliver(first, b"too late")
    assert heard == [b"hello"]
    assert dict(manager.counts) == {"proxies_full": 1, "replies_without_proxy": 1}
    assert manager.create_proxy("socket 1", heard.append) not in (first, second)
