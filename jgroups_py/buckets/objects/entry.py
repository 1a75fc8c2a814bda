"""ObjectEntry: an object of a user's class as an entry of a bucket. ``this``: its methods' access to the store."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from jgroups_py.buckets.errors import BadPlugin
from jgroups_py.buckets.objects import calls
from jgroups_py.buckets.objects.kinds import Kind
from jgroups_py.buckets.plugin import Entry, EntryBucket, ProxyId, Reply, Request

T = TypeVar("T")


class This:
    """The entry whose method runs."""

    def __init__(self, bucket: EntryBucket) -> None:
        self._bucket = bucket

    @property
    def key(self) -> str:
        return self._bucket.key.partition("/")[2]

    @property
    def is_new(self) -> bool:
        """Is the object new: was nothing kept under this key?"""
        return self._bucket.is_new

    @property
    def now(self) -> float:
        """Return seconds since 1970 by the clock of the master's node."""
        return self._bucket.now

    def delete(self) -> None:
        """Forget the object when the method has returned. A method that only reads fails then, with BadPlugin."""
        _deleted.set(True)


_this: ContextVar[This] = ContextVar("this")
_deleted: ContextVar[bool] = ContextVar("deleted")


def this() -> This:
    """Return the entry whose method runs. Raises LookupError outside of one."""
    return _this.get()


class ObjectEntry(Entry, Generic[T]):
    """``check_reads``: raise BadPlugin when a method that only reads has changed its object; it costs two encodings a call."""

    def __init__(self, kind: Kind[T], version: int, check_reads: bool) -> None:
        self._kind, self._version, self._check_reads = kind, version, check_reads
        self.value = kind.cls()
        self._saved: bytes | None = None

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        call = calls.call_from(request.body)
        method = self._kind.methods.get(call.method) if call is not None else None
        if call is None or method is None:
            raise ValueError(f"{self._kind.name} has no such method")
        arguments = calls.arguments_of(method, call)
        before = self._encoded() if self._check_reads and not method.modifies else b""
        token, deleted = _this.set(This(bucket)), _deleted.set(False)
        try:
            result = _finished(method.function(self.value, **arguments), method.name)
            body = calls.returned(result)
            changes, deletes = method.modifies, _deleted.get()
        except self._kind.errors as error:
            self._roll_back()
            body, changes, deletes = calls.raised(error), False, False
        finally:
            _this.reset(token)
            _deleted.reset(deleted)
        if deletes:
            bucket.delete_entry()
        elif changes:
            data = self._encoded()
            if data != self._saved:
                bucket.save_serialised_entry(data)
                self._saved = data
        elif before and before != self._encoded():
            raise BadPlugin(
                f"{self._kind.name}.{method.name} changes its object: mark it @modifies"
            )
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, body)])

    def _encoded(self) -> bytes:
        return self._kind.state.encode(self.value, self._version)

    def _roll_back(self) -> None:
        """Restore the object as it was last saved."""
        if self._saved is None:
            self.value = self._kind.cls()
        else:
            self.value = self._kind.state.decode(self._saved, self._version)

    def serialise(self, version: int) -> bytes:
        return self._kind.state.encode(self.value, version)

    def unserialise(self, data: bytes, version: int) -> None:
        self.value = self._kind.state.decode(data, version)
        self._saved = data if version == self._version else self._encoded()


def _finished(result: Any, name: str) -> Any:
    """Return the value of a method that may be a coroutine. It must not wait."""
    if not inspect.iscoroutine(result):
        return result
    try:
        result.send(None)
    except StopIteration as end:
        return end.value
    result.close()
    raise BadPlugin(f"{name} waits for something: a method of an entry must not")
