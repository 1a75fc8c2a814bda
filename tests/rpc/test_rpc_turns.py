"""Calls reach their method and their caller: without other tasks where no call stands before them, and in order where
one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Self

import pytest
import trio

from jgroups_py import (
    UUID,
    Batch,
    Channel,
    ChannelClosed,
    Raised,
    Refused,
    RemoteError,
    open_channel,
    open_rpc,
)
from jgroups_py.config.settings import load_stack
from jgroups_py.driver import DriverLimits, SocketTransport, answer_watch
from jgroups_py.driver.sockets import SocketDriver
from jgroups_py.rpc import RpcLimits
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType

Open = Callable[..., AbstractAsyncContextManager[Channel]]
LONG = 5.0
"""Seconds that a caller may look for an answer that comes at once: the machine may run something else meanwhile."""
KIND: ContextVar[str] = ContextVar("KIND", default="of nobody")


class Steps(trio.abc.Instrument):
    """Counts steps of tasks by their names, and rounds of the loop. Use it as a block."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.rounds = 0
        self._began = trio.current_time()

    @property
    def of_timers(self) -> int:
        """Return how many steps the timers of two members may have made meanwhile: calls take long on a busy machine."""
        return int(50 * (trio.current_time() - self._began))

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name.rpartition(".")[2]] += 1

    def before_io_wait(self, timeout: float) -> None:
        self.rounds += 1

    def __enter__(self) -> Self:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_: object) -> None:
        trio.lowlevel.remove_instrument(self)


class Target:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.running = 0
        self.most = 0

    def note(self, value: Any) -> Any:
        self.seen.append(value)
        return value

    def large(self, size: int) -> bytes:
        self.seen.append(size)
        return bytes(size)

    def fail(self) -> None:
        raise ValueError("told to")

    def kind(self) -> str:
        return KIND.get()

    async def kind_later(self) -> str:
        await trio.lowlevel.checkpoint()
        return KIND.get()

    async def slowly(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.sleep(10)
        self.running -= 1


@asynccontextmanager
async def _on_sockets(
    stack: str, watch: float | None = None
) -> AsyncIterator[tuple[Channel, Channel, Any]]:
    """Members A and B on loopback, and A's Rpc. B has a ``Target``. ``watch``: seconds that a caller watches its sockets."""
    own = private_attributes(load_stack(stack), 2)
    patient = own | {"GMS.join_timeout": "20s"}  # B is not alone while the machine is busy
    where: dict[str, Any] = {}
    if watch is not None:
        where["transport"] = SocketTransport(DriverLimits(watch=watch))
    async with (
        open_channel(stack, cluster="turns", name="A", attributes=own, **where) as a,
        open_channel(stack, cluster="turns", name="B", attributes=patient, **where) as b,
        open_rpc(a) as rpc,
        open_rpc(b, Target()),
    ):
        await a.wait_members(2)
        # A caller of the same process sends nothing while the called member polls.
        for channel in (a, b):
            channel.driver._requests.watch._limit = 0  # type: ignore[attr-defined]
        yield a, b, rpc


@asynccontextmanager
async def _in_virtual_time(open_sim: Open) -> AsyncIterator[tuple[Channel, Channel, Any]]:
    """Members A and B of a simulated network, and A's Rpc. B has a ``Target``."""
    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a) as rpc,
        open_rpc(b, Target()),
    ):
        await a.wait_members(2)
        yield a, b, rpc


@pytest.mark.sockets
async def test_a_call_on_sockets_costs_three_steps_of_tasks() -> None:
    """The called member's reader serves and answers in one step, the caller's reader hands over the reply, the caller goes on."""
    async with _on_sockets("tcp.xml") as (_, b, rpc):
        for _ in range(3):
            await rpc.call(b.address, "note", 1)
        with Steps() as steps:
            for value in range(100):
                assert await rpc.call(b.address, "note", value) == value
        assert (
            sum(steps.of.values()) <= 310 + steps.of_timers
            and steps.rounds <= 310 + steps.of_timers
        )
        assert "_run" not in steps.of  # the task that reads the channel
        with Steps() as steps:
            for value in range(100):
                assert [r async for r in rpc.call_all("note", value, dests=b.address)]
        assert (
            sum(steps.of.values()) <= 310 + steps.of_timers
            and steps.rounds <= 310 + steps.of_timers
        )


