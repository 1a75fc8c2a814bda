"""Archives: all entries of an instance in a file that does not know how they were partitioned (A22).

May import: the bucket store's values. The bucket store's node, Spark and the tools may import it. See design/bucket-admin.md for the format.
"""

from __future__ import annotations

from jgroups_py.buckets.archive.errors import BadArchive, Damage
from jgroups_py.buckets.archive.frames import End, Head, Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.reader import ArchiveReader
from jgroups_py.buckets.archive.writer import ArchiveWriter

__all__ = [
    "ArchiveReader",
    "ArchiveWriter",
    "BadArchive",
    "Damage",
    "End",
    "Head",
    "Record",
    "merged",
]
