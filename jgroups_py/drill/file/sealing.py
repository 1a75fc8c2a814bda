"""SEAL in a drill: with ``--seal`` all stacks of the sites and the bridge have it, with one key ring for each run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from jgroups_py.config.file import load_stack
from jgroups_py.config.model import StackConfig
from jgroups_py.config.sealing import with_seal
from jgroups_py.config.write import to_xml
from jgroups_py.protocols.seal.ring import NO_KEYS

MADE: Final = 1_800_000_000
"""The time at which the key of a run was made; its age does not matter."""


def keys_of(seed: int) -> str:
    """Return the attribute ``keys`` of SEAL for the run of a seed. The same seed has the same keys, so that a run repeats."""
    ring = NO_KEYS.with_new(MADE, random.Random(f"{seed}:seal").randbytes)
    return ";".join(line for line in ring.text().splitlines() if line.startswith("key"))


def sealed(stack: StackConfig, keys: str) -> StackConfig:
    """Return the stack with SEAL above its transport. It stays as it is without keys, or if it has SEAL."""
    return with_seal(stack, {"seal.keys": keys}) if keys else stack


def write_sealed(file: str, properties: dict[str, str], keys: str, target: Path) -> str:
    """Write the sealed stack to ``target``, which only its owner may read. Return the file to use: ``file`` without keys."""
    if not keys:
        return file
    target.touch(mode=0o600)
    target.write_text(to_xml(sealed(load_stack(file, properties), keys)))
    return str(target)
