"""open_channel: makes a member of a group from a stack file."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from jgroups_py.channel.alone import AloneWatch
from jgroups_py.channel.blame import blamed
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.flight import FlightRecorder, flight_file_of
from jgroups_py.channel.given import (
    check_function,
    check_names,
    check_paths,
    check_text,
    check_texts,
)
from jgroups_py.channel.health import HealthFile, health_file_of
from jgroups_py.channel.metrics import MetricsPort, metrics_of
from jgroups_py.channel.reader_watch import ReaderWatch
from jgroups_py.channel.values import ChannelLimits
from jgroups_py.config.settings import StackConfig, build, load_stack, with_attributes
from jgroups_py.driver import SocketTransport, Transport
from jgroups_py.driver.interfaces import own_addresses, with_numeric_hosts
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.relay.config import bridge_stack
from jgroups_py.stack.exposure import exposed
from jgroups_py.stack.machine import Machine, Trace
from jgroups_py.stack.services import build_whole
from jgroups_py.stack.stack import Stack
from jgroups_py.values.turned_away import TurnedAway

if TYPE_CHECKING:
    from jgroups_py.channel.state import StateProvider
    from jgroups_py.channel.tap import Tap
    from jgroups_py.driver import Driver

BIND_ADDR_VARIABLE = "JGROUPS_BIND_ADDR"


@asynccontextmanager
async def open_channel(
    stack: str | Path,
    *,
    cluster: str,
    name: str | None = None,
    bind_addr: str | None = None,
    state: StateProvider | None = None,
    get_state: bool = False,
    attributes: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    seed: int | None = None,
    transport: Transport | None = None,
    limits: ChannelLimits | None = None,
    join_timeout: float = 60.0,
    slow_reader_timeout: float | None = None,
    trace: Trace | None = None,
    turned_away: Callable[[TurnedAway], None] | None = None,
    health_file: str | Path | None = None,
    metrics: int | str | None = None,
    flight_file: str | Path | None = None,
    tap: Callable[[Channel], Tap] | None = None,
) -> AsyncIterator[Channel]:
    """Open a member of ``cluster`` for as long as the block lasts.

    Leaving the block says goodbye to the group, shielded and within ``limits.leave_timeout``. No task and no
    socket is left behind.

    Args:
        stack: a stack file, or the name of a shipped one ("udp.xml").
        cluster: the name of the group.
        name: the logical name; a default is made from the host's name.
        bind_addr: the numeric address to bind to. The default is JGROUPS_BIND_ADDR, then the stack file's
            ``bind_addr``, then 127.0.0.1.
        state: an async generator function that yields this member's state in chunks for a member that asks.
            It is called when the reader reaches the request.
        get_state: fetch the state on joining; it comes first in the stream, as a State item.
        attributes: overrides of the stack file, ``{"GMS.join_timeout": "500ms"}``.
        properties: values for ``${name:default}`` in the stack file.
        seed: the same seed gives the same addresses, intervals and picks.
        transport: another network, such as ``jgroups_py.driver.MemoryNetwork()``.
        limits: sizes and times; see ChannelLimits.
        join_timeout: seconds in which the first view (and the state) must come.
        slow_reader_timeout: seconds for which a reader may leave the stream untouched, whether senders wait
            for it or not. After that this member leaves with Expelled. By default only the time counts in which senders
            wait, and the limit is ``limits.hold_senders_max``.
        trace: a function that is called with each event in the stack. It must not wait. An error that it raises is
            counted and logged.
        turned_away: a function that is called with a TurnedAway when something from the network was refused, at
            most once in ten seconds for each cause. It must not wait. An error that it raises is counted and logged.
        health_file: a file that ``jgroups-py health`` reads, kept fresh while the member runs. The default is
            JGROUPS_HEALTH_FILE, else none.
        metrics: a port, ``HOST:PORT`` or ``HOST:FIRST-LAST`` where Prometheus reads ``/metrics``; the host is 127.0.0.1
            unless given. The default is JGROUPS_METRICS, else none. It needs ``jgroups_py[metrics]``.
        flight_file: a file that gets the last events of this member after a suspicion or a split, and when the block ends
            with an error; ``jgroups-py flight`` shows it. The default is JGROUPS_FLIGHT_FILE, else none.
        tap: a function that makes the argument of ``Channel.attach`` before the channel joins. Blocks on top that must
            see every view need it.

    Raises:
        ConfigError, TypeError: nothing was started.
        LocalProtocolError: there is no trio loop here; nothing was started.
        JoinError, StateTransferError: no socket or task stays open.
        ProtocolFailed: a protocol of the stack raised an error, at any time; the block is cancelled.

    An error of the block comes out as it is. Only several errors at once make an ExceptionGroup.
    """
    check_trio("open_channel")
    if cluster is None:
        raise TypeError("cluster is a str, got None")
    check_names(cluster, name)
    check_text("bind_addr", bind_addr)
    check_texts("attributes", attributes)
    check_texts("properties", properties)
    check_function("state", state, "an async generator function")
    check_function("trace", trace, "a function")
    check_function("turned_away", turned_away, "a function")
    check_paths(health_file=health_file, flight_file=flight_file)
    config, host = configure(stack, bind_addr, attributes, properties, transport=transport)
    protocols = [cls(settings) for cls, settings in build(config)]
    chance = random.Random(seed)
    name = name or f"{socket.gethostname().partition('.')[0]}-{chance.randrange(65536)}"
    machine = Machine(name, random=chance, now=trio.current_time(), host=host)
    machine.prepare = with_numeric_hosts
    driver = (transport or SocketTransport()).driver(machine)
    channel = Channel(driver, limits or ChannelLimits(), state=state)
    flight = FlightRecorder(channel, flight_file_of(flight_file, cluster, name))
    health = HealthFile(channel, health_file_of(health_file, cluster))
    port = MetricsPort(channel, metrics_of(metrics))
    try:
        channel._stack = Stack(machine, protocols, channel, name=name, properties=properties)
    except Exception as error:  # a protocol's ``start``
        raise blamed(error, cluster)  # noqa: B904 - it has its cause
    driver.before_flush.append(channel._before_flush)
    channel.listen(flight.trace(trace), turned_away)
    if tap is not None:
        channel.attach(tap(channel))
    with flight.recording():
        try:
            async with trio.open_nursery() as nursery:
                try:
                    with trio.CancelScope(shield=True):  # the driver starts whole or not at all
                        await nursery.start(_run_to_the_end, channel, driver)
                    await channel._join(cluster, get_state, join_timeout)
                    _look_after(channel, health, port, flight, slow_reader_timeout, nursery)
                    yield channel
                finally:
                    await _leave(channel, driver)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            reraise(group)
        finally:
            health.remove()  # the task that writes the file has ended
            channel._close()


def _look_after(
    channel: Channel,
    health: HealthFile,
    metrics: MetricsPort,
    flight: FlightRecorder,
    slow_reader_timeout: float | None,
    nursery: trio.Nursery,
) -> None:
    """Begin the tasks beside a channel that has joined."""
    health.begin(nursery)
    metrics.begin(nursery)
    nursery.start_soon(flight.run)
    nursery.start_soon(AloneWatch(channel).run)
    nursery.start_soon(ReaderWatch(channel, slow_reader_timeout).run)


async def _leave(channel: Channel, driver: Driver) -> None:
    """Say goodbye to the group and stop the driver, shielded."""
    with trio.CancelScope(shield=True):
        if driver.running:
            try:
                await channel._leave()
            finally:
                await driver.stop()


async def _run_to_the_end(
    channel: Channel, driver: Driver, task_status: trio.TaskStatus[None]
) -> None:
    """Run the driver, shielded: a cancelled block must still say goodbye. The block always ends with
    ``driver.stop``."""
    with trio.CancelScope(shield=True):
        try:
            await driver.run(task_status)
        except Exception as error:
            raise blamed(error, channel.cluster)  # noqa: B904 - it has its cause
        finally:
            channel.driver_ended()


def configure(
    stack: str | Path,
    bind_addr: str | None = None,
    attributes: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    transport: Transport | None = None,
) -> tuple[StackConfig, str]:
    """Return the stack with overrides, and the address to bind to where the stack names none. With a ``transport``
    in memory nothing leaves this process, so nothing has to be encrypted.

    Raises:
        ConfigError: a mistake in the file or the overrides, a stack that cannot work, or one whose messages, or those of
            RELAY's bridge, would leave this machine in clear without ``insecure``.
    """
    asked = bind_addr or os.environ.get(BIND_ADDR_VARIABLE) or None
    values = dict(properties or {})
    if asked is not None:
        _check_numeric(asked)
        values.setdefault("jgroups.bind_addr", asked)
    config = load_stack(stack, properties=values)
    overrides = dict(attributes or {})
    if asked is not None:
        for protocol in config.protocols:
            if any(attribute.key == "bind_addr" for attribute in protocol.attributes):
                overrides.setdefault(f"{protocol.short_name}.bind_addr", asked)
    if overrides:
        config = with_attributes(config, overrides)
    build_whole(config)
    config, host = with_numeric_hosts(config), asked or "127.0.0.1"
    if not getattr(transport, "in_memory", False):
        _check_exposure(config, host, values)
    return config, host


def _check_exposure(config: StackConfig, host: str, properties: Mapping[str, str]) -> None:
    """Refuse a stack whose messages would leave this machine in clear, and such a bridge of RELAY."""
    built = build(config)
    bridge = bridge_stack(built, properties, compat=config.compat)
    for stack in (config, bridge and with_numeric_hosts(bridge)):
        if stack is not None and (error := exposed(stack, build(stack), host)) is not None:
            raise error


def _check_numeric(host: str) -> None:
    import ipaddress

    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        raise ConfigError(
            f'bind_addr must be a numeric address of this machine ({own_addresses()}), got "{host}"'
        ) from None
