"""STABLE: finds out which multicasts all members have, so that they can be forgotten.

Place: above NAKACK2 and UNICAST3, below GMS.

    timer, or max_bytes came     Send this member's delivered numbers to the coordinator: STABLE_GOSSIP.
    STABLE_GOSSIP from P         The coordinator notes it. When all members of the view have reported: STABILITY.
    STABILITY                    Stable down (NAKACK2 forgets) and up (RELAY acknowledges).
    ViewChange                   Begin anew: only members of the same view count.

A member sends nothing while its digest equals the last STABILITY. A member that reports this digest nevertheless has
missed the STABILITY, and gets it again. While only some members report, all of them get the senders' numbers.

Source:  JGroups STABLE.java; WIRE.md 11.6.
Differs: the coordinator's own report is its digest at the moment of the last other report.
         Java members always gossip, which does no harm here.
"""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

from jgroups_py.protocols.reliable.stable_config import StableConfig
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import MULTICAST, STABILITY, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, GetDigest, HoldStability, Stable, ViewChange
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.payloads import Streamable
from jgroups_py.values.view import Digest, View
from jgroups_py.wire.headers import PROTOCOL_IDS, StableHeader, StableType

_ID: Final = PROTOCOL_IDS["STABLE"]
_MUTABLE_DIGEST: Final = 10
_GOSSIP_FLAGS: Final = int(Flag.OOB | Flag.NO_FC | Flag.NO_RELIABILITY)
_STABILITY_FLAGS: Final = _GOSSIP_FLAGS | int(Flag.NO_RELAY)
_PER_RUN: Final = 400
_PER_MESSAGE: Final = 100
"""Bytes that NAKACK2 needs for a kept message beside its payload: a batch with its headers for a run (some 500 bytes),
a view into the datagram or a copy of the payload (40 to 190 bytes)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class STABLE(Protocol):
    """See the module's docstring."""

    protocol_id: ClassVar[int] = _ID
    provides = (STABILITY,)
    needs_below = (MULTICAST,)
    needs_above = (VIEWS,)
    writable = frozenset({"desired_avg_gossip"})

    Config: TypeAlias = StableConfig

    config: StableConfig

    def start(self) -> None:
        self._view: View | None = None
        self._told: dict[Address, Digest] = {}
        self._stable: Digest | None = None
        """The digest of the last STABILITY of this view."""
        self._held = False
        """True: we take part in a merge. Its digests must stay valid, so no message is declared stable. Our coordinator
        may not know of the merge, so we send it no report either."""
        self._bytes = 0
        self._max_bytes = self.config.max_bytes or 1 << 62
        self._timer = self.timer(self._on_timer)

        self.gossips_sent = 0
        self.gossips_received = 0
        self.stability_sent = 0
        self.stability_received = 0
        self.stability_repeated = 0
        self.wrong_view = 0
        self.bad = 0

    # --- arrivals

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is not None:
            self._on_message(batch, header)
            return
        if batch.dest is None:
            self._bytes += batch.length + _PER_RUN + _PER_MESSAGE * len(batch.payloads)
            if self._bytes >= self._max_bytes:
                self._bytes = 0
                self.pass_up(batch)
                self._gossip()
                return
        self.pass_up(batch)

    def _on_message(self, batch: Batch, header: object) -> None:
        payload = batch.payloads[0]
        digest = payload.value if isinstance(payload, Streamable) else None
        view, src = self._view, batch.src
        if type(header) is not StableHeader or not isinstance(digest, Digest) or src is None:
            self.bad += 1
            self.trace("bad_message", sender=src)
        elif view is None or header.view_id != view.view_id or src not in view.members:
            self.wrong_view += 1
            self.trace("wrong_view", sender=src, view=header.view_id)
        elif any(member not in digest for member in view.members):
            self.bad += 1
            self.trace("bad_digest", sender=src)
        elif header.type == StableType.STABLE_GOSSIP:
            self.gossips_received += 1
            self._on_gossip(src, digest, view)
        elif header.type == StableType.STABILITY:
            self.stability_received += 1
            self._on_stability(digest)
        else:
            self.bad += 1

    def event_down(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._view = event.view
            self._told.clear()
            self._stable = None
            self._held = False
            self._arm()
        elif isinstance(event, HoldStability):
            self._held = event.held
            return
        self.pass_event_down(event)

    # --- telling

    def _arm(self) -> None:
        if self.config.desired_avg_gossip > 0:
            self._timer.start(self.random.uniform(0, 2 * self.config.desired_avg_gossip))

    def _on_timer(self) -> None:
        self._arm()
        self._gossip()
        self._tell_the_quiet()

    def _digest(self, view: View) -> Digest | None:
        digest = self.ask_down(GetDigest(view.members))
        return digest if isinstance(digest, Digest) else None

    def _gossip(self) -> None:
        view = self._view
        if view is None or self._held or self.local_address not in view.members:
            return
        digest = self._digest(view)
        if digest is None or _agree(digest, self._stable):
            return
        if view.coordinator == self.local_address:
            self._conclude(view)
            return
        self.gossips_sent += 1
        self.trace("gossip", to=view.coordinator)
        self._send(view.coordinator, StableType.STABLE_GOSSIP, view, digest, _GOSSIP_FLAGS)

    def _send(
        self, dest: Address | None, kind: StableType, view: View, digest: Digest, flags: int
    ) -> None:
        self.pass_down(
            Batch.of(
                dest,
                _ID,
                StableHeader(kind, view.view_id),
                payload=Streamable(_MUTABLE_DIGEST, digest),
                type=MessageType.OBJECT,
                flags=flags,
            )
        )

    # --- the coordinator

    def _on_gossip(self, src: Address, digest: Digest, view: View) -> None:
        if view.coordinator != self.local_address or src == self.local_address:
            self.wrong_view += 1
            return
        if self._stable is not None and _agree(digest, self._stable):
            self.stability_repeated += 1
            self._send(src, StableType.STABILITY, view, self._stable, _STABILITY_FLAGS)
            return
        self._told[src] = digest
        self._conclude(view)

    def _conclude(self, view: View) -> None:
        """Send STABILITY if all members have reported."""
        told = self._told
        if self._held:
            return
        if any(m not in told for m in view.members if m != self.local_address):
            return
        own = self._digest(view)
        if own is None:
            return
        digests = [*told.values(), own]
        told.clear()
        stable = Digest(
            {
                member: (
                    min([digest.delivered(member) for digest in digests]),
                    max([digest.received(member) for digest in digests]),
                )
                for member in view.members
            }
        )
        self.stability_sent += 1
        self.trace("stability", view=view.view_id)
        self._send(None, StableType.STABILITY, view, stable, _STABILITY_FLAGS)

    def _tell_the_quiet(self) -> None:
        """Send the numbers while not all members have reported. A member whose digest is unchanged may not know that it
        lacks messages. That happens if it refused a sender's messages at the moment when the sender reported its number
        for the last time."""
        view, stable = self._view, self._stable
        if view is None or stable is None or view.coordinator != self.local_address:
            return
        own = self._digest(view)
        known = [stable, *self._told.values(), *([] if own is None else [own])]
        heard = {
            member: (delivered, max([digest.received(member) for digest in known]))
            for member, (delivered, _) in stable.seqnos.items()
        }
        if heard != stable.seqnos:
            self.stability_repeated += 1
            self._send(None, StableType.STABILITY, view, Digest(heard), _STABILITY_FLAGS)

    # --- the result

    def _on_stability(self, digest: Digest) -> None:
        if digest == self._stable:
            return
        self._stable = digest
        event = Stable(digest)
        self.pass_event_down(event)
        self.pass_event_up(event)

    def memory_limits(self, members: int) -> dict[str, int]:
        """Return the most memory of the messages that NAKACK2 keeps until they are stable."""
        return {"max_bytes": self.config.max_bytes}

    def check(self) -> None:
        members = () if self._view is None else self._view.members
        assert all(member in members for member in self._told)
        assert self._bytes < self._max_bytes
        if self._view is not None and self.config.desired_avg_gossip > 0:
            assert self._timer.armed


has_settings(STABLE, StableConfig)


def _agree(digest: Digest, stable: Digest | None) -> bool:
    """Return whether all messages that ``digest`` counts as delivered are stable."""
    if stable is None:
        return False
    return all(stable.delivered(m) >= delivered for m, (delivered, _) in digest.seqnos.items())
