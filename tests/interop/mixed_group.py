"""A group of Java and Python members on loopback, each seen through the items of its application."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from java_parts import HERE, JavaParts
from names import names_known

from jgroups_py import Channel, MergeView, Message, Rpc, State, View, open_channel, open_rpc
from jgroups_py.config.settings import load_stack
from jgroups_py.driver import FaultFilter, SocketTransport
from jgroups_py.tools.commands.mperf_ports import private_attributes

ALLOWED_LOG = {
    "JGRP000015": "the system gives smaller socket buffers than udp.xml asks for",
    "failed handling (incoming )?message .*IOException: Stream closed": "Java reads from a connection that it "
    "is closing itself: two members connected to each other at once. Later versions say nothing",
    "failed handling message .*RuntimeException: java.nio.channels.ClosedChannelException": "Java answers a CONNECT of "
    "FD_SOCK2 on a connection that the other end, whose neighbour has changed, has closed at the same moment",
    "failed sending graceful close .*(Socket closed|Broken pipe|Connection reset)": "Java closes a "
    "connection that the other end has closed at the same moment, or whose process was killed",
    "failed accepting connection from peer Socket.*EOFException": "the other end has closed a connection before its "
    "handshake: two members connected to each other at once, or a member looked whether anybody listens here",
    "failed accepting connection from peer SSLSocket.*SocketException: Socket is closed": "the other end has "
    "closed a TLS connection before Java has set its options: two members connected to each other at once",
}
"""Java's warnings that are not about our messages: patterns and reasons."""

MEMBERS_MAX = 4
"""The most members of a group over TCP: so many ports and hosts are in TCPPING's list."""

QUICK = {
    "VERIFY_SUSPECT2.timeout": "500",
    "GMS.join_timeout": "1500",
}
"""The stock settings with shorter times for all members alike: crashes take 1 s instead of 3 s."""

PATIENT = {"GMS.join_timeout": "10000"}
"""For members that join others. They wait this long only for the first answer, and a busy machine may not run the others for
seconds. A member without an answer founds a group of its own."""

HASTY = {"GMS.join_timeout": QUICK["GMS.join_timeout"]}
"""For members that no other one answers, although there are others."""


@dataclass(frozen=True)
class Seen:
    """A message as an application got it. ``crc``: CRC-32 of the payload."""

    sender: str
    multicast: bool
    size: int
    crc: int
    text: str = ""


@dataclass(frozen=True)
class SeenView:
    """``members``: names; ``creator`` and ``ids``: addresses in hex."""

    number: int
    creator: str
    members: tuple[str, ...]
    ids: tuple[str, ...]
    merge: bool


class Member:
    """One member, in Java or Python: the views and messages that its application got."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.views: list[SeenView] = []
        self.messages: list[Seen] = []
        self.states: list[tuple[int, int]] = []
        """Size and CRC-32 of each state that was received."""
        self._changed = trio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        """Wait until the condition holds; it is checked at each new item of this member."""
        with trio.move_on_after(seconds) as scope:
            while not condition():
                await self._changed.wait()
        assert not scope.cancelled_caught, f"not within {seconds} s: {self.summary()}"

    async def until_view(self, *names: str, seconds: float = 60.0) -> None:
        """Wait until the newest view has these members, in any order."""
        await self.until(lambda: sorted(self.members) == sorted(names), seconds)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the newest view, coordinator first."""
        return self.views[-1].members if self.views else ()

    def texts(self, sender: Member, *, multicast: bool = True) -> list[str]:
        """Return the texts that came from a member, in order."""
        return [m.text for m in self.from_(sender, multicast=multicast)]

    def from_(self, sender: Member, *, multicast: bool = True) -> list[Seen]:
        return [m for m in self.messages if (m.sender, m.multicast) == (sender.name, multicast)]

    def summary(self) -> str:
        views = "; ".join(f"{v.number} {','.join(v.members)}" for v in self.views[-4:])
        last = ", ".join(f"{m.sender}:{m.size}:{m.text[:20]}" for m in self.messages[-6:])
        return f"{self.name}: views [{views}], {len(self.messages)} messages, last [{last}]"


