"""Copies of home runs for sites that have not acknowledged them, and their limits."""

from __future__ import annotations

from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import PAYLOAD_FLAGS, Block
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked, FlowOpened


class CopyKeeping:
    """The only writer of ``buffer``."""

    def __init__(
        self,
        config: RelayConfig,
        out: RelayOut,
        roles: Roles,
        state: RelayState,
        buffer: RelayBuffer,
    ) -> None:
        self.buffer = buffer
        self.blocked = False
        """The relay has stopped all senders."""
        self._blocking = False
        """This member, as relay, has stopped all senders."""
        self._config = config
        self._out = out
        self._roles = roles
        self._state = state

    def keep(self, origin: bytes, first: int, batch: Batch) -> None:
        """Keep a copy of the unacknowledged part of a home run."""
        trimmed = self._state.trimmed.get(origin, 0)
        payloads = batch.payloads
        if first <= trimmed:
            if first + len(payloads) - 1 <= trimmed:
                return
            payloads = payloads[trimmed + 1 - first :]
            first = trimmed + 1
        out, buffer = self._out, self.buffer
        flags = batch.flags & PAYLOAD_FLAGS
        added = buffer.add(origin, first, payloads, flags, batch.type, out.now)
        if not added:
            return
        if out.watched:
            out.trace(
                "buffer",
                origin=out.shown(origin),
                seqno=first,
                count=added,
                messages=buffer.messages,
                bytes=buffer.bytes,
            )
        self.bound()
        out.wake()

    def bound(self) -> None:
        """Apply ``overflow`` to runs beyond the limits."""
        out, counters = self._out, self._out.counters
        spilled, dropped = self.buffer.overflow(out.now)
        if spilled is not None:
            counters.spilled += 1
            out.trace("overflow", policy="spill", spilled=self.buffer.spilled)
        for origin, first, last, limit in dropped:
            count = last + 1 - first
            if not counters.overflowed:
                out.log.warning(
                    "the relay buffer is full (%s): %s messages of %s are dropped",
                    limit,
                    count,
                    out.shown(origin),
                )
            counters.overflowed += count
            out.trace(
                "overflow",
                policy="drop_oldest",
                limit=limit,
                origin=out.shown(origin),
                seqno=first,
                count=count,
            )
        self.check_block()

    def check_block(self) -> None:
        """Tell the site, as relay, to stop sending or to go on."""
        out, roles, config, buffer = self._out, self._roles, self._config, self.buffer
        if config.overflow != "block" or not roles.is_relay:
            return
        margin = len(roles.line) * config.block_credits / config.max_bytes
        high = 1.0 - min(0.5, margin)
        oldest = buffer.oldest()
        aged = bool(config.max_age) and oldest is not None
        old = aged and oldest is not None and out.now - oldest > config.max_age
        if not self._blocking and (buffer.fill >= high or old):
            self._blocking = True
            out.multicast(lambda serial: Block(serial, True))
        elif self._blocking and buffer.fill < high * 0.8 and not old:
            self._blocking = False
            out.multicast(lambda serial: Block(serial, False))

    def on_block(self, on: bool) -> FlowBlocked | FlowOpened | None:
        """Follow the relay's order that senders wait or go on. Return the event to pass up, if the order is new."""
        out = self._out
        if self._roles.is_relay and on != self._blocking:
            self._blocking = on  # the order is from an earlier view or a former relay
            self.check_block()
        if on == self.blocked:
            return None
        self.blocked = on
        out.trace("block", on=on)
        if on:
            why = "the relay buffer is full, other sites do not acknowledge"
            return FlowBlocked(out.name, None, (), why)
        return FlowOpened(out.name, None)

    def view_changed(self) -> bool:
        """Let senders go on until the relay of the new view stops them again. True: sending was blocked."""
        was_blocked, self.blocked = self.blocked, False
        self._blocking = False
        return was_blocked

    def trim(self) -> None:
        """Drop all messages that all other sites have acknowledged."""
        for origin in self.buffer.origins():
            self.buffer.trim(origin, self._state.trimmed.get(origin, 0))

    def trim_to(self, origin: bytes, number: int) -> int:
        """Drop the copies of ``origin`` up to ``number``. Return the number of dropped messages."""
        return self.buffer.trim(origin, number)

    def cut(self, origin: bytes, above: int) -> None:
        """Drop the copies of ``origin`` above ``above``."""
        self.buffer.cut(origin, above)

    def clear(self) -> None:
        self.buffer.clear()
