"""Waiting until other hosts have this process' puts, for all three APIs, which differ only in how they sleep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.errors import WaitTimeout
from jgroups_py.maps.errors import MapError
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.shared import SharedFile

LOOK_INTERVAL: Final = 0.005
"""Seconds between two looks."""


class Replicated:
    """All puts so far, and the number of hosts that must have them. ``missing`` describes the missing changes; empty:
    there are none."""

    def __init__(self, file: SharedFile, hosts: int, host: Callable[[], MapHost | None]) -> None:
        if isinstance(hosts, bool) or not isinstance(hosts, int) or hosts < 1:
            raise MapError(f"hosts must be a number of at least 1, got {hosts!r}")
        self._file = file
        self._hosts = hosts
        self._host = host
        self._goal = file.written()
        self._number: int | None = None

    def missing(self) -> str:
        if self._number is None:
            if not self._file.has_merged(self._goal):
                return "the puts are not merged into the file yet"
            self._number = self._file.vector().get(self._file.origin, 0)
        host = self._host()
        if host is None:
            return "this process does not replicate the map: it has no network, or another process of this host has begun before"
        count = host.replica.acknowledged(self._number)
        if count >= self._hosts:
            return ""
        peers = ", ".join(f"host {node} lacks {lag}" for node, lag in host.replica.lag().items())
        return f"{count} of {self._hosts} hosts have it ({peers or 'no host is connected'})"

    def error(self, timeout: float) -> WaitTimeout:
        return WaitTimeout(f"after {timeout:g} s {self.missing() or 'it is there'}")
