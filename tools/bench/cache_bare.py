"""Two bare processes do no more than a put does: they compute, send, and poll for the answer. So they show how much of a put's tail
is the machine's and the interpreter's.

Each message carries the number of steps that both sides compute. The caller finds the number with which the median is that of the
puts measured before.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from typing import Any, Final

from jgroups_py.driver.answer_watch import offer_processor
from jgroups_py.tools.bench.cache_perf import figures

HOST: Final = "127.0.0.1"
PATIENCE: Final = 30.0
"""Seconds after which a side that hears nothing ends."""
LOOKS: Final = 10
"""Windows in which the number of steps is found."""
LOOK_SECONDS: Final = 0.1
REQUEST: Final = 250
"""Bytes of a change of 100 B, and of an acknowledgement."""
ANSWER: Final = 120
_STEPS: Final = struct.Struct(">I")


def compute(steps: int) -> None:
    """Make objects and look into a dict, as code of protocols does."""
    seen: dict[int, tuple[int, str]] = {}
    for step in range(steps):
        seen[step % 7] = (step, str(step))


def _poll(sock: socket.socket) -> bytes:
    """Return the next bytes; none at the end. Raises TimeoutError."""
    until = time.perf_counter() + PATIENCE
    while True:
        try:
            return sock.recv(65_536)
        except BlockingIOError:
            offer_processor()
        if time.perf_counter() > until:
            raise TimeoutError(f"nothing came for {PATIENCE:g} s")


def _window(sock: socket.socket, steps: int, seconds: float) -> list[float]:
    """Return the seconds of each exchange."""
    clock, message = time.perf_counter, _STEPS.pack(steps).ljust(REQUEST, b"x")
    took: list[float] = []
    began = clock()
    until = began + seconds
    while began < until:
        compute(steps)
        sock.send(message)
        if not _poll(sock):
            raise ConnectionError("the other process has ended")
        now = clock()
        took.append(now - began)
        began = now
    return took


def measured(p50_us: float, seconds: float) -> dict[str, Any]:
    """Return the figure of a pair whose median is about ``p50_us``."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(PATIENCE)
        command = [sys.executable, "-m", __name__, str(server.getsockname()[1])]
        with subprocess.Popen(command) as other:
            try:
                sock, _ = server.accept()
                with sock:
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    steps = 100
                    for _ in range(LOOKS):
                        took = sorted(_window(sock, steps, LOOK_SECONDS))
                        change = p50_us / (took[len(took) // 2] * 1e6)
                        steps = max(1, round(steps * min(2.0, max(0.5, change))))
                    return figures("bare", REQUEST, 1, _window(sock, steps, seconds), seconds)
            finally:
                other.kill()


def answer(port: int) -> None:
    """Compute and answer until the other side closes."""
    with socket.create_connection((HOST, port)) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while message := _poll(sock):
            compute(_STEPS.unpack_from(message)[0])
            sock.send(bytes(ANSWER))


if __name__ == "__main__":
    answer(int(sys.argv[1]))
