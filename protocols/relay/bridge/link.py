"""RELAY's other half on a relay: the stack of the global cluster, and what goes over it.

    connected        only while this member is relay of its site and has collected
    a member there   a session: ask, answer, replay, follow (relay_session.py)
    to the peer      only ever the next number of an origin, out of the buffer
    from the peer    only ``forwarded + 1`` is multicast here; below: dropped; above: "I have forwarded"

What comes from members that are not in the bridge view is dropped: what a former relay sent and nobody
has read is in the buffers of its successor.

While the local group can take no more (flow control), what came waits in the session's inbox, and its
credits with it: the other site's buffer takes the load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.relay.bridge.session import Session
from jgroups_py.protocols.relay.config import pairs
from jgroups_py.protocols.relay.state import Numbers, SiteNumbers, raise_to
from jgroups_py.protocols.relay.wire import (
    CONTROL_FLAGS,
    CONTROL_HEADER,
    ID,
    SEQNO_MAX,
    SOURCE_ID,
    Ack,
    Ask,
    Bridged,
    BridgeGap,
    Forget,
    Gap,
    Have,
    Kind,
    Leaving,
    StillKnown,
    decode_bridged,
    encode,
)
from jgroups_py.stack.sides import StackSide
from jgroups_py.values.address import UUID, Address, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Disconnected,
    Event,
    Expel,
    Failed,
    FlowBlocked,
    FlowOpened,
    ViewChange,
)
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class _Link:
    """One bridge stack's owner. A closed one says nothing any more."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.stack: StackSide
        self.closing = False
        self.then: Callable[[], None] | None = None
        """What waits for the end of a link that closes."""

    def deliver(self, batch: Batch) -> None:
        if self.bridge.link is self and not self.closing:
            self.bridge.deliver(batch)
        else:
            self.stack.consumed(batch)

    def notify(self, event: Event) -> None:
        match event:
            case Disconnected() | Expel() | Failed():
                self.bridge.ended(self, event)
            case _ if self.bridge.link is self and not self.closing:
                self.bridge.notify(event)


