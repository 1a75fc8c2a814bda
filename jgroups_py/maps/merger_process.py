"""The process that merges the inboxes of a map; merger_child.py starts it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from jgroups_py.maps.control import Control, durable_of
from jgroups_py.maps.file_settings import DEFAULTS, FileSettings
from jgroups_py.maps.merger import Merged, Merger
from jgroups_py.maps.rules import RULES
from jgroups_py.maps.stamp import HybridClock
from jgroups_py.maps.store import MapStore


class _File(Merged):
    """The part of a file that a merger needs."""

    def __init__(self, folder: Path, settings: FileSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.store = MapStore(
            folder,
            max_bytes=settings.max_bytes,
            settings=dict.fromkeys(DEFAULTS),
            defaults={**DEFAULTS, "name": folder.name},
            durable=durable_of(folder / "control"),
        )
        self.control = Control(folder / "control", settings.inbox_bytes)
        self.rule = RULES[self.store.settings["rule"]]()
        self.clock = HybridClock(time.time_ns)
        self.closing = threading.Event()
        self.problem: Exception | None = None


def main(text: str) -> None:
    """Run the process. ``text``: JSON of ``folder``, ``lock`` (a descriptor that has the lock), and settings."""
    options = json.loads(text)
    folder, lock = Path(options.pop("folder")), options.pop("lock")
    os.set_inheritable(lock, False)
    file = _File(folder, FileSettings(**options))

    def watch() -> None:
        while os.read(0, 1):  # the pipe ends with the parent process
            pass
        file.closing.set()

    threading.Thread(target=watch, daemon=True).start()
    Merger(file, lock).run()


if __name__ == "__main__":
    main(sys.argv[1])
