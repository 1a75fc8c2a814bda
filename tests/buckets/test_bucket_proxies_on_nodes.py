"""Entries send messages to clients on other members than the requestor's."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from bucket_group import bucket_group

from jgroups_py.buckets import (
    BucketsClosed,
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    Plugin,
    ProxyId,
    Refused,
    Reply,
    Request,
    RequestClassifier,
)


class Room(Entry):
    """Sends each request to all clients of the room that its key names, and their number to the requestor."""

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        found = bucket.find_proxy(lambda has: has.get("mute") != "yes", room=bucket.key)
        bucket.specify_replies([Reply(proxy, request.body) for proxy in found])
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, str(len(found)).encode())])

    def serialise(self, version: int) -> bytes:
        return b""

    def unserialise(self, data: bytes, version: int) -> None: ...


class Bell(Room):
    """Rings the static proxy that has the name of its key."""

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        found = bucket.find_proxy(static=bucket.key)
        bucket.specify_replies([Reply(proxy, request.body) for proxy in found])
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, str(len(found)).encode())])


class Rooms(EntryBehaviourProvider):
    application, version = "rooms", 1

    def create_entry(self, key: str) -> Entry:
        return Bell() if key == "door" else Room()


class Reads(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        return Classification(key=request.key, modifies=False)


@pytest.mark.seed("A13", "A45", "A46", "A59", "A60")
async def test_an_entry_sends_to_clients_that_it_finds_at_any_member(autojump_clock: Any) -> None:
    async with bucket_group(plugin=Plugin(Rooms(), Reads())) as group:
        n1, n2, n3 = group.nodes.values()
        heard: list[tuple[str, bytes]] = []
        attributes = {"room": "blue", "mute": "no"}
        ann = n1.create_proxy("ann", lambda b: heard.append(("ann", b)), attributes=attributes)
        n2.create_proxy("bob", lambda b: heard.append(("bob", b)), attributes=attributes)
        n3.create_proxy(
            "cat", lambda b: heard.append(("cat", b)), attributes={"room": "blue", "mute": "yes"}
        )
        n3.create_proxy("dan", lambda b: heard.append(("dan", b)), attributes={"room": "red"})
        await trio.sleep(1)
        assert await n3.request(Request(b"hello", "blue")) == [b"2"]
        await trio.sleep(0.1)
        assert sorted(heard) == [("ann", b"hello"), ("bob", b"hello")]
        with pytest.raises(Refused, match="has a proxy"):
            n1.create_proxy("ann", heard.append)  # type: ignore[arg-type]
        assert n1.delete_proxy(ann) and not n1.delete_proxy("ann")
        group.kill("n2")  # with its client
        await n1.wait_until(lambda state: len(state.managers) == 2)
        heard.clear()
        assert await n3.request(Request(b"again", "blue")) == [b"0"]
        assert await n1.request(Request(b"red", "red"), n1.create_proxy("eve", print)) == [b"1"]
        await trio.sleep(0.1)
        assert heard == [("dan", b"red")]
        await group.stop("n3")
        with pytest.raises(BucketsClosed):
            n3.create_proxy("fay", print)


@pytest.mark.seed("A46")
async def test_a_static_proxy_is_found_by_its_name_again_after_its_member_died(
    autojump_clock: Any,
) -> None:
    async with bucket_group(plugin=Plugin(Rooms(), Reads())) as group:
        n1, n2, _ = group.nodes.values()
        heard: list[bytes] = []
        first = n2.create_proxy("wire", heard.append, static="door")
        with pytest.raises(Refused, match="static proxy 'door'"):
            n2.create_proxy("other wire", heard.append, static="door")
        await trio.sleep(1)
        assert await n1.request(Request(b"ring", "door")) == [b"1"]
        await trio.sleep(0.1)
        group.kill("n2")
        await n1.wait_until(lambda state: len(state.managers) == 2)
        assert await n1.request(Request(b"nobody", "door")) == [b"0"]
        again = await group.start("again", client=True)
        assert again.create_proxy("wire", heard.append, static="door") != first
        await trio.sleep(1)
        assert await n1.request(Request(b"ring again", "door")) == [b"1"]
        await trio.sleep(0.1)
        assert heard == [b"ring", b"ring again"]
