"""AloneWatch: a member that stays alone logs its knowledge of others once.

Two members that do not meet, because of another port, cluster name, version or interface, look as if both worked.
The log line is a hint, not a proof: it names received traffic and listeners on this machine. A member that was
once in a group with others is not watched: failure detection logs their end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from jgroups_py.values.events import Around, Surroundings

if TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel

_log = logging.getLogger("jgroups_py.channel.channel")

ALONE_AFTER: Final = 10.0
"""Seconds until the first look. The pause doubles after each look."""
LOOK_EVERY: Final = 160.0
"""The longest pause between two looks, in seconds."""
HINTS_MAX: Final = 5
"""The most names in the log line."""

ASK_MULTICAST: Final = (
    "if others run, multicast does not pass between them and this member "
    "(tcp.xml needs no multicast)"
)


class AloneWatch:
    """See the module's docstring."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def run(self) -> None:
        """Run until the member is not alone, the line is logged, or the channel ends."""
        channel, pause = self._channel, ALONE_AFTER
        opened = trio.current_time()
        while True:
            await trio.sleep(pause)
            if channel.error is not None or len(channel.view.members) > 1:
                return
            place, hints = self._look()
            text = f"this member is alone in its group after {trio.current_time() - opened:.0f} s{place}"
            if hints:
                channel.warn("%s; hint: %s", text, "; ".join(hints[:HINTS_MAX]))
                return
            extra = {"member": channel.name, "cluster": channel.cluster}
            ask = f"; {ASK_MULTICAST}" if place else ""
            _log.info(
                "%s/%s: %s; nobody was heard%s",
                channel.name,
                channel.cluster,
                text,
                ask,
                extra=extra,
            )
            pause = min(2 * pause, LOOK_EVERY)

    def _look(self) -> tuple[str, list[str]]:
        """Return the place where this member listens, in words, and hints."""
        groups: dict[tuple[str, int], None] = {}
        hints: list[str] = []
        for protocol in self._channel.stack.protocols:
            around = protocol.answer(Surroundings())
            if isinstance(around, Around):
                groups.update(dict.fromkeys(around.groups))
                hints += around.strangers
        place = ", ".join(f"{host}:{port}" for host, port in groups)
        hints += self._channel.driver.neighbours(tuple(groups))
        return f" (it listens to {place})" if place else "", list(dict.fromkeys(hints))
