"""Callers: each call is one operation of the history, with the times of its call and its return.

Every write has another value, so that a read shows which write it saw.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from jgroups_py.cache import TreeCache
from jgroups_py.cache.fqn import Fqn
from jgroups_py.errors import BatchConflict, CacheError, JGroupsError
from jgroups_py.sessions import SessionGone, SessionStore
from jgroups_py.sessions.ids import cookie_value
from jgroups_py.sessions.session import RESERVED
from jgroups_py.testing.explorer.caches.schedule import Do
from jgroups_py.testing.histories.nodes import Call, attributes_of
from jgroups_py.testing.histories.operation import NEVER, UNKNOWN

RETRIES: Final = 5
"""The most times that a batch is tried when others were first."""
RETRIED: Final = ("rmw", "pair", "update", "move", "change", "add", "cas")
NUMBER: Final = "n"
"""The attribute that is incremented."""
TICK: Final = 1e-9
"""The seconds between two events of one instant, whose order is known."""


@dataclass(eq=False)
class RecordedCall:
    """One call while it is recorded. ``reads_only``: it did not wait, and made no change. ``member``:
    the incarnation it was called at, ``at_call`` and ``at_return``: the stage's notes about it then."""

    caller: str
    member: str
    what: Call
    call: float
    at_call: Any = None
    returned: float = NEVER
    at_return: Any = None
    result: Any = UNKNOWN
    reads_only: bool = False
    failed: str = ""
    """The reason why its outcome is unknown."""


Action = Callable[[RecordedCall], Awaitable[Any]]
"""The function that makes a call and returns its result."""


@dataclass(eq=False)
class CallHistory:
    """All calls, in the order in which they were called. ``definite``: calls that certainly did not
    happen, by kind of error; they are not among ``entries``."""

    note: Callable[[str], Any]
    """The fact that the stage wants to know of a member now."""
    entries: list[RecordedCall] = field(default_factory=list)
    definite: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """Errors that callers must never see."""
    events: int = 0
    """Calls and returns so far."""

    def now(self) -> float:
        """A time later than all times noted before."""
        self.events += 1
        return trio.current_time() + self.events * TICK

    async def one(
        self,
        caller: str,
        member: str,
        what: Call,
        action: Action,
    ) -> RecordedCall | None:
        """Record a call of ``action``, which returns the result. None: the call certainly did not happen."""
        entry = RecordedCall(caller, member, what, self.now(), self.note(member))
        self.entries.append(entry)
        try:
            result = await action(entry)
        except JGroupsError as error:
            if isinstance(error, CacheError) and error.definite:
                kind = type(error).__name__
                self.definite[kind] = self.definite.get(kind, 0) + 1
                self.entries.remove(entry)
                if isinstance(error, BatchConflict):
                    raise
                return None
            entry.failed = f"{type(error).__name__}: {error}"
            return entry
        except trio.Cancelled:
            entry.failed = "its process ended"
            raise
        except Exception as error:
            entry.failed = f"{type(error).__name__}: {error}"
            self.errors.append(f"{caller}: {entry.what.do}: {entry.failed}")
            return entry
        entry.result = result
        entry.at_return = self.note(member)
        entry.returned = self.now()
        return entry


