"""Runs of calls: those that begin in one turn, and the requests of one packet. Each call counts as if it came alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio

from jgroups_py import UUID, Batch, Channel, ChannelClosed, LocalProtocolError, Rpc, View, open_rpc
from jgroups_py.protocols.transport.base import TP
from jgroups_py.rpc.correlator import OutcomeKind, PendingCall
from jgroups_py.rpc.limits import RpcCounters, RpcLimits
from jgroups_py.rpc.methods import methods_of, with_caller
from jgroups_py.rpc.ours import Msgpack, OurForm
from jgroups_py.rpc.serving import OutgoingReply, OutgoingValues, ServedCall, Server
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.testing import make_address
from jgroups_py.values.events import ViewChange
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire.headers import (
    CorrelatorHeader,
    CorrelatorType,
    MultiDestinationHeader,
)

Open = Callable[..., AbstractAsyncContextManager[Channel]]
A, B = make_address(1), make_address(2)
OURS = OurForm(Msgpack())


class Target:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, value: Any) -> Any:
        self.seen.append(value)
        return value

    def fail(self) -> None:
        raise ValueError("told to")

    def odd(self) -> object:
        return object()

    @with_caller
    def who(self, caller: UUID) -> bytes:
        return bytes(caller)

    async def later(self, value: Any) -> Any:
        return value


class Served:
    """A server at A, and its replies to a run of B's requests with numbers from 7 on."""

    def __init__(self, size_max: int | None = None) -> None:
        self.target = Target()
        self.counters = RpcCounters()
        self.server = Server(
            methods_of(self.target),
            {MessageType.BYTES: OURS},
            A,
            self.counters,
            lambda what, details: None,
            LogLimit(lambda: 0.0),
            size_max=size_max,
        )

    def run(self, *requests: bytes, header: CorrelatorHeader | None = None) -> list[Any]:
        header = header or CorrelatorHeader(CorrelatorType.REQ, 7)
        batch = Batch(A, requests, {200: header}, B, int(Flag.OOB))
        return list(map(_told, self.server.serve(batch)))


def _told(one: OutgoingValues | OutgoingReply | ServedCall) -> tuple[Any, ...]:
    """Return the kind of a reply, its first number, and its content."""
    if isinstance(one, ServedCall):
        return "call", one.id, one.name
    assert one.dest == B and one.flags == int(Flag.OOB)
    if isinstance(one, OutgoingValues):
        assert one.header.type is CorrelatorType.RSP
        return "values", one.header.request_id, list(map(OURS.read_value, one.payloads))
    assert one.header.type is CorrelatorType.EXC_RSP
    return "error", one.header.request_id, type(OURS.read_error(one.encoded.payload, A)).__name__


def request(method: str, *args: Any) -> bytes:
    return OURS.request(method, args)


def note(value: Any) -> bytes:
    return request("note", value)


def test_values_that_follow_each_other_are_one_run_of_replies() -> None:
    served = Served()
    assert served.run(note(1), request("who"), note(3)) == [("values", 7, [1, bytes(B), 3])]
    assert served.target.seen == [1, 3] and served.counters.requests == 3


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (request("fail"), ("error", 9, "RemoteError")),
        (request("odd"), ("error", 9, "RemoteError")),
        (request("missing"), ("error", 9, "Refused")),
        (request("note"), ("error", 9, "RemoteError")),
        (b"", ("error", 9, "Refused")),
        (request("later", 1), ("call", 9, "later")),
    ],
    ids=["raises", "no bytes for it", "no such method", "arguments", "unreadable", "async"],
)
def test_an_outcome_without_a_value_stands_alone_in_its_place(
    other: bytes, found: tuple[Any, ...]
) -> None:
    served = Served()
    values = ("values", 7, [1, 2]), ("values", 10, [4, 5])
    assert served.run(note(1), note(2), other, note(4), note(5)) == [values[0], found, values[1]]
    assert served.run(other, other) == [(found[0], n, found[2]) for n in (7, 8)]
    assert served.counters.requests == 7


def test_a_value_that_no_packet_takes_is_an_error_among_values() -> None:
    found = Served(size_max=100).run(note(1), note(bytes(98)), note(bytes(99)), note(4))
    assert [part[:2] for part in found] == [("values", 7), ("error", 9), ("values", 10)]


