"""HealthFile: a file for health checks. It has a member's view, and proves that the member's loop runs.

It is written whole at each view and every ``WRITE_EVERY`` seconds, and removed when the member has left. Its reader
(``jgroups-py health``) takes an old file for a member that hangs. No port is opened, and no question is sent to the member.
"""

from __future__ import annotations

import json
import os
import re
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from jgroups_py.errors import ConfigError

if TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel

WRITE_EVERY: Final = 2.0
"""Seconds between two writes while the view stays the same."""
LOOK_EVERY: Final = 0.2
"""Seconds between two looks at the view."""
NAME_SHOWN: Final = 40
"""Characters of a file's name in that of its temporary file. A whole one could make it too long."""
NAMES_MAX: Final = 1000
"""The most members whose names are written; all are counted."""
VARIABLE: Final = "JGROUPS_HEALTH_FILE"
"""Environment variable: the file of each channel that was not given one. ``{cluster}`` in it stands for the name of the
cluster."""


def health_file_of(given: str | Path | None, cluster: str) -> Path | None:
    """Return the file for a channel of ``cluster``. None: the channel has no file."""
    text = os.environ.get(VARIABLE) if given is None else os.fspath(given)
    if not text:
        return None
    return Path(text.replace("{cluster}", re.sub(r"[^A-Za-z0-9._-]", "-", cluster)))


class HealthFile:
    """See the module's docstring. Without a ``file`` it does nothing."""

    def __init__(self, channel: Channel, file: Path | None) -> None:
        self._channel = channel
        self._file = file
        self._begun = False

    def begin(self, nursery: trio.Nursery) -> None:
        """Write the file now, and keep it fresh from now on.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self._file is None:
            return
        try:
            write_whole(self._file, self._text())
        except OSError as error:
            raise ConfigError(
                f"health_file must be a file that this process may write, in a folder that is there, got "
                f'"{self._file}": {error.strerror}'
            ) from None
        self._begun = True
        nursery.start_soon(self._run, self._file)

    async def _run(self, file: Path) -> None:
        """Keep the file fresh until cancelled, or until the member has left."""
        channel, told = self._channel, self._channel.view.view_id
        written = trio.current_time()
        while channel.error is None:
            await trio.sleep(LOOK_EVERY)
            now = trio.current_time()
            if channel.view.view_id == told and now < written + WRITE_EVERY:
                continue
            told, written = channel.view.view_id, now
            try:
                await trio.to_thread.run_sync(partial(write_whole, file, self._text()))
            except OSError as error:
                channel.warn("the health file cannot be written: %s", error.strerror)

    def remove(self) -> None:
        """Remove the file, because the member has left."""
        if self._file is None or not self._begun:
            return
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            self._channel.warn("the health file cannot be removed: %s", error.strerror)

    def _text(self) -> str:
        channel, view = self._channel, self._channel.view
        names = [channel.name_of(member) for member in view.members[:NAMES_MAX]]
        return json.dumps(
            {
                "cluster": channel.cluster,
                "name": channel.name,
                "pid": os.getpid(),
                "view": view.view_id.id,
                "coordinator": names[0],
                "size": len(view.members),
                "members": names,
            }
        )


def write_whole(file: Path, text: str) -> None:
    """Write the file whole, and readable for its owner only."""
    new = file.with_name(f".{file.name[:NAME_SHOWN]}.{os.getpid()}.{threading.get_ident()}.new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text + "\n")
        os.replace(new, file)
    except OSError:
        new.unlink(missing_ok=True)
        raise
