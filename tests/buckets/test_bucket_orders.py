"""Administrators' orders: their plan for a state of the index can be carried out."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from split_group import SplitGroup

from jgroups_py.buckets import Cep, Refused, Request
from jgroups_py.buckets.administration import carry_out, open_administrator, wait_for_instance
from jgroups_py.buckets.deployed import open_deployed, parts_of
from jgroups_py.buckets.deployment import Deployment, distribute, parse_deployment
from jgroups_py.buckets.messages import BucketRow, ComponentInfo, IndexState, KnownManager
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.orders import BucketOrder, evacuation, recreation, restoration
from jgroups_py.buckets.rows import misplaced
from jgroups_py.buckets.standing import standing_json, standing_text
from jgroups_py.errors import ConfigError, WaitTimeout
from jgroups_py.testing.explorer.buckets.ledger import ledger

FOUR = """\
name: seats
buckets: 8
stack: sim.xml
settings: {lease: 1s}
nodes:
  n1: {buckets: 6, fails_with: a}
  n2: {buckets: 6, fails_with: b}
  n3: {buckets: 6, fails_with: c}
  n4: {buckets: 6, masters: 3, fails_with: d, components: {managers: 2, proxies: 1}}
"""


def deployed(text: str = FOUR) -> Deployment:
    return parse_deployment(text)


def state_of(deployment: Deployment, without: str = "") -> IndexState:
    """Return the first rows, or the rows after the loss of a node if one is named."""
    managers = [
        KnownManager(
            Cep(f"{node.name}.1", name),
            ComponentInfo(name, "manager", node.name, deployment.zone_of(node)),
        )
        for node in deployment.nodes
        for name in node.components("m")
    ]
    ceps = {manager.cep.component: manager.cep for manager in managers}
    rows = {}
    for bucket, (master, slave) in distribute(deployment).components.items():
        row = BucketRow(bucket, 1, ceps[master], ceps[slave])
        if without and row.master.member == f"{without}.1":
            assert row.slave is not None
            row = BucketRow(bucket, 2, row.slave)
        elif without and row.slave is not None and row.slave.member == f"{without}.1":
            row = BucketRow(bucket, 2, row.master)
        rows[bucket] = row
    left = [manager for manager in managers if manager.info.node != without]
    return IndexState(1, rows, {}, left)


def carried_out(
    state: IndexState, orders: list[BucketOrder], *, back: IndexState | None = None
) -> dict[int, BucketRow]:
    """Return the rows afterwards. The index would accept each step."""
    rows = dict(state.rows)
    managers = (back or state).managers
    for order in orders:
        row = rows[order.bucket]
        assert order.frm == {"master": row.master, "slave": row.slave, "recreate": None}[order.kind]
        assert order.kind != "recreate" or row.slave is None
        if order.kind == "master":
            row = BucketRow(row.bucket, row.epoch + 1, order.to, row.slave)
        else:
            row = BucketRow(row.bucket, row.epoch + 1, row.master, order.to)
        assert not misplaced(row, managers), order
        rows[order.bucket] = row
    return rows


def held(rows: dict[int, BucketRow]) -> dict[str, tuple[int, int]]:
    """Return the masters and all copies of each node."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows.values():
        for cep, master in ((row.master, 1), (row.slave, 0)):
            if cep is not None:
                masters, copies = found.get(cep.member[:2], (0, 0))
                found[cep.member[:2]] = (masters + master, copies + 1)
    return found


@pytest.mark.seed("A49", "A56")
def test_slaves_are_recreated_where_there_is_room() -> None:
    deployment = deployed()
    state = state_of(deployment, without="n2")
    bare = [bucket for bucket, row in state.rows.items() if row.slave is None]
    rows = carried_out(state, recreation(deployment, state))
    assert len(bare) >= 3 and all(row.slave is not None for row in rows.values())
    assert all(copies <= 6 for _, copies in held(rows).values())
    crowded = deployed(FOUR.replace("buckets: 6", "buckets: 4"))
    with pytest.raises(
        Refused, match="no manager has room for this slave apart from the other copy"
    ):
        recreation(crowded, state_of(crowded, without="n2"))


@pytest.mark.seed("A48")
def test_a_node_is_emptied_within_the_capacities_of_the_others() -> None:
    deployment = deployed()
    for name in ("n1", "n2", "n3", "n4"):
        state = state_of(deployment)
        rows = carried_out(state, evacuation(deployment, state, name))
        load = held(rows)
        assert name not in load and sum(copies for _, copies in load.values()) == 16
        assert all(copies <= 6 for _, copies in load.values()) and load.get("n4", (0, 0))[0] <= 3
    slaves_only = deployed(FOUR.replace("masters: 3", "masters: 0"))
    state = state_of(slaves_only)
    rows = carried_out(state, evacuation(slaves_only, state, "n1"))
    assert held(rows)["n4"][0] == 0 and "n1" not in held(rows)
    with pytest.raises(Refused, match="node 'n9' has no bucket manager; there are: n1, n2, n3, n4"):
        evacuation(deployment, state_of(deployment), "n9")
    crowded = deployed(FOUR.replace("buckets: 6", "buckets: 4"))
    with pytest.raises(Refused, match="no manager has room"):
        evacuation(crowded, state_of(crowded), "n2")


