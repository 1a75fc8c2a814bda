"""Lease: a manager may answer reads, and changes that no slave confirms, while a quorum of index copies has heard from it lately.

An index copy that has answered a ping at its time t takes no part in replacing the manager before t + lease (index.py). The manager counts
from the moment at which it sent the ping, so its lease ends first.
"""

from __future__ import annotations

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import Ping, Pong
from jgroups_py.buckets.port import Port
from jgroups_py.buckets.settings import InstanceSettings


class Lease:
    def __init__(self, port: Port, settings: InstanceSettings) -> None:
        self._port, self._settings = port, settings
        self._heard: dict[str, float] = {}

    def heard(self, index: Cep, pong: Pong) -> None:
        if index.component in self._settings.index_copies and pong.sent <= self._port.now:
            self._heard[index.component] = max(self._heard.get(index.component, 0.0), pong.sent)

    def holds(self) -> bool:
        """Has a quorum answered a ping that was sent less than ``lease`` ago?"""
        since = self._port.now - self._settings.lease
        return sum(sent > since for sent in self._heard.values()) >= self._settings.quorum

    def renew(self, indices: list[Cep]) -> None:
        for index in indices:
            self._port.post(index, Ping(self._port.now))
