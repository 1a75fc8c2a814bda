"""Saves: changes between master and slave. The master sends them, and again until the slave has acknowledged them; the slave takes each once.

Source: 4.4.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import EntryChange, Kept, Save, Saved
from jgroups_py.buckets.port import Port
from jgroups_py.buckets.settings import InstanceSettings


class Saves:
    """It owns the list of masters with unacknowledged saves. The numbers of saves are in each copy."""

    def __init__(self, port: Port, settings: InstanceSettings, counts: Counter[str]) -> None:
        self._port, self._settings, self._counts = port, settings, counts
        self._unsaved: dict[int, Copy] = {}

    # --- master

    def send(self, copy: Copy, slave: Cep, change: EntryChange, kept: Kept) -> None:
        """Send a change to the slave."""
        copy.sequence += 1
        save = Save(copy.bucket.id, copy.row.epoch, copy.sequence, change, kept)
        copy.unacknowledged.append(save)
        self._wait(copy)
        self._unsaved[copy.bucket.id] = copy
        self._port.post(slave, save)

    def acknowledge(self, copy: Copy, saved: Saved) -> None:
        """Note the slave's acknowledgement."""
        copy.acknowledge(saved.sequence)
        self._wait(copy)

    def repeat(self, copies: Mapping[int, Copy], at_once: bool) -> None:
        """Send overdue saves again, or all of them. ``copies``: those that are here; saves of others are forgotten."""
        for bucket, copy in list(self._unsaved.items()):
            slave = copy.row.slave
            if not copy.unacknowledged or slave is None or copies.get(bucket) is not copy:
                del self._unsaved[bucket]
            elif (
                at_once or copy.repeat_at <= self._port.now
            ) and slave.member in self._port.members:
                self._wait(copy)
                self._counts["saves_repeated"] += len(copy.unacknowledged)
                for save in copy.unacknowledged:
                    self._port.post(slave, save)

    def _wait(self, copy: Copy) -> None:
        copy.repeat_at = self._port.now + self._settings.repeat_after

    # --- slave

    def take(self, copy: Copy, master: Cep, save: Save) -> Saved | None:
        """Take a save of the copy's epoch and return its acknowledgement. No save is taken twice or after a gap."""
        if copy.row.master == master and save.sequence <= copy.sequence:
            return Saved(save.bucket, save.epoch, copy.sequence)
        if copy.row.master != master or save.sequence != copy.sequence + 1:
            self._counts["gaps"] += 1
            return None
        copy.sequence = save.sequence
        copy.acknowledged = save.sequence
        copy.bucket.adopt(save.change)
        copy.bucket.remember(save.kept)
        self._counts["saves"] += 1
        return Saved(save.bucket, save.epoch, save.sequence)
