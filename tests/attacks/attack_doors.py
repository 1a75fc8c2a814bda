"""The doors that a group may have. Every attack is tried against each of them.

A door is a line of the stack file: directly above the transport, or between the failure detectors and NAKACK2. Behind a
door that has a key, the door itself turns strangers away, so any counter of its own counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from jgroups_py.protocols.seal.ring import NO_KEYS


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    line: str = ""
    protocol: str = ""
    """The protocol that may turn the attempt away instead of those behind it. Empty: there is none."""
    lowest: str = ""
    """A line directly above the transport. Nothing of an attempt may come beyond it."""


RING = NO_KEYS.with_new(1_800_000_000, Random("attacks").randbytes)
KEYS = ";".join(line for line in RING.text().splitlines() if line.startswith("key"))
KEY = "00112233445566778899aabbccddeeff"
DOORS = (
    Door("none"),
    Door("SYM_ENCRYPT", f'<SYM_ENCRYPT secret_key="{KEY}"/>', "SYM_ENCRYPT"),
    Door("SEAL", "", "SEAL", f'<SEAL keys="{KEYS}"/>'),
)
