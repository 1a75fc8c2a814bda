"""What a holder keeps for sites that have not acknowledged it, and what happens when it is too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.wire import PAYLOAD_FLAGS, Block
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked, FlowOpened

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Keeping:
    """The copies themselves are in ``relay.buffer``."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.blocked = False
        """The relay has said that nobody may send."""
        self._blocking = False
        """This member, as relay, has said so."""

    def keep(self, origin: bytes, first: int, batch: Batch) -> None:
        """A copy of a home run for those who have not acknowledged it."""
        relay = self.relay
        trimmed = relay.state.trimmed.get(origin, 0)
        payloads = batch.payloads
        if first <= trimmed:
            if first + len(payloads) - 1 <= trimmed:
                return
            payloads = payloads[trimmed + 1 - first :]
            first = trimmed + 1
        buffer = relay.buffer
        added = buffer.add(
            origin, first, payloads, batch.flags & PAYLOAD_FLAGS, batch.type, relay.now
        )
        if not added:
            return
        if relay.watched:
            relay.trace(
                "buffer",
                origin=relay.shown(origin),
                seqno=first,
                count=added,
                messages=buffer.messages,
                bytes=buffer.bytes,
            )
        self.bound()
        relay.out.wake()

    def bound(self) -> None:
        """What is over the limits goes where ``overflow`` says."""
        relay = self.relay
        spilled, dropped = relay.buffer.overflow(relay.now)
        if spilled is not None:
            relay.counters.spilled += 1
            relay.trace("overflow", policy="spill", spilled=relay.buffer.spilled)
        for origin, first, last, limit in dropped:
            count = last + 1 - first
            if not relay.counters.overflowed:
                relay.log.warning(
                    "the relay buffer is full (%s): %s messages of %s are dropped",
                    limit,
                    count,
                    relay.shown(origin),
                )
            relay.counters.overflowed += count
            relay.trace(
                "overflow",
                policy="drop_oldest",
                limit=limit,
                origin=relay.shown(origin),
                seqno=first,
                count=count,
            )
        self.check_block()

    def check_block(self) -> None:
        """The relay tells its site to stop sending, or to go on."""
        relay, config = self.relay, self.relay.config
        if config.overflow != "block" or not relay.is_relay:
            return
        buffer = relay.buffer
        margin = len(relay.line) * config.block_credits / config.max_bytes
        high = 1.0 - min(0.5, margin)
        oldest = buffer.oldest()
        aged = bool(config.max_age) and oldest is not None
        old = aged and oldest is not None and relay.now - oldest > config.max_age
        if not self._blocking and (buffer.fill >= high or old):
            self._blocking = True
            relay.out.multicast(lambda serial: Block(serial, True))
        elif self._blocking and buffer.fill < high * 0.8 and not old:
            self._blocking = False
            relay.out.multicast(lambda serial: Block(serial, False))

    def on_block(self, on: bool) -> None:
        relay = self.relay
        if relay.is_relay and on != self._blocking:
            self._blocking = on  # said in a view before this one, or by somebody who was relay
            self.check_block()
        if on == self.blocked:
            return
        self.blocked = on
        relay.trace("block", on=on)
        if on:
            why = "the relay buffer is full, other sites do not acknowledge"
            relay.pass_event_up(FlowBlocked(relay.name, None, (), why))
        else:
            relay.pass_event_up(FlowOpened(relay.name, None))

    def view_changed(self) -> bool:
        """Whoever is relay now says it again if need be. True: sending was blocked."""
        was_blocked, self.blocked = self.blocked, False
        self._blocking = False
        return was_blocked

    def trim(self) -> None:
        """What all other sites have acknowledged is not kept."""
        relay = self.relay
        for origin in relay.buffer.origins():
            relay.buffer.trim(origin, relay.state.trimmed.get(origin, 0))
