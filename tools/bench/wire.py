"""The cost of encoding and decoding a packet, per message.

Run as ``python -m jgroups_py.tools.bench.wire``. Figures are the best and the median of several
runs, in microseconds per message, for full packets of one sender's multicasts.
"""

from __future__ import annotations

import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence

from jgroups_py.tools.bench.ended import end_with
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, NakAckHeader2, NakAckType
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets

RUNS = 7


def _batch(payloads: Sequence[bytes], relay: bool) -> Batch:
    src = UUID.make(random.Random(1))
    headers = {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.MSG, 70_000)}
    if relay:
        headers = {PROTOCOL_IDS["RELAY"]: FragHeader(70_000, 0, 1), **headers}  # type: ignore[dict-item]
    return Batch(None, payloads, dict(headers), src)


def _time(action: Callable[[], object], messages: int) -> tuple[float, float]:
    repeat = max(1, 40_000 // messages)
    runs = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(repeat):
            action()
        runs.append((time.perf_counter() - start) / repeat / messages * 1e6)
    return min(runs), statistics.median(runs)


def measure(name: str, payloads: Sequence[bytes], relay: bool = False) -> float:
    """Print one line; return the median of encoding plus decoding in microseconds."""
    batch = _batch(payloads, relay)
    packets = encode_packets([batch], "demo")
    encode = _time(lambda: encode_packets([batch], "demo"), len(payloads))
    decode = _time(lambda: [decode_packet(packet) for packet in packets], len(payloads))
    print(
        f"{name:34} {len(payloads):4} messages in {len(packets)} packets:"
        f"  encode {encode[0]:.3f} {encode[1]:.3f}   decode {decode[0]:.3f} {decode[1]:.3f}"
        f"   both {encode[1] + decode[1]:.3f} us"
    )
    return encode[1] + decode[1]


def main() -> None:
    print(f"Python {platform.python_version()}, best and median of {RUNS} runs, us per message")
    rng = random.Random(2)
    measure("1 KB, equal sizes", [rng.randbytes(1024) for _ in range(58)])
    measure("100 B, equal sizes", [rng.randbytes(100) for _ in range(440)])
    measure("1 KB, numbered by RELAY too", [rng.randbytes(1024) for _ in range(58)], relay=True)
    measure("mixed sizes below 1 KB", [rng.randbytes(rng.randrange(1024)) for _ in range(110)])
    measure("one message", [rng.randbytes(1024)])


if __name__ == "__main__":
    end_with(main)
