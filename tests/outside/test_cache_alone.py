"""`jgroups-py cache put` warns when the value will be lost: no other member, no store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Ran, run_here

PATIENT = ("--set", "GMS.join_timeout=20s")
"""A busy machine may not run the other process for seconds. A member that nobody can answer does not wait."""


def put(cache: str, *more: str) -> Ran:
    return run_here("cache", "--cache", cache, *more, "put", "/users/7", "name", "Ada")


@pytest.mark.sockets
def test_a_lone_put_warns_that_the_value_dies_with_the_member() -> None:
    done = put("replicated.xml", "--cluster", f"alone-{os.getpid()}", "--name", "Ada")
    assert done.code == 0 and done.out == ""
    (line,) = done.err.splitlines()
    assert "Ada is alone" in line and "gone when it leaves" in line


def test_a_lone_put_with_a_store_warns_of_nothing(tmp_path: Path) -> None:
    done = put("passivation.xml", "-D", f"cache.file={tmp_path / 'store.db'}")
    assert done.code == 0 and done.err == ""


@pytest.mark.sockets
def test_a_put_in_a_group_warns_of_nothing() -> None:
    cluster = f"two-{os.getpid()}"
    command = [sys.executable, "-m", "jgroups_py", "cache", "--cluster", cluster, "--json"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None and other.stdout is not None
    try:
        print("members", file=other.stdin, flush=True)
        assert "members" in other.stdout.readline()
        done = put("replicated.xml", "--cluster", cluster, *PATIENT)
        assert done.code == 0 and done.err == ""
    finally:
        other.communicate(timeout=60)