class ProcessMember(Member):
    """A member in a process of its own, driven by lines, answering with JSON lines."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.process: trio.Process
        self.log: list[dict[str, Any]] = []
        self.errors = ""
        self.counts: dict[str, list[int]] = {}
        self.stats: dict[str, Any] = {}
        self.called: list[dict[str, Any]] = []
        """The results of calls: values or problems."""
        self._answers: list[dict[str, Any]] = []
        self._asked = 0
        self._killed = False

    async def run(
        self, command: list[str], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the process, which always ends before this task."""
        self.process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._read_errors)
                task_status.started()
        finally:
            self.kill(signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await self.process.wait()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        async for part in self.process.stdout:
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self._happened(json.loads(line))
            self.changed()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for part in self.process.stderr:
            self.errors += part.decode(errors="replace")

    def _happened(self, event: dict[str, Any]) -> None:
        match event.pop("event"):
            case "view":
                view: dict[str, Any] = {
                    key: tuple(v) if isinstance(v, list) else v for key, v in event.items()
                }
                self.views.append(SeenView(**view))
            case "message":
                m = event
                self.messages.append(
                    Seen(m["from"], m["multicast"], m["size"], m["crc"], m["text"])
                )
            case "state":
                self.states.append((event["size"], event["crc"]))
            case "counts":
                self.counts = event["counts"]
            case "stats":
                self.stats = event["stats"]
            case "called":
                self.called.append(event)
            case "log":
                self.log.append(event)
            case "done" | "failed":
                self._answers.append(event)

    async def tell(self, *words: object, seconds: float = 60.0) -> None:
        """Give a command and wait until it was carried out."""
        await self.start(*words)
        await self.finished(seconds)

    async def start(self, *words: object) -> None:
        """Give a command."""
        assert self.process.stdin is not None
        self._asked += 1
        await self.process.stdin.send_all((" ".join(map(str, words)) + "\n").encode())

    async def finished(self, seconds: float = 60.0) -> None:
        """Wait until all commands were carried out."""
        await self.until(lambda: len(self._answers) >= self._asked, seconds)
        problems = [answer["problem"] for answer in self._answers if "problem" in answer]
        assert not problems, problems

    async def call(self, *words: object) -> Any:
        """Make a call (Calls.java). Return its value as Java prints it, or its error."""
        await self.tell(*words)
        result = self.called[-1]
        return result["value"] if "value" in result else f"raised {result['problem']}"

    async def counted(self) -> dict[str, list[int]]:
        """Return for "sender *" (multicasts) or "sender 1" (unicasts): messages, bytes, last
        number, out of order, wrong content."""
        await self.tell("counts")
        return self.counts

    def summary(self) -> str:
        logged = "; ".join(f"{entry['level']} {entry['text']}" for entry in self.log[-5:])
        return f"{super().summary()}, log [{logged}], standard error [{self.errors[-500:]}]"

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal_number)

    def complaints(self, allowed: Iterable[str]) -> list[str]:
        """Return the warnings and errors that Java logged, without the allowed ones."""
        patterns = re.compile("|".join([*ALLOWED_LOG, *allowed]))
        lines = [f"{entry['level']} {entry['text']}" for entry in self.log]
        return [line for line in lines if not patterns.search(line)]


class PythonMember(Member):
    """A member in this process."""

    channel: Channel
    rpc: Rpc

    def __init__(self, name: str, target: object = None) -> None:
        super().__init__(name)
        self.target = target
        """The object that gets calls. None: the member has no RPC."""
        self.faults = FaultFilter()
        self.provided = b""
        self.reading = trio.Event()
        """While it is set, the reader takes items. A fresh event clears it."""
        self.reading.set()
        self._leave = trio.Event()
        self._left = trio.Event()

    async def run(
        self, options: dict[str, Any], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async def provide() -> AsyncIterator[bytes]:
            yield self.provided

        transport = SocketTransport(faults=self.faults)
        options = {"name": self.name, "transport": transport, "state": provide, **options}
        async with AsyncExitStack() as blocks:
            self.channel = await blocks.enter_async_context(open_channel(**options))
            source: Channel | Rpc = self.channel
            if self.target is not None:
                opened = open_rpc(self.channel, self.target)
                source = self.rpc = await blocks.enter_async_context(opened)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, source)
                task_status.started()
                await self._leave.wait()
                nursery.cancel_scope.cancel()
        self._left.set()

    async def _read(self, source: Channel | Rpc) -> None:
        name_of = self.channel.name_of
        async for item in source:
            match item:
                case View(members=members, view_id=view_id):
                    await names_known(self.channel, members)
                    names = tuple(map(name_of, members))
                    ids = tuple(member.hex() for member in members)
                    merge = isinstance(item, MergeView)
                    creator = view_id.creator.hex()
                    self.views.append(SeenView(view_id.id, creator, names, ids, merge))
                case Message(sender=sender, payload=payload):
                    await names_known(self.channel, [sender])
                    size, crc = len(payload), zlib.crc32(payload)
                    text = payload.decode(errors="replace") if size <= 200 else ""
                    self.messages.append(Seen(name_of(sender), item.multicast, size, crc, text))
                case State(payload=payload):
                    self.states.append((len(payload), zlib.crc32(payload)))
            self.changed()
            await self.reading.wait()

    async def leave(self) -> None:
        """Leave the group; return when it has left."""
        self._leave.set()
        await self._left.wait()

    def address_of(self, member: Member) -> Any:
        """Return the address of another member of the newest view."""
        for address in self.channel.view.members:
            if self.channel.name_of(address) == member.name:
                return address
        raise AssertionError(f"{member.name} is not in {self.summary()}")

    async def send(self, text: str, to: Member | None = None, **options: Any) -> None:
        dest = None if to is None else self.address_of(to)
        await self.channel.send(text.encode(), dest, **options)


