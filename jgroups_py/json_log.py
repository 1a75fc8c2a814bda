"""JsonFormatter: log lines as JSON, one object a line, for machines that collect logs.

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger("jgroups_py").addHandler(handler)

    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger": "jgroups_py.GMS", "text": "view 1 with 2 members: A, B",
     "member": "A", "cluster": "demo"}

``jgroups-py COMMAND --json-log`` formats the log of that command.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

TEXT_MAX: Final = 10_000
"""The most characters of a text and of a traceback."""
EXTRAS: Final = ("member", "cluster")
"""Fields that our log lines have beside the usual ones. ``text`` does not repeat them."""


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, in ASCII. A record of another library has no ``member`` and no ``cluster``."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "text": record.getMessage(),
        }
        extras = {name: str(getattr(record, name)) for name in EXTRAS if hasattr(record, name)}
        if len(extras) == len(EXTRAS):
            line["text"] = line["text"].removeprefix(f"{'/'.join(extras.values())}: ")
        line |= extras
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-TEXT_MAX:]
        line["text"] = line["text"][:TEXT_MAX]
        return json.dumps(line)
