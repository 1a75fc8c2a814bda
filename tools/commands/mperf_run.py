"""Measures multicasts. N processes are members, and the first of them send.

The parent starts the members, gives them the time to begin, and adds up. Times are those of the host's
monotonic clock, which all processes share. Lines of JSON go both ways: a member says ``ready``
(its view is complete), ``sent`` (its sender has stopped), ``done`` (the figures); the parent says
``start`` and ``totals``. A member whose standard input ends leaves the group.

Every payload begins with the number of its sender and a sequence number; order and duplicates are
checked for every message, run by run.
"""

from __future__ import annotations

import gc
import json
import logging
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from operator import eq
from typing import Any

import trio

from jgroups_py import Batch, Channel, View, open_channel
from jgroups_py.tools.child_side import forward_lines, run_child, say
from jgroups_py.tools.children import Child, ChildError, ready_children, start_process
from jgroups_py.tools.commands.mperf_load import HEAD, SEQNO_BITS, SlowTaker, mean_size, payloads

WINDOWS = 3
LAST_WAIT = 10.0  # seconds without progress after which missing messages count as lost
WORDS_MAX = 3  # orders of the parent: start, totals, leave
LEAD = 0.2  # seconds between the first member and the second
START_DELAY = 0.3  # seconds from the complete view to the first message


log = logging.getLogger("jgroups_py.mperf")


@dataclass(frozen=True)
class MperfPlan:
    """The plan of a measurement. Times are seconds; ``size`` is the bytes of a payload."""

    stack: str
    members: int
    senders: int
    size: int
    seconds: float
    cluster: str
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    bind_addr: str | None = None
    join_timeout: float = 30.0
    warm_up_seconds: float | None = None
    """Time before the first window; None: a fifth of ``seconds``, within 0.5 and 2."""
    huge: int = 0
    """Bytes of a payload that follows each ``SMALL_BETWEEN_HUGE`` payloads of ``size``; 0: there is none."""
    slow: float = 0.0
    """Bytes a second that the last member takes at most; 0: it is as fast as the others."""

    @property
    def warm_up(self) -> float:
        if self.warm_up_seconds is not None:
            return self.warm_up_seconds
        return min(2.0, max(0.5, self.seconds / 5))


# --- a member


class Check:
    """Counts the messages that one member received from each sender, and checks their order."""

    def __init__(self, senders: int) -> None:
        self.next = [0] * senders
        self.delivered = [0] * senders
        self.missing: list[dict[int, None]] = [{} for _ in range(senders)]
        self.total = 0
        self.duplicates = 0
        self.out_of_order = 0

    def take(self, payloads: Sequence[Any]) -> None:
        """Count a run of one sender."""
        (first,) = HEAD.unpack_from(payloads[0])
        sender, seqno = first >> SEQNO_BITS, first & (1 << SEQNO_BITS) - 1
        count = len(payloads)
        heads = map(HEAD.unpack_from, payloads)
        if seqno == self.next[sender] and all(map(eq, heads, zip(range(first, first + count)))):
            self.next[sender] += count
            self.delivered[sender] += count
            self.total += count
            return
        for (head,) in map(HEAD.unpack_from, payloads):
            self._take_one(head >> SEQNO_BITS, head & (1 << SEQNO_BITS) - 1)

    def _take_one(self, sender: int, seqno: int) -> None:
        expected, missing = self.next[sender], self.missing[sender]
        if seqno < expected:
            if seqno not in missing:
                self.duplicates += 1
                return
            del missing[seqno]
            self.out_of_order += 1
        else:
            missing.update(dict.fromkeys(range(expected, seqno)))
            self.next[sender] = seqno + 1
        self.delivered[sender] += 1
        self.total += 1


