"""AloneWatch: a member that stays alone says what it knows of others, once.

Two members that should meet and do not, because of another port, cluster name, version or interface,
look like two that work. Nothing is certain here: the line names what was heard and who listens on
this machine, as hints. A member that was in company once is not looked at: others have left it, and
failure detection says so.
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
"""Seconds to the first look; each further one takes twice as long to come."""
LOOK_EVERY: Final = 160.0
"""Seconds between two looks, at most."""
HINTS_MAX: Final = 5
"""Named in the line."""


class AloneWatch:
    """See the module's docstring."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def run(self) -> None:
        """Until there is company, something was told, or the channel ends."""
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
            _log.info(
                "%s/%s: %s; nobody was heard", channel.name, channel.cluster, text, extra=extra
            )
            pause = min(2 * pause, LOOK_EVERY)

    def _look(self) -> tuple[str, list[str]]:
        """Where we listen, in words, and hints."""
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
