"""HTTP/1.1 in front of a store of items: curl and any program that speaks HTTP use a bucket store.

The meaning of a request is decided without I/O (exchange.py). See design/bucket-doors.md.

May import: buckets.items, driver, stack and the rooms below. It needs h11, the extra ``http``.
Imported by: tools, users.
"""

from jgroups_py.buckets.http.exchange import HttpLimits
from jgroups_py.buckets.http.server import HttpServer

__all__ = ["HttpLimits", "HttpServer"]
