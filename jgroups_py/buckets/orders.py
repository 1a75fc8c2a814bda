"""Plans of an administrator's orders: which buckets move where. Functions on the index's decided state. They move no
bucket.

    recreation    a slave for each pair without one (A49, A56)
    evacuation    everything leaves a node, so that it can be stopped (A48)
    restoration   everything goes where the deployment file has it at the beginning (A38)

An order is given when the one before it has been carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import Refused
from jgroups_py.buckets.messages import BucketRow, IndexState, KnownManager
from jgroups_py.buckets.rows import misplaced

HOME_STEPS: Final = 5
"""Orders for one bucket: the slave makes room, the master moves, the slave follows, and one more for overlapping causes
of failure."""
Kind = Literal["master", "slave", "recreate"]


@dataclass(frozen=True)
class BucketOrder:
    """Move a master or slave from ``frm`` to ``to``, or recreate a slave at ``to``."""

    kind: Kind
    bucket: int
    to: Cep
    frm: Cep | None = None

    def stands_in(self, row: BucketRow | None) -> bool:
        """Return whether the copy is there already."""
        return row is not None and self.to == (row.master if self.kind == "master" else row.slave)

    def __str__(self) -> str:
        if self.kind == "recreate":
            return f"bucket {self.bucket}: recreate the slave at {self.to}"
        return f"bucket {self.bucket}: {self.kind} from {self.frm} to {self.to}"


class _Plan:
    """The planned rows, and how many copies and masters each place then has."""

    def __init__(self, deployment: Deployment, state: IndexState) -> None:
        self.deployment = deployment
        self.managers = list(state.managers)
        self.infos: dict[Cep, KnownManager] = {m.cep: m for m in self.managers}
        self.rows: dict[int, BucketRow] = dict(sorted(state.rows.items()))
        self.orders: list[BucketOrder] = []
        self.copies: Counter[Cep] = Counter()
        self.masters: Counter[str] = Counter()
        for row in self.rows.values():
            self._count(row, 1)

    def _count(self, row: BucketRow, by: int) -> None:
        for cep in (row.master, row.slave):
            if cep is not None:
                self.copies[cep] += by
        self.masters[self.node(row.master)] += by

    def node(self, cep: Cep) -> str:
        """Return the node of a manager; "" if it is lost."""
        found = self.infos.get(cep)
        return "" if found is None else found.info.node

    def held(self, node: str) -> int:
        return sum(count for cep, count in self.copies.items() if self.node(cep) == node)

    def order(self, kind: Kind, bucket: int, to: Cep) -> None:
        row = self.rows[bucket]
        frm = {"master": row.master, "slave": row.slave, "recreate": None}[kind]
        self.orders.append(BucketOrder(kind, bucket, to, frm))
        self._count(row, -1)
        self.rows[bucket] = self.after(row, kind, to)
        self._count(self.rows[bucket], 1)

    def after(self, row: BucketRow, kind: Kind, to: Cep) -> BucketRow:
        if kind == "master":
            return BucketRow(row.bucket, row.epoch + 1, to, row.slave)
        return BucketRow(row.bucket, row.epoch + 1, row.master, to)

    def fits(self, row: BucketRow, kind: Kind, to: Cep) -> bool:
        """Return whether this copy may be there, beside the place of the other copy."""
        return to not in (row.master, row.slave) and not misplaced(
            self.after(row, kind, to), self.managers
        )

    def restart(self, row: BucketRow) -> None:
        """Put a bucket back to where it was."""
        self._count(self.rows[row.bucket], -1)
        self.rows[row.bucket] = row
        self._count(row, 1)

    def place(self, kind: Kind, bucket: int, without: str = "") -> Cep:
        """Return the manager with the most room for this copy. Raises Refused: none has any."""
        row = self.rows[bucket]
        found: list[tuple[float, Cep]] = []
        for manager in self.managers:
            node = manager.info.node
            known = self.deployment.by_name.get(node)
            if node == without or not self.fits(row, kind, manager.cep):
                continue
            if known is not None:
                if self.held(node) >= known.buckets:
                    continue
                if kind == "master" and self.masters[node] >= known.masters:
                    continue
            room = known.buckets if known is not None else self.deployment.buckets
            found.append((self.held(node) / max(1, room), manager.cep))
        if not found:
            raise Refused(
                f"bucket {bucket}: no manager has room for this {'slave' if kind == 'recreate' else kind} apart from the other copy"
            )
        # Of the managers of one node choose the one with the fewest copies.
        return min(found, key=lambda one: (one[0], self.copies[one[1]], one[1]))[1]


def recreation(deployment: Deployment, state: IndexState) -> list[BucketOrder]:
    """Plan a slave for each pair that has none and whose master lives. Raises Refused: there is no room for one."""
    plan = _Plan(deployment, state)
    for bucket, row in list(plan.rows.items()):
        if row.slave is None and row.master in plan.infos:
            plan.order("recreate", bucket, plan.place("recreate", bucket))
    return plan.orders


def evacuation(deployment: Deployment, state: IndexState, node: str) -> list[BucketOrder]:
    """Plan to move all copies away from this node. Raises Refused: it has no bucket manager, or the others have no room."""
    plan = _Plan(deployment, state)
    if node not in {manager.info.node for manager in plan.managers}:
        known = ", ".join(sorted({manager.info.node for manager in plan.managers}))
        raise Refused(f"node {node!r} has no bucket manager; there are: {known or 'none'}")
    for bucket, row in list(plan.rows.items()):
        if plan.node(row.master) == node:
            plan.order("master", bucket, plan.place("master", bucket, node))
        elif row.slave is not None and plan.node(row.slave) == node:
            plan.order("slave", bucket, plan.place("slave", bucket, node))
    return plan.orders


def restoration(
    deployment: Deployment, state: IndexState, components: Mapping[int, tuple[str, str]]
) -> list[BucketOrder]:
    """Plan to move all copies to the managers of these names. Lost pairs, and pairs with a missing manager, are left
    out."""
    plan = _Plan(deployment, state)
    named = {manager.cep.component: manager.cep for manager in plan.managers}
    for bucket, (master, slave) in components.items():
        row = plan.rows.get(bucket)
        if row is None or row.master not in plan.infos:
            continue
        if master in named and slave in named:
            _send_home(plan, bucket, named[master], named[slave])
    return plan.orders


def _send_home(plan: _Plan, bucket: int, master: Cep, slave: Cep) -> None:
    """Plan orders until both copies are at home. If one is in the other's way, the slave waits at a third manager;
    without a third manager the bucket stays."""
    begun, before = len(plan.orders), plan.rows[bucket]
    for _ in range(HOME_STEPS):
        row = plan.rows[bucket]
        if (row.master, row.slave) == (master, slave):
            return
        if row.slave is None and row.master == master:
            plan.order("recreate", bucket, slave)
        elif row.slave != slave and row.slave is not None and plan.fits(row, "slave", slave):
            plan.order("slave", bucket, slave)
        elif row.master != master and plan.fits(row, "master", master):
            plan.order("master", bucket, master)
        else:
            between = [
                manager.cep
                for manager in plan.managers
                if plan.fits(row, "slave", manager.cep)
                and plan.fits(plan.after(row, "slave", manager.cep), "master", master)
            ]
            if not between:
                break
            plan.order("slave", bucket, min(between, key=lambda cep: (plan.copies[cep], cep)))
    del plan.orders[begun:]
    plan.restart(before)
