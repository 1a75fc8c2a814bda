"""Items in a bucket store: the plug-in, and the store behind doors. Each change is on two nodes before the client's
answer.

All members are opened with ``item_plugin()``. ``BucketItems(node)`` is an ItemStore at any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from jgroups_py.buckets.errors import BucketError, OutcomeUnknown
from jgroups_py.buckets.items.behaviour import DEFAULT_LIMITS, Item, ItemLimits, perform
from jgroups_py.buckets.items.requests import (
    Outcome,
    Stamped,
    modifies,
    outcome_from,
    request_from,
    written,
)
from jgroups_py.buckets.items.store import StoreUnavailable
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.plugin import (
    NOT_SENSIBLE,
    Backup,
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    Plugin,
    ProxyId,
    ReadAt,
    Reply,
    Request,
    RequestClassifier,
)
from jgroups_py.errors import RemoteProtocolError

ITEM_VERSION: Final = 1
_encode: Final = msgspec.msgpack.Encoder().encode
_item: Final = msgspec.msgpack.Decoder(Item)


class ItemEntry(Entry):
    """One item. ``perform`` applies requests to it."""

    def __init__(self, limits: ItemLimits) -> None:
        self.item: Item | None = None
        self._limits = limits

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        after, outcome = perform(self.item, request_from(request.body), self._limits)
        if after is not self.item:
            self.item = after
            if after is None:
                bucket.delete_entry()
            else:
                bucket.save_serialised_entry(_encode(after))
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, written(outcome))])

    def serialise(self, version: int) -> bytes:
        return _encode(self.item)

    def unserialise(self, data: bytes, version: int) -> None:
        self.item = _item.decode(data)


class ItemProvider(EntryBehaviourProvider):
    application = "items"
    version = ITEM_VERSION

    def __init__(self, limits: ItemLimits, backup: Backup, read_at: ReadAt) -> None:
        self._limits, self.backup, self.read_at = limits, backup, read_at

    def create_entry(self, key: str) -> Entry:
        return ItemEntry(self._limits)


class ItemClassifier(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        try:
            asked = request_from(request.body).request
        except RemoteProtocolError:
            return NOT_SENSIBLE
        return Classification(key=asked.key, modifies=modifies(asked))


def item_plugin(
    limits: ItemLimits = DEFAULT_LIMITS,
    *,
    backup: Backup = "before_reply",
    read_at: ReadAt = "master",
) -> Plugin:
    """Return the application whose entries are items. ``limits``: the same at all members."""
    return Plugin(ItemProvider(limits, backup, read_at), ItemClassifier())


ITEMS: Final = item_plugin()
"""For deployment files: ``application: jgroups_py.buckets.items.bucket_items:ITEMS``."""


class BucketItems:
    """An ItemStore: asks the bucket store through this member."""

    def __init__(self, node: BucketNode) -> None:
        self._node = node
        self._counters = {"store_requests": 0, "store_unavailable": 0, "store_unknown": 0}

    async def perform(self, asked: Stamped) -> Outcome:
        """See ``ItemStore``."""
        self._counters["store_requests"] += 1
        try:
            replies = await self._node.request(Request(written(asked)))
            return outcome_from(replies[0])
        except OutcomeUnknown as error:
            self._counters["store_unknown"] += 1
            raise StoreUnavailable(str(error)) from error
        except BucketError as error:
            self._counters["store_unavailable"] += 1
            raise StoreUnavailable(str(error), definite=True) from error

    def statistics(self) -> Mapping[str, int]:
        """Return counts of requests through this member, and of items whose master or slave is here."""
        items = {"curr_items": 0, "slave_items": 0}
        for manager in self._node.machine.managers.values():
            for copy in manager.copies.values():
                role = "curr_items" if copy.row.master == manager.cep else "slave_items"
                items[role] += len(copy.bucket)
        return {**self._counters, **items}
