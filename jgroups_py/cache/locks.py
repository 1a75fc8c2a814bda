"""Locks on paths: a call asks once for all its paths, and waits only for earlier calls.

Two requests conflict when a path of one is, or lies within, a path of the other (``deep`` covers everything below) and
at least one of them writes. The later one waits. A holder never asks for more, so there is no deadlock. A request also
waits for waiting ones, so none starves. Buddy replication orders its claims by the same rule.

Cost: the depth of the paths for a shallow request; a deep one looks at all requests under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import trio

from jgroups_py.cache.fqn import Fqn
from jgroups_py.errors import LockTimeout


class Scope(msgspec.Struct, frozen=True):
    """A part of the tree that a call touches: a node, or with ``deep`` all below it as well."""

    path: Fqn
    deep: bool = False
    write: bool = False


class LockRequest:
    """A request: waiting while ``behind`` > 0, then holding, until it is released."""

    __slots__ = ("behind", "followers", "scopes", "woken")

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self.scopes = scopes
        self.behind = 0
        self.followers: list[LockRequest] = []
        self.woken: trio.Event | None = None


class PathLocks:
    """The requests of one cache, held and waiting."""

    def __init__(self) -> None:
        self._at: dict[Fqn, dict[LockRequest, bool]] = {}  # path -> requests that name it -> write?
        self._deep: dict[Fqn, dict[LockRequest, bool]] = {}  # the paths of deep requests
        self.waits = 0
        """Requests that had to wait."""
        self.waiting = 0
        """Requests that wait now."""

    def try_acquire(self, scopes: Sequence[Scope]) -> LockRequest | None:
        """Take all scopes at once. None: one of them is not free."""
        for scope in scopes:
            for _ in self._in_the_way(scope):
                return None
        return self.enter(scopes)

    async def acquire(self, scopes: Sequence[Scope], timeout: float) -> LockRequest:
        """Take all scopes together. Waits for earlier conflicting requests.

        Raises:
            LockTimeout: it took more than ``timeout`` seconds. Nothing is held.
        """
        request = self.enter(scopes)
        if request.behind:
            await self.wait(request, timeout)
        return request

    async def wait(self, request: LockRequest, timeout: float) -> None:
        """Wait as the second half of ``acquire``, for a request that is behind others."""
        self.waits += 1
        self.waiting += 1
        request.woken = trio.Event()
        try:
            with trio.fail_after(timeout):
                await request.woken.wait()
        except trio.TooSlowError:
            self.release(request)
            where = ", ".join(str(scope.path) for scope in request.scopes[:3])
            raise LockTimeout(f"no lock on {where} within {timeout:g} s") from None
        except BaseException:
            self.release(request)
            raise
        finally:
            self.waiting -= 1

    def release(self, request: LockRequest) -> None:
        """Release all scopes; later requests move up. A waiting request can be released, too."""
        for scope in request.scopes:
            self._forget(self._at, scope.path, request)
            if scope.deep:
                self._forget(self._deep, scope.path, request)
        for follower in request.followers:
            follower.behind -= 1
            if not follower.behind and follower.woken is not None:
                follower.woken.set()

    def enter(self, scopes: Sequence[Scope]) -> LockRequest:
        """Queue a request: the first half of ``acquire``."""
        request = LockRequest(scopes)
        if self._at:
            ahead = {other: None for scope in scopes for other in self._in_the_way(scope)}
            for other in ahead:
                other.followers.append(request)
            request.behind = len(ahead)
        for scope in scopes:
            self._note(self._at, scope, request)
            if scope.deep:
                self._note(self._deep, scope, request)
        return request

    def _in_the_way(self, scope: Scope) -> Iterator[LockRequest]:
        """Yield the requests that a new one for ``scope`` has to wait for."""
        if not self._at:
            return
        path, write = scope.path, scope.write
        if scope.deep:
            for at, requests in self._at.items():
                if at.is_within(path):
                    yield from (r for r, writes in requests.items() if write or writes)
        elif path in self._at:
            yield from (r for r, writes in self._at[path].items() if write or writes)
        if self._deep:
            for above in path.ancestors:
                if above in self._deep:
                    yield from (r for r, writes in self._deep[above].items() if write or writes)

    @staticmethod
    def _note(
        table: dict[Fqn, dict[LockRequest, bool]], scope: Scope, request: LockRequest
    ) -> None:
        requests = table.setdefault(scope.path, {})
        requests[request] = requests.get(request, False) or scope.write

    @staticmethod
    def _forget(table: dict[Fqn, dict[LockRequest, bool]], path: Fqn, request: LockRequest) -> None:
        requests = table.get(path)
        if requests is not None and requests.pop(request, None) is not None and not requests:
            del table[path]

    def __len__(self) -> int:
        """Count the paths with a request on them."""
        return len(self._at)
