"""A stack with SEAL, made from one that has none: drills, the lab and benchmarks compare both.

Users write the line of ``seal.xml`` into their stack file, with the same effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from jgroups_py.config.file import load_stack
from jgroups_py.config.model import StackConfig

SEAL_FILE: Final = "seal.xml"
SEALED_BRIDGES: Final = {"relay-bridge-tcp.xml": "relay-bridge-seal.xml"}
"""A shipped file for RELAY's bridge, and the one that is sealed."""


def with_seal(stack: StackConfig, properties: Mapping[str, str] | None = None) -> StackConfig:
    """Return a copy with the line of ``seal.xml`` directly above the transport. A stack that has SEAL stays as it is.

    Args:
        stack: the stack, transport first.
        properties: values for ``${seal.key_file}`` and ``${seal.keys}``.
    """
    if "SEAL" in stack:
        return stack
    line = load_stack(SEAL_FILE, properties).protocols
    first, *others = stack.protocols
    return replace(stack, protocols=(first, *line, *others))
