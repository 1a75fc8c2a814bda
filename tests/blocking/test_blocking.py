"""The facade for threads: calls from many threads, time-outs, errors, ends, forks, lost handles."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from threads import JOIN_SECONDS, Open, Pair, loops, next_message, until

from jgroups_py import (
    UUID,
    Answer,
    ChannelClosed,
    ConfigError,
    Expelled,
    JoinError,
    MemoryNetwork,
    Message,
    Raised,
    RemoteError,
    StateTransferError,
    Unreachable,
    View,
    blocking,
)
from jgroups_py.blocking import call
from jgroups_py.blocking.loop import THREAD_NAME
from jgroups_py.rpc import Replies as AsyncReplies
from jgroups_py.tools.bench.blocking import measure

BASE = "trio.from_thread.run of nothing"
# --- channels


def test_views_and_messages_are_one_stream(pair: Pair) -> None:
    a, b = pair
    assert isinstance(b.receive(timeout=30), View)
    a.send(b"one", timeout=30)
    a.send(b"two", b.address, timeout=30)
    got = {next_message(b).payload for _ in range(2)}
    assert got == {b"one", b"two"}
    assert a.name == "A" and b.name_of(a.address) == "A" and len(a.view) == 2
    assert a.statistics().sent == 2
    for item in a:
        if isinstance(item, Message):
            assert item.payload == b"one"
            break


def test_many_messages_cross_at_once_and_in_order(pair: Pair) -> None:
    a, b = pair
    a.send_many((b"%d" % n for n in range(1000)), timeout=30)
    got: list[bytes] = []
    crossings = 0
    while len(got) < 1000:
        items = b.receive_many(timeout=30)
        crossings += 1
        got += [item.payload for item in items if isinstance(item, Message)]
    assert got == [b"%d" % n for n in range(1000)]
    assert crossings < 100


def test_an_item_that_does_not_come_in_time_is_not_lost(open_sim: Open) -> None:
    with open_sim() as a:
        a.receive(timeout=30)
        with pytest.raises(TimeoutError, match=r"not done within 0\.05 s"):
            a.receive(timeout=0.05)
        a.send(b"x")
        assert next_message(a).payload == b"x"
        with pytest.raises(ValueError, match="timeout must be > 0"):
            a.receive(timeout=0)


def test_one_thread_reads(open_sim: Open) -> None:
    with open_sim() as a, ThreadPoolExecutor(1) as pool:
        a.receive(timeout=30)
        reading = pool.submit(a.receive)
        until(lambda: a._value._stream.is_waited_for)
        with pytest.raises(trio.BusyResourceError, match="another thread"):
            a.receive(timeout=1)
        a.send(b"x")
        assert isinstance(reading.result(30), Message)


def test_a_reader_in_another_thread_hears_that_the_channel_was_closed(open_sim: Open) -> None:
    a = open_sim()
    a.receive(timeout=30)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(a.receive)
        until(lambda: a._value._stream.is_waited_for)
        a.close()
        with pytest.raises(ChannelClosed):
            reading.result(30)


def test_closing_twice_and_from_many_threads_is_closing_once(open_sim: Open) -> None:
    a = open_sim()
    with ThreadPoolExecutor(4) as pool:
        for closing in [pool.submit(a.close) for _ in range(4)]:
            closing.result(30)
    a.close()
    assert a.closed and "(closed)" in repr(a)
    with pytest.raises(ChannelClosed):
        a.send(b"x")
    with pytest.raises(ChannelClosed):
        a.receive()


def test_errors_of_opening_are_those_of_the_async_api(tmp_path: Path, open_sim: Open) -> None:
    with pytest.raises(ConfigError, match="nope"):
        blocking.open_channel("nope.xml", cluster="x")
    with pytest.raises(ConfigError):
        blocking.open_tree_cache(str(tmp_path / "nope.xml"))
    with open_sim() as a:
        with pytest.raises(JoinError):
            open_sim(join_timeout=1e-9)
        a.send(b"unharmed")
    assert loops() == []


def test_an_opening_that_takes_too_long_leaves_nothing() -> None:
    with pytest.raises(TimeoutError, match="not opened"):
        blocking.open_channel(
            "sim.xml",
            cluster="slow",
            transport=MemoryNetwork(),
            attributes={"SHARED_LOOPBACK_PING.wait": "20s"},
            timeout=0.05,
        )
    until(lambda: not loops())
    with pytest.raises(ValueError, match="timeout must be"):
        blocking.open_tree_cache("local.xml", timeout=-1)
    assert not loops()


def fetch(channel: blocking.Channel, read: blocking.Channel) -> bytes:
    """The thread that reads makes the state, when it reaches the request."""
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(channel.fetch_state, timeout=30)
        while not fetching.done():
            try:
                read.receive(timeout=0.05)
            except TimeoutError:
                pass
        return fetching.result()


def test_a_state_is_made_in_a_thread_and_fetched(open_sim: Open) -> None:
    made_in: list[str] = []

    def state() -> Iterator[bytes]:
        for chunk in (b"ab", b"c"):
            made_in.append(threading.current_thread().name)
            yield chunk

    with open_sim(state=state) as a, open_sim() as b:
        until(lambda: len(a.view) == len(b.view) == 2, JOIN_SECONDS)
        assert fetch(b, a) == b"abc"
        assert len(made_in) == 2 and THREAD_NAME not in made_in
        with pytest.raises(StateTransferError, match="no state to give"):
            fetch(a, b)


@pytest.mark.parametrize(
    ("chunk", "told"),
    [(ValueError("boom"), "ValueError: boom"), ("text", "yielded str"), (None, "yielded NoneType")],
)
def test_a_state_that_cannot_be_made_is_refused_and_its_member_goes_on(
    open_sim: Open, chunk: Any, told: str
) -> None:
    def state() -> Iterator[Any]:
        yield b"ab"
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk

    with open_sim(state=state) as a, open_sim() as b:
        until(lambda: len(a.view) == len(b.view) == 2, JOIN_SECONDS)
        with pytest.raises(StateTransferError, match=told):
            fetch(b, a)
        a.send(b"still here")
        assert a.statistics().state_failures == 1


# --- calls


class Target:
    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.peer: Any = None
        self.hang = threading.Event()

    def add(self, a: int, b: int) -> int:
        self.threads.add(threading.current_thread().name)
        return a + b

    def fail(self) -> None:
        raise KeyError("milk")

    def ask_back(self) -> Any:
        return self.peer.call(self.peer.channel.address, "add", 20, 3)

    def wait(self) -> None:
        self.hang.wait(60)

    async def tripled(self, a: int) -> int:
        await trio.lowlevel.checkpoint()
        return 3 * a


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.hang.set()


def test_calls_reach_one_all_first_and_many(pair: Pair, target: Target) -> None:
    a, b = pair
    with blocking.open_rpc(a, target) as ra, blocking.open_rpc(b, target, workers=0) as rb:
        there = b.address
        assert ra.call(there, "add", 1, 2, timeout=30) == 3
        assert rb.call(a.address, "tripled", 5, timeout=30) == 15
        with pytest.raises(RemoteError, match="milk"):
            ra.call(there, "fail", timeout=30)
        assert ra.call_first("add", 1, 1, timeout=30).value == 2
        replies = list(ra.call_all("add", 2, 2, timeout=30))
        assert {r.member for r in replies if isinstance(r, Answer)} == {a.address, there}
        gone = UUID.make(random.Random(1))
        one, two, three = ra.call_many(
            [(there, "add", 1, 1), (gone, "add", 1, 1), (there, "fail")], timeout=30
        )
        assert isinstance(one, Answer) and one.value == 2
        assert isinstance(two, Unreachable) and isinstance(three, Raised)
        assert ra.call_many([]) == []
        ra.cast("add", 0, 0, timeout=30)
        assert ra.statistics().counters.calls >= 5
        assert ra.view.members == a.view.members


def test_replies_let_go_of_are_forgotten_in_the_loop(
    pair: Pair, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The async API's object must not clean up in our thread."""
    closed: list[tuple[bool, str]] = []
    close = AsyncReplies.close

    def noted(replies: AsyncReplies) -> None:
        closed.append((replies._pending is not None, threading.current_thread().name))
        close(replies)

    monkeypatch.setattr(AsyncReplies, "close", noted)
    a, b = pair
    with blocking.open_rpc(a, target) as rpc, blocking.open_rpc(b):
        replies = rpc.call_all("wait", dests=a.address)
        with pytest.raises(TimeoutError):
            rpc._call(replies._next, timeout=0.05)
        del replies
        gc.collect()
        until(lambda: closed)
        assert closed[0] == (True, THREAD_NAME)


