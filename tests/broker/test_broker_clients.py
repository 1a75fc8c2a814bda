"""Clients of one broker: the frames that STOMP 1.2 allows and forbids."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
import trio
import trio.testing
from broker_group import open_brokers

from examples.broker import connection, objects, operations
from examples.broker.frames import Frame
from examples.broker.message import Delivery, Message

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(120)]


async def test_messages_of_a_queue_go_to_one_subscriber_each_in_order() -> None:
    async with open_brokers() as brokers:
        sender, one = await brokers.client(), await brokers.client()
        await one.done("SUBSCRIBE", id="7", destination="/queue/a", ack="client-individual")
        for n in range(20):
            await sender.say("SEND", b"%d" % n, destination="/queue/a", colour="red:dark")
        first = await one.get("MESSAGE")
        assert first.headers["message-id"].startswith("/queue/a-")
        assert {**first.headers, "message-id": ""} == {
            "destination": "/queue/a",
            "colour": "red:dark",
            "subscription": "7",
            "message-id": "",
            "content-length": "1",
            "ack": "1-1",
        }
        assert await one.bodies(19) == [f"{n}" for n in range(1, 20)]


async def test_a_leaving_client_leaves_its_unacknowledged_messages_to_others() -> None:
    async with open_brokers() as brokers:
        sender, one, two = [await brokers.client() for _ in range(3)]
        for n in range(5):
            await sender.done("SEND", b"%d" % n, destination="/queue/a")
        await one.done(
            "SUBSCRIBE", id="1", destination="/queue/a", ack="client", prefetch_count="4"
        )
        frames = [await one.get("MESSAGE") for _ in range(4)]
        await one.done("ACK", id=frames[1].headers["ack"])  # with the one before it
        await one.done("DISCONNECT")
        await two.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client")
        frames = [await two.get("MESSAGE") for _ in range(3)]
        assert [f.body for f in frames] == [b"2", b"3", b"4"]
        assert ["redelivered" in f.headers for f in frames][:2] == [True, True]


async def test_without_acknowledgements_the_broker_has_at_most_prefetch_on_the_way() -> None:
    async with open_brokers() as brokers:
        sender, one = await brokers.client(), await brokers.client()
        await one.done("SUBSCRIBE", id="1", destination="/queue/a", prefetch_count="2")
        for n in range(10):
            await sender.say("SEND", b"%d" % n, destination="/queue/a")
        assert await one.bodies(10) == [
            f"{n}" for n in range(10)
        ]  # mode auto: messages count as acknowledged when they leave
        await one.done("UNSUBSCRIBE", id="1")
        await sender.done("SEND", b"later", destination="/queue/a")
        await one.done("SUBSCRIBE", id="1", destination="/queue/a")
        assert await one.bodies(1) == ["later"]


async def test_a_topic_reaches_all_subscribers_and_is_forgotten_without_them() -> None:
    async with open_brokers() as brokers:
        sender, one, two = [await brokers.client() for _ in range(3)]
        await sender.done("SEND", b"before", destination="/topic/t")
        for client in (one, two):
            await client.done("SUBSCRIBE", id="1", destination="/topic/t")
        await sender.done("SEND", b"x", destination="/topic/t")
        assert await one.bodies(1) == await two.bodies(1) == ["x"]
        await one.done("DISCONNECT")
        await sender.done("SEND", b"y", destination="/topic/t")
        assert await two.bodies(1) == ["y"]


async def test_a_transaction_is_done_at_its_commit_or_never() -> None:
    async with open_brokers() as brokers:
        one = await brokers.client()
        await one.done("SEND", b"task", destination="/queue/in")
        await one.done("SUBSCRIBE", id="1", destination="/queue/in", ack="client-individual")
        await one.done("SUBSCRIBE", id="2", destination="/queue/out")
        task = (await one.get("MESSAGE")).headers["ack"]
        for end in ("ABORT", "COMMIT"):
            await one.done("BEGIN", transaction="t")
            await one.done("ACK", id=task, transaction="t")
            await one.done("SEND", end.encode(), destination="/queue/out", transaction="t")
            await one.done(end, transaction="t")
        assert await one.bodies(1) == ["COMMIT"]
        await one.done("DISCONNECT")
        other = await brokers.client()
        await other.done("SUBSCRIBE", id="1", destination="/queue/in")
        await other.done("SEND", b"next", destination="/queue/in")
        assert await other.bodies(1) == ["next"]


async def test_refused_messages_go_to_a_queue_of_their_own() -> None:
    async with open_brokers() as brokers:
        one = await brokers.client()
        await one.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client")
        await one.done("SEND", b"poison", destination="/queue/a")
        await one.done("NACK", id=(await one.get("MESSAGE")).headers["ack"])
        await one.done("SUBSCRIBE", id="2", destination="/queue/DLQ")
        found = await one.get("MESSAGE")
        assert (found.body, found.headers["destination"]) == (b"poison", "/queue/a")


async def test_a_message_with_a_time_that_is_over_reaches_nobody() -> None:
    async with open_brokers() as brokers:
        one = await brokers.client()
        await one.done("SEND", b"old", destination="/queue/a", expires="1000")
        await one.done("SEND", b"new", destination="/queue/a", expires="99999999999999")
        await one.done("SUBSCRIBE", id="1", destination="/queue/a")
        assert await one.bodies(1) == ["new"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([("SEND", {})], "SEND needs the header destination"),
        ([("SEND", {"destination": "a"})], "a destination is /queue/NAME or /topic/NAME, got a"),
        ([("SEND", {"destination": "/queue/" + "x" * 200})], "up to 200 letters"),
        ([("SEND", {"destination": "/queue/a", "expires": "-1"})], "expires must be milliseconds"),
        ([("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "ack": "x"})], "ack must be auto"),
        (
            [("SUBSCRIBE", {"id": "1", "destination": "/queue/a", "prefetch-count": "0"})],
            "prefetch-count must be 1 to 1000, got 0",
        ),
        ([("SUBSCRIBE", {"id": "1", "destination": "/queue/a"})] * 2, "a subscription with id 1"),
        ([("UNSUBSCRIBE", {"id": "9"})], "no subscription with id 9"),
        ([("ACK", {"id": "1-1"})], "ACK: no message has the ack 1-1"),
        ([("COMMIT", {"transaction": "t"})], "no transaction t"),
        ([("BEGIN", {"transaction": "t"})] * 2, "transaction t has begun"),
        ([("CONNECT", {})], "CONNECT comes once"),
        ([("HELLO", {})], "no command 'HELLO'"),
    ],
)
async def test_an_impossible_frame_is_answered_and_ends_the_connection(
    said: list[tuple[str, dict[str, str]]], reason: str
) -> None:
    async with open_brokers() as brokers:
        one = await brokers.client()
        for command, headers in said:
            await one.say_frame(Frame(command, headers))
        assert reason in await one.refused()
        await (await brokers.client()).done("SEND", b"x", destination="/queue/a")


async def test_a_client_without_greeting_or_with_another_version_is_disconnected() -> None:
    async with open_brokers() as brokers:
        stranger = await brokers.stranger()
        await stranger.say("SEND", destination="/queue/a")
        assert await stranger.refused() == "CONNECT comes first, and not SEND"
        old = await brokers.stranger()
        await old.say("CONNECT", accept_version="1.0,1.1")
        assert "speaks STOMP 1.2, the client 1.0,1.1" in await old.refused()
        noise = await brokers.stranger()
        await noise.stream.send_all(b"\xff" * 20_000)
        assert "have more than 16384 bytes" in await noise.refused()


async def test_a_client_that_sends_on_reads_why_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "REASON_TIMEOUT", 60.0)
    async with open_brokers() as brokers:
        one = await brokers.client()
        await one.say("SEND", bytes(3_000_000), destination="/queue/a", content_length="3000000")
        assert await one.refused() == "content-length 3000000: the body may have 1000000 bytes"


async def test_a_full_queue_refuses_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("examples.broker.operations.DEPTH_MAX", 2)
    monkeypatch.setattr(objects, "QUEUES_MAX", 2)
    async with open_brokers() as brokers:
        one, two = await brokers.client(), await brokers.client()
        for _ in range(2):
            await one.done("SEND", destination="/queue/a")
        await one.say("SEND", destination="/queue/a")
        assert await one.refused() == "/queue/a has 2 messages, and takes no more"
        await two.done("SEND", destination="/queue/b")
        await two.say("SEND", destination="/queue/c")
        assert await two.refused() == "there are 2 queues, and no more are made"


async def test_a_client_that_reads_nothing_is_sent_away_and_its_messages_go_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_brokers() as brokers:
        deaf, sender = await brokers.client(), await brokers.client()
        await deaf.done("SUBSCRIBE", id="1", destination="/queue/a", prefetch_count="1000")
        monkeypatch.setattr(connection, "WRITE_TIMEOUT", 0.2)
        for _ in range(20):
            await sender.done("SEND", b"x" * 900_000, destination="/queue/a")
        await brokers.with_clients(1)
        monkeypatch.undo()  # a sender that reads is not sent away, however slow the machine is
        await sender.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client")
        await sender.get("MESSAGE")
        assert (await brokers.live()).counts["not_read"] == 1


async def test_a_client_that_leaves_its_receipts_is_read_no_more_until_it_takes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "RECEIPTS_MAX", 0)
    async with open_brokers() as brokers:
        one = await brokers.client()
        for n in range(200):
            await one.say("SEND", destination="/queue/a", receipt=f"{n}")
        assert [(await one.get("RECEIPT")).headers["receipt-id"] for _ in range(200)] == [
            f"{n}" for n in range(200)
        ]


async def test_a_message_is_acknowledged_once() -> None:
    async with open_brokers() as brokers:
        one = await brokers.client()
        await one.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client")
        await one.done("SEND", destination="/queue/a")
        ack = (await one.get("MESSAGE")).headers["ack"]
        await one.done("ACK", id=ack)
        await one.say("ACK", id=ack)
        assert await one.refused() == "ACK: 1-1 was acknowledged, or was never sent"


def test_deliveries_leave_in_the_order_of_the_queue_whichever_is_confirmed_first() -> None:
    here: Any = None
    served = connection.Connection(here, "0", here)
    served._consumers["k"] = connection.Consumer("1", "k", "/queue/a", "auto")
    for turn in (2, 3, 1):
        message = Message((), b"%d" % turn)
        served.deliver(Delivery("k", turn, turn, 1, message, redelivered=False))
    assert [frame.body for frame, _, _ in served._unsent] == [b"1", b"2", b"3"]


async def test_signs_of_life_go_both_ways() -> None:
    async with open_brokers() as brokers:
        hears, silent = [await brokers.client({"heart-beat": b}) for b in ("0,100", "100,0")]
        with trio.fail_after(60):
            assert set(await hears.stream.receive_some(10)) == {ord("\n")}
            assert not await silent.stream.receive_some(10)
        assert (await brokers.live()).counts["silent"] == 1


async def test_a_backup_goes_on_and_clients_find_unacknowledged_messages_there() -> None:
    async with open_brokers("AB") as brokers:
        live = await brokers.live()
        await live.node.wait_backups(1)
        one, two = await brokers.client(), await brokers.client()
        await one.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
        for n in range(5):
            await two.done("SEND", b"%d" % n, destination="/queue/a")
        frames = [await one.get("MESSAGE") for _ in range(5)]
        await one.done("ACK", id=frames[1].headers["ack"])
        await one.done("SUBSCRIBE", id="2", destination="/topic/t")
        brokers.kill(live.node.channel.name)
        other = await brokers.client()
        assert await brokers.live() is not live
        await other.done("SUBSCRIBE", id="1", destination="/queue/a", ack="client")
        assert await other.bodies(4) == ["0", "2", "3", "4"]
        office = brokers.brokers["B"].node.space.object("PostOffice/main").state
        assert isinstance(office, objects.PostOffice)
        assert office.bindings == {} and list(office.sessions) == ["1"]


async def test_a_message_for_too_many_subscribers_is_refused_before_anybody_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("examples.broker.operations.PUTS_MAX", 2)
    async with open_brokers() as brokers:
        sender, *readers = [await brokers.client() for _ in range(4)]
        for reader in readers[:2]:
            await reader.done("SUBSCRIBE", id="1", destination="/topic/t")
        for n in range(3):  # each SEND is an operation of its own
            await sender.say("SEND", b"%d" % n, destination="/topic/t")
        assert await readers[0].bodies(3) == ["0", "1", "2"]
        await readers[2].done("SUBSCRIBE", id="1", destination="/topic/t")
        await sender.say("SEND", b"3", destination="/topic/t")
        assert await sender.refused() == "3 subscribers would get a message at once, 2 may"


async def test_unused_queues_are_removed() -> None:
    async with open_brokers("AB") as brokers:
        live = await brokers.live()
        await live.node.wait_backups(1)
        sender = await brokers.client()
        ids = []
        for _ in range(2):
            one = await brokers.client()
            await one.done("SUBSCRIBE", id="1", destination="/queue/a")
            await one.done("SUBSCRIBE", id="2", destination="/topic/t")
            await sender.done("SEND", b"x", destination="/queue/a")
            await sender.done("SEND", b"y", destination="/topic/t")
            found = [await one.get("MESSAGE"), await one.get("MESSAGE")]
            ids.append({frame.headers["message-id"] for frame in found})
            await one.done("UNSUBSCRIBE", id="2")
            await one.done("UNSUBSCRIBE", id="1")
            await one.done("DISCONNECT")
            await live.node.run(operations.expire)
        assert not ids[0] & ids[1], "the queues began anew"
        await sender.done("DISCONNECT")
        await brokers.with_clients(0)
        assert [one.key for one in live.node.space.objects] == ["PostOffice/main"]
        await live.node.run(operations.expire)
        assert await live.node.run(operations.expire) == 0
        backup = next(broker for broker in brokers.brokers.values() if broker is not live)
        assert [one.key for one in backup.node.space.objects] == ["PostOffice/main"]
        assert backup.node.counts["diverged"] == 0


async def test_a_queue_that_is_refused_leaves_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "QUEUES_MAX", 1)
    async with open_brokers() as brokers:
        live = await brokers.live()
        for n in range(3):
            client = await brokers.client()
            await client.say("SEND", b"x", destination=f"/queue/{n}", receipt="r")
            await client.get("RECEIPT" if n == 0 else "ERROR")
        queues = [one.key for one in live.node.space.objects if one.key.startswith("Queue/")]
        assert queues == ["Queue//queue/0"]


async def test_a_late_message_for_a_topics_subscriber_leaves_no_queue() -> None:
    async with open_brokers() as brokers:
        live = await brokers.live()
        office = live.node.space.object("PostOffice/main").state
        assert isinstance(office, objects.PostOffice)
        office.bind("/topic/t", "#gone.1")
        await live.node.run(operations.send, [["/topic/t", Message((), b"x").save()]])
        await live.node.run(operations.acknowledge, "#gone.1", "k", [1])
        await live.node.run(operations.refuse, "#gone.1", "k", [1])
        assert [one.key for one in live.node.space.objects] == ["PostOffice/main"]


async def test_queues_in_use_are_known_all_the_time() -> None:
    async with open_brokers() as brokers:
        live = await brokers.live()
        sender = await brokers.client()
        await sender.done("SEND", b"x", destination="/queue/a")
        office = live.node.space.object("PostOffice/main").state
        assert isinstance(office, objects.PostOffice)
        changes = vars(office)["queues"] = Counted({"/queue/a": None})
        await live.node.run(operations.expire)
        assert list(office.queues) == ["/queue/a"] and changes.pops == 0


class Counted(dict[str, None]):
    pops = 0

    def pop(self, *_arguments: Any) -> None:
        self.pops += 1


async def test_a_client_beyond_the_limit_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.broker.server.CONNECTIONS_MAX", 1)
    async with open_brokers() as brokers:
        await brokers.client()
        stranger = await brokers.stranger()
        assert await stranger.refused() == "there are 1 clients"
        assert (await brokers.live()).counts["crowded"] == 1


class Idle:
    """A broker that no client has asked for anything."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def start(self, operation: connection.Operation, *arguments: Any) -> connection.Running:
        raise AssertionError("nothing runs")


async def test_a_client_that_is_gone_before_it_can_be_refused_is_no_failure() -> None:
    host = Idle()
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(b"NONSENSE\n\n\0")
    await ours.aclose()
    await connection.Connection(cast("trio.SocketStream", theirs), "1", host).run()
    assert host.counts == {"errors": 1}
