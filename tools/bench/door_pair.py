"""``python -m jgroups_py.tools.bench.door_pair``: the CPU time of a door, beside the least possible.

Two members in this process send each other the same number of messages behind each door. The figure is the CPU time of
the process for a message, so other work of the machine changes it little. The doors take turns, and a ratio is the
median of the turns.

The limit is one call of the cipher for each packet on each side, and nothing else: measured here on packets as large as those
that were sent, which are not in the processor's cache.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from jgroups_py import Channel, Message, open_channel
from jgroups_py.channel.open import configure
from jgroups_py.tools.bench.door_stacks import DOORS, STACKS, DoorStacks, doors_of
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.commands.mperf_ports import private_attributes

NAMES: Final = ("M1", "M2")
_COLD: Final = 64
"""Different packets that are encrypted in turn: more than the processor's caches hold."""


async def turn(file: str, cluster: str, messages: int, size: int) -> tuple[float, float]:
    """Return the CPU time of a message in microseconds, and messages for each packet. ``messages``: of each member."""
    config, host = configure(file, None, {}, {})
    attributes = private_attributes(config, 2, host)
    async with (
        open_channel(file, cluster=cluster, name=NAMES[0], attributes=attributes) as a,
        open_channel(file, cluster=cluster, name=NAMES[1], attributes=attributes) as b,
    ):
        for channel in (a, b):
            await channel.wait_members(NAMES)
        await _exchange(
            a, b, max(1, messages // 5), size
        )  # a warm-up has the one-time costs, such as compiled patterns
        packets = _packets(a, b)
        began = time.process_time()
        await _exchange(a, b, messages, size)
        spent = time.process_time() - began
        return spent / (2 * messages) * 1e6, 2 * messages / max(1, _packets(a, b) - packets)


async def _exchange(a: Channel, b: Channel, messages: int, size: int) -> None:
    async def send(channel: Channel) -> None:
        payload = bytes(size)
        for _ in range(messages):
            await channel.send(payload)

    async def read(channel: Channel) -> None:
        left = 2 * messages  # a sender gets its own messages, too
        async for item in channel:
            left -= isinstance(item, Message)
            if not left:
                return

    async with trio.open_nursery() as nursery:
        for channel in (a, b):
            nursery.start_soon(send, channel)
            nursery.start_soon(read, channel)


def _packets(*channels: Channel) -> int:
    sent = 0
    for channel in channels:
        protocols = channel.statistics().protocols
        sent += int(next(p["packets_sent"] for p in protocols.values() if "packets_sent" in p))
    return sent


def limit_us(size: int, rounds: int = 9) -> float:
    """Return the microseconds that AES-256-GCM needs to encrypt and decrypt a packet of ``size`` bytes: the best of some rounds."""
    cipher, nonce, head = AESGCM(secrets.token_bytes(32)), bytes(12), bytes(32)
    plain = [secrets.token_bytes(size) for _ in range(_COLD)]
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        sealed = [cipher.encrypt(nonce, packet, head) for packet in plain]
        for packet in sealed:
            cipher.decrypt(nonce, packet, head)
        best = min(best, time.process_time() - began)
    return best / _COLD * 1e6


def table(stack: str, doors: Sequence[str], turns: int, messages: int, size: int) -> list[str]:
    """Return rows of Markdown: CPU time of a message, its ratio to none, and the limit as a ratio."""
    found: dict[str, list[tuple[float, float]]] = {door: [] for door in doors}
    with tempfile.TemporaryDirectory(prefix="jgroups-doors-") as folder:
        stacks = DoorStacks(Path(folder))
        for _ in range(turns):
            for door in doors:
                file, cluster = stacks.file(stack, door), f"pair-{os.getpid()}"
                found[door].append(trio.run(turn, file, cluster, messages, size))
    rows = [
        f"{turns} turns of {2 * messages} messages of {size} bytes, load {os.getloadavg()[0]:.0f}; least and most",
        "",
        "| stack | door | CPU us/message | ratio to none | messages/packet | limit |",
        "|---|---|---|---|---|---|",
    ]
    none = [cpu for cpu, _ in found[doors[0]]]
    for door in doors:
        cpu = [one for one, _ in found[door]]
        ratios = [one / base for one, base in zip(cpu, none, strict=True)]
        bundled = statistics.median(packed for _, packed in found[door])
        alone = limit_us(int(bundled * size)) / bundled
        rows.append(
            f"| {stack} | {door} | {statistics.median(cpu):.2f} ({min(cpu):.2f}-{max(cpu):.2f}) "
            f"| {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}) | {bundled:.0f} "
            f"| {1 + alone / statistics.median(none):.3f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_door_pair", description=__doc__)
    parser.add_argument("--stack", choices=STACKS, default=STACKS[0])
    parser.add_argument("--door", action="append", choices=DOORS[1:], help="default: SEAL")
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=20_000, help="of each member in a turn")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    doors = (DOORS[0], *(arguments.door or ("SEAL",)))
    if unknown := [door for door in doors if door not in doors_of(arguments.stack)]:
        parser.error(f"{arguments.stack} has no {unknown[0]}")
    if min(arguments.size, arguments.messages, arguments.turns) < 1:
        parser.error("--size, --messages and --turns are 1 or more")
    for row in table(arguments.stack, doors, arguments.turns, arguments.messages, arguments.size):
        print(row)


if __name__ == "__main__":
    end_with(main)