def test_methods_run_in_threads_unless_told_otherwise(open_sim: Open, target: Target) -> None:
    with open_sim() as a:
        with blocking.open_rpc(a, target) as rpc:
            rpc.call(a.address, "add", 1, 2, timeout=30)
            assert THREAD_NAME not in target.threads
            target.peer = rpc
            assert rpc.call(a.address, "ask_back", timeout=30) == 23
        with blocking.open_rpc(a, target, workers=0) as rpc:
            rpc.call(a.address, "add", 1, 2, timeout=30)
            assert THREAD_NAME in target.threads
            target.peer = rpc
            with pytest.raises(RemoteError, match="the loop's own thread"):
                rpc.call(a.address, "ask_back", timeout=30)


def test_a_call_that_hangs_ends_by_time_out_and_closing_does_not_wait_for_it(
    open_sim: Open, target: Target
) -> None:
    began = time.monotonic()
    with open_sim() as a:
        rpc = blocking.open_rpc(a, target)
        with pytest.raises(TimeoutError):
            rpc.call(a.address, "wait", timeout=0.05)
        with pytest.raises(TimeoutError):
            list(rpc.call_all("wait", timeout=0.05))
        a.close()  # the RPC first
        assert rpc.closed
        with pytest.raises(ChannelClosed, match="RPC"):
            rpc.call(a.address, "add", 1, 1)
        rpc.close()
    assert time.monotonic() - began < 30, "a method waits for 60 s"


