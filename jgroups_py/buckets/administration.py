"""An administrator: a member with a router only, for status and orders."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.errors import BucketError, Refused
from jgroups_py.buckets.messages import BucketRow, IndexState
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.orders import BucketOrder
from jgroups_py.buckets.plugin import (
    NOT_SENSIBLE,
    Classification,
    Entry,
    EntryBehaviourProvider,
    Plugin,
    Request,
    RequestClassifier,
)
from jgroups_py.buckets.standing import unequal
from jgroups_py.buckets.upgrade import AGAIN_AFTER, ATTEMPTS_MAX
from jgroups_py.errors import WaitTimeout

LOOKS: Final = 3
BETWEEN_LOOKS: Final = 1.0
"""Seconds between two looks; a change reaches a slave in less time."""
Plan = Callable[[IndexState], list[BucketOrder]]


@asynccontextmanager
async def open_administrator(
    deployment: Deployment, *, plugin: Plugin | None = None, **options: Any
) -> AsyncIterator[BucketNode]:
    """Join an instance. Its application is needed only to find the bucket of a key. Errors as ``open_deployed``."""
    name = f"administrator-{os.getpid()}"
    async with open_deployed(
        deployment, plugin=plugin or _NOTHING, client=name, name=name, **options
    ) as node:
        yield node


async def wait_for_instance(node: BucketNode, seconds: float) -> None:
    """Wait until this member knows the places of buckets. Raises WaitTimeout."""
    with trio.move_on_after(seconds):
        await node.wait_ready()
        return
    view = node.channel.view
    raise WaitTimeout(
        f"no instance after {seconds:g} s; it exists when all index copies and bucket managers of the file have been there"
        f" (members now, with this one: {len(view.members) if view is not None else 0})"
    )


async def carry_out(
    node: BucketNode,
    orders: Sequence[BucketOrder],
    told: Callable[[BucketOrder], None],
    *,
    pause: float = 0.0,
    plan: Plan | None = None,
) -> None:
    """Give orders, one after the other. ``told``: called after each. ``pause``: seconds between two of them. An order whose copy is
    there already is neither given nor told: the plan was made of older rows, or another administrator was first.

    A refused order is given again after a moment, because this member's rows may be older than those of the managers. ``plan``: makes
    the orders anew from the rows that have come meanwhile.

    Raises BucketError: an order was refused ``ATTEMPTS_MAX`` times, many were refused because another administrator has other
    aims, or an outcome is unknown. Earlier orders stay done."""
    waiting, refusals = list(orders), 0
    refusals_left = len(waiting) + ATTEMPTS_MAX
    while waiting:
        order = waiting[0]
        if order.stands_in(node.state.rows.get(order.bucket)):
            del waiting[0]
            continue
        try:
            await _give(node, order)
        except Refused as refusal:
            refusals += 1
            refusals_left -= 1
            if refusals == ATTEMPTS_MAX or not refusals_left:
                raise Refused(f"{order}: {refusal}") from None
            await trio.sleep(AGAIN_AFTER)
            if plan is not None:
                waiting = plan(node.state)
            continue
        except BucketError as error:
            raise type(error)(f"{order}: {error}") from None
        del waiting[0]
        refusals = 0
        told(order)
        if waiting and pause:
            await trio.sleep(pause)


async def compare_copies(node: BucketNode) -> None:
    """Compare the numbers of entries of all copies. Raises Refused: the copies of a bucket differed in ``LOOKS`` looks,
    as after the start of a node without its archives."""
    differ: dict[int, str] = {}
    for look in range(LOOKS):
        if look:
            await trio.sleep(BETWEEN_LOOKS)
        found = unequal((await node.instance_statistics(buckets=True)).nodes)
        differ = {b: text for b, text in found.items() if not look or b in differ}
        if not differ:
            return
    first = next(iter(differ.values()))
    raise Refused(
        f"{first} ({len(differ)} buckets differ); was a node started without its archives?"
    )


async def _give(node: BucketNode, order: BucketOrder) -> BucketRow:
    if order.kind == "recreate":
        return await node.recreate_bucket(order.to, bucket=order.bucket)
    assert order.frm is not None
    if order.kind == "master":
        return await node.migrate_master_bucket(order.frm, order.to, bucket=order.bucket)
    return await node.migrate_slave_bucket(order.frm, order.to, bucket=order.bucket)


class _NoEntries(EntryBehaviourProvider):
    application = "administrator"
    version = 1

    def create_entry(self, key: str) -> Entry:
        raise NotImplementedError("an administrator has no entries")


class _NoRequests(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        return NOT_SENSIBLE


_NOTHING: Final = Plugin(_NoEntries(), _NoRequests())
