"""Grants: the leases that one index copy has granted to managers.

A manager that is replaced may answer until its leases end, so the copies wait for their end. A manager that is known
again gets its rows before its next lease.

Source: 4.4.6.
"""

from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import IndexState


class Grants:
    def __init__(self, now: float, lease: float) -> None:
        self._lease = lease
        self._granted: dict[Cep, float] = {}
        self._floor = now + lease
        """The end of leases that an earlier copy of this name may have granted."""
        self._refused: set[Cep] = set()
        self._returned: set[Cep] = set()

    def grant(self, manager: Cep, now: float) -> bool:
        """Grant a lease from now on. False: the manager is about to be replaced."""
        if manager in self._refused:
            return False
        self._granted[manager] = now + self._lease
        return True

    def has_returned(self, manager: Cep) -> bool:
        """Must this manager hear of rows before its lease? True once after it has become known."""
        if manager in self._returned:
            self._returned.discard(manager)
            return True
        return False

    def refuse(self, managers: Iterable[Cep]) -> None:
        """Grant these managers no leases until they are known again."""
        self._refused.update(managers)

    def end(self, managers: Iterable[Cep]) -> float:
        """Return the end of the last lease that this copy, or an earlier copy of its name, may have granted to these
        managers."""
        return max((max(self._granted.get(cep, 0.0), self._floor) for cep in managers), default=0.0)

    def commit(self, before: IndexState, state: IndexState, now: float) -> None:
        """Take the managers of a decided state."""
        known = {manager.cep for manager in state.managers}
        # A replaced manager may still claim buckets. It may get leases of a quorum before the message of the deciding copy
        # arrives. So each copy sends it rows before the next lease.
        missed = state.version > before.version + 1
        stayed = set() if missed else {manager.cep for manager in before.managers}
        self._returned = (self._returned | known - stayed) & known
        self._refused -= known
        for cep in [cep for cep in self._granted if cep not in known]:
            if self._granted[cep] < now:
                del self._granted[cep]
