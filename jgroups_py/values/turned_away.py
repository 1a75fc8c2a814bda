"""TurnedAway: an event for the application about refused messages or connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A member refused something that came from the network. It never has the refused bytes, keys or tokens.

    ``cause``: the reason, one word of the protocol's list, such as ``replayed``.
    ``source``: where it came from, or the first of several places. An address comes from the network, so it may be
    forged. Empty: unknown.
    ``count``: number of refusals since the last event of this cause and protocol, at least 1.
    ``by``: the protocol or part that refused. ``cluster``: the stack it is in, such as a bridge.
    ``total``: number of refusals since this member was opened.
    ``sources``: the first few places, ``source`` among them.
    """

    cause: str
    source: str
    count: int
    by: str
    cluster: str
    total: int
    sources: tuple[str, ...] = ()