def test_requests_without_answers_and_of_a_multicast_are_only_read() -> None:
    served = Served()
    for header, number in (
        (CorrelatorHeader(CorrelatorType.REQ, 0), 0),
        (MultiDestinationHeader(CorrelatorType.REQ, 7, excluded=(B,)), 7),
    ):
        assert served.run(note(1), header=header) == [("call", number, "note")]
    excluded = MultiDestinationHeader(CorrelatorType.REQ, 7, excluded=(A,))
    assert served.run(note(1), header=excluded) == []
    assert served.target.seen == []


@asynccontextmanager
async def _pair(open_sim: Open, **limits: Any) -> AsyncIterator[tuple[Channel, Channel, Rpc, Rpc]]:
    """Two members that have called each other."""
    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a, Target(), limits=RpcLimits(**limits)) as rpc,
        open_rpc(b, Target()) as other,
    ):
        await a.wait_members(2)
        for value in range(3):
            assert await rpc.call(b.address, "note", value) == value
        yield a, b, rpc, other


def _begun(rpc: Rpc, dest: UUID, value: Any) -> PendingCall:
    """Begin a call as the first of its turn. It does not wait, because there is room."""
    rpc._one_by_one = False
    rpc._last_woken = None
    with pytest.raises(StopIteration) as done:
        rpc._begin(dest, "note", (value,), 0).send(None)
    pending: PendingCall = done.value.value
    return pending


async def _outcomes(rpc: Rpc, calls: list[PendingCall]) -> list[Any]:
    return [OURS.read_value((await rpc._outcome(call)).payload) for call in calls]


async def test_calls_of_one_turn_join_the_first(open_sim: Open, autojump_clock: Any) -> None:
    async with _pair(open_sim) as (a, b, rpc, _):
        runs: list[Batch] = []
        send = a.stack._send

        def noting(batch: Batch) -> None:
            runs.append(batch)
            send(batch)

        a.stack._send = noting
        calls = [_begun(rpc, b.address, 0)]
        for value in (1, 22):
            call = rpc._join(b.address, "note", (value,))
            assert call is not None
            calls.append(call)
        assert await _outcomes(rpc, calls) == [0, 1, 22]
        (run,) = [batch for batch in runs if 200 in batch.headers]
        assert run.headers[200].request_id == calls[0].id == 4  # type: ignore[attr-defined]
        assert [call.id for call in calls] == [4, 5, 6] and len(run) == 3
        assert rpc.statistics().pending == 0


