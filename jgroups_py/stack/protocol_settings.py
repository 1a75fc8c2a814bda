"""The base of all settings of protocols."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.config.settings import ConfigBase


@dataclass(frozen=True, kw_only=True)
class ProtocolSettings(ConfigBase):
    """Attributes of the protocol, as written in a stack file."""