def test_users_share_one_loop_and_opening_again_closes_nothing_of_others(
    cache: blocking.TreeCache,
) -> None:
    cache.put("/a", "k", 1)
    with blocking.open_tree_cache("local.xml") as other:
        assert len(loops()) == 1
        assert other.get("/a", "k") is None
    assert cache.get("/a", "k") == 1


def test_a_lost_handle_is_closed_with_a_warning(open_sim: Open, cache: blocking.TreeCache) -> None:
    names: dict[str, blocking.Channel] = {}

    def cell() -> None:
        names["channel"] = open_sim(name="A")

    cell()
    with pytest.warns(ResourceWarning, match="channel A of test was not closed"):
        cell()  # a notebook's cell, run again
    until(lambda: len(names["channel"].view) == 1)
    names["channel"].close()
    cache.put("/a", "k", 1)  # unharmed


def test_the_last_lost_handle_ends_the_loop() -> None:
    cache = blocking.open_tree_cache("local.xml")
    with pytest.warns(ResourceWarning, match="tree cache of"):
        del cache
    until(lambda: not loops())


def test_many_cycles_leave_no_threads_or_files(open_sim: Open) -> None:
    def held() -> tuple[int, int]:
        return psutil.Process().num_fds(), len(loops())

    open_sim().close()
    gc.collect()  # files that other tests have lost
    before = held()
    for _ in range(10):
        with open_sim() as channel, blocking.open_rpc(channel, {"f": int}, workers=0) as rpc:
            rpc.call(channel.address, "f", timeout=30)
    assert held() == before


def test_an_error_of_a_with_block_comes_out(open_sim: Open) -> None:
    with pytest.raises(KeyError, match="mine"), open_sim() as channel:
        raise KeyError("mine")
    assert channel.closed


def test_an_interrupt_cancels_the_call_and_nothing_else(open_sim: Open) -> None:
    with open_sim() as channel:
        channel.receive(timeout=30)

        def press_ctrl_c() -> None:
            until(lambda: channel._value._stream.is_waited_for)
            os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press_ctrl_c)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            channel.receive(timeout=60)
        presser.join()
        channel.send(b"x")
        assert next_message(channel).payload == b"x"


