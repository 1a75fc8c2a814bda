"""Stories: a simulated run as a text that people read. A story has commands, a line of dashes, and the events.

    # B is slow, not dead. Nobody may leave.
    members A B C sim.xml FD_ALL3.timeout=3s FD_ALL3.interval=1s
    pause B 5s
    advance 10s
    ----
    4.000 A FD_ALL3 suspects B

Commands (times as in stack files):

    watch NAME...                 protocols whose traces are told; `app` = views and deliveries
    quiet NAME.WHAT...            the traces of those that are left out
    seed N
    members NAME... STACK [P.attribute=value]...   start them and wait for one view of all
    start NAME... STACK [P.attribute=value]...     start, do not wait
    send NAME TEXT...             one multicast per TEXT
    crash | vanish | leave | resume NAME...
    pause NAME TIME
    partition NAME... | NAME...   heal
    advance TIME
    say TEXT...                   written into the output, as a heading

Times in the output count from the start of the story.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jgroups_py.errors import ConfigError
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.world import World
from jgroups_py.units import parse_seconds
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

RULE = "----"


def run_story(text: str, file: str | None = None) -> str:
    """Return the output of a story's commands (the text below its line of dashes)."""
    teller = _Teller()
    commands = text.split(f"\n{RULE}", 1)[0]
    for number, line in enumerate(commands.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        command = getattr(teller, f"do_{words[0]}", None)
        if command is None:
            raise ConfigError(f"unknown command {words[0]!r}", file=file, line=number)
        command(words[1:])
    return "\n".join(teller.lines)


def check_story(path: Path, *, rewrite: bool = False) -> tuple[str, str]:
    """Return (expected, actual) of a story file; with ``rewrite`` the file gets the actual output."""
    text = path.read_text()
    commands, _, expected = text.partition(f"\n{RULE}\n")
    actual = run_story(text, str(path))
    if rewrite:
        path.write_text(f"{commands}\n{RULE}\n{actual}\n")
        expected = actual
    return expected.strip(), actual.strip()


class _Teller:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._seed = 0
        self._watched: list[str] = ["app"]
        self._quiet: list[str] = []
        self._world: World | None = None

    @property
    def world(self) -> World:
        if self._world is None:
            self._world = World(self._seed, trace=self._on_trace)
            self._world.on_record.append(self._on_record)
        return self._world

    def member(self, name: str) -> Member:
        return self.world.member(name)

    # --- telling

    def _tell(self, at: float, member: str, text: str) -> None:
        self.lines.append(f"{at:.3f} {member} {text}".rstrip())

    def _show(self, value: Any) -> str:
        if isinstance(value, Address):
            return self.world.name_of(value)
        if isinstance(value, View):
            return f"[{' '.join(self._show(m) for m in value.members)}]|{value.id}"
        if isinstance(value, (list, tuple)):
            return "[" + " ".join(self._show(v) for v in value) + "]"
        if isinstance(value, dict):
            return (
                "{" + " ".join(f"{self._show(k)}:{self._show(v)}" for k, v in value.items()) + "}"
            )
        if isinstance(value, float):
            return f"{value:.3f}"
        return str(value)

    def _on_trace(
        self, at: float, member: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        if protocol in self._watched and f"{protocol}.{what}" not in self._quiet:
            shown = " ".join(f"{key}={self._show(value)}" for key, value in details.items())
            self._tell(at, member, f"{protocol} {what} {shown}")

    def _on_record(self, at: float, member: Member, what: str, details: dict[str, Any]) -> None:
        if "app" in self._watched and f"app.{what}" not in self._quiet:
            shown = " ".join(self._show(value) for value in details.values())
            self._tell(at, member.name, f"{what} {shown}")

    def _on_batch(self, member: Member, batch: Batch) -> None:
        if "app" not in self._watched or "app.deliver" in self._quiet:
            return
        assert batch.src is not None
        for message in batch.messages():
            text = message.payload.decode(errors="replace")
            self._tell(self.world.now, member.name, f"deliver {self._show(batch.src)}: {text}")

    # --- commands

    def do_watch(self, words: list[str]) -> None:
        self._watched = words

    def do_quiet(self, words: list[str]) -> None:
        self._quiet = words

    def do_seed(self, words: list[str]) -> None:
        self._seed = int(words[0])

    def do_say(self, words: list[str]) -> None:
        self.lines.append(f"-- {' '.join(words)}")

    def do_start(self, words: list[str]) -> None:
        attributes = dict(word.split("=", 1) for word in words if "=" in word)
        *names, stack = [word for word in words if "=" not in word]
        for name in names:
            member = self.world.start(name, stack, "story", attributes=attributes)
            member.on_batch = self._on_batch

    def do_members(self, words: list[str]) -> None:
        names = [word for word in words if "=" not in word][:-1]
        others = [word for word in words if word not in names]
        for name in names:
            self.do_start([name, *others])
            self.world.run_until(lambda n=name: self.member(n).view is not None, limit=30)  # type: ignore[misc]
        members = [self.member(name) for name in names]
        self.world.run_until(lambda: self.world.views_agree(members), limit=30)

    def do_send(self, words: list[str]) -> None:
        self.member(words[0]).send(*(word.encode() for word in words[1:]))

    def do_crash(self, words: list[str]) -> None:
        for name in words:
            self.member(name).crash()

    def do_vanish(self, words: list[str]) -> None:
        for name in words:
            self.member(name).vanish()

    def do_leave(self, words: list[str]) -> None:
        for name in words:
            self.member(name).leave()

    def do_resume(self, words: list[str]) -> None:
        for name in words:
            self.member(name).resume()

    def do_pause(self, words: list[str]) -> None:
        member = self.member(words[0])
        member.pause()
        self.world.at(self.world.now + parse_seconds(words[1]), member.resume)

    def do_partition(self, words: list[str]) -> None:
        groups = [[self.member(n) for n in g.split()] for g in " ".join(words).split("|")]
        self.world.partition(*groups)
        self._tell(self.world.now, "network", f"is cut: {' '.join(words)}")

    def do_heal(self, words: list[str]) -> None:
        self.world.heal()
        self._tell(self.world.now, "network", "is whole")

    def do_advance(self, words: list[str]) -> None:
        self.world.run_for(parse_seconds(words[0]))
