"""The conversation with the relays of other sites: the stack of the global cluster, and its messages.

    connected        only while this member is relay of its site and has collected
    a member there   a session: ask, answer, replay, follow (session.py)
    to the peer      only ever the next number of an origin, out of the buffer
    from the peer    only ``forwarded + 1`` is multicast here; below: dropped; above: "I have forwarded"

Messages from members outside the bridge view are dropped: the successor of a former relay has them in its buffer.

While flow control blocks the local group, messages wait in the session's inbox and keep their credits, so later ones
stay in the other site's buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.owner import BridgeLink
from jgroups_py.protocols.relay.bridge.session import RelaySession, Sessions
from jgroups_py.protocols.relay.config import RelayConfig, pairs
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.posts import BridgePosts
from jgroups_py.protocols.relay.remote.forwarded import Forwarded
from jgroups_py.protocols.relay.site.joining import Joining
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import Numbers, RelayState, SiteNumbers
from jgroups_py.protocols.relay.wire import (
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
    Leaving,
    MessageKind,
    StillKnown,
    decode_bridged,
)
from jgroups_py.stack.sides import StackSide
from jgroups_py.values.address import UUID, Address, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    FlowBlocked,
    FlowOpened,
    ViewChange,
)
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType


class RelayBridge:
    """Orders the sessions, ``forwarded`` and the posts. ``open_stack`` opens a child stack under a name."""

    def __init__(
        self,
        config: RelayConfig,
        out: RelayOut,
        roles: Roles,
        state: RelayState,
        buffer: RelayBuffer,
        origins: Origins,
        direction: Direction,
        trimming: Trimming,
        joining: Joining,
        open_stack: Callable[..., StackSide],
    ) -> None:
        self.link: BridgeLink | None = None
        self.view: View | None = None
        self.sessions = Sessions()
        self.forwarded = Forwarded()
        self.posts = BridgePosts(out.counters, self.sessions, self._send_post, config.post_bytes)
        self.local_blocked: dict[str, None] = {}
        """Protocols that forbid multicasts here at present."""
        self._config = config
        self._out = out
        self._roles = roles
        self._state = state
        self._buffer = buffer
        self._origins = origins
        self._direction = direction
        self._trimming = trimming
        self._joining = joining
        self._open_stack = open_stack
        self._token = 0
        self._draining = False

    # --- flow control at home

    def block(self, source: str) -> None:
        """Note that protocol ``source`` forbids multicasts here."""
        self.local_blocked[source] = None

    def unblock(self, source: str) -> None:
        self.local_blocked.pop(source, None)

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
        config = self._config
        link = BridgeLink(self.deliver, self.notify, self.ended)
        link.stack = self._open_stack(
            config.bridge,
            config.bridge_cluster,
            link,
            name=f"_{self._out.stack_name}",
            attributes=pairs(config.bridge_attributes, "bridge_attributes"),
            properties=pairs(config.bridge_properties, "bridge_properties"),
        )
        self.link = link
        link.is_heard = True
        link.stack.connect(config.bridge_cluster)

    def close(self, then: Callable[[], None] | None = None) -> None:
        """Leave the bridge with a good-bye. Then close the stack and call ``then``."""
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
        link.is_heard = False
        link.stack.disconnect()

    def ended(self, link: BridgeLink, event: Event) -> None:
        """Handle the end of a bridge stack, wanted or not."""
        self._out.soon(link.stack.close)
        then, link.then = link.then, None
        if then is not None:
            self._out.soon(then)
        if self.link is link:
            problem = getattr(event, "problem", "it was disconnected")
            self._out.log.warning("the bridge is down: %s", problem)
            self._forget_all()
            self.link = None
            link.is_heard = False
            self._out.ask_again()  # the stack is opened again after ``retry_interval``

    def _forget_all(self) -> None:
        sessions = list(self.sessions.values())
        self.sessions.clear()
        self.view = None
        for session in sessions:
            self._drop_inbox(session)
            self.posts.gone(session)

    def _drop_inbox(self, session: RelaySession) -> None:
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
                pass  # the bridge went on without us: sessions have their own acknowledgements
            case FlowBlocked(dest=dest):
                for session in self._of(dest):
                    session.blocked = True
            case FlowOpened(dest=dest):
                for session in self._of(dest):
                    session.blocked = False
                    self.pump(session)
                    self.posts.opened(session)

    def _of(self, dest: Address | None) -> list[RelaySession]:
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
            self.posts.gone(self.sessions[peer])
            self._drop_inbox(self.sessions.pop(peer))
        self._out.trace("bridge_view", size=len(view), sites=self.sites())
        for peer in view.members:
            if peer == me:
                continue
            session = self.sessions.get(peer)
            if session is None:
                session = self.sessions[peer] = RelaySession(peer)
                self.ask(session)
            elif restart:
                self.ask(session)
        self._ask_back_owed()
        self._forget_owed()
        self._out.wake()

    def sites(self) -> list[str]:
        """Return the sites with a known relay on the bridge, ours first."""
        return [self._config.site, *[s.site for s in self.sessions.values() if s.site]]

    def is_sole(self, site: str) -> bool:
        """Is exactly one relay of ``site`` on the bridge?"""
        own = 1 if site == self._config.site else 0
        return own + self.sessions.relays_of(site) == 1

    # --- kind 2: numbers

    def restart(self) -> None:
        """Ask every relay again (after a COLLECT)."""
        for session in list(self.sessions.values()):
            self.ask(session)

    def ask(self, session: RelaySession, again: bool = False) -> None:
        if not again:
            self._token += 1
            session.begin(self._token)
        session.starts_anew()
        self._tell(
            session,
            Ask(
                session.token,
                self._config.site,
                self._direction.announced,
                self._origins.still_known(),
                {site: dict(numbers) for site, numbers in self.forwarded.sites.items()},
                self._joining.blind,
            ),
        )

    def ask_silent_ones(self) -> bool:
        """Ask silent relays again. True: there are some."""
        silent = [
            s
            for s in self.sessions.values()
            if not s.ready and s.site != self._config.site and not s.leaving and not s.refused
        ]
        for session in silent:
            self.ask(session, again=True)
        return bool(silent)

    def tell_epoch(self) -> None:
        """Tell every relay which site is primary, and this site's numbers."""
        for session in self.sessions.values():
            self.ask(session, again=True)

    def tell_known(self) -> None:
        """Tell every relay which origins of this site are not forgotten. The relay forgets all other origins."""
        if self._joining.blind:
            return
        known = self._origins.still_known()
        for session in self.sessions.values():
            session.keep(known)
            self._tell(session, StillKnown(known))

    def ask_back(self, site: str, origin: bytes) -> None:
        """Ask every relay of ``site`` to go back, because this site has less than the relay knew."""
        for session in self.sessions.of_site(site):
            self._ask_back(session, origin)

    def go_back(self, site: str, numbers: Mapping[bytes, int]) -> None:
        """Go back to ``numbers``: a member of this site has only these."""
        out, patience = self._out, self._config.retry_interval
        for origin in self.forwarded.lack(site, numbers, out.now, patience):
            self.ask_back(site, origin)

    def look_for_stuck(self, lowest: SiteNumbers) -> bool:
        """Ask again for multicasts that a member did not get. True: some members are behind."""
        patience = 3 * self._config.retry_interval
        blocked = bool(self.local_blocked)
        back, waiting = self.forwarded.behind(lowest, self._out.now, patience, blocked)
        for site, origin in back:
            self.ask_back(site, origin)
        return waiting

    def _ask_back(self, session: RelaySession, origin: bytes) -> None:
        number = self.forwarded.of(session.site).get(origin, 0)
        asked = session.asked_back.get(origin)
        now = self._out.now
        if asked is not None and asked[0] == number and now < asked[1]:
            return
        session.asked_back[origin] = (number, now + self._config.retry_interval)
        session.told[origin] = min(number, session.told.get(origin, 0))
        self._tell_have(session, 0, {origin: number})

    def _ask_back_owed(self) -> None:
        for session in self.sessions.values():
            if session.owes_have and self.is_sole(session.site):
                owed, session.owes_have = session.owes_have, {}
                have = self.forwarded.of(session.site)
                numbers = {**have, **{origin: have.get(origin, 0) for origin in owed}}
                self._tell_have(session, 0, numbers)

    def _tell_have(self, session: RelaySession, token: int, numbers: Numbers) -> None:
        """Tell the peer which numbers were multicast here. ``token``: of its question; 0: unasked."""
        have = Have(token, self._config.site, self._direction.announced, numbers)
        self._tell(session, have)

    def _meet(self, session: RelaySession, site: str) -> None:
        """Note the peer's site."""
        if session.site != site:
            session.site = site
            if self._state.learn_site(site):
                self._trimming.repeat()
            self._out.trace("bridge_view", size=len(self.sessions) + 1, sites=self.sites())

    def _on_ask(self, session: RelaySession, ask: Ask) -> None:
        self._meet(session, ask.site)
        session.have = ask.have
        session.blind = ask.blind
        session.leaving = False
        anew = ask.token != session.peer_token
        session.peer_token = ask.token
        if anew:
            session.starts_anew()
            session.asked_back = {}
        if self._direction.hear(session, ask.epoch):
            self.tell_epoch()
        if ask.site == self._config.site:
            return
        self._tell_have(session, ask.token, dict(self.forwarded.of(ask.site)))
        if not session.ready:
            self.ask(session, again=True)
        elif anew:
            theirs = ask.have.get(self._config.site, {})
            back = {origin: theirs.get(origin, 0) for origin in session.cursor}
            if session.back_to(back, self._origins.so_far()):
                self.pump(session)
        if not ask.blind:
            self._take(session, StillKnown(ask.known))
        self._ask_back_owed()
        self._forget_owed()
        self._out.wake()

    def _on_have(self, session: RelaySession, have: Have) -> None:
        origins = self._origins
        self._meet(session, have.site)
        if self._direction.hear(session, have.epoch):
            self.tell_epoch()
        if have.site == self._config.site:
            return
        upto = origins.so_far()
        if have.token == 0:
            if session.ready and session.back_to(have.numbers, upto):
                self.pump(session)
            return
        if have.token != session.token or session.ready:
            return
        numbers = self._state.remembered(have.numbers)
        for origin, number in numbers.items():
            ahead = number - origins.known(origin)
            if ahead > 0 and not self._roles.is_member(origin):
                self._out.counters.ahead += ahead
        if not self._joining.blind:
            # The peer forgets origins that our question does not name; they never come again.
            known = dict.fromkeys(origins.still_known())
            numbers = {o: n for o, n in numbers.items() if o in known}
        session.answered(numbers, upto)
        self.posts.reached(session)
        to = session.site or str(session.peer)
        self._out.trace("session", to=to, replay=session.replaying)
        self.pump(session)
        self._out.wake()

    # --- to the other sites

    def pump(self, session: RelaySession) -> None:
        """Send all messages that may be sent, one piece of each origin in turn."""
        origins = list(self._origins.origins())
        while origins:
            origins = [o for o in origins if self._send_next(session, o)]

    def pump_all(self) -> None:
        for session in list(self.sessions.values()):
            self.pump(session)

    def pump_origin(self, origin: bytes) -> None:
        """Send on after a delivery of ``origin``."""
        for session in self.sessions.values():
            if session.ready and not session.blocked:
                while self._send_next(session, origin):
                    pass

    def _send_next(self, session: RelaySession, origin: bytes) -> bool:
        """Send one run. False: there is nothing to send now."""
        state = self._state
        if not session.ready or session.blocked or not self._direction.is_relaying:
            return False
        at = session.cursor.get(origin, 0)
        base = state.base.get(origin, 0)
        if session.blind:
            base = max(base, state.trimmed.get(origin, 0))
        if at < base:
            session.cursor[origin] = base
            self._tell(session, BridgeGap({origin: base}, True))
            return not session.blocked
        upto = self._origins.sendable(origin)
        if at >= upto:
            return False
        found = self._buffer.get(origin, at + 1, upto, self._config.chunk_bytes)
        if found is None:
            if origin not in session.stalled:
                session.stalled[origin] = self._out.now
                self._out.wake()
            return False
        session.stalled.pop(origin, None)
        run, payloads = found
        count = len(payloads)
        self._count_sent(session, origin, at + 1, count)
        assert self.link is not None
        source = RelayHeader(RelayType.DATA, original_sender=self._origins.source(origin))
        header = FragHeader(at + 1, MessageKind.RELAYED, self._direction.announced[0])
        self.link.run(session.peer, payloads, header, source, run.flags, run.type)
        return at + count < upto

    def _count_sent(self, session: RelaySession, origin: bytes, first: int, count: int) -> None:
        out, counters = self._out, self._out.counters
        replayed = session.sent(origin, first, count)
        counters.replayed += replayed
        counters.relayed += count - replayed
        if out.watched:
            shown, to = out.shown(origin), session.site
            if replayed:
                out.trace("replay", origin=shown, seqno=first, count=replayed, to=to)
            if count > replayed:
                first, count = first + replayed, count - replayed
                out.trace("relay", origin=shown, seqno=first, count=count, to=to)

    def send_gaps(self, wait: float) -> None:
        """Send GAPs for numbers missing longer than ``wait``, so that the other site can continue."""
        now = self._out.now
        for session in list(self.sessions.values()):
            due = [o for o, since in session.stalled.items() if now >= since + wait]
            for origin in due:
                self._send_gap(session, origin)
            if due:
                self.pump(session)

    def _send_gap(self, session: RelaySession, origin: bytes) -> None:
        del session.stalled[origin]
        at = session.cursor.get(origin, 0)
        upto = self._origins.known(origin)
        held = self._buffer.next_above(origin, at)
        if held is not None:
            upto = min(upto, held - 1)
        if upto <= at:
            return
        session.cursor[origin] = upto
        self._out.lost(session.site, self._out.shown(origin), at + 1, upto, "sent")
        self._tell(session, BridgeGap({origin: upto}, False))

    def acknowledge(self, lowest: SiteNumbers, *, tell: bool) -> None:
        """Note that all members here have ``lowest``. That ends requests for these numbers. ``tell``: send changes to
        the relays of those sites."""
        self.forwarded.all_have(lowest)
        for session in self.sessions.values() if tell else ():
            numbers = lowest.get(session.site)
            if not numbers:
                continue
            news = {o: n for o, n in numbers.items() if n > session.told.get(o, 0)}
            if news:
                session.told.update(news)
                self._tell(session, Ack(news))

    def _tell(self, session: RelaySession, record: Bridged) -> None:
        assert self.link is not None
        self.link.tell(session.peer, record)

    def _send_post(self, session: RelaySession, payload: bytes) -> None:
        assert self.link is not None
        self.link.post(session.peer, payload)

    # --- from the other sites

    def deliver(self, batch: Batch) -> None:
        session = None if batch.src is None else self.sessions.get(batch.src)
        header = batch.headers.get(ID)
        if session is None or type(header) is not FragHeader:
            self._out.counters.strangers += 1
            self._consumed(batch)
            return
        if header.index == MessageKind.RELAYED:
            self._take(session, batch)
            return
        self._consumed(batch)
        if header.index == MessageKind.POST:
            self.posts.received(session, batch)
            return
        for payload in batch.payloads:
            try:
                record = decode_bridged(payload)
            except RemoteProtocolError as error:
                self._out.refuse(batch.src, error)
                continue
            # If the previous record made us refuse the peer, the session is a new one.
            session = self.sessions.get(session.peer, session)
            match record:
                case Ask() | Have() if not self._is_listed(session, record.site):
                    pass
                case Ask():
                    self._on_ask(session, record)
                case Have():
                    self._on_have(session, record)
                case Ack(numbers=numbers):
                    known = dict.fromkeys(self._origins.still_known())
                    session.acknowledged({o: n for o, n in numbers.items() if o in known})
                    self.pump(session)
                    self._out.wake()
                case Leaving():
                    session.leaving = True
                    self._out.trace("going_down", site=session.site)
                case _:
                    self._take(session, record)

    def _is_listed(self, session: RelaySession, site: str) -> bool:
        """Is this site allowed on the bridge?"""
        listed = self._config.sites
        if listed and site not in listed:
            self._out.turn_away("unlisted_site", session.peer)
            self._refuse(session)
            return False
        session.refused = False
        return True

    def _refuse(self, session: RelaySession) -> None:
        """End the link with the peer. Its new session has no site, so no message is accepted from it or sent to it."""
        self.posts.gone(session)
        self._drop_inbox(session)
        self._token += 1
        session = self.sessions[session.peer] = RelaySession(session.peer)
        session.begin(self._token)
        session.refused = True
        self._ask_back_owed()
        self._forget_owed()
        self._out.wake()

    def _take(self, session: RelaySession, item: Batch | BridgeGap | StillKnown) -> None:
        """Handle an item of the peer's stream in order, when the group can take it."""
        if self.local_blocked or session.inbox:
            session.inbox.append(item)
        else:
            self._handle(session, item)

    def drain(self) -> None:
        """Handle waiting items: the local group takes messages again."""
        if self._draining:
            return
        self._draining = True
        for session in list(self.sessions.values()):
            while session.inbox and not self.local_blocked:
                self._handle(session, session.inbox.popleft())
        self._draining = False

    def _handle(self, session: RelaySession, item: Batch | BridgeGap | StillKnown) -> None:
        match item:
            case BridgeGap():
                self._on_gap(session, item)
            case StillKnown():
                self._on_still_known(session, item)
            case _:
                self._on_run(session, item)

    def _on_run(self, session: RelaySession, batch: Batch) -> None:
        out, site = self._out, session.site
        header = batch.headers[ID]
        source = batch.header(SOURCE_ID, RelayHeader)
        sender = None if source is None else source.original_sender
        assert isinstance(header, FragHeader)
        first = header.id
        last = first + len(batch) - 1
        if (
            source is None
            or not isinstance(sender, SiteUUID)
            or not site
            or sender.site != site
            or site == self._config.site
            or not 0 < first <= last <= SEQNO_MAX
        ):
            out.refuse(batch.src, "a run without number or source")
            self._consumed(batch)
            return
        epoch = self._direction.announced
        if not self._state.accepts(header.count, site, epoch):
            out.counters.fenced += len(batch)
            self._consumed(batch)
            self._tell_have(session, 0, {})
            return
        origin = bytes(sender)
        fresh = self.forwarded.take(site, origin, first, last)
        if fresh is None:
            out.counters.beyond += len(batch)
            self._ask_back(session, origin)
        else:
            if fresh > first:
                out.dropped_duplicates(sender, first, fresh - first)
            if fresh <= last:
                session.asked_back.pop(origin, None)
                run = batch.slice(fresh - first, len(batch))
                out.multicast_run(run, fresh, epoch[0], source)
        self._consumed(batch)

    def _on_gap(self, session: RelaySession, gap: BridgeGap) -> None:
        site = session.site
        if not site or site == self._config.site:
            self._out.refuse(session.peer, "a gap of no other site")
            return
        if not self.is_sole(site):
            session.owes_have.update(dict.fromkeys(gap.numbers))
            self._out.counters.gaps_put_off += 1
            return
        numbers = self.forwarded.skip(site, gap.numbers)
        if numbers:
            self._out.multicast(lambda serial: Gap(serial, site, numbers, gap.start))

    def _on_still_known(self, session: RelaySession, known: StillKnown) -> None:
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
        """Forget the origins that a site's only remaining relay no longer knew, unless they have sent since."""
        for session in self.sessions.values():
            if session.perhaps_gone and self.is_sole(session.site):
                gone, session.perhaps_gone = session.perhaps_gone, {}
                ours = self._numbers_of(session.site)
                self._forget(session.site, [o for o, n in gone.items() if ours.get(o) == n])

    def _numbers_of(self, site: str) -> Numbers:
        return {**self._state.site_digest.get(site, {}), **self.forwarded.of(site)}

    def _forget(self, site: str, gone: list[bytes]) -> None:
        """Forget origins of ``site``, which has forgotten them."""
        if gone:
            self.forwarded.forget(site, gone)
            self._out.multicast(lambda serial: Forget(serial, site, gone))

    def check(self) -> None:
        for session in self.sessions.values():
            assert session.ready or not (session.cursor or session.stalled)
            assert session.peer != self.address