async def test_new_tasks_of_a_caller_that_was_just_answered_call_together(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _pair(open_sim) as (a, b, rpc, _):
        transport = a.stack.protocols[0]
        assert isinstance(transport, TP)
        before = transport.packets_sent
        rpc._one_by_one = False  # otherwise the first call leaves alone
        async with trio.open_nursery() as nursery:
            for value in range(4):
                nursery.start_soon(rpc.call, b.address, "note", value)
        assert transport.packets_sent == before + 1


async def test_a_call_joins_only_an_open_run_that_its_number_continues(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _pair(open_sim) as (a, b, rpc, _):
        calls = [_begun(rpc, b.address, 1)]
        for dest, method in ((a.address, "note"), (bytes(b.address), "note"), (b.address, 5)):
            assert rpc._join(dest, method, ()) is None  # type: ignore[arg-type]
        with pytest.raises(LocalProtocolError, match="cannot be encoded"):
            rpc._join(b.address, "note", (object(),))
        rpc._correlator.called(b.address).next += 1
        assert rpc._join(b.address, "note", (2,)) is None
        rpc._correlator.called(b.address).next -= 1
        a.send_nowait(b"between", b.address)
        assert rpc._join(b.address, "note", (2,)) is None
        calls.append(_begun(rpc, b.address, 2))
        assert await _outcomes(rpc, calls) == [1, 2]
        assert rpc._join(b.address, "note", (3,)) is None


async def test_no_call_joins_beyond_pending_max(open_sim: Open, autojump_clock: Any) -> None:
    async with _pair(open_sim, pending_max=2) as (_, b, rpc, _):
        calls = [_begun(rpc, b.address, 1)]
        second = rpc._join(b.address, "note", (2,))
        assert second is not None and rpc._join(b.address, "note", (3,)) is None
        assert await _outcomes(rpc, [*calls, second]) == [1, 2]


async def test_no_call_joins_those_to_a_member_that_left(
    open_sim: Open, autojump_clock: Any
) -> None:
    """Nothing would end its wait."""
    async with _pair(open_sim) as (a, b, rpc, _):
        _begun(rpc, b.address, 1)
        rpc.excluded((b.address,))
        assert rpc._join(b.address, "note", (2,)) is None
        _begun(rpc, b.address, 1)
        old, alone = a.view, View(a.view.view_id, (a.address,))
        a.notify(ViewChange(alone, old))
        assert rpc._join(b.address, "note", (2,)) is None
        a.notify(ViewChange(old, alone))


async def test_no_call_joins_after_the_end_of_the_rpc(open_sim: Open, autojump_clock: Any) -> None:
    """The channel goes on, and sends waiting messages. Nothing would end the call."""
    async with _pair(open_sim) as (_, b, rpc, _):
        first = _begun(rpc, b.address, 1)
        rpc.ended(ChannelClosed("a test"))
        assert rpc._join(b.address, "note", (2,)) is None
        assert (await rpc._outcome(first)).kind is OutcomeKind.LOST
        with pytest.raises(ChannelClosed):
            await rpc.call(b.address, "note", 2)


async def test_a_call_that_is_cancelled_while_too_many_are_under_way_is_not_counted_on(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _pair(open_sim, pending_max=1) as (_, b, rpc, _):
        async with trio.open_nursery() as nursery:
            for value in range(4):
                nursery.start_soon(rpc.call, b.address, "note", value)
            with trio.move_on_after(0):
                await rpc.call(b.address, "note", 4)
        assert rpc._held_back == 0 and rpc.statistics().counters.waits_pending >= 3
        assert await rpc.call(b.address, "note", 5) == 5


async def test_a_call_does_not_join_where_flow_control_holds_back(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _pair(open_sim) as (a, b, rpc, _):
        call = _begun(rpc, b.address, 1)
        a.outbox.blocked[b.address] = {"UFC": None}  # type: ignore[dict-item]
        assert rpc._join(b.address, "note", (2,)) is None
        a.outbox.on_opened("UFC", b.address)
        assert await _outcomes(rpc, [call]) == [1]
        call = _begun(rpc, b.address, 1)
        assert rpc._join(b.address, "note", (bytes(a.limits.send_buffer_max),)) is None
        assert await _outcomes(rpc, [call]) == [1]


async def test_a_reply_to_a_call_that_is_just_cancelled_is_not_held(
    open_sim: Open, autojump_clock: Any
) -> None:
    """The reply comes when the call was cancelled, but its task has not run since."""
    async with _pair(open_sim) as (_, b, rpc, _), trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await rpc.call(b.address, "note", "never")

        nursery.start_soon(call)
        while not rpc.statistics().pending:
            await trio.lowlevel.checkpoint()
        scope.cancel()
        header = CorrelatorHeader(CorrelatorType.RSP, rpc._correlator.called(b.address).next - 1)
        rpc.deliver(Batch(None, [OURS.value("late")], {200: header}, b.address))
        assert rpc.statistics().held_bytes == 5
        await trio.sleep(1)
        assert scope.cancelled_caught and rpc.statistics().held_bytes == 0


async def test_many_callers_get_their_own_values(open_sim: Open, autojump_clock: Any) -> None:
    """This includes calls that begin late, are cancelled, or whose method raises."""
    async with _pair(open_sim) as (_, b, rpc, _):
        got: list[tuple[int, Any]] = []

        async def call(number: int) -> None:
            for value in _values(number):
                got.append((value, await rpc.call(b.address, "note", value)))
                if number % 3 == 0:
                    with pytest.raises(Exception, match="told to"):
                        await rpc.call(b.address, "fail")
                if number % 3 == 1:
                    with trio.move_on_after(0):
                        await rpc.call(b.address, "note", -1)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(call, number)
        assert len(got) == 80 and all(sent == came for sent, came in got)
        assert rpc.statistics().pending == rpc.statistics().held_bytes == 0


def _values(number: int) -> Iterator[int]:
    return iter(range(1000 * number, 1000 * number + 10))
