"""Server: turns arriving requests into calls, and their results into replies. No I/O, no tasks.

    read(batch)      returns for each request a ServedCall, or the OutgoingReply that refuses it
    serve(batch)     calls methods that are not async as well; values that follow each other are one OutgoingValues
    run(call)        calls a method that is not async; returns the OutgoingReply, or None where no answer is wanted
    value, raised    return the OutgoingReply for the value or the error of an async method

An error of a method is logged here with its traceback, at most once in ``LogLimit``'s interval for each method and
class of exception. Its caller gets the exception's class and text. So does the caller of a method whose value is too
large for a packet (``size_max``, stack/sizes.py).

Members of ours and Java members may be in one group. The type of the message tells the form of a request; the
address of the caller tells the form of the reply.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jgroups_py.rpc.form import Encoded, Form, Unreadable
from jgroups_py.rpc.limits import RpcCounters
from jgroups_py.rpc.methods import Method
from jgroups_py.rpc.ours import OurForm
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import loggable, plain, said, text_of
from jgroups_py.stack.sizes import refuse_larger
from jgroups_py.values.address import TAG, UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    CorrelatorHeader,
    CorrelatorType,
    MultiDestinationHeader,
)

ID: Final = PROTOCOL_IDS["REQUEST_CORRELATOR"]
_REPLY_FLAGS: Final = sum(Flag) & ~int(Flag.RSVP | Flag.RSVP_NB | Flag.SERIALIZED)
"""Flags that a reply copies from its request."""

_log = logging.getLogger("jgroups_py.rpc")


class OutgoingReply(NamedTuple):
    """A message to send."""

    dest: Address
    header: CorrelatorHeader
    encoded: Encoded
    flags: int


class OutgoingValues(NamedTuple):
    """Replies with values in our form to one caller, whose numbers follow each other. ``header`` is that of the first."""

    dest: Address
    header: CorrelatorHeader
    payloads: list[bytes]
    flags: int

    def one_by_one(self) -> Iterator[OutgoingReply]:
        """Return them as single replies."""
        for index, payload in enumerate(self.payloads):
            encoded = Encoded(payload, len(payload), 0, MessageType.BYTES)
            yield OutgoingReply(self.dest, self.header.at(index), encoded, self.flags)


@dataclass(slots=True)
class ServedCall:
    """A call that is to be made here. With ``id`` 0 no answer is wanted."""

    name: str
    method: Method
    args: Sequence[Any]
    caller: Address
    id: int
    flags: int

    def call(self) -> Any:
        """Call the function and return its value, or its coroutine."""
        method = self.method
        if method.with_caller:
            return method.function(self.caller, *self.args)
        return method.function(*self.args)


class Server:
    """See the module's docstring. ``trace(what, details)`` is called for each request that is dropped."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        forms: Mapping[int, Form],
        local: Address,
        counters: RpcCounters,
        trace: Callable[[str, dict[str, Any]], None],
        log_limit: LogLimit,
        name_of: Callable[[Address], str] = str,
        size_max: int | None = None,
    ) -> None:
        self._methods = methods
        self._forms = forms
        ours = forms.get(MessageType.BYTES)
        self._ours = ours if isinstance(ours, OurForm) else None
        self._local = local
        self._counters = counters
        self._trace = trace
        self._log_limit = log_limit
        self._name_of = name_of
        self._size_max = size_max

    def read(self, batch: Batch) -> Iterator[ServedCall | OutgoingReply]:
        header, src, counters = batch.headers[ID], batch.src, self._counters
        assert isinstance(header, CorrelatorHeader) and src is not None
        if type(header) is MultiDestinationHeader and self._local in (header.excluded or ()):
            counters.excluded += len(batch)
            return
        form = self._forms.get(batch.type)
        flags = batch.flags & _REPLY_FLAGS
        step = 1 if header.request_id else 0
        number = header.request_id - step
        for payload in batch.payloads:
            number += step
            counters.requests += 1
            try:
                if form is None:
                    raise Unreadable(f"a message of type {batch.type} is no request")
                name, args = form.read_request(payload)
            except Unreadable as problem:
                counters.malformed += 1
                self._trace("malformed", {"src": str(src), "problem": str(problem)})
                if number:
                    yield self._refusal(src, number, flags, f"cannot be read: {problem}")
                continue
            method = self._methods.get(name)
            if method is not None:
                yield ServedCall(name, method, args, src, number, flags)
                continue
            counters.refused += 1
            self._trace("refused", {"src": str(src), "method": name})
            if number:
                yield self._refusal(src, number, flags, f"there is no method {name!r}")

    def serve(self, batch: Batch) -> Iterator[OutgoingValues | ServedCall | OutgoingReply]:
        """Like ``read``, but call methods that are not async, if the requests are in our form and wait for answers.

        In a run of requests, calls of functions take most of the time. So this is one loop.
        """
        header, src = batch.headers[ID], batch.src
        assert isinstance(header, CorrelatorHeader) and src is not None
        first, ours = header.request_id, self._ours
        in_our_form = batch.type == MessageType.BYTES and is_ours(src)
        if not (ours and first and in_our_form and type(header) is CorrelatorHeader):
            yield from self.read(batch)
            return
        read, write = ours.read_request, ours.value
        methods, counters = self._methods, self._counters
        most = None if src == self._local else self._size_max
        flags = batch.flags & _REPLY_FLAGS
        values: list[bytes] = []
        for index, payload in enumerate(batch.payloads):
            reply: OutgoingReply | None
            try:
                name, args = read(payload)
            except Unreadable:
                method = None
            else:
                method = methods.get(name)
            if method is not None and not method.is_async:
                counters.requests += 1
                try:
                    if method.with_caller:
                        value = write(method.function(src, *args))
                    else:
                        value = write(method.function(*args))
                    if most is not None:
                        refuse_larger(len(value), most)
                except Exception as error:  # a user's codec may raise it, too
                    one = ServedCall(name, method, args, src, first + index, flags)
                    reply = self.raised(one, error)
                else:
                    values.append(value)
                    continue
            if values:
                yield self._run_of(src, first + index - len(values), values, flags)
                values = []
            if method is None or method.is_async:
                yield from self.read(batch.slice(index, index + 1))
            elif reply is not None:
                yield reply
        if values:
            yield self._run_of(src, first + len(batch) - len(values), values, flags)

    def refuse(self, batch: Batch, why: str) -> Iterator[OutgoingReply]:
        """Refuse all requests of a batch unread."""
        header, src = batch.headers[ID], batch.src
        assert isinstance(header, CorrelatorHeader) and src is not None
        self._counters.refused += len(batch)
        if header.request_id:
            for number in range(header.request_id, header.request_id + len(batch)):
                yield self._refusal(src, number, batch.flags & _REPLY_FLAGS, why)

    def run(self, invocation: ServedCall) -> OutgoingReply | None:
        try:
            value = invocation.call()
        except Exception as error:
            return self.raised(invocation, error)
        return self.value(invocation, value) if invocation.id else None

    def value(self, invocation: ServedCall, value: Any) -> OutgoingReply | None:
        if not invocation.id:
            return None
        form = self._form_for(invocation.caller)
        try:
            encoded = form.write_value(value)
            if self._size_max is not None and invocation.caller != self._local:
                refuse_larger(encoded.size, self._size_max)
        except Exception as error:  # a codec of the user may raise anything
            return self.raised(invocation, error)
        header = CorrelatorHeader(CorrelatorType.RSP, invocation.id)
        return OutgoingReply(invocation.caller, header, encoded, invocation.flags | encoded.flags)

    def _run_of(
        self, dest: Address, number: int, values: list[bytes], flags: int
    ) -> OutgoingValues:
        return OutgoingValues(dest, CorrelatorHeader(CorrelatorType.RSP, number), values, flags)

    def raised(self, invocation: ServedCall, error: Exception) -> OutgoingReply | None:
        self._counters.raised += 1
        kind, text = type(error).__name__, text_of(error)
        self._log(invocation, kind, error)
        if not invocation.id:
            return None
        return self._error(
            invocation.caller, invocation.id, invocation.flags, plain(kind), text, refused=False
        )

    def _log(self, invocation: ServedCall, kind: str, error: Exception) -> None:
        """Log the error here, too: the caller may be on another machine, or may not wait for an answer."""
        left_out = self._log_limit.admit((invocation.name, kind))
        if left_out is not None:
            _log.warning(
                "%s: the method %s, %s by %s, raised %s%s",
                self._name_of(self._local),
                plain(invocation.name),
                "called" if invocation.id else "cast",
                self._name_of(invocation.caller),
                said(error),
                left_out,
                exc_info=loggable(error),
            )

    def _refusal(self, dest: Address, number: int, flags: int, why: str) -> OutgoingReply:
        return self._error(dest, number, flags, "Refused", why, refused=True)

    def _error(
        self, dest: Address, number: int, flags: int, kind: str, text: str, *, refused: bool
    ) -> OutgoingReply:
        encoded = self._form_for(dest).write_error(kind, text, refused=refused)
        header = CorrelatorHeader(CorrelatorType.EXC_RSP, number)
        return OutgoingReply(dest, header, encoded, flags | encoded.flags)

    def _form_for(self, member: Address) -> Form:
        return self._forms[MessageType.BYTES if is_ours(member) else MessageType.OBJECT]


def is_ours(member: Address) -> bool:
    """Return whether ``member`` is of this library. Calls with it travel in our form."""
    return isinstance(member, UUID) and member[12:16] == TAG
