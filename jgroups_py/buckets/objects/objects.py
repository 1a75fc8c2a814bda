"""Objects: the entries of one class, by key, from any member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from jgroups_py.buckets.errors import BadPlugin
from jgroups_py.buckets.objects.calls import request_for, value_of
from jgroups_py.buckets.objects.kinds import Kind, ObjectMethod
from jgroups_py.buckets.objects.plugin import kind_of
from jgroups_py.buckets.plugin import Plugin, ReadAt, Request

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Perform = Callable[[Kind[Any], str, ObjectMethod, tuple[Any, ...], dict[str, Any]], Any]


class RequestingNode(Protocol):
    """A node: of trio, or of asyncio."""

    @property
    def plugin(self) -> Plugin: ...

    async def request(self, request: Request, /) -> list[bytes]: ...


class EntryStub:
    """Stands for one entry. Its methods are those of the class."""

    def __init__(self, kind: Kind[Any], key: str, perform: Perform) -> None:
        self._kind, self._key, self._perform = kind, key, perform

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._kind.methods.get(name)
        if method is None:
            known = ", ".join(self._kind.methods)
            raise AttributeError(f"{self._kind.name} has no method {name!r}, but {known}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._perform(self._kind, self._key, method, args, kwargs)

        return call

    def __repr__(self) -> str:
        return f"<{self._kind.name} {self._key!r}>"


def method_of(kind: Kind[Any], function: Callable[..., Any]) -> ObjectMethod:
    """Return the method of this function. Raises BadPlugin."""
    for method in kind.methods.values():
        if method.function is function:
            return method
    raise BadPlugin(f"{function!r} is no public method of {kind.cls.__name__}")


class Objects(Generic[T]):
    """Entries of the class ``cls`` at ``node``.

        seats = Objects(node, Seat)
        if await seats["LH400/12A"].book("Ann"): ...
        await seats.call("LH400/12A", Seat.book, "Ann")

    ``seats[key]`` has the type of the class, so declare methods ``async def``, and type checkers see the awaited
    values. A method must not wait. ``call`` is typed for ordinary methods, too. ``read_at``: "slave" lets
    slaves answer methods that only read.

    A call raises the errors of ``BucketNode.request``, the ``errors`` of the kind, and TypeError before any message is sent. A cancelled call may be carried out or not.
    """

    def __init__(
        self, node: RequestingNode, cls: type[T], *, read_at: ReadAt | None = None
    ) -> None:
        self._node, self._read_at = node, read_at
        self._kind: Kind[T] = kind_of(node.plugin, cls)

    def __getitem__(self, key: str) -> T:
        return cast(T, EntryStub(self._kind, key, self._perform))

    @overload
    async def call(
        self,
        key: str,
        method: Callable[Concatenate[T, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...

    @overload
    async def call(
        self, key: str, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    async def call(self, key: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the entry."""
        return await self._perform(self._kind, key, method_of(self._kind, method), args, kwargs)

    async def _perform(
        self,
        kind: Kind[Any],
        key: str,
        method: ObjectMethod,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = request_for(kind, key, method, args, kwargs, self._read_at)
        return value_of(kind, method, await self._node.request(request))