class Bridge:
    """See the module's docstring."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.link: _Link | None = None
        self.view: View | None = None
        self.sessions: dict[Address, Session] = {}
        self.forwarded: SiteNumbers = {}
        """By site and origin: what was multicast here."""
        self.local_blocked: dict[str, None] = {}
        """Who says that nothing may be multicast here."""
        self._token = 0
        self._draining = False

    # --- the stack

    @property
    def is_open(self) -> bool:
        return self.link is not None

    @property
    def address(self) -> UUID | None:
        return None if self.link is None else self.link.stack.address

    def open(self) -> None:
        if self.link is not None:
            return
        config = self.relay.config
        link = _Link(self)
        link.stack = self.relay.open_stack(
            config.bridge,
            config.bridge_cluster,
            link,
            name=f"_{self.relay.stack.name}",
            attributes=pairs(config.bridge_attributes, "bridge_attributes"),
            properties=pairs(config.bridge_properties, "bridge_properties"),
        )
        self.link = link
        link.stack.connect(config.bridge_cluster)

    def close(self, then: Callable[[], None] | None = None) -> None:
        """Says good-bye and leaves; the stack is closed when that is done, and ``then`` called."""
        link = self.link
        if link is None:
            if then is not None:
                then()
            return
        link.then = then
        for session in self.sessions.values():
            self._tell(session, Leaving())
        self._forget_all()
        self.link = None
        link.closing = True
        link.stack.disconnect()

    def ended(self, link: _Link, event: Event) -> None:
        """A bridge stack has come to its end, wanted or not."""
        self.relay.machine.soon(link.stack.close)
        then, link.then = link.then, None
        if then is not None:
            self.relay.machine.soon(then)
        if self.link is link:
            problem = getattr(event, "problem", "it was disconnected")
            self.relay.log.warning("the bridge is down: %s", problem)
            self._forget_all()
            self.link = None
            self.relay.bridge_failed()

    def _forget_all(self) -> None:
        sessions, self.sessions = self.sessions, {}
        self.view = None
        for session in sessions.values():
            self._drop_inbox(session)
            self.relay.posts.gone(session)

    def _drop_inbox(self, session: Session) -> None:
        while session.inbox:
            item = session.inbox.popleft()
            if isinstance(item, Batch):
                self._consumed(item)

    def _consumed(self, batch: Batch) -> None:
        if self.link is not None:
            self.link.stack.consumed(batch)

    # --- events of the bridge

    def notify(self, event: Event) -> None:
        match event:
            case ViewChange(view=view):
                self._on_view(view)
            case FlowBlocked(source="GMS") | FlowOpened(source="GMS"):
                pass  # the bridge went on without us: sessions have acknowledgements of their own
            case FlowBlocked(dest=dest):
                for session in self._of(dest):
                    session.blocked = True
            case FlowOpened(dest=dest):
                for session in self._of(dest):
                    session.blocked = False
                    self.pump(session)
                    self.relay.posts.opened(session)

    def _of(self, dest: Address | None) -> list[Session]:
        if dest is None:
            return list(self.sessions.values())
        session = self.sessions.get(dest)
        return [] if session is None else [session]

    def _on_view(self, view: View) -> None:
        assert self.link is not None
        me = self.link.stack.address
        restart = isinstance(view, MergeView)
        self.view = view
        for peer in [p for p in self.sessions if p not in view]:
            self.relay.posts.gone(self.sessions[peer])
            self._drop_inbox(self.sessions.pop(peer))
        self.relay.trace("bridge_view", size=len(view), sites=self.sites())
        for peer in view.members:
            if peer == me:
                continue
            session = self.sessions.get(peer)
            if session is None:
                session = self.sessions[peer] = Session(peer)
                self.ask(session)
            elif restart:
                self.ask(session)
        self._ask_back_owed()
        self._forget_owed()
        self.relay.out.wake()

    def sites(self) -> list[str]:
        """Sites with a relay on the bridge, as far as they have said so, ours first."""
        return [self.relay.config.site, *[s.site for s in self.sessions.values() if s.site]]

    def is_sole(self, site: str) -> bool:
        """Is there one relay of ``site`` on the bridge for certain?"""
        own = 1 if site == self.relay.config.site else 0
        return own + sum(1 for s in self.sessions.values() if s.site in (site, "")) == 1

    # --- kind 2: numbers

    def restart(self) -> None:
        """Ask everybody again (after a COLLECT)."""
        for session in list(self.sessions.values()):
            self.ask(session)

    def ask(self, session: Session, again: bool = False) -> None:
        if not again:
            self._token += 1
            session.begin(self._token)
        session.starts_anew()
        relay = self.relay
        self._tell(
            session,
            Ask(
                session.token,
                relay.config.site,
                relay.announced,
                relay.known_origins(),
                {site: dict(numbers) for site, numbers in self.forwarded.items()},
                relay.joining.blind,
            ),
        )

    def ask_silent_ones(self) -> bool:
        """Asks those again that have not answered; True while there are any."""
        silent = [
            s
            for s in self.sessions.values()
            if not s.ready and s.site != self.relay.config.site and not s.leaving
        ]
        for session in silent:
            self.ask(session, again=True)
        return bool(silent)

    def tell_epoch(self) -> None:
        """Who is primary now, and what is here of each site."""
        for session in self.sessions.values():
            self.ask(session, again=True)

    def tell_known(self) -> None:
        if self.relay.joining.blind:
            return
        for session in self.sessions.values():
            self._tell(session, StillKnown(self.relay.known_origins()))

    def ask_back(self, site: str, origin: bytes) -> None:
        """We have less than was thought: every relay of ``site`` goes back."""
        for session in self.sessions.values():
            if session.site == site:
                self._ask_back(session, origin)

    def _ask_back(self, session: Session, origin: bytes) -> None:
        number = self.forwarded.get(session.site, {}).get(origin, 0)
        asked = session.asked_back.get(origin)
        now = self.relay.now
        if asked is not None and asked[0] == number and now < asked[1]:
            return
        session.asked_back[origin] = (number, now + self.relay.config.retry_interval)
        session.told[origin] = min(number, session.told.get(origin, 0))
        self._tell(session, Have(0, self.relay.config.site, self.relay.announced, {origin: number}))

    def _ask_back_owed(self) -> None:
        for session in self.sessions.values():
            if session.owes_have and self.is_sole(session.site):
                owed, session.owes_have = session.owes_have, {}
                have = self.forwarded.get(session.site, {})
                numbers = {**have, **{origin: have.get(origin, 0) for origin in owed}}
                self._tell(session, Have(0, self.relay.config.site, self.relay.announced, numbers))

    def _meet(self, session: Session, site: str) -> None:
        """The peer has said which site it is relay of."""
        if session.site != site:
            session.site = site
            self.relay.learn_site(site)
            self.relay.trace("bridge_view", size=len(self.sessions) + 1, sites=self.sites())

    def _on_ask(self, session: Session, ask: Ask) -> None:
        relay = self.relay
        self._meet(session, ask.site)
        session.have = ask.have
        session.blind = ask.blind
        session.leaving = False
        anew = ask.token != session.peer_token
        session.peer_token = ask.token
        if anew:
            session.starts_anew()
            session.asked_back = {}
        relay.direction.hear(session, ask.epoch)
        if ask.site == relay.config.site:
            return
        numbers = dict(self.forwarded.get(ask.site, {}))
        self._tell(session, Have(ask.token, relay.config.site, relay.announced, numbers))
        if not session.ready:
            self.ask(session, again=True)
        elif anew:
            theirs = ask.have.get(relay.config.site, {})
            back = {origin: theirs.get(origin, 0) for origin in session.cursor}
            if session.back_to(back, relay.sent_so_far()):
                self.pump(session)
        if not ask.blind:
            self._take(session, StillKnown(ask.known))
        self._ask_back_owed()
        self._forget_owed()
        relay.out.wake()

    def _on_have(self, session: Session, have: Have) -> None:
        relay = self.relay
        self._meet(session, have.site)
        relay.direction.hear(session, have.epoch)
        if have.site == relay.config.site:
            return
        upto = relay.sent_so_far()
        if have.token == 0:
            if session.ready and session.back_to(have.numbers, upto):
                self.pump(session)
            return
        if have.token != session.token or session.ready:
            return
        numbers = relay.state.remembered(have.numbers)
        for origin, number in numbers.items():
            ahead = number - relay.known(origin)
            if ahead > 0 and not relay.is_member(origin):
                relay.counters.ahead += ahead
        if not relay.joining.blind:
            # Origins we did not name when we asked are forgotten there, and never come again.
            known = dict.fromkeys(relay.known_origins())
            numbers = {o: n for o, n in numbers.items() if o in known}
        session.answered(numbers, upto)
        relay.posts.reached(session)
        relay.trace("session", to=session.site or str(session.peer), replay=session.replaying)
        self.pump(session)
        relay.out.wake()

    # --- to the other sites

    def pump(self, session: Session) -> None:
        """Sends what there is, a piece of each origin in turn."""
        origins = self.relay.sendable_origins()
        while origins:
            origins = [o for o in origins if self._send_next(session, o)]

    def pump_all(self) -> None:
        for session in list(self.sessions.values()):
            self.pump(session)

    def pump_origin(self, origin: bytes) -> None:
        """Something of ``origin`` was delivered here."""
        for session in self.sessions.values():
            if session.ready and not session.blocked:
                while self._send_next(session, origin):
                    pass

    def _send_next(self, session: Session, origin: bytes) -> bool:
        """Sends one run; False: there is nothing (more) to send now."""
        relay = self.relay
        if not session.ready or session.blocked or not relay.is_relaying:
            return False
        at = session.cursor.get(origin, 0)
        base = relay.state.base.get(origin, 0)
        if session.blind:
            base = max(base, relay.state.trimmed.get(origin, 0))
        if at < base:
            session.cursor[origin] = base
            self._tell(session, BridgeGap({origin: base}, True))
            return not session.blocked
        upto = relay.sendable(origin)
        if at >= upto:
            return False
        found = relay.buffer.get(origin, at + 1, upto, relay.config.chunk_bytes)
        if found is None:
            if origin not in session.stalled:
                session.stalled[origin] = relay.now
                relay.out.wake()
            return False
        session.stalled.pop(origin, None)
        run, payloads = found
        count = len(payloads)
        session.cursor[origin] = at + count
        self._count_sent(session, origin, at + 1, count)
        self._send_run(session, origin, at + 1, payloads, run.flags, run.type)
        return at + count < upto

    def _count_sent(self, session: Session, origin: bytes, first: int, count: int) -> None:
        relay = self.relay
        replay_to = session.replay_to.get(origin, 0)
        replayed = min(count, max(0, replay_to + 1 - first))
        if replayed:
            relay.counters.replayed += replayed
            if first + count > replay_to:
                del session.replay_to[origin]
            if relay.watched:
                self._trace_sent("replay", session, origin, first, replayed)
        if count > replayed:
            relay.counters.relayed += count - replayed
            if relay.watched:
                self._trace_sent("relay", session, origin, first + replayed, count - replayed)

    def _trace_sent(
        self, what: str, session: Session, origin: bytes, first: int, count: int
    ) -> None:
        relay = self.relay
        relay.trace(what, origin=relay.shown(origin), seqno=first, count=count, to=session.site)

    def _send_run(
        self,
        session: Session,
        origin: bytes,
        first: int,
        payloads: Sequence[Any],
        flags: int,
        type: int,
    ) -> None:
        assert self.link is not None
        source = RelayHeader(RelayType.DATA, original_sender=self.relay.source(origin))
        header = FragHeader(first, Kind.RELAYED, self.relay.announced[0])
        self.link.stack.send(
            Batch(
                session.peer,
                payloads,
                {ID: header, SOURCE_ID: source},
                None,
                flags | CONTROL_FLAGS,
                0,
                type,
            )
        )

    def send_gaps(self, wait: float) -> None:
        """Numbers that have been missing for so long will not come: the other site goes on."""
        relay = self.relay
        for session in list(self.sessions.values()):
            due = [o for o, since in session.stalled.items() if relay.now >= since + wait]
            for origin in due:
                self._send_gap(session, origin)
            if due:
                self.pump(session)

    def _send_gap(self, session: Session, origin: bytes) -> None:
        relay = self.relay
        del session.stalled[origin]
        at = session.cursor.get(origin, 0)
        upto = relay.known(origin)
        held = relay.buffer.next_above(origin, at)
        if held is not None:
            upto = min(upto, held - 1)
        if not session.ready or upto <= at:
            return
        session.cursor[origin] = upto
        relay.note_gap(session.site, relay.shown(origin), at + 1, upto, "sent")
        self._tell(session, BridgeGap({origin: upto}, False))

    def acknowledge(self, lowest: Mapping[str, Mapping[bytes, int]], *, tell: bool) -> None:
        """All members here have ``lowest``: what was asked back of it, since somebody lacked it, has
        come by other ways. ``tell``: the relays of those sites learn what is new of it."""
        for site, all_have in lowest.items():
            forwarded = self.forwarded.get(site, {})
            raise_to(forwarded, {o: n for o, n in all_have.items() if o in forwarded})
        for session in self.sessions.values() if tell else ():
            numbers = lowest.get(session.site)
            if not numbers:
                continue
            news = {o: n for o, n in numbers.items() if n > session.told.get(o, 0)}
            if news:
                session.told.update(news)
                self._tell(session, Ack(news))

    def acknowledged(self, sites: Sequence[str], origin: bytes) -> int:
        """What all of ``sites`` have acknowledged; where one shows two relays, both."""
        lowest: int | None = None
        for site in sites:
            acks = [s.acked.get(origin, 0) for s in self.sessions.values() if s.site == site]
            number = min(acks, default=0)
            lowest = number if lowest is None else min(lowest, number)
        return lowest or 0

    def _tell(self, session: Session, record: Bridged) -> None:
        assert self.link is not None
        self.link.stack.send(
            Batch.of(session.peer, ID, CONTROL_HEADER, payload=encode(record), flags=CONTROL_FLAGS)
        )

    # --- from the other sites

    def deliver(self, batch: Batch) -> None:
        session = None if batch.src is None else self.sessions.get(batch.src)
        header = batch.headers.get(ID)
        if session is None or type(header) is not FragHeader:
            self.relay.counters.strangers += 1
            self._consumed(batch)
            return
        if header.index == Kind.RELAYED:
            self._take(session, batch)
            return
        self._consumed(batch)
        if header.index == Kind.POST:
            self.relay.posts.received(session, batch)
            return
        for payload in batch.payloads:
            try:
                record = decode_bridged(payload)
            except RemoteProtocolError as error:
                self.relay.out.refuse(batch.src, error)
                continue
            match record:
                case Ask():
                    self._on_ask(session, record)
                case Have():
                    self._on_have(session, record)
                case Ack(numbers=numbers):
                    known = dict.fromkeys(self.relay.known_origins())
                    session.acknowledged({o: n for o, n in numbers.items() if o in known})
                    self.pump(session)
                    self.relay.out.wake()
                case Leaving():
                    session.leaving = True
                    self.relay.trace("going_down", site=session.site)
                case _:
                    self._take(session, record)

    def _take(self, session: Session, item: Batch | BridgeGap | StillKnown) -> None:
        """What belongs to the peer's stream: handled in its order, when the group can take it."""
        if self.local_blocked or session.inbox:
            session.inbox.append(item)
        else:
            self._handle(session, item)

    def drain(self) -> None:
        """The local group takes messages again."""
        if self._draining:
            return
        self._draining = True
        for session in list(self.sessions.values()):
            while session.inbox and not self.local_blocked:
                self._handle(session, session.inbox.popleft())
        self._draining = False

    def _handle(self, session: Session, item: Batch | BridgeGap | StillKnown) -> None:
        match item:
            case BridgeGap():
                self._on_gap(session, item)
            case StillKnown():
                self._on_still_known(session, item)
            case _:
                self._on_run(session, item)

    def _on_run(self, session: Session, batch: Batch) -> None:
        relay = self.relay
        header = batch.headers[ID]
        source = batch.header(SOURCE_ID, RelayHeader)
        sender = None if source is None else source.original_sender
        assert isinstance(header, FragHeader)
        first = header.id
        last = first + len(batch) - 1
        site = session.site
        if (
            source is None
            or not isinstance(sender, SiteUUID)
            or not site
            or sender.site != site
            or site == relay.config.site
            or not 0 < first <= last <= SEQNO_MAX
        ):
            relay.out.refuse(batch.src, "a run without number or source")
            self._consumed(batch)
            return
        if not relay.state.accepts(header.count, site, relay.announced):
            relay.counters.fenced += len(batch)
            self._consumed(batch)
            self._tell(session, Have(0, relay.config.site, relay.announced, {}))
            return
        origin = bytes(sender)
        forwarded = self.forwarded.setdefault(site, {})
        have = forwarded.get(origin, 0)
        if last <= have:
            relay.out.dropped_duplicates(sender, first, len(batch))
        elif first > have + 1:
            relay.counters.beyond += len(batch)
            self._ask_back(session, origin)
        else:
            if first <= have:
                relay.out.dropped_duplicates(sender, first, have + 1 - first)
            forwarded[origin] = last
            session.asked_back.pop(origin, None)
            run = batch.slice(have + 1 - first, len(batch))
            relay.out.multicast_run(run, have + 1, relay.announced[0], source)
        self._consumed(batch)

    def _on_gap(self, session: Session, gap: BridgeGap) -> None:
        relay = self.relay
        site = session.site
        if not site or site == relay.config.site:
            relay.out.refuse(session.peer, "a gap of no other site")
            return
        if not self.is_sole(site):
            session.owes_have.update(dict.fromkeys(gap.numbers))
            relay.counters.gaps_put_off += 1
            return
        forwarded = self.forwarded.setdefault(site, {})
        numbers = {o: n for o, n in gap.numbers.items() if n > forwarded.get(o, 0)}
        if numbers:
            forwarded.update(numbers)
            relay.out.multicast(lambda serial: Gap(serial, site, numbers, gap.start))

    def _on_still_known(self, session: Session, known: StillKnown) -> None:
        site = session.site
        if not site:
            return
        still = set(known.origins)
        gone = {o: n for o, n in self._numbers_of(site).items() if o not in still}
        if self.is_sole(site):
            session.perhaps_gone = {}
            self._forget(site, list(gone))
        else:
            session.perhaps_gone = gone

    def _forget_owed(self) -> None:
        """What one of two relays no longer knew may be forgotten now that it is the only one, unless
        something came of it since."""
        for session in self.sessions.values():
            if session.perhaps_gone and self.is_sole(session.site):
                gone, session.perhaps_gone = session.perhaps_gone, {}
                ours = self._numbers_of(session.site)
                self._forget(session.site, [o for o, n in gone.items() if ours.get(o) == n])

    def _numbers_of(self, site: str) -> Numbers:
        return {**self.relay.state.site_digest.get(site, {}), **self.forwarded.get(site, {})}

    def _forget(self, site: str, gone: list[bytes]) -> None:
        """Origins of another site, which it has forgotten."""
        if gone:
            forwarded = self.forwarded.get(site, {})
            for origin in gone:
                forwarded.pop(origin, None)
            self.relay.out.multicast(lambda serial: Forget(serial, site, gone))

    def check(self) -> None:
        for session in self.sessions.values():
            assert session.ready or not session.cursor
            assert session.peer != self.address