def test_interrupts_at_any_moment_break_nothing(cache: blocking.TreeCache) -> None:
    class Interrupt(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    chance = random.Random(1)
    hit = 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(5e-6, 4e-4))
                cache.put("/a", "k", number)
                time.sleep(0.01)
            except Interrupt:
                hit += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert hit == 400
    cache.put("/a", "k", "done", timeout=30)
    assert cache.get("/a", "k", timeout=30) == "done"
    assert cache.statistics().counters["calls_under_way"] == 0


def test_a_message_that_was_taken_for_an_interrupted_reader_is_not_lost(open_sim: Open) -> None:
    class Interrupt(Exception):
        pass

    with open_sim() as channel:
        view = channel.receive(timeout=30)

        class Call(call.ThreadCall):
            def wait(self, timeout: float | None) -> Any:
                super().wait(timeout)
                raise Interrupt

        channel.send_many([b"1", b"2"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("jgroups_py.blocking.channel.ThreadCall", Call)
            with pytest.raises(Interrupt):
                channel.receive_many(timeout=30)
        assert isinstance(view, View)
        assert [next_message(channel).payload for _ in range(2)] == [b"1", b"2"]


def test_a_cache_that_is_put_out_of_its_group_says_so() -> None:
    settings = {"cache.stack": "sim.xml"}
    cache = blocking.open_tree_cache(
        "replicated.xml",
        cluster="x",
        transport=MemoryNetwork(),
        properties=settings,
        timeout=20,
    )
    assert len(cache.members) == 1

    def expel() -> None:
        channel = cache._value._replication.channel
        assert channel is not None
        channel.abandon("a test wants it")

    cache._look(expel)
    until(lambda: cache.closed)
    with pytest.raises(Expelled, match="a test wants it"):
        cache.put("/a", "k", 1)
    with pytest.raises(Expelled):
        cache.close()
    cache.close()


def test_the_benchmark_compares_with_a_call_of_trio() -> None:
    """The test does not look at the figures: they depend on the machine."""
    took = measure(rounds=1, calls=5)
    assert {BASE, "blocking: a call of nothing"} <= took.keys()
    assert sum(name.endswith("each") for name in took) == 3
    assert min(took.values()) > 0


# --- processes


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_and_may_open_its_own() -> None:
    done = run(
        """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of fork beside threads
from jgroups_py import LocalProtocolError, blocking
cache = blocking.open_tree_cache("local.xml")
cache.put("/a", "k", 1)
child = os.fork()
if not child:
    code = 1
    try:
        cache.get("/a", "k")
    except LocalProtocolError as error:
        print(error)
        with blocking.open_tree_cache("local.xml") as own:
            own.put("/a", "k", 2)
            code = 40 + own.get("/a", "k")
        cache = None  # not ours to close
    sys.stdout.flush()
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), cache.get("/a", "k"))
cache.close()
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, codes = done.stdout.splitlines()
    assert "of which this one was forked" in said and codes == "42 1"


def test_the_end_of_the_process_closes_open_blocks(tmp_path: Path) -> None:
    """One thread reads without end, and one store needs threads to close."""
    file = tmp_path / "store.db"
    settings = {"cache.file": str(file), "cache.max_nodes": "1000"}
    done = run(
        f"""
import threading
from jgroups_py import ChannelClosed, MemoryNetwork, blocking
cache = blocking.open_tree_cache("passivation.xml", properties={settings!r})
cache.put("/a", "k", 1)
channel = blocking.open_channel("sim.xml", cluster="x", transport=MemoryNetwork())
def read():
    try:
        for item in channel: pass
    except ChannelClosed:
        print("the reader ended")
threading.Thread(target=read).start()
print("main ended")
"""
    )
    assert done.stdout == "main ended\nthe reader ended\n", done.stderr
    assert done.returncode == 0
    with blocking.open_tree_cache("passivation.xml", properties=settings) as cache:
        assert cache.get("/a", "k") == 1
