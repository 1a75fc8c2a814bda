"""A member of a bucket store for threads, and its objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from jgroups_py.blocking.handle import Handle
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketsClosed
from jgroups_py.buckets.messages import BucketRow, IndexState
from jgroups_py.buckets.node import BucketNode as AsyncNode
from jgroups_py.buckets.objects.calls import request_for, value_of
from jgroups_py.buckets.objects.kinds import Kind, ObjectMethod
from jgroups_py.buckets.objects.objects import EntryStub, method_of
from jgroups_py.buckets.objects.plugin import kind_of
from jgroups_py.buckets.opening import open_buckets as open_async
from jgroups_py.buckets.plugin import ReadAt, Request

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


def open_buckets(stack: str | Path, *, timeout: float | None = None, **options: Any) -> BucketNode:
    """Open a member of a bucket store until it is closed. Arguments and errors are those of ``jgroups_py.buckets.open_buckets``.

    with blocking.open_buckets("tcp.xml", cluster="seats", ...) as node:
        node.wait_ready(timeout=60)
        seats = node.objects(Seat, timeout=30)
        if seats["LH400/12A"].book("Ann"): ...
    """
    return BucketNode(partial(open_async, stack, **options), timeout)


def _closed() -> Exception:
    return BucketsClosed("the node is closed")


class BucketNode(Handle[AsyncNode]):
    """Any thread may use it. Methods are those of ``jgroups_py.buckets.BucketNode``."""

    def __init__(self, opener: Callable[[], Any], timeout: float | None) -> None:
        super().__init__("bucket node", opener, _closed, timeout)

    @property
    def state(self) -> IndexState:
        """Return the decided state of the index, as far as this member knows it."""
        return self._value.state

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until the instance exists and this member knows where its buckets are."""
        self._call(self._value.wait_ready, timeout=timeout)

    def request(self, request: Request, timeout: float | None = None) -> list[bytes]:
        """Let an entry work on a request, and return its replies."""
        found: list[bytes] = self._call(self._value.request, request, timeout=timeout)
        return found

    def objects(
        self, cls: type[T], *, read_at: ReadAt | None = None, timeout: float | None = None
    ) -> Objects[T]:
        """Return the entries of this class. ``timeout`` limits each call, in seconds."""
        return Objects(self, kind_of(self._value.plugin, cls), read_at, timeout)

    def manager_at(self, where: str) -> Cep:
        """Return the bucket manager of this name or on this node. Raises Refused."""
        found: Cep = self._look(self._value.manager_at, where)
        return found

    def migrate_master_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None, timeout: float | None = None
    ) -> BucketRow:
        """Move a master between two managers."""
        move = partial(self._value.migrate_master_bucket, frm, to, bucket=bucket)
        return cast(BucketRow, self._call(move, timeout=timeout))

    def migrate_slave_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None, timeout: float | None = None
    ) -> BucketRow:
        """Move a slave between two managers."""
        move = partial(self._value.migrate_slave_bucket, frm, to, bucket=bucket)
        return cast(BucketRow, self._call(move, timeout=timeout))

    def recreate_bucket(
        self, at: Cep, *, bucket: int | None = None, timeout: float | None = None
    ) -> BucketRow:
        """Make a missing slave at this manager."""
        return cast(
            BucketRow,
            self._call(partial(self._value.recreate_bucket, at, bucket=bucket), timeout=timeout),
        )

    def statistics(self) -> Mapping[str, int]:
        """Counters of this member."""
        found: Mapping[str, int] = self._look(self._value.statistics)
        return found


class Objects(Generic[T]):
    """Entries of one class. ``objects[key]`` has the type of the class: ordinary methods are typed as they are called. ``call`` is typed for
    methods that are declared ``async def``, too. Errors are those of ``jgroups_py.buckets.objects.Objects``; TimeoutError: the call may have been
    carried out or not."""

    def __init__(
        self, node: BucketNode, kind: Kind[T], read_at: ReadAt | None, timeout: float | None
    ) -> None:
        self._node, self._kind = node, kind
        self._read_at, self._timeout = read_at, timeout

    def __getitem__(self, key: str) -> T:
        return cast(T, EntryStub(self._kind, key, self._perform))

    @overload
    def call(
        self,
        key: str,
        method: Callable[Concatenate[T, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...

    @overload
    def call(
        self, key: str, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    def call(self, key: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the entry."""
        return self._perform(self._kind, key, method_of(self._kind, method), args, kwargs)

    def _perform(
        self,
        kind: Kind[Any],
        key: str,
        method: ObjectMethod,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = request_for(kind, key, method, args, kwargs, self._read_at)
        return value_of(kind, method, self._node.request(request, timeout=self._timeout))
