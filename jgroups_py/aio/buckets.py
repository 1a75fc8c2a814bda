"""A member of a bucket store for asyncio programs, and its objects."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from jgroups_py.aio.handle import Handle, forward, note
from jgroups_py.buckets.errors import BucketsClosed
from jgroups_py.buckets.messages import IndexState
from jgroups_py.buckets.node import BucketNode as AsyncNode
from jgroups_py.buckets.objects.objects import Objects
from jgroups_py.buckets.opening import open_buckets as open_async
from jgroups_py.buckets.plugin import Plugin, ReadAt

T = TypeVar("T")


def open_buckets(stack: str | Path, **options: Any) -> BucketNode:
    """Open a member of a bucket store for as long as the ``async with`` lasts. Arguments and errors are those of
    ``jgroups_py.buckets.open_buckets``."""
    return BucketNode(partial(open_async, stack, **options))


def _closed() -> Exception:
    return BucketsClosed("the node is closed")


class BucketNode(Handle[AsyncNode]):
    """Any number of tasks may use it. Methods are those of ``jgroups_py.buckets.BucketNode``. A cancelled request may be carried out or not."""

    _opened_with = "open_buckets"

    def __init__(self, opener: Any) -> None:
        super().__init__("bucket node", opener, _closed)

    wait_ready = forward(AsyncNode.wait_ready)
    request = forward(AsyncNode.request)
    migrate_master_bucket = forward(AsyncNode.migrate_master_bucket)
    migrate_slave_bucket = forward(AsyncNode.migrate_slave_bucket)
    recreate_bucket = forward(AsyncNode.recreate_bucket)
    cancel_move = forward(AsyncNode.cancel_move)
    manager_at = note(AsyncNode.manager_at)

    @property
    def plugin(self) -> Plugin:
        return self._value.plugin

    @property
    def state(self) -> IndexState:
        """Return the decided state of the index, as far as this member knows it."""
        return self._value.state

    def objects(self, cls: type[T], *, read_at: ReadAt | None = None) -> Objects[T]:
        """Return the entries of this class."""
        return Objects(self, cls, read_at=read_at)
