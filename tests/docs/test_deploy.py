"""The deployment examples: the member runs, meets others and leaves on SIGTERM; the files agree with the code."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from jgroups_py.config.file import load_stack
from jgroups_py.tools.cli import run

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
pytestmark = pytest.mark.sockets
PATIENCE = 100.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
KUBERNETES: list[Any] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


@contextmanager
def member(name: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    values = {
        **os.environ,
        "STACK": str(DEPLOY / "sealed-file.xml"),
        "SEAL_KEY_FILE": str(folder / "ring.keys"),
        "NAME": name,
        "BIND": "loopback",
        "JGROUPS_FILE_LOCATION": str(folder / "members"),
        "JGROUPS_HEALTH_FILE": str(folder / f"{name}.json"),
        **environment,
    }
    command = [sys.executable, str(DEPLOY / "member.py")]
    with subprocess.Popen(command, env=values, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(400)  # groups of one merge after half a minute
def test_three_members_meet_are_well_and_leave_when_told(tmp_path: Path) -> None:
    assert run(["keys", "new", str(tmp_path / "ring.keys")]) == 0
    with ExitStack() as blocks:
        members = [blocks.enter_context(member(name, tmp_path)) for name in "ABC"]
        for process in members:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "3 members" in line:
                    break
            else:
                raise AssertionError(f"a member has ended: {lines}")
        for name in "ABC":
            assert _becomes_well(tmp_path / f"{name}.json")
        for process in members:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in members] == [0, 0, 0]
    assert sorted(os.listdir(tmp_path)) == ["members", "ring.keys"]
    assert os.listdir(tmp_path / "members" / "demo") == []


def _becomes_well(file: Path) -> bool:
    """Return whether the file follows a view. That takes a moment, longer on a busy machine."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if run(["health", "--members", "3", str(file)]) == 0:
            return True
        time.sleep(0.1)
    return False


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each file's name and the environment that it gives to a member."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    yield "compose.yaml", compose["services"]["member"]["environment"]
    (workload,) = [part for part in KUBERNETES if part["kind"] == "StatefulSet"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    yield "kubernetes.yaml", {entry["name"]: entry.get("value", "") for entry in container["env"]}
    unit = (DEPLOY / "jgroups-member.service").read_text()
    words = [w for line in re.findall(r"^Environment=(.*)$", unit, re.M) for w in line.split()]
    yield "jgroups-member.service", dict(word.partition("=")[::2] for word in words)


@pytest.mark.parametrize(("file", "values"), list(environments()))
def test_variables_of_the_examples_are_those_of_the_stack(
    file: str, values: dict[str, str]
) -> None:
    named = Path(values["STACK"])
    assert named.parent == Path("/opt/member"), file
    stack = DEPLOY / named.name
    included = ("tcp-default.xml", "seal.xml")
    text = stack.read_text() + "".join((ROOT / "stacks" / name).read_text() for name in included)
    known = {name.upper().replace(".", "_") for name in re.findall(r"\$\{([a-z._]+)", text)}
    known |= {"JGROUPS_HEALTH_FILE", "JGROUPS_BIND_ADDR"}
    assert {name for name in values if name.startswith(("JGROUPS_", "SEAL_"))} <= known
    load_stack(stack, environment={k: v for k, v in values.items() if "$(" not in v and v})


@pytest.mark.parametrize("name", ["sealed-dns.xml", "sealed-file.xml"])
def test_a_stack_of_the_examples_is_the_shipped_one_with_seal(name: str) -> None:
    stack = load_stack(DEPLOY / name)
    shipped = load_stack(f"tcp-{name.removeprefix('sealed-')}")
    assert [p.name for p in stack] == ["TCP", "SEAL", *(p.name for p in shipped if p.name != "TCP")]
    for protocol, like in zip(stack.protocols[3:], shipped.protocols[2:], strict=True):
        ours = {(a.key, a.text) for a in protocol.attributes}
        assert ours == {(a.key, a.text) for a in like.attributes}


def test_checks_of_the_examples_are_commands_that_work(tmp_path: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (workload,) = [part for part in KUBERNETES if part["kind"] == "StatefulSet"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    commands = [
        compose["services"]["member"]["healthcheck"]["test"][1:],
        container["readinessProbe"]["exec"]["command"],
        container["livenessProbe"]["exec"]["command"],
    ]
    for name, *words in commands:
        assert name == "jgroups-py"
        assert (
            run([*words, str(tmp_path / "nothing")]) == 1
        )  # exit code 2 would be a mistake in the command line


def test_ports_of_the_examples_are_those_of_the_stack() -> None:
    stack = load_stack("tcp-dns.xml", environment={})
    port = int(str(stack.protocols[0].get("bind_port")))
    (service,) = [part for part in KUBERNETES if part["kind"] == "Service"]
    assert [entry["port"] for entry in service["spec"]["ports"]] == [port, port + 100]
    assert service["spec"]["publishNotReadyAddresses"] is True
    exposed = re.findall(r"^EXPOSE (.*)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert exposed == [f"{port} {port + 100}"]


def test_files_that_the_image_copies_and_extras_it_installs_are_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert "COPY docs/deploy/sealed-dns.xml /opt/member/sealed-dns.xml" in text
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M):
        assert (ROOT / source).exists(), source
    (extras,) = re.findall(r"'\.\[(.*)\]'", text)
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras.split(","))


def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / "jgroups-member.service"
    text = (DEPLOY / unit.name).read_text()
    unit.write_text(
        text.replace("/opt/member/bin/python", sys.executable).replace("User=member", "")
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=PATIENCE
    )
    told = [line for line in done.stderr.splitlines() if unit.name in line]
    assert told == [], done.stderr
