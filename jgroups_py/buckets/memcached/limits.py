"""Limits of memcached's text protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextLimits:
    """Sizes are bytes."""

    key_max: int = 250
    """The longest key. memcached has the same limit."""
    value_max: int = 1_048_576
    """The largest value. The bytes of a larger one are skipped, and the client gets an error. memcached has the same
    default."""
    skip_max: int = 16_777_216
    """The largest value that is skipped. A client that announces a larger one is disconnected."""
    line_max: int = 262_144
    """The longest line. It holds 1000 keys of 250 bytes; clients put all keys of a get into one line."""
    keys_max: int = 10_000
    """The most keys of one line."""