@pytest.mark.seed("A38")
def test_all_buckets_come_back_after_the_return_of_a_node() -> None:
    deployment = deployed()
    goal = state_of(deployment)
    components = distribute(deployment).components
    for name in ("n1", "n2", "n3", "n4"):
        lost = state_of(deployment, without=name)
        back = IndexState(2, lost.rows, {}, goal.managers)
        rows = carried_out(back, restoration(deployment, back, components))
        for bucket, row in rows.items():
            assert (row.master, row.slave) == (goal.rows[bucket].master, goal.rows[bucket].slave)
        assert restoration(deployment, goal, components) == []


@pytest.mark.seed("A38")
def test_any_state_leads_back_to_the_beginning() -> None:
    deployment = deployed(
        FOUR.replace("buckets: 6", "buckets: 8").replace("fails_with: d", "fails_with: a")
    )
    goal = state_of(deployment)
    components = distribute(deployment).components
    ceps = [manager.cep for manager in goal.managers]
    r = random.Random(3)
    for _ in range(100):
        rows = {}
        for bucket in goal.rows:
            while bucket not in rows:
                slave = r.choice([*ceps, None])
                row = BucketRow(bucket, 1, r.choice(ceps), slave)
                if row.master != slave and not misplaced(row, goal.managers):
                    rows[bucket] = row
        state = IndexState(1, rows, {}, goal.managers)
        after = carried_out(state, restoration(deployment, state, components))
        for bucket, row in after.items():
            assert (row.master, row.slave) == (goal.rows[bucket].master, goal.rows[bucket].slave)


def test_orders_leave_out_managers_that_are_not_there() -> None:
    deployment = deployed()
    lost = state_of(deployment, without="n2")
    components = distribute(deployment).components
    for order in restoration(deployment, lost, components):
        assert "m/n2" not in components[order.bucket]
    gone = [manager for manager in lost.managers if manager.info.node != "n3"]
    orphans = IndexState(1, lost.rows, {}, gone)
    for order in (*restoration(deployment, orphans, components), *recreation(deployment, orphans)):
        assert lost.rows[order.bucket].master.component != "m/n3"


def test_a_pair_whose_copies_are_lost_gets_no_orders_when_the_node_is_back() -> None:
    deployment = deployed()
    state = state_of(deployment)
    back = [
        KnownManager(Cep("n3.2", m.cep.component), m.info) if m.info.node == "n3" else m
        for m in state.managers
    ]
    orders = restoration(
        deployment, IndexState(2, state.rows, {}, back), distribute(deployment).components
    )
    assert orders, "slaves that were at n3 come back"
    assert all(
        order.frm is None or order.frm.member != "n3.1"
        for order in orders
        if order.kind == "master"
    )
    for order in orders:
        assert state.rows[order.bucket].master.member != "n3.1"


# --- on channels, in memory


class Nodes(SplitGroup[BucketNode]):
    """Nodes of a deployment on a network in memory."""

    def __init__(self, nursery: trio.Nursery, deployment: Deployment) -> None:
        super().__init__(nursery)
        self.deployment = deployment

    async def start(self, name: str) -> None:
        opening = open_deployed(
            self.deployment,
            name,
            plugin=ledger(),
            transport=self.network,
            wall=trio.current_time,
        )
        await self._begin(name, opening)

    @asynccontextmanager
    async def administrator(self) -> AsyncIterator[BucketNode]:
        async with open_administrator(self.deployment, transport=self.network) as node:
            await wait_for_instance(node, 20)
            yield node


@asynccontextmanager
async def running(text: str = FOUR) -> AsyncIterator[Nodes]:
    async with trio.open_nursery() as nursery:
        group = Nodes(nursery, parse_deployment(text))
        for node in group.deployment.nodes:
            await group.start(node.name)
        for started in group.nodes.values():
            await started.wait_ready()
        yield group
        nursery.cancel_scope.cancel()