def the_other_runs(monkeypatch: pytest.MonkeyPatch, other: Channel) -> None:
    """Let ``other``, of the same process, take its inputs whenever a caller offers the processor to others."""

    def take() -> None:
        driver = other.driver
        assert isinstance(driver, SocketDriver) and driver._watch.heard is not None
        inputs = driver._watch.heard.look()
        if inputs:
            driver.take(inputs)

    monkeypatch.setattr(answer_watch, "offer_processor", take)


@pytest.mark.sockets
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
async def test_an_answer_that_comes_soon_wakes_no_task(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller finds it in its own step. Other tasks run after ``watched_max`` such calls."""
    rounds = 0

    async def runs_too() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with _on_sockets(stack, watch=LONG) as (a, b, rpc):
        monkeypatch.setattr(a.driver._watch, "_limit", 0)  # type: ignore[attr-defined]
        for _ in range(10):
            await rpc.call(b.address, "note", 1)
        monkeypatch.setattr(a.driver._watch, "_limit", LONG)  # type: ignore[attr-defined]
        the_other_runs(monkeypatch, b)
        with Steps() as steps:
            for value in range(80):
                assert await rpc.call(b.address, "note", value) == value
        # More than 200 if each answer woke its tasks
        assert (
            sum(steps.of.values()) <= 60 + steps.of_timers and steps.rounds <= 60 + steps.of_timers
        )
        with pytest.raises(RemoteError):
            await rpc.call(b.address, "fail")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runs_too)
            for _ in range(160):
                await rpc.call(b.address, "note", 1)
            nursery.cancel_scope.cancel()
        assert 6 <= rounds <= 20


@pytest.mark.sockets
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
async def test_one_of_several_callers_finds_the_answers_of_all(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _on_sockets(stack, watch=0.05) as (a, b, rpc):
        the_other_runs(monkeypatch, b)
        driver = a.driver
        assert isinstance(driver, SocketDriver)
        over = False

        async def call() -> None:
            value = 0
            while not over:
                assert await rpc.call(b.address, "note", value) == value
                value += 1

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(call)
            with trio.fail_after(30):
                await trio.sleep(0.05)  # each of them waits
                before = driver._watch.ended
                while driver._watch.ended < before + 10:
                    await trio.lowlevel.checkpoint()
            over = True


async def test_calls_of_several_tasks_leave_together(
    open_sim: Open, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last task that calls sends all calls in its own step, and looks for the answers when all are under way."""
    async with _in_virtual_time(open_sim) as (a, b, rpc):
        await trio.sleep(1)
        sent: list[int] = []
        looked: list[int] = []
        send = a.stack._send

        def noting(batch: Batch) -> None:
            if 200 in batch.headers:
                sent.append(len(batch))
            send(batch)

        def watch(_: Callable[[], bool]) -> bool:
            looked.append(len(sent))
            return False

        a.stack._send = noting
        monkeypatch.setattr(a.driver, "watch", watch)

        async def call() -> None:
            for value in range(20):
                assert await rpc.call(b.address, "note", value) == value

        await rpc.call(b.address, "note", 0)
        rpc._one_by_one = False
        sent.clear()
        looked.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(call)
        assert sent == [8] * 20 and looked == list(range(2, 21))


async def test_calls_leave_at_once_though_others_that_were_answered_do_not_call(
    open_sim: Open, autojump_clock: Any
) -> None:
    """Tasks that were woken together wait for each other's calls, but the last of them need not call."""
    async with _in_virtual_time(open_sim) as (a, b, rpc):
        await trio.sleep(1)

        async def call(times: int) -> None:
            for value in range(times):
                assert await rpc.call(b.address, "note", value) == value

        began = trio.current_time()
        for _ in range(10):  # trio runs the tasks of a round in either order
            async with trio.open_nursery() as nursery:
                for times in (3, 1, 2):
                    nursery.start_soon(call, times)
        assert trio.current_time() == began
        assert rpc._to_run == 0 and not a.outbox.is_promised


async def test_a_task_that_is_cancelled_after_its_answer_came_keeps_no_other_waiting(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _in_virtual_time(open_sim) as (a, b, rpc):
        await trio.sleep(1)
        scopes: list[trio.CancelScope] = []

        async def call() -> None:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                await rpc.call(b.address, "note", 1)
                await rpc.call(b.address, "note", 2)

        is_seen = False
        for _ in range(
            100
        ):  # trio runs tasks in any order, so all three may have run before this one looks
            async with trio.open_nursery() as nursery:
                scopes.clear()
                for _ in range(3):
                    nursery.start_soon(call)
                while not rpc._to_run and nursery.child_tasks:
                    await trio.lowlevel.checkpoint()
                is_seen = rpc._to_run > 0
                for scope in scopes:
                    scope.cancel()
            if is_seen:
                break
        assert is_seen
        assert rpc._to_run == 0 and not a.outbox.is_promised
        began = trio.current_time()
        assert await rpc.call(b.address, "note", 3) == 3
        assert trio.current_time() == began


@pytest.mark.sockets
async def test_a_socket_that_brings_one_datagram_at_a_time_is_seldom_asked_for_a_second() -> None:
    async with _on_sockets("udp.xml") as (a, b, rpc):
        driver = a.driver
        assert isinstance(driver, SocketDriver)
        for _ in range(30):
            await rpc.call(b.address, "note", 1)
        read, in_vain = driver.datagrams_in, driver.reads_in_vain
        for _ in range(100):
            await rpc.call(b.address, "note", 1)
        assert driver.datagrams_in >= read + 100
        assert 5 <= driver.reads_in_vain - in_vain <= 50


async def test_plain_methods_need_no_task_of_the_called_member(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _in_virtual_time(open_sim) as (_, b, rpc):
        await rpc.call(b.address, "note", 0)
        with Steps() as steps:
            for value in range(20):
                assert await rpc.call(b.address, "note", value) == value
        assert steps.of["_run"] == 0


async def test_more_calls_than_a_turn_takes_are_left_to_the_reading_task(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Target()
        async with open_rpc(a) as rpc, open_rpc(b, target, limits=RpcLimits(turn_requests=5)):
            await a.wait_members(2)
            await trio.sleep(1)
            with Steps() as steps:
                async with trio.open_nursery() as nursery:
                    for value in range(6):
                        nursery.start_soon(rpc.call, b.address, "note", value)
            assert steps.of["_run"] > 0
            assert sorted(target.seen) == [0, 1, 2, 3, 4, 5]


async def test_methods_see_the_context_of_the_rpcs_opener(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b, open_rpc(a) as rpc:
        await a.wait_members(2)
        KIND.set("of the opener")
        async with open_rpc(b, Target()):
            KIND.set("set later")
            await trio.sleep(1)
            assert await rpc.call(b.address, "kind") == "of the opener"
            assert await rpc.call(b.address, "kind_later") == "of the opener"


async def test_async_methods_that_come_one_by_one_are_bounded(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Target()
        async with open_rpc(a) as rpc, open_rpc(b, target, limits=RpcLimits(handlers_max=3)):
            await a.wait_members(2)
            async with trio.open_nursery() as nursery:
                for _ in range(7):
                    nursery.start_soon(rpc.call, b.address, "slowly")
                    await trio.sleep(0.1)
            assert target.most == 3


async def test_a_reply_without_room_keeps_later_calls_in_the_stream(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Target()
        async with open_rpc(a) as rpc, open_rpc(b, target, limits=RpcLimits(reply_buffer_max=1)):
            await a.wait_members(2)
            b.outbox.blocked[a.address] = {"UFC": None}  # type: ignore[dict-item]
            most = b.limits.send_buffer_max
            got: list[int] = []

            async def call() -> None:
                got.append(len(await rpc.call(b.address, "large", most // 3)))

            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call)
                    await trio.sleep(0.1)
                assert 3 <= len(target.seen) <= 5
                assert b.outbox.buffered <= most + 1
                b.outbox.on_opened("UFC", a.address)
                b.driver.wake()
            assert got == [most // 3] * 20


@asynccontextmanager
async def _alone(open_sim: Open) -> AsyncIterator[tuple[Channel, Any, Target]]:
    """A lone member after its first view, its Rpc, and the calls that ran there."""
    async with open_sim(name="A") as a:
        target = Target()
        async with open_rpc(a, target) as rpc:
            await trio.sleep(1)
            yield a, rpc, target


@contextmanager
def _step(channel: Channel) -> Iterator[None]:
    """A step of the stack: calls that are put off until its end run when the block ends."""
    machine = channel.stack.machine
    machine.enter()
    yield
    machine.leave()


def _request(src: UUID, dest: UUID | None, value: bytes) -> Batch:
    header = CorrelatorHeader(CorrelatorType.REQ, 1)
    return Batch(dest, [b"\4note\x91\xa3" + value], {200: header}, src)


async def test_calls_wait_for_the_end_of_the_step_and_for_earlier_items(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _alone(open_sim) as (a, _, target):
        with _step(a):
            a.deliver(_request(a.address, None, b"one"))
            assert target.seen == []
        assert target.seen == ["one"]
        with _step(a):
            a.deliver(Batch(None, [b"a message"], {}, a.address))
            a.deliver(_request(a.address, None, b"two"))
        assert target.seen == ["one"]
        await trio.sleep(1)
        assert target.seen == ["one", "two"]


async def test_a_fetched_state_contains_the_multicasts_of_its_step(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _alone(open_sim) as (a, rpc, target):
        with _step(a):
            a.deliver(_request(a.address, None, b"all"))
            a.deliver(_request(a.address, a.address, b"one"))
            rpc.state_replaced([])
            a.deliver(_request(a.address, None, b"new"))
        assert target.seen == ["one", "new"]
        assert rpc.statistics().counters.refused == 1


async def test_calls_of_the_step_that_ends_the_channel_do_not_run(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _alone(open_sim) as (a, rpc, target):
        with _step(a):
            a.deliver(_request(a.address, None, b"all"))
            rpc.ended(ChannelClosed("a test"))
        assert target.seen == []


async def test_a_call_that_a_fetched_state_contains_is_refused(
    open_sim: Open, autojump_clock: Any
) -> None:
    """The caller learns that the call did not run there."""
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Target()
        async with open_rpc(a) as rpc, open_rpc(b, target) as other:
            await a.wait_members(2)
            await trio.sleep(1)
            deliver = other.deliver

            def and_replace(batch: Batch) -> bool:
                taken = deliver(batch)
                other.state_replaced([])
                return taken

            other.deliver = and_replace  # type: ignore[method-assign]
            (reply,) = [r async for r in rpc.call_all("note", 1, exclude=a.address)]
            assert (
                isinstance(reply, Raised) and isinstance(reply.error, Refused) and target.seen == []
            )


async def test_a_strangers_call_does_not_run_as_it_arrives(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _alone(open_sim) as (a, rpc, target):
        with _step(a):
            a.deliver(_request(UUID(b"stranger of ours"), a.address, b"one"))
        await trio.sleep(6)
        assert target.seen == []
        assert rpc.statistics().counters.strangers == 1
