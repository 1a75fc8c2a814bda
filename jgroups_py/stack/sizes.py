"""Checks that the pieces of large messages fit into the transport's packets.

A piece that does not fit is never sent, and its receivers ask for it for ever. ``services.examine`` asks here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from jgroups_py.config.model import StackConfig
from jgroups_py.config.settings import placed
from jgroups_py.errors import ConfigError, LocalProtocolError

HEADERS: Final = 500
"""Bytes of a packet that are left for headers, names and the overhead of encryption."""

SMALL: Final = 1_000_000
"""A stack whose messages have fewer bytes is refused by users that send messages of any size."""


def message_max(protocols: Sequence[Any]) -> int | None:
    """Return the most bytes of one message in a stack of these protocols. None: large messages are cut, or no packet has a
    limit."""
    return message_max_of([(type(p), p.config) for p in protocols])


def refuse_larger(size: int, most: int | None) -> None:
    """Raise ``LocalProtocolError`` if a message of ``size`` bytes is larger than ``most``, which ``message_max`` returned."""
    if most is not None and size > most:
        raise LocalProtocolError(
            f"a message of {size} bytes is larger than a packet of this stack takes (at most {most} bytes): put FRAG2 into "
            "the stack, which cuts large messages"
        )


def check_any_size(what: str, stack: str, most: int | None) -> None:
    """Refuse a stack for a user that sends messages of any size. ``most``: what ``message_max`` returned. TCP without FRAG2 is
    accepted: its packets may have several megabytes.

    Raises:
        ConfigError: the packets of the stack are small, and nothing cuts large messages.
    """
    if most is not None and most < SMALL:
        raise ConfigError(
            f"{stack}: {what} sends messages of any size, and a packet of this stack takes at most {most} bytes: put FRAG2 "
            "into the stack, which cuts large messages"
        )


def message_max_of(built: Sequence[tuple[type[Any], Any]]) -> int | None:
    """Return what ``message_max`` returns, before the stack exists. ``built`` is ``config.build(stack)``."""
    if any(protocol.piece_max(config) is not None for protocol, config in built):
        return None
    packets = [m for protocol, config in built if (m := protocol.packet_max(config)) is not None]
    return min(packets) - HEADERS if packets else None


def oversized(stack: StackConfig, built: Sequence[tuple[type[Any], Any]]) -> Iterator[ConfigError]:
    """Yield an error for each protocol whose pieces are too large. ``built`` is ``config.build(stack)``."""
    for transport, settings in built:
        packet = transport.packet_max(settings)
        if packet is None:
            continue
        most = packet - HEADERS
        for written, (cutter, config) in zip(stack.protocols, built, strict=True):
            piece = cutter.piece_max(config)
            if piece is not None and piece > most:
                yield placed(
                    written,
                    f"frag_size must be at most {most} with {transport.__name__}, whose packets have at most {packet} "
                    f"bytes, got {piece}: messages of that size would never arrive",
                )
