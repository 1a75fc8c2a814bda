"""FlightRecorder: the last events of a member, written to a file when something went wrong.

While the member runs, its events (``trace``) and its log lines go into a ring in memory. The ring is written

    some seconds after a suspicion, a split, or an exclusion      so that later events are in it
    at once, when the block of the channel ends with an error

The file is lines of JSON: member, reason and time; settings and counters; then the events, oldest first. Only the owner
may read the file. It has no payloads, and no settings that are secret. ``jgroups-py flight`` shows it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from jgroups_py.channel.health import NAME_SHOWN, write_whole
from jgroups_py.errors import ConfigError, JGroupsError
from jgroups_py.stack.inspection import counters_of, settings_of
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.shown import shown
from jgroups_py.values.view import View, ViewId

if TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel
    from jgroups_py.stack.machine import Trace

VARIABLE: Final = "JGROUPS_FLIGHT_FILE"
"""Environment variable: the file of each channel that was not given one. ``{cluster}`` and ``{name}`` in it stand for
the channel's cluster and member."""
EVENTS_MAX: Final = 5_000
"""The most events that are kept. The oldest are dropped first, and the file has their number."""
TEXT_MAX: Final = 300
"""The most characters of a detail that are written."""
FILES_MAX: Final = 5
"""The most files that are kept: FILE, FILE.1 and so on, the newest first."""
AFTER: Final = 3.0
"""Seconds from the fault until the ring is written."""
QUIET: Final = 30.0
"""Seconds from one file to the next, unless the block ends."""
FORMAT: Final = 1
_moving: Final = threading.Lock()
"""Held while files get other names."""

TRIGGERS: Final[Mapping[tuple[str, str], str]] = {
    ("GMS", "suspect"): "members are suspected",
    ("GMS", "excluded"): "the others went on without this member",
    ("MERGE3", "views differ"): "members with other views are heard",
    ("RELAY", "cut_off"): "this relay is cut off from most of its site",
}
"""The reason to write the ring, by protocol and event."""

Event = tuple[float, str, str, Mapping[str, Any]]
"""Time of the machine, protocol, what happened, details."""


def flight_file_of(given: str | Path | None, cluster: str, name: str) -> Path | None:
    """Return the file for a channel. None: the channel has no file."""
    text = os.environ.get(VARIABLE) if given is None else os.fspath(given)
    if not text:
        return None
    for mark, value in (("{cluster}", cluster), ("{name}", name)):
        text = text.replace(mark, re.sub(r"[^A-Za-z0-9._-]", "-", value))
    return Path(text)


