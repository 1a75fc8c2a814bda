"""CallLog: a process writes what it calls and what came back to a file, line by line, so that a kill loses nothing."""

from __future__ import annotations

import json
import os
import time
from typing import Any


class CallLog:
    """``number``: the number of the last call."""

    def __init__(self, file: str, name: str) -> None:
        self.out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.name = name
        self.number = 0

    def write(self, **record: Any) -> None:
        os.write(self.out, (json.dumps({**record, "t": time.monotonic()}) + "\n").encode())
