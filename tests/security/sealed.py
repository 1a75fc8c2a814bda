"""Groups with SEAL for tests: a ring, and stack files with the line of SEAL."""

from __future__ import annotations

import random
import re
from pathlib import Path

from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.protocols.seal.ring import NO_KEYS, Ring
from jgroups_py.testing.sim.member import Member

STACKS = Path(__file__).parents[2] / "stacks"
HOSTS = ",".join(f"10.0.0.{n}[7800]" for n in range(1, 5))


def ring_of(count: int = 1, seed: int = 0) -> Ring:
    ring = NO_KEYS
    for _ in range(count):
        ring = ring.with_new(1_800_000_000, random.Random(f"{seed}/{len(ring.keys)}").randbytes)
    return ring


def keys_of(ring: Ring) -> str:
    """Return the attribute ``keys``."""
    return ";".join(line for line in ring.text().splitlines() if line.startswith("key"))


def properties(ring: Ring | None = None) -> dict[str, str]:
    return {"jgroups.tcpping.initial_hosts": HOSTS, "seal.keys": keys_of(ring or ring_of())}


def sealed(folder: Path, stack: str = "udp.xml", line: str = "") -> str:
    """A stack file with SEAL directly above its transport. Its keys are those of the property, or of ``ring_of``."""
    keys = f'keys="${{seal.keys:{keys_of(ring_of())}}}"'
    line = line or f'<include file="seal.xml" {keys}/>'
    text = (STACKS / stack).read_text()
    at = re.search(r"<include[^>]*/>|<(UDP|TCP)[^>]*/>", text)
    assert at is not None
    file = folder / f"sealed-{stack}"
    file.write_text(f"{text[: at.end()]}\n    {line}{text[at.end() :]}")
    return str(file)


def seal_of(member: Member) -> SEAL:
    found = member.stack.find(SEAL)
    assert found is not None
    return found


def refused(member: Member) -> dict[str, int]:
    """Return the number of packets that a member's SEAL turned away, by cause."""
    counts = member.host.machine.turned_away
    return {key.removeprefix("SEAL."): n for key, n in counts.items() if key.startswith("SEAL.")}