class FlightRecorder:
    """See the module's docstring. Without a ``file`` it does nothing.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, channel: Channel, file: Path | None) -> None:
        if file is not None and (not os.access(file.parent, os.W_OK | os.X_OK) or file.is_dir()):
            raise ConfigError(
                f'flight_file must be a file in a folder that this process may write, got "{file}"'
            )
        self._channel = channel
        self._file = file
        self._ring: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._dropped = 0
        self._why = ""
        self._wanted = trio.Event()
        self._handler = _LogLines(self)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record log lines within the block. Write the ring when an error ends the block."""
        if self._file is None:
            yield
            return
        logger = logging.getLogger("jgroups_py")
        logger.addHandler(self._handler)
        try:
            yield
        except Exception as error:
            self._ended(self._file, error)
            raise
        finally:
            logger.removeHandler(self._handler)

    def trace(self, then: Trace | None) -> Trace | None:
        """Return a trace that records, and calls ``then``."""
        if self._file is None:
            return then

        def note(at: float, member: str, protocol: str, what: str, details: dict[str, Any]) -> None:
            self.note(at, protocol, what, details)
            if then is not None:
                then(at, member, protocol, what, details)

        return note

    def note(self, at: float, protocol: str, what: str, details: Mapping[str, Any]) -> None:
        """Record one event."""
        ring = self._ring
        if len(ring) == EVENTS_MAX:
            self._dropped += 1
        ring.append((at, protocol, what, details))
        why = TRIGGERS.get((protocol, what))
        if why is not None and not self._why:
            self._why = why
            self._wanted.set()

    def note_line(self, record: logging.LogRecord) -> None:
        """Record a line of the log, if it is this member's."""
        channel = self._channel
        mine = channel.name, channel.cluster
        if (getattr(record, "member", None), getattr(record, "cluster", None)) == mine:
            line = {"level": record.levelname, "line": shown(record.getMessage(), TEXT_MAX)}
            self.note(channel.stack.machine.now, record.name.rpartition(".")[2], "log", line)

    async def run(self) -> None:
        """Write the files that were asked for, until cancelled."""
        if self._file is None:
            return
        while True:
            await self._wanted.wait()
            await trio.sleep(AFTER)
            try:
                await trio.to_thread.run_sync(partial(_write, self._file, self._text(self._why)))
            except Exception as error:  # a disk that is full, or counters of a user's protocol
                self._channel.warn("the flight file cannot be written: %s", said(error))
            else:
                self._channel.warn("%s: the last events are in %s", self._why, self._file)
            await trio.sleep(QUIET)
            self._why, self._wanted = "", trio.Event()

    def _ended(self, file: Path, error: Exception) -> None:
        # The text of an error that is not ours may have anything in it.
        words = said(error) if isinstance(error, JGroupsError) else type(error).__name__
        try:
            _write(file, self._text(f"the channel ended with {words}"))
        except Exception as problem:  # the error that ended the channel counts, not this one
            self._channel.warn("the flight file cannot be written: %s", said(problem))

    def _text(self, why: str) -> str:
        channel = self._channel
        stack = channel.stack
        now = stack.machine.now
        head = {
            "format": FORMAT,
            "why": why,
            "cluster": channel.cluster,
            "name": channel.name,
            "pid": os.getpid(),
            "written": time.time(),
            "now": now,
            "view": self._shown(channel._view),
            "events": len(self._ring),
            "dropped": self._dropped,
        }
        lines: list[Mapping[str, Any]] = [head]
        for protocol in stack.protocols:
            state = {"settings": settings_of(protocol), "counters": counters_of(protocol)}
            lines.append({"protocol": protocol.name, **state})
        for at, name, what, details in list(self._ring):
            told = {key: self._shown(value) for key, value in details.items()}
            lines.append({"at": round(at - now, 4), "by": name, "what": what, "details": told})
        return "\n".join(json.dumps(line) for line in lines)

    def _shown(self, value: Any) -> Any:
        """Return a detail as JSON, with names for addresses."""
        stack = self._channel.stack
        match value:
            case None | bool() | int() | float():
                return value
            case View():
                return shown(str(value.named(stack.names)), TEXT_MAX)
            case ViewId():
                return str(value)
            case IpAddress():
                return str(value)
            case Address():
                return shown(stack.name_of(value), TEXT_MAX)
            case tuple() | list():
                return [self._shown(part) for part in value[:20]]
            case bytes():
                return f"{len(value)} bytes"
        return shown(str(value), TEXT_MAX)


class _LogLines(logging.Handler):
    """Hands log lines to a recorder. It never raises: a log line must not end the program that logs it."""

    def __init__(self, recorder: FlightRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._recorder.note_line(record)
        except Exception:
            self.handleError(record)


def _write(file: Path, text: str) -> None:
    """Write this one whole, and keep the older files under other names. They move only after the text is on the disk: a
    full disk takes none of them away."""
    new = file.with_name(f".{file.name[:NAME_SHOWN]}.{os.getpid()}.{threading.get_ident()}")
    write_whole(new, text)
    names = [file, *(file.with_name(f"{file.name}.{n}") for n in range(1, FILES_MAX))]
    with _moving:  # members of one process may write to the same file
        try:
            for newer, older in reversed(list(pairwise(names))):
                with suppress(FileNotFoundError):
                    os.replace(newer, older)
            os.replace(new, file)
        except OSError:
            new.unlink(missing_ok=True)
            raise
