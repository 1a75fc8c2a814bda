"""memcached's text protocol in front of a store of items: clients of memcached use a bucket store unchanged.

The parser and the replies have no I/O. See design/bucket-doors.md.

May import: buckets.items, driver, stack and the rooms below.
Imported by: tools, users.
"""

from jgroups_py.buckets.memcached.limits import TextLimits
from jgroups_py.buckets.memcached.parser import CommandParser
from jgroups_py.buckets.memcached.server import MemcachedServer, PipelineLimits

__all__ = ["CommandParser", "MemcachedServer", "PipelineLimits", "TextLimits"]
