"""Corosync's closed process groups: one daemon on this machine, and processes that are its clients, through ctypes.

    python -m jgroups_py.tools.bench.peers.corosync ARGUMENT    one process of mperf; ARGUMENT is JSON

Messages come in one total order. The daemon is a ring of one node, so no message crosses a network: a ring of several nodes
on one machine needs network namespaces. The daemon must run as root, and a machine can have only one.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.tools.bench.peers.missing import PeerMissing, need_program
from jgroups_py.tools.bench.peers.plain import START_SECONDS, PlainMember
from jgroups_py.tools.children import start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.mperf_run import MperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.corosync"
LIBRARY: Final = "libcpg.so.4"
GROUP: Final = b"bench"
NAME_MAX: Final = 128
OK, TRY_AGAIN = 1, 6
"""Values of cs_error_t."""
AGREED: Final = 2
"""A value of cpg_guarantee_t."""
DISPATCH_ALL: Final = 2
CONFIG: Final = """totem {{
  version: 2
  cluster_name: bench
  transport: udpu
  interface {{
    ringnumber: 0
    mcastport: {port}
  }}
}}
nodelist {{
  node {{
    ring0_addr: 127.0.0.1
    nodeid: 1
    name: n1
  }}
}}
logging {{
  to_stderr: yes
  to_syslog: no
}}
system {{
  sched_rr: no
  move_to_root_cgroup: no
  state_dir: {folder}
}}
"""


class _Name(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("value", ctypes.c_char * NAME_MAX))


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


_DELIVER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_size_t,
)
_CHANGED = ctypes.CFUNCTYPE(
    None,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class _Callbacks(ctypes.Structure):
    _fields_ = (("deliver", _DELIVER), ("changed", _CHANGED))


class CorosyncPeer:
    """Starts processes in a group of corosync. Raises ``PeerMissing`` without its daemon and library, or without the
    rights of root."""

    name = "corosync of 1 node"
    measures = frozenset({"messages"})
    stacks = frozenset({"udp.xml"})

    def __init__(self) -> None:
        need_program("corosync", "corosync")
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            raise PeerMissing(f"there is no {LIBRARY}") from None
        if os.geteuid():
            raise PeerMissing("its daemon must be started by root")
        self._first = 0

    async def messages(self, plan: MperfPlan, number: int) -> trio.Process:
        """Start a process of mperf. The first one starts the daemon."""
        if number == 0:
            self._first = free_block(2)
        argument = {"number": number, "first": self._first, "warm_up": plan.warm_up}
        return await start_process(MODULE, argument | {"plan": asdict(plan)})


class CorosyncMember(PlainMember):
    """One process of mperf."""

    def open(self) -> None:
        if self.number == 0:
            self._folder = tempfile.TemporaryDirectory(prefix="bench-corosync-")
            file = Path(self._folder.name, "corosync.conf")
            file.write_text(CONFIG.format(port=self.first, folder=self._folder.name))
            self.serve("corosync", "-f", "-c", str(file))
        self._cpg = ctypes.CDLL(LIBRARY)
        self._handle = ctypes.c_uint64()
        self._members = 0
        # Corosync keeps their addresses, so they must not be collected.
        self._callbacks = _Callbacks(_DELIVER(self._deliver), _CHANGED(self._changed))
        end = time.monotonic() + START_SECONDS
        while self._initialize() != OK:
            if time.monotonic() > end:
                raise TimeoutError(f"corosync does not answer within {START_SECONDS:g} s")
            time.sleep(0.1)
        self._until_ok(lambda: self._cpg.cpg_join(self._handle, ctypes.byref(_name())), end)
        fd = ctypes.c_int()
        self._cpg.cpg_fd_get(self._handle, ctypes.byref(fd))
        self._fd = fd.value
        while self._members < self.plan["members"]:
            if time.monotonic() > end:
                raise TimeoutError(f"not all have joined within {START_SECONDS:g} s")
            self.take(0.02)

    def _initialize(self) -> int:
        return int(
            self._cpg.cpg_initialize(ctypes.byref(self._handle), ctypes.byref(self._callbacks))
        )

    def _until_ok(self, call: Any, end: float) -> None:
        while (result := call()) == TRY_AGAIN and time.monotonic() < end:
            time.sleep(0.01)
        if result != OK:
            raise OSError(f"libcpg returns {result}")

    def publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            part = _Part(payload, len(payload))
            while True:
                result = self._cpg.cpg_mcast_joined(self._handle, AGREED, ctypes.byref(part), 1)
                if result != TRY_AGAIN:
                    break
                self.take(0.001)
            if result != OK:
                raise OSError(f"cpg_mcast_joined returns {result}")

    def take(self, wait: float) -> None:
        if select.select([self._fd], [], [], wait)[0]:
            self._cpg.cpg_dispatch(self._handle, DISPATCH_ALL)

    def end(self) -> None:
        super().end()
        if self.number == 0:
            self._folder.cleanup()

    def _deliver(self, handle: int, group: int, node: int, pid: int, data: int, size: int) -> None:
        self.check.take([ctypes.string_at(data, size)])

    def _changed(self, handle: int, group: int, members: int, count: int, *rest: int) -> None:
        self._members = count


def _name() -> _Name:
    return _Name(len(GROUP), GROUP)


if __name__ == "__main__":
    CorosyncMember(**json.loads(sys.argv[1])).run()
