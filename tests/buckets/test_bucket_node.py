"""Members of an instance on channels, on a network in memory and in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group
from seed_instance import PAIRS, key_in, seed_settings

from jgroups_py import MemoryNetwork
from jgroups_py.buckets import (
    Busy,
    NotSensible,
    OutcomeUnknown,
    Refused,
    Request,
    Unavailable,
)
from jgroups_py.buckets.deployed import open_deployed, parts_of
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.opening import open_buckets
from jgroups_py.buckets.parts import NodeParts
from jgroups_py.config.settings import load_stack
from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.buckets.ledger import ledger
from jgroups_py.tools.commands.mperf_ports import private_attributes


@pytest.mark.seed("A1", "A36")
async def test_an_update_is_in_both_copies_when_it_is_answered(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        assert await ask(group.nodes["n1"], key_in(4), "+seat") == "0"
        both = {key_in(4): ({"": b"seat"}, 73)}
        assert group.states(3) == {"n2": both, "n3": both}
        assert await ask(group.nodes["n3"], key_in(4), "?") == "seat"


@pytest.mark.seed("A19", "A20", "A31")
async def test_clients_go_on_when_a_node_is_killed(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        for pair in range(1, PAIRS + 1):
            await ask(group.nodes["n1"], key_in(pair), "+before")
        group.kill("n2")
        began = trio.current_time()
        for pair in range(1, PAIRS + 1):
            assert await ask(group.nodes["n1"], key_in(pair), "+after") == "1", pair
        assert trio.current_time() - began < 5.0


async def test_requests_under_way_survive_the_loss_of_their_master(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        answers: dict[int, str] = {}

        async def client(number: int) -> None:
            key = key_in(1 + number % PAIRS, number)
            await ask(group.nodes["n1"], key, "+before")
            answers[number] = await ask(group.nodes["n1"], key, "+after")

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(client, number)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            group.kill("n3")
        assert set(answers.values()) == {"1"} and len(answers) == 60


async def test_a_node_comes_back_and_gets_its_copies_by_orders(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        for pair in range(1, PAIRS + 1):
            await ask(group.nodes["n1"], key_in(pair), "+token")
        group.kill("n2")
        admin = group.nodes["n1"]
        await admin.wait_until(lambda state: len(state.managers) == 2)
        await group.start("n2")
        await admin.wait_until(lambda state: len(state.managers) == 3)
        n2 = admin.manager_at("n2")
        for bucket, row in admin.state.rows.items():
            assert row.slave is None or n2 not in (row.master, row.slave), "nothing comes by itself"
            if row.slave is None:
                assert (await admin.recreate_bucket(n2, bucket=bucket)).slave == n2
        row = await admin.migrate_master_bucket(admin.manager_at("m/n1"), admin.manager_at("m/n3"))
        assert row.master == admin.manager_at("n3")
        await group.whole()
        for pair in range(1, PAIRS + 1):
            assert await ask(group.nodes["n2"], key_in(pair), "?") == "token"
            (first, second) = group.states(pair - 1).values()
            assert first == second


async def test_an_order_that_cannot_be_is_refused(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        node = group.nodes["n1"]
        with pytest.raises(Refused, match="no bucket manager 'n9'; there are: m/n1 on n1, "):
            node.manager_at("n9")
        n1, n2 = node.manager_at("n1"), node.manager_at("n2")
        with pytest.raises(Refused, match="both copies would be on node n2"):
            await node.migrate_master_bucket(n1, n2, bucket=0)
        with pytest.raises(Refused, match="not moving"):
            await node.cancel_move(0)


async def test_a_move_that_is_ordered_before_the_index_has_replaced_its_master_ends(
    autojump_clock: Any,
) -> None:
    async with bucket_group() as group:
        node = group.nodes["n1"]
        frm = node.state.rows[3].master
        to = next(m.cep for m in node.managers if m.cep not in (frm, node.state.rows[3].slave))
        assert frm == node.manager_at("n2") and to == node.manager_at("n1")
        group.kill("n2")
        while len(node.channel.view) == 3:  # noqa: ASYNC110 - the row is as it was when this ends
            await trio.sleep(0.001)
        assert node.state.rows[3].master == frm
        with trio.fail_after(1), pytest.raises(Refused, match="its master's manager is lost"):
            await node.migrate_master_bucket(frm, to, bucket=3)


@pytest.mark.seed("A43", "A48")
async def test_a_client_has_a_router_only_and_comes_and_goes(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        assert await ask(client, key_in(4), "+seat") == "0"
        group.kill("n1")  # whose index copy it has followed
        for pair in range(1, PAIRS + 1):
            assert await ask(client, key_in(pair), "+more") == ("1" if pair == 4 else "0")
        assert client.state.managers == group.nodes["n2"].state.managers
        await group.stop("c")
        assert await ask(group.nodes["n2"], key_in(4), "?") == "seat more"


async def test_a_client_sees_each_move_and_finds_the_new_master(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        await ask(client, key_in(1), "+a")
        await group.whole()  # an instance that is still being made may be followed several times
        counts = next(iter(client.machine.mirrors.values())).counts
        followed = counts["follows"]
        n1, n3 = client.manager_at("n1"), client.manager_at("n3")
        await client.migrate_master_bucket(n1, n3, bucket=0)
        await client.wait_until(lambda state: state.rows[0].master == n3)
        assert await ask(client, key_in(1), "+b") == "1"
        assert counts["follows"] == followed, "it was told the difference"


async def test_a_cut_leaves_the_minority_unavailable_and_heals(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        await ask(group.nodes["n1"], key_in(4), "+before")
        group.cut("n2")
        with trio.fail_after(120):
            assert await ask(group.nodes["n1"], key_in(4), "+while") == "1"
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await ask(group.nodes["n2"], key_in(4), "+lost")
        group.cut()
        await group.nodes["n2"].wait_until(lambda state: len(state.managers) == 3)
        await trio.sleep(5)
        assert await ask(group.nodes["n2"], key_in(4), "?") == "before while"


async def test_a_caller_that_is_cancelled_waits_no_more(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        group.cut("n1")
        with trio.move_on_after(0.5) as scope:
            await ask(group.nodes["n1"], key_in(4), "+x")
        assert scope.cancelled_caught
        assert group.nodes["n1"].router.counts["forgotten"] == 1


async def test_a_request_that_is_not_sensible_fails_at_once(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        with pytest.raises(NotSensible):
            await group.nodes["n1"].request(Request(b"nonsense", "k"))


async def test_closing_a_node_ends_waiting_calls(autojump_clock: Any) -> None:
    async with bucket_group() as group:
        ended: list[BaseException] = []
        node = group.nodes["n1"]
        group.cut("n1")

        async def client() -> None:
            try:
                await ask(node, key_in(4), "+x")
            except OutcomeUnknown as error:
                ended.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client)
            await trio.sleep(0.1)
            await group.stop("n1")
        assert str(ended[0]) == "the node was closed"


async def test_members_that_take_nothing_let_new_requests_be_refused(autojump_clock: Any) -> None:
    async with bucket_group(outbox_bytes_max=1_000) as group:
        node = group.nodes["n1"]
        group.cut("n1")

        refused: list[str] = []

        async def fill() -> None:
            try:
                await node.request(Request(b"+" + bytes(2_000_000), key_in(4)))
            except Busy as error:
                refused.append(str(error))
            except OutcomeUnknown:
                pass

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(fill)
                await trio.sleep(0.1)
            assert refused and "outbox_bytes_max" in refused[0]
            assert node.statistics()["member.outbox_full"] == len(refused)
            waiting = node.statistics()["outbox_bytes"]
            assert 2_000_000 < waiting < 4_100_000
            assert node.statistics()["member.outbox_bytes"] == waiting, "as the page has it"
            await group.stop("n1")


@pytest.mark.seed("A2")
async def test_a_stack_that_notices_losses_too_late_is_refused() -> None:
    settings = seed_settings()
    with pytest.raises(
        ConfigError, match=r"sim.xml: it notices .* 49.6 s; a bucket store needs 10 s"
    ):
        async with open_buckets(
            "sim.xml",
            cluster="test",
            plugin=ledger(),
            settings=settings,
            parts=NodeParts.of("n1", settings),
            transport=MemoryNetwork(),
        ):
            pass


def test_parts_are_checked() -> None:
    with pytest.raises(ConfigError, match="same name"):
        NodeParts(node="n", managers=("a", "a"))
    with pytest.raises(ConfigError, match="1 to 200 characters"):
        NodeParts(node="")


FILE = """
name: seats
buckets: 9
nodes: {n1: {fails_with: a}, n2: {fails_with: b}, n3: {fails_with: c, components: {managers: 0, indices: 1, routers: 1}}, n4: {}}
stack: sim.xml
"""


@pytest.mark.seed("A24", "A66")
async def test_members_are_opened_as_a_deployment_file_says(autojump_clock: Any) -> None:
    deployment = parse_deployment(FILE)
    assert parts_of(deployment, "n3").managers == () and parts_of(deployment, "n1").zone == "a"
    network = MemoryNetwork()
    async with AsyncExitStack() as opened:
        for name in ("n1", "n2", "n3", "n4", None):
            member = open_deployed(deployment, name, plugin=ledger(), transport=network)
            client = await opened.enter_async_context(member)
        with trio.fail_after(60):
            await client.wait_ready()
        assert client.channel.cluster == "seats"
        assert sorted(m.cep.component for m in client.managers) == ["m/n1", "m/n2", "m/n4"]
        assert await ask(client, "k", "+x") == "0"


async def test_a_node_that_the_file_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="no node 'n9', but n1, n2, n3, n4"):
        async with open_deployed(parse_deployment(FILE), "n9", plugin=ledger()):
            pass


@pytest.mark.sockets
@pytest.mark.timeout(180)
@pytest.mark.seed("A1")
@pytest.mark.parametrize("stack", ["tcp.xml", "udp.xml"])
async def test_the_store_runs_unchanged_on_sockets(stack: str) -> None:
    deployment = parse_deployment(
        "{name: s, buckets: 2, nodes: {n1: {}, n2: {}}, settings: {index_quorum: 1}}"
    )
    attributes = private_attributes(load_stack(stack), 2)
    async with AsyncExitStack() as opened:
        for name in ("n1", "n2"):
            member = open_deployed(
                deployment, name, plugin=ledger(), stack=stack, attributes=attributes
            )
            node = await opened.enter_async_context(member)
        await node.wait_ready()
        assert [await ask(node, f"k{n}", "+x") for n in range(4)] == ["0"] * 4
