"""One member of a real drill of a bucket store: a process with copies of buckets, and its clients.

    python -m jgroups_py.drill.run.bucket_member    as jgroups_py.drill.run.member

More commands: ``census`` reads and logs each key and answers ``looked``; ``standing`` answers with the components of
every member; ``move`` and ``upgrade`` are orders for an administrator. The member reports ``moving`` when an order
begins, and changes of ``protected``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio

from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.opening import open_buckets
from jgroups_py.drill.file.bucket_keys import BucketWorkload
from jgroups_py.drill.file.bucket_settings import attributes, instance, parts, placement
from jgroups_py.drill.run.bucket_user import LAST_LOOK_SECONDS, BucketUser, plugin
from jgroups_py.drill.run.member import DrillMember, main
from jgroups_py.drill.run.patience import patient

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
            parts=parts(task.name, task.settings, settings),
            placement=placement(task.settings, names, settings.buckets),
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
        user.on_move = partial(self.tell, "moving")
        await self.serve(user, BucketWorkload, partial(self._watch_copies, user))

    async def _watch_copies(self, user: BucketUser) -> None:
        told = None
        while True:
            if user.protected != told:
                told = user.protected
                self.tell("protected", protected=told)
            await trio.sleep(WATCH_SECONDS)

    async def obey(self, command: dict[str, Any]) -> None:
        user = self.user
        match command["do"]:
            case "census":
                if user is not None:
                    await user.census(command["keys"], patient(LAST_LOOK_SECONDS))
                self.tell("looked")
            case "standing" if user is not None:
                self.tell("standing", **user.standing())
            case "move" if user is not None:
                user.begin_move()
            case "upgrade" if user is not None:
                user.begin_upgrade(command["frm"], command["to"])


if __name__ == "__main__":
    trio.run(main, BucketDrillMember)
