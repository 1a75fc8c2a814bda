"""One host of a real drill of maps: a process with a map in a file, on a channel, and requests to it.

    python -m jgroups_py.drill.run.map_member    as jgroups_py.drill.run.member

The file is in the task's ``folder``: the next incarnation opens it again, as after a kill. One more command,
``census``, logs the content of the host and answers ``looked``. The member reports changes of ``linked``, the number of
linked hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.drill.file.map_keys import MapLoad
from jgroups_py.drill.run.map_user import MapUser
from jgroups_py.drill.run.member import DrillMember, main
from jgroups_py.maps.channel import MapChannel, open_map_channel
from jgroups_py.maps.host import MapEvent
from jgroups_py.maps.open import Map, open_map
from jgroups_py.maps.opening import Replication

MAP: Final = "drill"
WATCH_SECONDS: Final = 0.02


class OpenedMap:
    """The application's access to the map; see ``map_user.Keys``."""

    def __init__(self, opened: Map[str, Any]) -> None:
        self._map = opened

    def read(self, key: str) -> Any:
        return self._map.get(key)

    def write(self, key: str, value: Any) -> bool:
        if value is None:
            return self._map.remove(key) is not None
        self._map[key] = value
        return True

    def all_keys(self) -> Iterable[str]:
        return list(self._map)


class MapDrillMember(DrillMember):
    """See the module's docstring."""

    user: MapUser | None = None

    async def live(self) -> None:
        async with self._channel() as channel, open_map_channel(channel) as carrier:
            await self._use(channel, carrier)

    async def _use(self, channel: Channel, carrier: MapChannel) -> None:
        task = self.task
        self._has_joined(channel)
        self._on_view(channel.view)
        carrier.on_view = self._on_view
        channel.driver.before_flush.append(self._watch_bridge)
        hosts = frozenset(range(1, sum(map(len, task.names)) + 1))
        async with open_map(
            task.folder,
            name=MAP,
            key=str,
            value="json",
            identifier=task.identifier,
            network=carrier.network(MAP),
            replication=Replication(peers=hosts, watch=self._on_event, **task.settings),
        ) as opened:
            user = self.user = MapUser(
                OpenedMap(opened), task.site, self.origin, self.chance, self.write
            )
            user.census(first=True)
            await self.serve(
                user,
                MapLoad,
                partial(self._watch_links, opened),
                partial(self._sample, channel),
            )

    def _on_event(self, event: MapEvent) -> None:
        if self.user is not None:
            self.user.on_event(event)

    async def _watch_links(self, opened: Map[str, Any]) -> None:
        told = -1
        while True:
            links = len(opened.statistics().peers)
            if links != told:
                told = links
                self.tell("linked", links=links)
            await trio.sleep(WATCH_SECONDS)

    async def obey(self, command: dict[str, Any]) -> None:
        if command["do"] == "census":
            if self.user is not None:
                self.user.census()
            self.tell("looked")


if __name__ == "__main__":
    trio.run(main, MapDrillMember)