class MeasuredMember:
    """One process of the measurement."""

    def __init__(self, plan: MperfPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.check = Check(plan.senders)
        self.sent = 0
        self.samples: list[tuple[float, int]] = []
        self.complete = trio.Event()
        self.views = 0
        """Views with all members, and those after the first of them."""
        self.sending = False
        self.cpu_begin = 0.0

    async def run(self) -> None:
        plan = self.plan
        told, words = trio.open_memory_channel[dict[str, Any]](WORDS_MAX)
        async with trio.open_nursery() as listening:
            listening.start_soon(forward_lines, told, listening.cancel_scope)
            async with (
                open_channel(
                    plan.stack,
                    cluster=plan.cluster,
                    name=f"M{self.number + 1}",
                    bind_addr=plan.bind_addr,
                    attributes=plan.attributes,
                    properties=plan.properties,
                    join_timeout=plan.join_timeout,
                ) as channel,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._read, channel)
                await self.complete.wait()
                say(event="ready")
                start = (await words.receive())["start"]
                gc.freeze()
                self.cpu_begin = time.process_time()
                if self.number < plan.senders:
                    nursery.start_soon(self._send, channel, start)
                await self._sample(start)
                await self._sent_all()
                say(event="sent", sent=self.sent)
                totals = (await words.receive())["totals"]
                await self._wait_for(totals)
                self._report(channel, totals)
                # All members stay until all have everything.
                await words.receive()
                listening.cancel_scope.cancel()

    async def _read(self, channel: Channel) -> None:
        plan, take = self.plan, self.check.take
        slow = SlowTaker(plan.slow) if self.number == plan.members - 1 and plan.slow else None
        async for item in channel.batches():
            if isinstance(item, Batch):
                take(item.payloads)
                if slow is not None:
                    await slow.take(item.payloads)
            elif isinstance(item, View) and (self.views or len(item) == plan.members):
                self.views += 1
                self.complete.set()

    async def _send(self, channel: Channel, start: float) -> None:
        plan = self.plan
        end = start + plan.warm_up + plan.seconds
        made = payloads(plan.size, plan.huge)
        base = self.number << SEQNO_BITS
        clock = time.monotonic
        await trio.sleep(start - clock())
        self.sending = True
        while clock() < end:
            first = base + self.sent
            self.sent += made.count
            await channel.send_many(made.beginning(first))
        self.sending = False

    async def _sample(self, start: float) -> None:
        plan = self.plan
        for window in range(WINDOWS + 1):
            due = start + plan.warm_up + plan.seconds * window / WINDOWS
            await trio.sleep(max(0.0, due - time.monotonic()))
            self.samples.append((time.monotonic(), self.check.total))

    async def _sent_all(self) -> None:
        with trio.move_on_after(LAST_WAIT):
            while self.sending:  # noqa: ASYNC110 (once)
                await trio.sleep(0.01)
        if self.sending:
            raise ChildError(f"send still waits {LAST_WAIT:g} s after the end")

    async def _wait_for(self, totals: list[int]) -> None:
        seen, since = -1, time.monotonic()
        while self.check.total < sum(totals):
            if self.check.total != seen:
                seen, since = self.check.total, time.monotonic()
            elif time.monotonic() - since > LAST_WAIT:
                return
            await trio.sleep(0.02)

    def _report(self, channel: Channel, totals: list[int]) -> None:
        check = self.check
        rates = [
            (after - before) / (end - begin)
            for (begin, before), (end, after) in zip(self.samples, self.samples[1:], strict=False)
        ]
        say(
            event="done",
            name=channel.name,
            sent=self.sent,
            delivered=check.total,
            duplicates=check.duplicates,
            out_of_order=check.out_of_order,
            lost=sum(max(0, t - d) for t, d in zip(totals, check.delivered, strict=True)),
            rates=rates,
            view_changes=self.views - 1,
            cpu_s=time.process_time() - self.cpu_begin,
            statistics=_counters(channel),
        )


def _counters(channel: Channel) -> dict[str, dict[str, int | float]]:
    """Return the counters that are not zero, for --verbose."""
    now = channel.statistics()
    groups = {"channel": {"send_waits": now.send_waits}, "driver": now.driver, **now.protocols}
    return {name: {k: v for k, v in group.items() if v} for name, group in groups.items()}


def member_main(text: str) -> None:
    """Entry point of a member's process; ``text`` is JSON."""
    arguments = json.loads(text)
    run_child(MeasuredMember(MperfPlan(**arguments["plan"]), arguments["number"]).run)


# --- the parent


async def start_member(plan: MperfPlan, number: int) -> trio.Process:
    """Start the process of a member."""
    argument = {"plan": asdict(plan), "number": number}
    return await start_process("jgroups_py.tools.commands.mperf_run", argument)


async def measure(
    plan: MperfPlan,
    progress: Callable[[str], None],
    start: Callable[[MperfPlan, int], Awaitable[trio.Process]] = start_member,
) -> dict[str, Any]:
    """Run the measurement. Return the object that ``mperf --json`` prints.

    Args: start: starts the process of a member, which reads and writes the lines of this module. So members of another
            library can be measured.

    Raises:
        ChildError: a member did not join or died.
    """
    async with ready_children(
        [f"M{number + 1}" for number in range(plan.members)],
        lambda number: start(plan, number),
        plan.join_timeout,
        missing=f"no view of {plan.members}",
        lead=LEAD,
        joined=lambda count: progress(f"joined: {count} of {plan.members}"),
    ) as members:
        done = await _conduct(plan, members, progress)
    return summary(plan, done)


async def _conduct(
    plan: MperfPlan, members: list[Child], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    start = time.monotonic() + START_DELAY
    for member in members:
        await member.tell(start=start)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_progress, plan, start, progress)
        sent = [(await member.hear("sent"))["sent"] for member in members]
        nursery.cancel_scope.cancel()
    progress("waiting for the last messages")
    for member in members:
        await member.tell(totals=sent[: plan.senders])
    done = [await member.hear("done") for member in members]
    for one in done:
        log.debug("%s used %.2f s of CPU; %s", one["name"], one["cpu_s"], one["statistics"])
    for member in members:
        await member.tell(leave=True)
    return done


async def _show_progress(plan: MperfPlan, start: float, progress: Callable[[str], None]) -> None:
    await trio.sleep(max(0.0, start - time.monotonic()))
    progress(f"warming up for {plan.warm_up:g} s")
    for window in range(WINDOWS):
        due = start + plan.warm_up + plan.seconds * window / WINDOWS
        await trio.sleep(max(0.0, due - time.monotonic()))
        progress(f"window {window + 1} of {WINDOWS}, {plan.seconds / WINDOWS:.1f} s")
    await trio.sleep_forever()


def summary(plan: MperfPlan, done: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of all members' figures. A rate is the median of the windows. The CPU time of a message is that of all
    members: of its sender, and of each member that got it."""
    per_member = [
        {"name": one["name"], "delivered_per_s": round(statistics.median(one["rates"]))}
        for one in done
    ]
    windows = [
        statistics.mean(rates) for rates in zip(*(one["rates"] for one in done), strict=True)
    ]
    rate = statistics.median(windows)
    return {
        "stack": plan.stack,
        "members": plan.members,
        "senders": plan.senders,
        "size": plan.size,
        "seconds": plan.seconds,
        "sent": sum(one["sent"] for one in done),
        "delivered": sum(one["delivered"] for one in done),
        "duplicates": sum(one["duplicates"] for one in done),
        "out_of_order": sum(one["out_of_order"] for one in done),
        "lost": sum(one["lost"] for one in done),
        "per_member": per_member,
        "delivered_per_s_per_member": round(rate),
        "least_window_per_s": round(min(min(one["rates"]) for one in done)),
        "view_changes": max(one.get("view_changes", 0) for one in done),
        "mb_per_s_per_member": round(rate * mean_size(plan.size, plan.huge) / 1e6, 3),
        "cpu_us_per_message": round(
            sum(one["cpu_s"] for one in done) / max(1, sum(one["sent"] for one in done)) * 1e6, 3
        ),
    }


def has_fault(result: dict[str, Any]) -> bool:
    """Return whether a message was delivered twice, in the wrong order, or not at all."""
    return any(result[key] for key in ("duplicates", "out_of_order", "lost"))


if __name__ == "__main__":
    member_main(sys.argv[1])
