"""Log records and payloads."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.drill.log import (
    PAYLOAD_MIN,
    DrillRecord,
    LogWriter,
    Payload,
    RunOfNumbers,
    expand,
    read_log,
    runs,
)


def test_a_record_has_the_keys_of_the_contract() -> None:
    line = DrillRecord(1.5, "NYC", "E", "deliver", "D#1", 3, {"from": "SFO"}, 2).to_json()
    assert list(json.loads(line)) == ["t", "site", "member", "event", "origin", "seqno", "detail"]
    assert json.loads(line)["detail"] == {"incarnation": 2, "from": "SFO"}


@given(
    st.builds(
        DrillRecord,
        st.floats(0, 1e6).map(lambda t: round(t, 6)),
        st.none() | st.text(max_size=3),
        st.none() | st.text(max_size=3),
        st.sampled_from(["send", "view"]),
        st.none() | st.text(max_size=5),
        st.none() | st.integers(1, 2**53),
        st.none() | st.fixed_dictionaries({"count": st.integers(1, 9)}),
        st.integers(1, 5),
    )
)
def test_records_come_back_as_they_were(record: Any) -> None:
    assert DrillRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"t": null}'])
def test_bytes_that_are_no_record_are_refused(line: Any) -> None:
    with pytest.raises(ValueError):
        DrillRecord.from_json(line)


def test_runs_become_single_messages_in_the_public_log() -> None:
    run = DrillRecord(1.0, "NYC", "E", "deliver", "D#1", 5, {"count": 3, "from": "SFO"})
    assert [(r.seqno, r.detail) for r in expand([run])] == [
        (5, {"from": "SFO"}),
        (6, {"from": "SFO"}),
        (7, {"from": "SFO"}),
    ]
    plain = DrillRecord(1.0, "NYC", "E", "view", detail={"id": "1"})
    assert list(expand([plain])) == [plain]


def test_the_writes_of_a_killed_process_are_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = (
        "import os, signal, sys\n"
        "from jgroups_py.drill.log import LogWriter, DrillRecord\n"
        "log = LogWriter(sys.argv[1])\n"
        "log.write(DrillRecord(i, 'NYC', 'E', 'send', None, i) for i in range(1, 1001))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [r.seqno for r in read_log(path)] == list(range(1, 1001))


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = LogWriter(path)
    writer.write([DrillRecord(1.0, "NYC", "E", "send", None, 1)])
    writer.close()
    with pytest.raises(ValueError):
        writer.write([])
    with open(path, "ab") as file:
        file.write(b'{"t": 2')
    assert [r.seqno for r in read_log(path)] == [1]
    assert os.stat(path).st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def test_a_payload_has_the_size_asked_for() -> None:
    payload = Payload(1, 2, 3, 2**40, 5.25)
    data = payload.pack(1000)
    assert len(data) == 1000
    assert Payload.unpack(memoryview(data)) == payload
    assert len(payload.pack(PAYLOAD_MIN)) == PAYLOAD_MIN
    with pytest.raises(struct.error):
        Payload.unpack(data[: PAYLOAD_MIN - 1])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(1, 4), st.booleans())))
def test_runs_hold_every_message_in_order(items: Any) -> None:
    payloads = [Payload(site, member, 1, seqno, 0.0) for site, member, seqno, _ in items]
    found = runs(p.pack(30) for p in payloads)
    back = [(run.site, run.member, run.first + i) for run in found for i in range(run.length)]
    assert back == [(p.site, p.member, p.seqno) for p in payloads]


def test_consecutive_messages_are_one_run() -> None:
    data = [Payload(0, 1, 1, seqno, 0.0).pack(24) for seqno in (4, 5, 6, 8)]
    assert runs(data) == [RunOfNumbers(0, 1, 1, 4, 3), RunOfNumbers(0, 1, 1, 8, 1)]
