"""Plain Python classes as entries: ``await seats["LH400/12A"].book("Ann")``.

May import: buckets and the rooms below. Imported by: blocking, aio, tools, users.
"""

from __future__ import annotations

from jgroups_py.buckets.objects.entry import This, this
from jgroups_py.buckets.objects.kinds import Codec, Earlier, Kind, StateCodec, modifies
from jgroups_py.buckets.objects.objects import Objects
from jgroups_py.buckets.objects.plugin import object_plugin

__all__ = [
    "Codec",
    "Earlier",
    "Kind",
    "Objects",
    "StateCodec",
    "This",
    "modifies",
    "object_plugin",
    "this",
]
