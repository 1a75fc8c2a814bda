"""Records that members of one site send each other: checked, then handed to whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.relay.state import ALL
from jgroups_py.protocols.relay.wire import (
    MULTICASTS,
    Begun,
    Block,
    CollectAnswer,
    CollectAsk,
    Cut,
    Fetch,
    Fetched,
    Forget,
    Gap,
    Lack,
    Need,
    PromoteAsk,
    Report,
    Snapshot,
    StateMark,
    Trim,
    decode_local,
)
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Control:
    """``up``: a batch of them; ``on_record``: one, also of this member itself."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay

    def up(self, batch: Batch) -> None:
        relay = self.relay
        assert batch.src is not None
        if batch.dest is None and relay.joining.waits:
            relay.joining.enqueue(batch)
            return
        relay.consume(batch)
        src = batch.src
        if not (isinstance(src, UUID) and src.is_ours):
            relay.refuse(src, "control of a member that is not ours")
            return
        for payload in batch.payloads:
            try:
                record = decode_local(payload)
            except RemoteProtocolError as error:
                relay.refuse(src, error)
                continue
            if isinstance(record, MULTICASTS) != (batch.dest is None):
                relay.refuse(src, "control that was sent the wrong way")
            elif isinstance(record, Gap | Lack) and record.site == relay.config.site:
                relay.refuse(src, "numbers of our own site as if of another")
            else:
                self.on_record(src, record)

    def covered(self, batch: Batch) -> None:
        """Multicasts that a state stands for. What they say is in its digests, but that somebody here
        is forgotten, and whether to wait."""
        relay = self.relay
        for payload in batch.payloads:
            try:
                record = decode_local(payload)
            except RemoteProtocolError as error:
                relay.refuse(batch.src, error)
                continue
            match record:
                case Forget():
                    relay.forgetting.on_forget(record)
                case Block():
                    relay.keeping.on_block(record.on)
                case Begun(members=members):
                    relay.joining.on_begun(members)

    def on_record(self, src: Address, record: Any) -> None:
        relay = self.relay
        if isinstance(record, MULTICASTS):
            serial: int = record.serial
            relay.serials[src] = serial
            relay.reporting.soon()
        match record:
            case Trim():
                relay.forgetting.on_trim(src, record)
            case Gap():
                relay.incoming.on_gap(record)
            case Forget():
                relay.forgetting.on_forget(record)
            case Cut():
                relay.direction.on_cut(record)
            case Block():
                relay.keeping.on_block(record.on)
            case Begun(members=members):
                relay.joining.on_begun(members)
            case Report():
                if src in relay.line or record.view[1] > relay.view_key[1]:
                    relay.reports.take(src, record)
                    relay.wake()
            case CollectAsk():
                relay.holding.on_ask(src, record)
            case CollectAnswer():
                relay.holding.on_answer(src, record)
            case Fetch():
                relay.holding.on_fetch(src, record)
            case Fetched():
                relay.holding.on_fetched(src, record)
            case Snapshot():
                relay.joining.on_snapshot(record)
            case Need():
                relay.joining.on_need(src, record)
            case StateMark():
                relay.joining.on_mark(src, record.known)
            case Lack():
                relay.home.on_lack(src, record)
            case PromoteAsk():
                if relay.is_relay and relay.config.first_primary != ALL:
                    relay.direction.promote()