class NodeCaller:
    """Calls of nodes at one cache. ``name``: the caller's; ``member``: the incarnation's."""

    def __init__(self, history: CallHistory, name: str, member: str, cache: TreeCache) -> None:
        self.history = history
        self.name = name
        self.member = member
        self.cache = cache

    async def do(self, step: Do, number: int) -> None:
        """Do one step of a schedule; its value is made of ``number``."""
        value = f"{self.name}.{number}"
        if step.do in RETRIED:
            for _ in range(RETRIES):
                try:
                    await self._one(step, value)
                    return
                except BatchConflict:
                    continue
        else:
            await self._one(step, value)

    async def _one(self, step: Do, value: str) -> None:
        cache, path, key = self.cache, step.path, step.key
        at, values = _path(path), ((key, value),)

        def calls(action: Callable[[Do, str, RecordedCall], Awaitable[Any]]) -> Action:
            return lambda entry: action(step, value, entry)

        match step.do:
            case "node":
                await self._read(Call("node", at), calls(self._node))
            case "exists":
                await self._read(Call("exists", at), lambda _: cache.exists(path))
            case "children":
                await self._read(Call("children", at), lambda _: cache.children(path))
            case "put":
                await self._call(Call("put", at, values), lambda _: cache.put(path, key, value))
            case "update":
                await self._call(Call("update", at, values), calls(self._update))
            case "remove":
                await self._call(Call("remove", at, key=key), lambda _: cache.remove(path, key))
            case "remove_node":
                await self._call(Call("remove_node", at), lambda _: cache.remove_node(path))
            case "remove_tree":
                await self._call(Call("remove_tree", at), lambda _: cache.remove_tree(path))
            case "move":
                await self._call(Call("move", at, to=_path(step.other)), calls(self._move))
            case "rmw" | "pair":
                changes = tuple(Call("put", _path(p), values) for p in _paths(step))
                await self._call(Call("batch", changes=changes), calls(self._batch))
            case "change":
                await self._call(Call("put", at, values), calls(self._change))
            case "add":
                what = Call("add", at, ((NUMBER, 1),))
                await self._call(what, lambda _: cache.increment(path, NUMBER))
            case "cas":
                seen = await self._read(Call("node", at), calls(self._node))
                if seen is not None and seen.at_return is not None:
                    expected = dict(seen.result or ()).get(key)
                    what = Call("cas", at, values, expected=expected)
                    await self._call(what, calls(self._compare_and_set))
            case _:
                raise AssertionError(step.do)

    async def _node(self, step: Do, _value: str, _entry: RecordedCall) -> Any:
        return _attributes(await self.cache.get_node(step.path))

    async def _update(self, step: Do, value: str, entry: RecordedCall) -> bool:
        there = await self.cache.update_node(step.path, {step.key: value})
        entry.reads_only = not there
        return there

    async def _move(self, step: Do, _value: str, entry: RecordedCall) -> int:
        moved = await self.cache.move(step.path, step.other)
        entry.reads_only = not moved
        return moved

    async def _batch(self, step: Do, value: str, entry: RecordedCall) -> None:
        seen = []
        async with self.cache.batch() as batch:
            for path in _paths(step):
                seen.append((_path(path), _attributes(await batch.get_node(path))))
            for path in _paths(step):
                batch.put(path, step.key, value)
            entry.what = entry.what._replace(seen=tuple(seen))

    async def _change(self, step: Do, value: str, entry: RecordedCall) -> bool:
        def function(old: Any) -> str:
            entry.what = Call("cas", _path(step.path), ((step.key, value),), expected=old)
            return value

        await self.cache.update(step.path, step.key, function)
        return True

    async def _compare_and_set(self, step: Do, value: str, entry: RecordedCall) -> bool:
        done = await self.cache.compare_and_set(step.path, step.key, entry.what.expected, value)
        entry.reads_only = not done
        return done

    async def _read(self, what: Call, action: Action) -> RecordedCall | None:
        entry = await self._call(what, action)
        if entry is not None:
            entry.reads_only = True
        return entry

    async def _call(self, what: Call, action: Action) -> RecordedCall | None:
        return await self.history.one(self.name, self.member, what, action)


class Visitors:
    """The sessions there are: the name in the schedule, and the id."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}


class SessionCaller:
    """Makes requests of visitors at one member: loads a session, sees all of it, changes one attribute, saves it."""

    def __init__(
        self,
        history: CallHistory,
        name: str,
        member: str,
        cache: TreeCache,
        store: SessionStore,
        visitors: Visitors,
    ) -> None:
        self.history = history
        self.name = name
        self.member = member
        self.cache = cache
        self.store = store
        self.visitors = visitors

    async def create(self, visitor: str) -> None:
        """Make the visitor's first request."""
        loaded = await self.store.load(self.cache, "")
        loaded.session["v"] = visitor
        at = _path(visitor)

        async def save(_: RecordedCall) -> None:
            await self.store.save(self.cache, loaded)

        await self.history.one(self.name, self.member, Call("put", at, (("v", visitor),)), save)
        if loaded.session.id is not None:
            self.visitors.ids[visitor] = loaded.session.id

    async def do(self, step: Do, number: int) -> None:
        """Make a request: ``load`` reads only, ``save`` changes ``key``, ``logout`` ends the session."""
        id = self.visitors.ids.get(step.path)
        if id is None:
            return
        at, value = _path(step.path), f"{self.name}.{number}"
        header = f"{self.store.settings.cookie}={cookie_value(id, '')}"
        loaded: Any = None

        async def load(entry: RecordedCall) -> Any:
            nonlocal loaded
            entry.reads_only = True
            loaded = await self.store.load(self.cache, header)
            session = loaded.session
            if session.id is None:
                return None
            return attributes_of({k: session[k] for k in session if not k.startswith(RESERVED)})

        entry = await self.history.one(self.name, self.member, Call("node", at), load)
        if entry is None or loaded is None or loaded.session.id is None or step.do == "load":
            return

        async def save(entry: RecordedCall) -> Any:
            try:
                await self.store.save(self.cache, loaded)
            except SessionGone:
                entry.reads_only = True
                return False
            return UNKNOWN if step.do == "logout" else True

        if step.do == "logout":
            loaded.session.invalidate()
            what = Call("remove_node", at)
        else:
            loaded.session[step.key] = value
            what = Call("update", at, ((step.key, value),))
        try:
            await self.history.one(self.name, self.member, what, save)
        except BatchConflict:
            return


def _paths(step: Do) -> tuple[str, ...]:
    return (step.path, step.other) if step.do == "pair" else (step.path,)


def _path(path: str) -> tuple[str, ...]:
    return tuple(Fqn.parse(path))


def _attributes(node: dict[str, Any] | None) -> Any:
    return None if node is None else attributes_of(node)
