"""History: keeps the typed lines of a shell from one session to the next, for their owner alone.

The file is $XDG_STATE_HOME/jgroups-py/NAME-history (else ~/.local/state/...), readable by its owner only.
At most LINES_MAX lines are kept; the file is cut to that whenever a shell begins. A line that begins with
a space is not kept, as in other shells.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import Final

LINES_MAX: Final = 1000
LINE_MAX: Final = 4096
"""The most characters of a line. Longer lines are not kept."""


class ShellHistory:
    """``lines`` has the earlier lines, oldest first. ``problem`` says why no line is kept, if so."""

    def __init__(self, name: str) -> None:
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        self.file = Path(state, "jgroups-py", f"{name}-history")
        self.lines: list[str] = []
        self.problem: str | None = None
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._load()
        except OSError as error:
            self.problem = f"{self.file}: {error.strerror or error}"

    def add(self, line: str) -> None:
        """Keep a line at once, because the shell may be killed."""
        fits = line.strip() and not line.startswith(" ") and len(line) <= LINE_MAX
        if not fits or self.problem is not None:
            return
        try:
            with open(self.file, "a", encoding="utf-8", opener=_for_owner) as out:
                out.write(f"{line}\n")
        except OSError as error:
            self.problem = f"{self.file}: {error.strerror or error}"

    def _load(self) -> None:
        """Read the newest lines. A file with more lines is written anew."""
        with open(self.file, "a", opener=_for_owner):
            pass
        self.file.chmod(0o600)
        count = 0
        newest: deque[str] = deque(maxlen=LINES_MAX)
        with open(self.file, encoding="utf-8", errors="replace") as text:
            for line in text:
                count += 1
                newest.append(line.rstrip("\n")[:LINE_MAX])
        self.lines = list(newest)
        if count > LINES_MAX:
            self._write_anew()

    def _write_anew(self) -> None:
        descriptor, name = tempfile.mkstemp(dir=self.file.parent)  # 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in self.lines)
            os.replace(name, self.file)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
