"""Items: values with flags and an expiry, as clients of memcached and of HTTP store them in a bucket store.

A request is a value (requests.py). A function without I/O applies it to an item (behaviour.py). A store runs requests:
in this process (store.py) or in a bucket store (bucket_items.py).

May import: buckets.node and the rooms below; all but bucket_items.py: errors, stack and the rooms below.
Imported by: buckets.memcached, buckets.http, tools, users.
"""

from jgroups_py.buckets.items.behaviour import Item, ItemLimits, perform
from jgroups_py.buckets.items.requests import (
    Change,
    Count,
    Counted,
    Found,
    ItemRequest,
    Outcome,
    Put,
    Read,
    Remove,
    Said,
    Stamped,
    Touch,
    Word,
)
from jgroups_py.buckets.items.store import ItemStore, MemoryStore, StoreUnavailable

__all__ = [
    "Change",
    "Count",
    "Counted",
    "Found",
    "Item",
    "ItemLimits",
    "ItemRequest",
    "ItemStore",
    "MemoryStore",
    "Outcome",
    "Put",
    "Read",
    "Remove",
    "Said",
    "Stamped",
    "StoreUnavailable",
    "Touch",
    "Word",
    "perform",
]