@pytest.mark.seed("A24", "A35", "A38", "A48", "A49")
async def test_an_administrator_looks_empties_a_node_and_restores_the_beginning(
    autojump_clock: Any,
) -> None:
    async with running() as group:
        deployment = group.deployment
        components = distribute(deployment).components
        async with group.administrator() as administrator:
            view = administrator.channel.view
            assert view is not None
            members = [str(member) for member in view.members]
            told = standing_json(administrator.state, members)
            assert (told["buckets"], told["without_backup"], told["together"]) == (8, [], [])
            assert [m["manager"] for m in told["managers"]] == [
                "m/n1",
                "m/n2",
                "m/n3",
                "m/n4",
                "m/n4/2",
            ]
            for manager in told["managers"]:
                for bucket in manager["masters"]:
                    assert components[bucket][0] == manager["manager"]
            (reply,) = await group.nodes["n1"].request(Request(b"+seat", "LH400"))
            assert reply == b"0"
            done: list[BucketOrder] = []
            orders = evacuation(deployment, administrator.state, "n2")
            await carry_out(administrator, orders, done.append, pause=0.5)
            assert done == orders and len(orders) >= 3
        group.kill("n2")
        (reply,) = await group.nodes["n1"].request(Request(b"+more", "LH400"))
        assert reply == b"1", "an empty node is missed by nobody"
        await group.nodes["n1"].wait_until(lambda state: len(state.managers) == 4)
        await group.start("n2")
        async with group.administrator() as administrator:
            await administrator.wait_until(lambda state: len(state.managers) == 5)
            orders = restoration(deployment, administrator.state, components)
            await carry_out(administrator, orders, done.append)
            await trio.sleep(1)
            for bucket, row in administrator.state.rows.items():
                assert row.slave is not None
                assert (row.master.component, row.slave.component) == components[bucket]
            text = standing_text(standing_json(administrator.state, []))
            assert "8 buckets; index copies: i/n1, i/n2, i/n3" in text
            assert "is lost: digests 0000000000000000 to 1fffffffffffffff" in text, (
                "without members"
            )
        (reply,) = await group.nodes["n2"].request(Request(b"?", "LH400"))
        assert reply == b"seat more"


async def test_a_loss_is_shown_and_an_order_that_fails_is_named(autojump_clock: Any) -> None:
    async with running() as group:
        group.kill("n3")
        async with group.administrator() as administrator:
            await administrator.wait_until(lambda state: len(state.managers) == 4)
            view = administrator.channel.view
            assert view is not None
            told = standing_json(administrator.state, [str(member) for member in view.members])
            bare = len(told["without_backup"])
            assert bare >= 3 and f"! {bare} without backup: " in standing_text(told)
            gone = BucketOrder("recreate", told["without_backup"][0], Cep("nobody", "m/n9"))
            with pytest.raises(Refused, match=r"bucket \d: recreate the slave at m/n9@nobody: "):
                await carry_out(administrator, [gone], lambda order: None)


async def test_an_order_that_was_carried_out_already_is_no_error(autojump_clock: Any) -> None:
    async with running() as group:
        group.kill("n3")
        async with group.administrator() as first, group.administrator() as second:
            for administrator in (first, second):
                await administrator.wait_until(lambda state: len(state.managers) == 4)
            orders = recreation(group.deployment, second.state)
            assert len(orders) >= 3
            done: list[BucketOrder] = []
            await carry_out(first, orders, done.append)
            await second.wait_until(
                lambda state: all(row.slave is not None for row in state.rows.values())
            )
            before = second.state
            await carry_out(second, orders, done.append)
            assert done == orders and second.state.rows == before.rows


async def test_orders_that_are_refused_are_planned_anew_from_the_rows_that_came(
    autojump_clock: Any,
) -> None:
    """The rows were older than those of the managers when the orders were planned."""
    async with running() as group:
        components = distribute(group.deployment).components
        group.kill("n3")
        async with group.administrator() as first, group.administrator() as second:
            await second.wait_until(lambda state: len(state.managers) == 4)
            await group.start("n3")
            for administrator in (first, second):
                await administrator.wait_until(lambda state: len(state.managers) == 5)
            old = restoration(group.deployment, second.state, components)
            elsewhere = recreation(group.deployment, first.state)
            await carry_out(first, elsewhere, lambda order: None)
            await second.wait_until(
                lambda state: all(row.slave is not None for row in state.rows.values())
            )
            with pytest.raises(Refused):
                await carry_out(second, old, lambda order: None)
            await carry_out(
                second,
                old,
                lambda order: None,
                plan=lambda state: restoration(group.deployment, state, components),
            )
            for bucket, row in second.state.rows.items():
                assert row.slave is not None
                assert (row.master.component, row.slave.component) == components[bucket]


async def test_an_instance_that_is_not_there_is_reported(autojump_clock: Any) -> None:
    async with trio.open_nursery() as nursery:
        group = Nodes(nursery, deployed())
        await group.start("n1")
        with pytest.raises(WaitTimeout, match=r"no instance after 20 s.*with this one: 2\)"):
            async with group.administrator():
                pass
        nursery.cancel_scope.cancel()
    with pytest.raises(ConfigError, match=r"6:1: nodes: there is no node 'n9', but n1, n2"):
        parts_of(deployed(f"separate: nodes\n{FOUR}"), "n9")


def test_a_node_has_the_parts_of_its_file() -> None:
    parts = parts_of(deployed(), "n4")
    assert (parts.managers, parts.index, parts.zone) == (("m/n4", "m/n4/2"), None, "d")
    assert parts_of(deployed(), "n1").index == "i/n1"
