"""The common part of tests of rounds: the sent messages, and members that cannot fetch."""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.wire.headers import FragHeader


def rounds(net: Any, kind: RoundKind | None = None) -> list[tuple[str, str, int]]:
    """(from, to, kind) of all messages of rounds."""
    found = []
    for source, dest, batch in net.sent:
        header = batch.header(AGREE_ID, FragHeader)
        if header is not None and kind in (None, header.index):
            found.append((source, dest, header.index))
    return found


def cannot_fetch(net: Any, *nodes: Any) -> None:
    """Lose the messages that these members have to fetch."""
    fetch = net._fetch
    net._fetch = lambda node, event: None if node in nodes else fetch(node, event)
