"""Log lines as JSON."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from typing import Any

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.json_log import TEXT_MAX, JsonFormatter


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def record(text: str, *values: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("jgroups_py.X", logging.INFO, "x.py", 1, text, values, None)
    made.created = 1_000_000_000.1234
    vars(made).update(extra)
    return made


async def test_lines_of_a_member_name_it_once() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("jgroups_py.GMS")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        async with open_channel("sim.xml", cluster="demo", name="A", transport=MemoryNetwork()):
            pass
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    first, *_ = lines_of(stream.getvalue())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "INFO",
        "logger": "jgroups_py.GMS",
        "text": "view 0 with 1 members: A",
        "member": "A",
        "cluster": "demo",
    }


def test_a_record_of_another_library_has_the_usual_fields() -> None:
    line = JsonFormatter().format(record("%d of\n%s", 1, "\N{SNOWMAN}"))
    assert line.isascii() and "\n" not in line
    assert json.loads(line) == {
        "time": "2001-09-09T01:46:40.123Z",
        "level": "INFO",
        "logger": "jgroups_py.X",
        "text": "1 of\n\N{SNOWMAN}",
    }


def test_an_error_brings_its_traceback_and_texts_are_bounded() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        made = record("x" * (TEXT_MAX + 1), exc_info=sys.exc_info(), member="A", cluster="c")
    told = json.loads(JsonFormatter().format(made))
    assert len(told["text"]) == TEXT_MAX and told["member"] == "A"
    assert told["traceback"].endswith("ValueError: boom")


def test_a_command_logs_as_json_when_it_is_told_to() -> None:
    code = (
        "import logging, sys\n"
        "from jgroups_py.tools.cli import run\n"
        "code = run(sys.argv[1:])\n"
        "logging.getLogger('jgroups_py.X').warning('odd')\n"
        "sys.exit(code)"
    )
    for args in (["--json-log", "validate", "udp.xml"], ["validate", "udp.xml", "--json-log"]):
        done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (line,) = lines_of(done.stderr)
        assert (line["logger"], line["text"]) == ("jgroups_py.X", "odd")
