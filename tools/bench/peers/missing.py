"""The reason why a library cannot be measured here."""

from __future__ import annotations

import importlib.util
import shutil


class PeerMissing(Exception):
    """The library cannot be measured here, for this reason."""


def need_module(module: str) -> None:
    """Raise ``PeerMissing`` if there is no such module."""
    if importlib.util.find_spec(module) is None:
        raise PeerMissing(f"{module} is not installed (pip install 'jgroups_py[bench]')")


def need_program(program: str, package: str) -> None:
    """Raise ``PeerMissing`` if there is no such program."""
    if shutil.which(program) is None:
        raise PeerMissing(f"there is no {program} (Debian, Ubuntu: apt install {package})")
