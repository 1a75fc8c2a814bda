"""Orders of an administrator to a bucket store in virtual time, while clients work and messages may be late.

A node is lost and comes back. From then on the instance is whole and nothing fails. So each order must be carried out: recreate,
restore, exempt, createindex, an upgrade to another manager on the same node and back. A refused order is given again as ``carry_out``
and ``move_all`` do; a refusal that stays is a violation, as is an order without an end within ``ORDER_MAX``. A cancelled move has an
end, and nothing is left of it: no lock, no transfer, no copy on its way.

Each command is a member of its own that joins and leaves, as ``jgroups-py buckets`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jgroups_py.buckets.deployment import Deployment, distribute, parse_deployment
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError, Refused
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import BucketRow, IndexState
from jgroups_py.buckets.mirror import IndexMirror
from jgroups_py.buckets.orders import BucketOrder, evacuation, recreation, restoration
from jgroups_py.buckets.upgrade import AGAIN_AFTER, ATTEMPTS_MAX
from jgroups_py.testing.explorer.buckets.ledger import NEW, ledger
from jgroups_py.testing.explorer.buckets.schedule import (
    BUCKETS,
    NODES,
    SECONDS,
    BucketCase,
    Run,
    Stage,
)

ORDER_MAX: Final = 60.0
"""The most seconds for one order."""
LEFT_MAX: Final = 30.0
"""Seconds after which nothing may be left of a move."""
PAUSE: Final = 3.0
"""The longest time between two commands."""
ENTRANCE: Final = 20.0
"""The most seconds until a member is known to the index, or knows the rows."""
Planned = Callable[[IndexState], list[BucketOrder]]


def play_orders(case: BucketCase) -> Run:
    """Play and judge one."""
    stage = Stage(case)
    stage.plan_asks(case.asks)
    orders = _Orders(stage)
    orders.play()
    stage.world.run(max(0.0, SECONDS + 1.0 - stage.world.now))
    stage.finish()
    if not stage.run.problems:
        orders.judge_rest()
    return stage.run


class _Orders:
    def __init__(self, stage: Stage) -> None:
        self.stage, self.world = stage, stage.world
        self.deployment = _deployment()
        self.given = 0
        self._commands = 0

    def play(self) -> None:
        # Late messages may have kept the nodes from making the instance in the first second.
        whole = self.stage.is_whole
        if not whole() and not self._until("the instance is made", whole):
            return
        self._lose_and_return(self.stage.random.choice(NODES))
        self._command("recreate", self._planned(recreation))
        self._command("restore", self._home)
        if self.stage.random.random() < 0.5:
            self._cancel()
        node = self.stage.random.choice(NODES)
        self._command(
            f"exempt {node}", self._planned(lambda known, state: evacuation(known, state, node))
        )
        self._command("restore", self._home)
        self._upgrade(self.stage.random.choice(NODES))

    def _planned(self, plan: Callable[[Deployment, IndexState], list[BucketOrder]]) -> Planned:
        return lambda state: plan(self.deployment, state)

    def _home(self, state: IndexState) -> list[BucketOrder]:
        return restoration(self.deployment, state, self.stage.placement)

    # --- members

    def _lose_and_return(self, name: str) -> None:
        stage, world = self.stage, self.world
        member = world.alive(name)
        assert member is not None
        stage.run.kills += 1
        world.kill(member)
        for asked in stage.run.asked:
            if asked.member == member and asked.ended < 0:  # the client is gone with its node
                asked.ended, asked.answer = world.now, Refused("killed")
        world.run(stage.random.uniform(0.2, 3.0))
        if stage.random.random() < 0.7 or name not in NODES[:3]:
            stage.start(name)
        else:
            self._start_without_index(name)
        self._until("the returned node is known", self._known)

    def _start_without_index(self, name: str) -> None:
        """Start a node whose index copy is created later, as ``create_index`` does."""
        stage, world = self.stage, self.world

        def build(machine: BucketMachine) -> None:
            machine.add_manager(f"m/{name}", ledger())
            machine.add_router(f"r/{name}", ledger(), machine.add_mirror("mirror"))
            machine.add_proxies(f"p/{name}")

        member = world.start(name, build)
        self._until("the returned node is known", self._known)
        machine = world.machines[member]
        machine.advance(world.now)
        index = machine.create_index(f"i/{name}")
        world.flush(member)
        self._until("createindex", lambda: f"i/{name}" in index.state.copies)
        stage.run.moves += 1

    def _known(self) -> bool:
        """Does the index know the managers of all nodes?"""
        index = self.stage.index()
        here = {self.world.alive(name) for name in NODES}
        return index is not None and here <= {m.cep.member for m in index.state.managers}

    def _until(self, what: str, holds: Callable[[], bool]) -> bool:
        if self.world.run(ENTRANCE, holds):
            return True
        self.stage.run.violated("orders", f"{what}: not within {ENTRANCE:g} s")
        return False

    # --- commands

    def _administrator(self) -> tuple[str, BucketMachine, IndexMirror]:
        self._commands += 1

        def build(machine: BucketMachine) -> None:
            machine.add_router("r/a", ledger(), machine.add_mirror("i/a"))

        member = self.world.start(f"administrator-{self._commands}", build)
        machine = self.world.machines[member]
        mirror = machine.mirrors["i/a"]
        self._until("the administrator knows the rows", lambda: bool(mirror.state.version))
        return member, machine, mirror

    def _command(self, name: str, *plans: Planned) -> None:
        """Make each plan and carry it out, as ``carry_out``."""
        if self.stage.run.problems:
            return
        self.world.run(self.stage.random.uniform(0.0, PAUSE))
        member, _, mirror = self._administrator()
        for plan in plans:
            self.world.tell(name)
            self._carry_out(name, plan, member, mirror)
        self.world.kill(member)

    def _carry_out(self, name: str, plan: Planned, member: str, mirror: IndexMirror) -> None:
        waiting, refusals = plan(mirror.state), 0
        while waiting:
            order = waiting[0]
            if not order.stands_in(mirror.state.rows.get(order.bucket)):
                answer = self._give(member, order)
                if isinstance(answer, Refused) and refusals + 1 < ATTEMPTS_MAX:
                    refusals += 1
                    self.world.tell(f"{order} is refused: {answer}")
                    self.world.run(AGAIN_AFTER)
                    waiting = plan(mirror.state)
                    continue
                if isinstance(answer, BucketError):
                    self.stage.run.violated("orders", f"{name}: {order}: {answer}")
                    return
                self._seen(mirror, answer)
            del waiting[0]
            refusals = 0

    def _give(self, member: str, order: BucketOrder) -> BucketRow | BucketError:
        if order.kind == "recreate":
            return self._do(member, "recreate_bucket", order.to, bucket=order.bucket)
        what = f"migrate_{order.kind}_bucket"
        return self._do(member, what, order.frm, order.to, bucket=order.bucket)

    def _do(
        self, member: str, what: str, *arguments: Any, **options: Any
    ) -> BucketRow | BucketError:
        found = self._begin(member, what, *arguments, **options)
        if not self.world.run(ORDER_MAX, lambda: bool(found)):
            return BucketError(f"no end within {ORDER_MAX:g} s")
        self.given += 1
        return found[0]

    def _begin(
        self, member: str, what: str, *arguments: Any, **options: Any
    ) -> list[BucketRow | BucketError]:
        found: list[BucketRow | BucketError] = []
        machine = self.world.machines[member]
        machine.advance(self.world.now)
        getattr(machine.routers["r/a"], what)(*arguments, found.append, **options)
        self.world.flush(member)
        self.stage.run.moves += 1
        return found

    def _seen(self, mirror: IndexMirror, row: BucketRow) -> None:
        """Wait for the row, as ``BucketNode``."""
        self.world.run(
            self.stage.settings.ask_timeout,
            lambda: mirror.state.rows[row.bucket].epoch >= row.epoch,
        )

    def _cancel(self) -> None:
        """Cancel a move at any moment. Both orders have an end."""
        if self.stage.run.problems:
            return
        member, _, mirror = self._administrator()
        row = self.stage.random.choice(list(mirror.state.rows.values()))
        others = [m.cep for m in mirror.state.managers if m.cep not in (row.master, row.slave)]
        to = self.stage.random.choice(others)
        moved = self._begin(member, "migrate_master_bucket", row.master, to, bucket=row.bucket)
        self.world.run(self.stage.random.uniform(0.0, 0.5))
        cancelled = self._begin(member, "cancel", row.bucket)
        if not self.world.run(ORDER_MAX, lambda: bool(moved and cancelled)):
            missing = "the move" if not moved else "the order to cancel"
            self.stage.run.violated("orders", f"{missing} of bucket {row.bucket} has no end")
        self._seen(mirror, row)
        self.world.kill(member)
        self._command("restore", self._home)

    def _upgrade(self, name: str) -> None:
        """Move all copies of a node to a second manager there, with a newer version, and back."""
        if self.stage.run.problems:
            return
        world, old = self.world, self.stage.manager(name)
        assert old is not None

        def build(machine: BucketMachine) -> None:
            machine.add_manager(f"m/{name}/new", ledger(NEW))

        member = world.start(f"{name}/new", build, node=name)
        new = Cep(member, f"m/{name}/new")

        def known() -> bool:
            index = self.stage.index()
            return index is not None and any(m.cep == new for m in index.state.managers)

        if self._until("the new manager is known", known):
            self._command(
                f"upgrade to {new} and back",
                lambda state: _all_of(state, old, new),
                lambda state: _all_of(state, new, old),
            )
        index = self.stage.index()
        if index is not None and any(row.role_of(new) for row in index.state.rows.values()):
            return  # something was refused, and is a problem already
        world.kill(member)

    # --- the judge

    def judge_rest(self) -> None:
        """Nothing may be left of moves."""
        if not self.world.run(LEFT_MAX, lambda: not self._left()):
            self.stage.run.violated("left", f"{LEFT_MAX:g} s after the last order: {self._left()}")

    def _left(self) -> list[str]:
        left: list[str] = []
        for member, machine in self.world.machines.items():
            for manager in machine.managers.values():
                left += [f"{manager.cep} expects bucket {b}" for b in manager.incoming.copies]
                for bucket, copy in manager.copies.items():
                    if copy.locked or copy.held or copy.transfer or copy.queue or copy.answers:
                        left.append(f"{manager.cep}: bucket {bucket} is locked, held or moving")
            for index in machine.indices.values():
                if index.locked_by or index.proposed or len(index._reservations):
                    left.append(f"{index.port.cep}: an update is open")
            for router in machine.routers.values():
                if router.pending or router._moving or router._cancels:
                    left.append(f"{member}: a router waits")
        return left


def _all_of(state: IndexState, frm: Cep, to: Cep) -> list[BucketOrder]:
    found: list[BucketOrder] = []
    for bucket, row in sorted(state.rows.items()):
        role = row.role_of(frm)
        if role is not None:
            found.append(BucketOrder(role, bucket, to, frm))
    return found


def _deployment() -> Deployment:
    """Return the file of these nodes, without limits of room."""
    nodes = "".join(f"  {name}: {{}}\n" for name in NODES)
    made = parse_deployment(f"name: orders\nbuckets: {BUCKETS}\nstack: tcp.xml\nnodes:\n{nodes}")
    assert len(distribute(made).components) == BUCKETS
    return made
