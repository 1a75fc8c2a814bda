"""One node of a real drill of live and backup: a process that is live or a backup, and its clients.

    python -m jgroups_py.drill.run.live_member    as jgroups_py.drill.run.member

One more command, ``census``, logs the content of the node and answers ``looked``. The member reports changes of
``role``.
"""

from __future__ import annotations

from typing import Any

import trio

from jgroups_py.drill.file.live_keys import LiveLoad
from jgroups_py.drill.run.live_user import KINDS, OPERATIONS, LiveUser
from jgroups_py.drill.run.member import DrillMember, main
from jgroups_py.livebackup import LiveBackupNode, LiveBackupSettings, open_livebackup


class LiveDrillMember(DrillMember):
    """See the module's docstring."""

    user: LiveUser | None = None

    async def live(self) -> None:
        task = self.task
        async with open_livebackup(
            task.stack,
            cluster=task.cluster,
            kinds=KINDS,
            operations=OPERATIONS,
            settings=LiveBackupSettings(**task.settings),
            **self.channel_options(),
        ) as node:
            await self._use(node)

    async def _use(self, node: LiveBackupNode) -> None:
        task = self.task
        self._has_joined(node.channel)
        self._on_view(node.channel.view)
        node.on_view = self._on_view
        self.user = LiveUser(node, task.site, self.origin, self.chance, self._write)
        await self.serve(self.user, LiveLoad)

    def _write(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> None:
        self.write(event, origin, seqno, **detail)
        if event == "role":
            self.tell("role", role=detail["role"])

    async def obey(self, command: dict[str, Any]) -> None:
        if command["do"] == "census":
            if self.user is not None:
                await self.user.census()
            self.tell("looked")


if __name__ == "__main__":
    trio.run(main, LiveDrillMember)
