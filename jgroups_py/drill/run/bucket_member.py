"""One member of a real drill of a bucket store: a process with copies of buckets, and its clients.

    python -m jgroups_py.drill.run.bucket_member    as jgroups_py.drill.run.member

One more command, ``census``, reads and logs each key and answers ``looked``. The member reports changes of
``protected``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio

from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.opening import open_buckets
from jgroups_py.buckets.parts import NodeParts
from jgroups_py.drill.file.bucket_keys import BucketWorkload
from jgroups_py.drill.file.bucket_settings import attributes, instance, placement
from jgroups_py.drill.run.bucket_user import BucketUser, plugin
from jgroups_py.drill.run.member import DrillMember, main

WATCH_SECONDS: Final = 0.05


class BucketDrillMember(DrillMember):
    """See the module's docstring."""

    user: BucketUser | None = None

    async def live(self) -> None:
        task = self.task
        names = task.names[task.site_index]
        settings = instance(task.settings, names)
        options = self.channel_options()
        async with open_buckets(
            task.stack,
            cluster=task.cluster,
            plugin=plugin(task.settings, self.origin),
            settings=settings,
            parts=NodeParts.of(task.name, settings),
            placement=placement(settings.buckets, names),
            **{**options, "attributes": attributes(options["attributes"])},
        ) as node:
            await self._use(node)

    async def _use(self, node: BucketNode) -> None:
        task = self.task
        self._has_joined(node.channel)
        self._on_view(node.channel.view)
        node.on_view = self._on_view
        user = self.user = BucketUser(
            node, task.site, self.origin, self.chance, self.write, task.settings
        )
        await self.serve(user, BucketWorkload, partial(self._watch_copies, user))

    async def _watch_copies(self, user: BucketUser) -> None:
        told = None
        while True:
            if user.protected != told:
                told = user.protected
                self.tell("protected", protected=told)
            await trio.sleep(WATCH_SECONDS)

    async def obey(self, command: dict[str, Any]) -> None:
        if command["do"] == "census":
            if self.user is not None:
                await self.user.census(command["keys"])
            self.tell("looked")


if __name__ == "__main__":
    trio.run(main, BucketDrillMember)
