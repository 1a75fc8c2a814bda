"""SEAL in the lab: a key ring that all members of a run have, and stacks with the line that seals them."""

from __future__ import annotations

import random
from typing import Final

from jgroups_py.config.model import StackConfig
from jgroups_py.config.sealing import SEALED_BRIDGES, with_seal
from jgroups_py.protocols.seal.ring import NO_KEYS

MADE: Final = 1_800_000_000
"""The time when the key of a run was made; its age changes nothing."""
_RING: Final = NO_KEYS.with_new(MADE, random.Random("explore/seal").randbytes)
KEYS: Final = ";".join(line for line in _RING.text().splitlines() if line.startswith("key"))
"""The attribute ``keys`` of SEAL."""
SEALED_BRIDGE: Final = SEALED_BRIDGES["relay-bridge-tcp.xml"]


def sealed(stack: StackConfig) -> StackConfig:
    """Return the stack with SEAL above its transport."""
    return with_seal(stack, {"seal.keys": KEYS})
