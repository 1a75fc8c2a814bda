"""Worker: a process that owns objects and changes them. Its node asks through a pipe; both run one program on one
machine."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, Literal, NamedTuple

from jgroups_py.livebackup.kinds import Stateful
from jgroups_py.stack.raised import said

Verb = Literal["call", "undoable", "save", "load", "restore", "drop", "take"]


class WorkerRequest(NamedTuple):
    """``kind`` and ``key`` name the object, which is created if missing. ``what``: a method, or None. The first
    request of a newer ``generation`` clears all objects."""

    generation: int
    verb: Verb
    kind: str
    key: str
    what: str
    arguments: tuple[Any, ...]


class WorkerReply(NamedTuple):
    """``before``: the attributes before the call, for ``undoable``; before the object's removal, for ``take``."""

    value: Any
    error: Exception | None
    before: dict[str, Any] | None


class Owner:
    """The objects of one worker."""

    def __init__(self, kinds: Mapping[str, type[Stateful]]) -> None:
        self._kinds = kinds
        self._objects: dict[str, Stateful] = {}
        self._generation = 0
        self._verbs: Final[dict[Verb, Callable[[WorkerRequest], WorkerReply]]] = {
            "call": self._call,
            "undoable": self._undoable,
            "save": lambda request: WorkerReply(self._object(request).save(), None, None),
            "load": self._load,
            "restore": self._restore,
            "drop": self._drop,
            "take": self._take,
        }

    def answer(self, request: WorkerRequest) -> WorkerReply:
        """Answer a request. Errors of a kind's own methods are part of the reply."""
        if request.generation != self._generation:
            self._generation = request.generation
            self._objects.clear()
        try:
            return self._verbs[request.verb](request)
        except Exception as error:
            return WorkerReply(None, error, None)

    def _object(self, request: WorkerRequest) -> Stateful:
        found = self._objects.get(request.key)
        if found is None:
            found = self._objects[request.key] = self._kinds[request.kind]()
        return found

    def _call(self, request: WorkerRequest) -> WorkerReply:
        method = getattr(self._object(request), request.what)
        return WorkerReply(method(*request.arguments), None, None)

    def _undoable(self, request: WorkerRequest) -> WorkerReply:
        before = copy.deepcopy(vars(self._object(request)))
        try:
            return WorkerReply(self._call(request).value, None, before)
        except Exception as error:
            return WorkerReply(None, error, before)

    def _load(self, request: WorkerRequest) -> WorkerReply:
        self._object(request).load(*request.arguments)
        return WorkerReply(None, None, None)

    def _restore(self, request: WorkerRequest) -> WorkerReply:
        attributes = vars(self._object(request))
        attributes.clear()
        attributes.update(*request.arguments)
        return WorkerReply(None, None, None)

    def _drop(self, request: WorkerRequest) -> WorkerReply:
        self._objects.pop(request.key, None)
        return WorkerReply(None, None, None)

    def _take(self, request: WorkerRequest) -> WorkerReply:
        found = self._object(request)
        del self._objects[request.key]
        return WorkerReply(None, None, vars(found))


def packed(request: WorkerRequest, reply: WorkerReply) -> bytes:
    """Return a reply that the node can read: a value or an error that cannot be sent becomes a TypeError."""
    try:
        data = bytes(ForkingPickler.dumps(reply))
        if reply.error is not None:
            # An error whose class wants other arguments can be written, and not read.
            ForkingPickler.loads(data)
        return data
    except Exception as error:
        what = f"{request.key}.{request.what}: it"
        if reply.error is not None:
            what = f"{request.key}.{request.what} raised {said(reply.error):.1000}, which"
        problem = TypeError(f"{what} cannot leave its process: {said(error):.1000}")
        return bytes(ForkingPickler.dumps(WorkerReply(None, problem, reply.before)))


def work(pipe: Connection, kinds: Mapping[str, type[Stateful]]) -> None:
    """Run the process. It ends with its node."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node decides when it ends
    owner = Owner(kinds)
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send_bytes(packed(request, owner.answer(request)))
        except (BrokenPipeError, ConnectionResetError):
            return
