"""Clients of memcached and HTTP whose items are in a bucket store: each change is on two nodes when it is answered."""

from __future__ import annotations

import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import trio
from bucket_group import bucket_group
from pymemcache.client.base import Client
from seed_instance import PLACEMENT, seed_settings

from jgroups_py import MemoryNetwork
from jgroups_py.buckets import FAST_DETECTION, BucketNode, NodeParts, Request, open_buckets
from jgroups_py.buckets.items import Change, Count, Found, Put, Read, Remove, Said, Stamped, Word
from jgroups_py.buckets.items.bucket_items import BucketItems, item_plugin
from jgroups_py.buckets.items.requests import Counted
from jgroups_py.buckets.items.store import StoreUnavailable
from jgroups_py.buckets.serving import serve_items
from jgroups_py.errors import ConfigError


async def test_items_are_in_both_copies_and_go_with_their_deletion(autojump_clock: Any) -> None:
    async with bucket_group(plugin=item_plugin()) as group:
        store, other = (BucketItems(group.nodes[name]) for name in ("n1", "n2"))
        assert await store.perform(Stamped(Put("k", Change.SET, b"7"), 11, 0.0)) == Said(
            Word.CREATED, 11
        )
        assert await other.perform(Stamped(Read("k"), 12, 0.0)) == Found(b"7", 0, 11)
        assert await other.perform(Stamped(Count("k", 5), 13, 0.0)) == Counted(12, 13)
        assert await store.perform(Stamped(Count("k", 5), 13, 0.0)) == Counted(12, 13), "repeated"
        found = [BucketItems(node).statistics() for node in group.nodes.values()]
        assert sum(s["curr_items"] for s in found) == sum(s["slave_items"] for s in found) == 1
        await other.perform(Stamped(Remove("k"), 14, 0.0))
        found = [BucketItems(node).statistics() for node in group.nodes.values()]
        assert sum(s["curr_items"] + s["slave_items"] for s in found) == 0


async def test_a_store_says_whether_a_request_may_have_run(autojump_clock: Any) -> None:
    async with bucket_group(plugin=item_plugin()) as group:
        store = BucketItems(group.nodes["n1"])
        with pytest.raises(StoreUnavailable, match="1 to 1000 bytes") as refused:
            await store.perform(Stamped(Read("k" * 1001), 1, 0.0))
        assert refused.value.definite
        group.cut("n1")
        with pytest.raises(StoreUnavailable) as unknown:
            await store.perform(Stamped(Put("k", Change.SET, b"1"), 2, 0.0))
        assert not unknown.value.definite, "it was sent to a master that may have it"
        assert store.statistics()["store_unknown"] == 1


def test_bytes_that_are_no_request_to_an_item_reach_none() -> None:
    plugin = item_plugin()
    for body in (b"", b"\xc1", msgspec.msgpack.encode([1, 2, 3]), b"\x91" * 10_000):
        assert not plugin.classifier.classify(Request(body, "k")).sensible


@dataclass
class Doors:
    """Three nodes in a thread; the third one has ports."""

    memcached: tuple[str, int]
    url: str
    kill: Callable[[str], None]


@contextmanager
def doors() -> Iterator[Doors]:
    ready = threading.Event()
    found: list[Doors] = []
    ends: list[Callable[[], None]] = []

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        network, settings = MemoryNetwork(), seed_settings()
        nodes: dict[str, BucketNode] = {}
        async with trio.open_nursery() as nursery, AsyncExitStack() as opened:
            for name in ("n1", "n2", "n3"):
                nodes[name] = await opened.enter_async_context(
                    open_buckets(
                        "sim.xml",
                        cluster="test",
                        name=name,
                        plugin=item_plugin(),
                        settings=settings,
                        parts=NodeParts.of(name, settings),
                        placement=PLACEMENT,
                        attributes=FAST_DETECTION,
                        transport=network,
                    )
                )
            for node in nodes.values():
                await node.wait_ready()
            places = await nursery.start(_serve, nodes["n3"])
            host, port = places["http"]

            def kill(name: str) -> None:
                token.run_sync_soon(nodes[name].channel.driver.close_all)

            found.append(Doors(places["memcached"], f"http://{host}:{port}/entries/", kill))
            ends.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
            ready.set()
            await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(60), "the nodes have not begun"
        yield found[0]
    finally:
        if ends:
            ends[0]()
        thread.join(60)
        assert not thread.is_alive()


async def _serve(node: BucketNode, *, task_status: Any) -> None:
    await serve_items(node, memcached="127.0.0.1:0", http="127.0.0.1:0", task_status=task_status)


@pytest.mark.sockets
@pytest.mark.timeout(240)
@pytest.mark.seed("A46")
def test_memcached_clients_and_curl_go_on_when_a_master_is_killed() -> None:
    with doors() as opened:
        client = Client(opened.memcached, timeout=60, connect_timeout=60)
        for number in range(30):
            assert client.set(f"k{number}", b"%d" % number)
        assert client.get("k7") == b"7" and client.incr("k7", 3) == 10
        with urllib.request.urlopen(opened.url + "k7", timeout=60) as answer:
            assert answer.read() == b"10"
        opened.kill("n2")
        began = time.monotonic()
        for number in range(30):
            assert client.incr(f"k{number}", 1) == number + (4 if number == 7 else 1)
        assert time.monotonic() - began < 20
        request = urllib.request.Request(opened.url + "new", b"value", method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201
        assert client.get("new") == b"value"
        statistics = client.stats()
        assert int(statistics[b"store_requests"]) > 60
        client.close()


async def test_http_without_its_extra_is_told_before_a_port_is_open(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jgroups_py.buckets.http", None)
    async with bucket_group("n1 n2 n3", plugin=item_plugin()) as group:
        with pytest.raises(ConfigError, match=r"HTTP needs h11: pip install 'jgroups_py\[http\]'"):
            await serve_items(group.nodes["n1"], memcached="no port", http="127.0.0.1:0")