@dataclass
class Group:
    """Members of a cluster without other members on the machine."""

    nursery: trio.Nursery
    parts: JavaParts
    stack: str
    attributes: dict[str, str]
    cluster: str = "mixed"
    file: Path | None = None
    """``file``: a stack file that is not in the jar."""
    java_members: list[ProcessMember] = field(default_factory=list)
    python_members: list[PythonMember] = field(default_factory=list)
    begun: bool = False

    def settings(self, attributes: Mapping[str, str] | None) -> dict[str, str]:
        """Return the attributes of one more member, which joins those that have begun."""
        patient = PATIENT if self.begun else {}
        self.begun = True
        return {**self.attributes, **patient, **(attributes or {})}

    async def java(
        self,
        name: str,
        *,
        parts: JavaParts | None = None,
        connect: bool = True,
        attributes: Mapping[str, str] | None = None,
        rpc: bool = False,
    ) -> ProcessMember:
        """Return a Java member with a copy of the stack of its own."""
        member = ProcessMember(name)
        await self.nursery.start(member.run, (parts or self.parts).command())
        self.java_members.append(member)
        settings = self.settings(attributes)
        overrides = [f"{key}={value}" for key, value in settings.items()]
        await member.tell("open", self.file or f"{self.stack}.xml", name, *overrides)
        if rpc:
            await member.tell("rpc")
        if connect:
            await member.tell("connect", self.cluster)
        return member

    async def python(
        self,
        name: str,
        *,
        stack: str | Path | None = None,
        attributes: Mapping[str, str] | None = None,
        wait: bool = True,
        target: object = None,
        **options: Any,
    ) -> PythonMember:
        """Return a Python member with the stack file of the Java jar."""
        member = PythonMember(name, target)
        member.faults = options.pop("faults", member.faults)
        await self.nursery.start(
            member.run,
            {
                "stack": stack or self.file or self.parts.stacks / f"{self.stack}.xml",
                "cluster": self.cluster,
                "bind_addr": "127.0.0.1",
                "attributes": self.settings(attributes),
                **options,
            },
        )
        self.python_members.append(member)
        if wait:
            await member.until(lambda: member.views)
        return member

    async def python_process(
        self, name: str, *, attributes: Mapping[str, str] | None = None
    ) -> ProcessMember:
        """Return a Python member in a process of its own, for ``kill``."""
        member = ProcessMember(name)
        stack = str(self.file or self.parts.stacks / f"{self.stack}.xml")
        settings = self.settings(attributes)
        arguments = json.dumps([stack, name, self.cluster, settings])
        script = str(HERE / "python_peer.py")
        await self.nursery.start(member.run, [sys.executable, script, arguments])
        await member.until(lambda: member.views)
        return member


@asynccontextmanager
async def mixed_group(
    parts: JavaParts,
    stack: str,
    attributes: Mapping[str, str] | None = None,
    *,
    allowed: Iterable[str] = (),
    file: Path | None = None,
) -> AsyncIterator[Group]:
    """A group, with a check at its end: Java did not complain about our messages.

    ``allowed``: patterns of further warnings that the test causes. ``file``: a stack file that is not in the jar.
    """
    config = load_stack(str(file or parts.stacks / f"{stack}.xml"))
    diagnostics = {f"{stack.upper()}.diag.enabled": "false"}
    private = private_attributes(config, MEMBERS_MAX)
    settings = {**private, **QUICK, **diagnostics, **(attributes or {})}
    async with trio.open_nursery() as nursery:
        group = Group(nursery, parts, stack, settings, cluster=f"mixed-{os.getpid()}", file=file)
        yield group
        for member in reversed(group.python_members):
            await member.leave()
        complaints = {m.name: m.complaints(allowed) for m in group.java_members}
        errors = {m.name: m.errors for m in group.java_members if "Exception" in m.errors}
        nursery.cancel_scope.cancel()
    lines = [f"{name}: {line}" for name, found in complaints.items() for line in found]
    assert not lines, "\n".join(lines)
    assert not errors, errors


async def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until something holds that no item of a member tells."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.02)


def filler(number: int, size: int, seed: int) -> bytes:
    """Return the payload that Peer.java makes and checks: a number, then bytes that depend on it."""
    pattern = bytes((i * 7 + number * 13 + seed) & 255 for i in range(8, 264))
    return (number.to_bytes(8, "big") + pattern * (size // 256 + 1))[:size]
