"""Processes that share a tree cache over TCP on loopback; lines on their standard input tell them to go on. Every
folder of tests may import it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import private_attributes


def cache_file(folder: Path, members: int, more: str = "") -> Path:
    """Return the file of a replicated cache on ports of its own. ``more``: further lines of the file."""
    stack, file = folder / "stack.xml", folder / "cache.yaml"
    config = load_stack("tcp.xml")
    stack.write_text(to_xml(with_attributes(config, private_attributes(config, members))))
    file.write_text(
        f"cache:\n  CacheMode: REPL_SYNC\n  ClusterName: shop\n  ClusterConfig: {stack}{more}\n"
    )
    return file


@contextmanager
def peers(commands: dict[str, list[str]]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A process for each name, with these arguments of Python. They are killed at the end."""
    with ExitStack() as cleanup:
        found = {}
        for name, arguments in commands.items():
            peer = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(peer)
            cleanup.callback(peer.kill)
            found[name] = peer
        yield found


def said(peer: subprocess.Popen[str]) -> str:
    """Return the next line of a process."""
    assert peer.stdout is not None
    line = peer.stdout.readline().strip()
    assert line, f"{peer.args!r} has ended with {peer.wait(10)}"
    return line


def go_on(peer: subprocess.Popen[str]) -> None:
    assert peer.stdin is not None
    peer.stdin.write("\n")
    peer.stdin.flush()
