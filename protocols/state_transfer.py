"""STATE_TRANSFER: a member gets the application's state from another member, as one message.

Place: on top, above FRAG2, which cuts large states.

Provider
    STATE_REQ from P          wait until we have delivered what P has, and await no state
                              ourselves; then StateRequested up, an item of the stream, and the
                              digest is taken at the same point
    StateReady from above     STATE_RSP with state and digest; STATE_EX if there is a problem
Requester
    GetState, first view      STATE_REQ to the provider: the one named, or the coordinator, or the
      after Connect(state)    next after it. Views and messages are held back from here on
    STATE_RSP                 wait until all messages in the digest have come here, too
    it has                    StateReceived up; then the held messages, without the multicasts that
                              the digest covers: they are in the state, and come as Covered
    STATE_EX, time-out,       the next provider; none is left: StateFailed up, then the held messages
      provider left

Held multicasts of a member that has left meanwhile are in the state, too, because survivors agree. Multicasts that the
digest covers are dropped when they come later. So the reader sees the state first and after it every multicast that is
not in it, each once.

Why a requester waits: a provider that dies may be the only member with its own last multicasts. Survivors agree to do
without them, so a state with them is dropped. For multicasts of other senders it waits catch_up_timeout: as long as the
provider lives, they are not lost.

A provider waits until it has the requester's messages, so that its state is at least as new as the requester's
deliveries. If it waits in vain and lacks multicasts of the requester itself, it refuses. An answer names its request;
an answer to an abandoned request is ignored. A provider also waits for large multicasts that had come in part when the
requester joined, because the requester has missed their beginning. It refuses without them. A Java provider does
not wait: where a digest is lower, the requester's windows are set back (SetDigest) and those multicasts are delivered
again.

Source:  JGroups STATE_TRANSFER; WIRE.md 11.8.
Differs: no BARRIER; the digest is taken at a point of the provider's stream, the state when its
         reader gets there. STATE_REQ between members of ours carries the requester's digest, and the
         number of the request as the difference within the requester's own entry; answers repeat it.
Limits:  max_requests at a provider; max_held_bytes at a requester; max_providers are tried. A
         multicast that was fragmented and only partly delivered when a lower digest was taken is lost
         to the requester. Own multicasts are never delivered again. An out-of-band multicast that a provider had before
         earlier ones of its sender is in the state, and may come once more after the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import MULTICAST, UNICAST, VIEWS
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Covered,
    Event,
    GetDigest,
    GetState,
    SetDigest,
    SharedAttribute,
    StateAwaited,
    StateFailed,
    StateReady,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.view import Digest, View
from jgroups_py.wire.headers import PROTOCOL_IDS, NakAckHeader2, StateHeader, StateType
from jgroups_py.wire.objects import RemoteException, read_exception, write_exception
from jgroups_py.wire.primitives import decode_whole, encode_whole

_NAKACK: Final = PROTOCOL_IDS["NAKACK2"]
AHEAD_VIEWS: Final = 3
LOOK_SECONDS: Final = 0.05
"""Seconds between two checks whether all messages of a state have come: not all of them come up to here."""
_SEQNO_MAX: Final = (1 << 63) - 1
"""The highest number that a digest has room for. A forger's request may have any number up to it."""
_REQUEST_FLAGS: Final = int(Flag.OOB | Flag.DONT_BUNDLE | Flag.SKIP_BARRIER)


@dataclass(slots=True)
class _Request:
    """At a provider: a requester that waits until we have all its messages."""

    wanted: Digest | None
    number: int
    """The requester's number; 0: it has none."""
    deadline: float


@dataclass(slots=True)
class _Transfer:
    """A requester's transfer that is under way."""

    candidates: list[Address]
    """Members to ask; the first one was asked."""
    timeout: float
    base: Digest
    """The digest of messages that we had delivered at the beginning."""
    answer: _Answer | None = None
    """The received state, until we have all messages in it."""


@dataclass(slots=True)
class _Answer:
    provider: Address
    digest: Digest
    state: bytes | None
    deadline: float
    """The time until which we wait for multicasts of other members than the provider."""


class STATE_TRANSFER(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["STATE_TRANSFER"]
    needs_below = (MULTICAST, UNICAST, VIEWS)

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        join_state_timeout: Seconds = 10.0
        """Seconds that each provider may take when a joiner fetches the state."""
        catch_up_timeout: Seconds = 2.0
        """Seconds that a provider waits for multicasts that the requester has, and the other way round; less than the
        requester's time-out."""
        max_requests: int = 100
        """The most requesters served at the same time; others get the answer to ask another member."""
        max_held_bytes: Bytes = 50_000_000
        """The most bytes of messages held while the state is awaited; with more the transfer fails."""
        max_providers: int = 3
        """The most providers that are tried, if none was named."""

        def __post_init__(self) -> None:
            self._above(0, "join_state_timeout", "catch_up_timeout")
            self._at_least(1, "max_requests", "max_held_bytes", "max_providers")

    config: Config

    def start(self) -> None:
        self.view: View | None = None
        self._with_state = False
        # provider
        self._requests: dict[Address, _Request] = {}
        self._given: dict[int, tuple[Address, Digest]] = {}
        """Requests handed up, by token: the requester, and the digest of the answer."""
        self._torn: dict[Address, frozenset[object]] = {}
        """Joiners, and the multicasts that came here in part before they joined."""
        self._token = 0
        self._looking = False
        self._catch_up = self.timer(self._on_catch_up)
        # requester
        self._transfer: _Transfer | None = None
        self._asked = 0
        """Requests so far: the number of the last one."""
        self._held: list[Batch | Event] = []
        self._held_bytes = 0
        self._covered: dict[Address, int] = {}
        """Multicasts up to here are in the state, though they have not all come yet."""
        self._ahead = 0
        """Views for which others' messages count, too: the provider's view may be ahead of ours."""
        self._answer_timer = self.timer(self._on_answer_timeout)
        self._answer_look = self.timer(self._look)
        self.states_sent = 0
        self.states_received = 0
        self.states_failed = 0
        self.state_bytes_sent = 0
        self.state_bytes_received = 0
        self.requests_refused = 0
        self.answers_late = 0
        """Answers to a request that had been given up."""
        self.messages_covered = 0
        """Multicasts dropped because the state contains them."""
        self.bad_messages = 0

    def stop(self) -> None:
        self._catch_up.cancel()
        self._answer_timer.cancel()
        self._answer_look.cancel()

    # --- events

    def event_down(self, event: Event) -> None:
        if type(event) is Consumed:
            self.pass_event_down(event)
            return
        match event:
            case Connect(_, with_state):
                self._with_state = with_state
                self.pass_event_down(event)
            case GetState(provider, timeout):
                self._begin(provider, timeout)
            case StateReady():
                self._state_ready(event)
            case _:
                self.pass_event_down(event)

    def event_up(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._view_changed(event)
        else:
            self.pass_event_up(event)

    def _view_changed(self, event: ViewChange) -> None:
        view = self.view = event.view
        self._note_torn(event)
        self._requests = {m: r for m, r in self._requests.items() if m in view}
        self._given = {t: g for t, g in self._given.items() if g[0] in view}
        self._ahead = max(0, self._ahead - 1)
        self._covered = {m: s for m, s in self._covered.items() if m in view or self._ahead}
        self._rearm()
        if self._transfer is None:
            self.pass_event_up(event)
            if event.old is None and self._with_state and len(view) > 1:
                self._begin(None, self.config.join_state_timeout)
            return
        self._held.append(event)
        if self._transfer.answer is not None:
            self._look_soon()  # it may be good although the provider has gone
        elif self._transfer.candidates[0] not in view:
            self._next_provider("it left the group")

    def _note_torn(self, event: ViewChange) -> None:
        """Note a multicast whose beginning a joiner never gets."""
        joined = () if event.old is None else event.view.joined_since(event.old)
        open = self._incomplete() if joined or self._torn else frozenset()
        self._torn = {
            m: torn & open for m, torn in self._torn.items() if m in event.view and torn & open
        }
        if open:
            self._torn.update(dict.fromkeys(joined, open))

    def _incomplete(self) -> frozenset[object]:
        """Return the multicasts of which only some fragments have come, if the stack has FRAG2."""
        found: frozenset[object] | None = self.ask_down(SharedAttribute("incomplete_multicasts"))
        return found or frozenset()

    # --- messages

    def up(self, batch: Batch) -> None:
        if self.protocol_id in batch.headers:
            self._take(batch)
        elif self._transfer is not None:
            self._hold(batch)
            if self._transfer is not None and self._transfer.answer is not None:
                self._look_soon()
        else:
            if self._covered:
                kept = self._uncovered(batch)
                if kept is None:
                    return
                batch = kept
            self.pass_up(batch)
            if self._requests:
                self._look_soon()

    def _take(self, batch: Batch) -> None:
        header = batch.header(self.protocol_id, StateHeader)
        src = batch.src
        if header is None or src is None:
            self.bad_messages += 1
            self.trace("bad message", src=src)
        else:
            payload = batch.payloads[-1]
            match header.type:
                case StateType.STATE_REQ:
                    self._requested(src, header.digest)
                case StateType.STATE_RSP:
                    self._received(src, header.digest, payload)
                case StateType.STATE_EX:
                    self._refused(src, header.digest, payload)
        self.consume(batch)

    def _send(
        self, dest: Address, header: StateHeader, payload: bytes | None, flags: int = 0
    ) -> None:
        empty = header.type == StateType.STATE_REQ
        kind = MessageType.EMPTY if empty else MessageType.BYTES
        self.pass_down(
            Batch.of(dest, self.protocol_id, header, payload=payload, type=kind, flags=flags)
        )

    # --- provider

    def _requested(self, src: Address, wanted: Digest | None) -> None:
        if self.view is None or src not in self.view or src == self.local_address:
            return
        for token in [t for t, (member, _) in self._given.items() if member == src]:
            del self._given[token]  # it asks again and does not wait for the former answer
        number = _number_for(src, wanted)
        if len(self._requests) + len(self._given) >= self.config.max_requests:
            self.requests_refused += 1
            self._say_problem(src, number, "too many others fetch the state")
            return
        self.trace("state wanted", by=src)
        self._requests[src] = _Request(wanted, number, self.now + self.config.catch_up_timeout)
        self._rearm()
        self._look_soon()

    def _look_soon(self) -> None:
        """Look after the running handler, because the digest is right between two handlers only: within one, NAKACK2
        may still have messages to hand up."""
        if not self._looking:
            self._looking = True
            self.machine.soon(self._look)

    def _on_catch_up(self) -> None:
        self._look()

    def _look(self) -> None:
        self._looking = False
        self._look_at_answer()
        if not self._requests:
            return
        if self._transfer is not None:
            self._put_off()
            return
        digest = self._contained()
        if self._torn:
            open = self._incomplete()
            self._torn = {m: torn & open for m, torn in self._torn.items() if torn & open}
        ready = [
            m
            for m, r in self._requests.items()
            if r.deadline <= self.now or (m not in self._torn and self._has_all(digest, r.wanted))
        ]
        requests = {m: self._requests.pop(m) for m in ready}
        self._rearm()
        for member, request in requests.items():
            if self._lacks_own(digest, member, request.wanted):
                self._say_problem(member, request.number, "multicasts of yours have not come here")
                continue
            if member in self._torn:
                self._say_problem(member, request.number, "a large multicast is still under way")
                continue
            self._token += 1
            self._given[self._token] = (member, _numbered(digest, member, request.number))
            self.pass_event_up(StateRequested(member, self._token))

    def _put_off(self) -> None:
        """Put off requests while we await a state: our reader lacks it and the held messages."""
        late = [m for m, r in self._requests.items() if r.deadline <= self.now]
        for member in late:
            request = self._requests.pop(member)
            self._say_problem(member, request.number, "it awaits a state itself")
        self._rearm()

    @staticmethod
    def _lacks_own(digest: Digest, member: Address, wanted: Digest | None) -> bool:
        """Return whether the state would lack own multicasts of ``member``, which are never delivered again."""
        return wanted is not None and digest.delivered(member) < wanted.delivered(member)

    def _has_all(self, digest: Digest, wanted: Digest | None) -> bool:
        if wanted is None or self.view is None:
            return True
        return all(
            digest.delivered(m) >= delivered
            for m, (delivered, _) in wanted.seqnos.items()
            if m in self.view
        )

    def _digest(self) -> Digest:
        digest: Digest | None = self.ask_down(GetDigest(None))
        return Digest() if digest is None else digest

    def _contained(self) -> Digest:
        """Return the digest of this member's state. It includes all messages that the received state contains, even
        messages that this member itself has not received yet."""
        digest = self._digest()
        ahead = {m: (n, n) for m, n in self._covered.items() if n > digest.delivered(m)}
        return Digest({**digest.seqnos, **ahead}) if ahead else digest

    def _rearm(self) -> None:
        if self._requests:
            self._catch_up.start_at(min(r.deadline for r in self._requests.values()))
        else:
            self._catch_up.cancel()

    def _state_ready(self, answer: StateReady) -> None:
        given = self._given.pop(answer.token, None)
        if given is None:
            return  # the requester has left, or asked anew
        requester, digest = given
        if answer.problem is not None:
            self._say_problem(requester, _number_for(requester, digest), answer.problem)
            return
        self.states_sent += 1
        self.state_bytes_sent += len(answer.state or b"")
        self.trace("state sent", to=requester, bytes=len(answer.state or b""))
        self._send(requester, StateHeader(StateType.STATE_RSP, digest), answer.state)

    def _say_problem(self, to: Address, number: int, problem: str) -> None:
        error = RemoteException("java.lang.IllegalStateException", problem[:1000])
        payload = encode_whole(write_exception, error)
        digest = _numbered(Digest(), to, number) if number else None
        self._send(to, StateHeader(StateType.STATE_EX, digest), payload)

    # --- requester

    def _begin(self, provider: Address | None, timeout: float) -> None:
        view = self.view
        if self._transfer is not None:
            self.pass_event_up(StateFailed(provider, "another transfer is under way", 0))
            return
        if view is None or (provider is not None and provider not in view):
            self.pass_event_up(StateFailed(provider, "it is not in the group", 0))
            return
        candidates = [m for m in view if m != self.local_address]
        candidates = candidates[: self.config.max_providers] if provider is None else [provider]
        if not candidates or candidates == [self.local_address]:
            self.pass_event_up(StateFailed(provider, "there is nobody else to ask", 0))
            return
        self._transfer = _Transfer(candidates, timeout, self._digest())
        self.pass_event_down(StateAwaited(True))
        self._ask(self._transfer)

    def _ask(self, transfer: _Transfer) -> None:
        provider = transfer.candidates[0]
        self.trace("ask for state", provider=provider)
        self._answer_timer.start(transfer.timeout)
        self._asked += 1
        asked = _numbered(transfer.base, self.local_address, self._asked)
        header = StateHeader(StateType.STATE_REQ, asked if _is_ours(provider) else None)
        self._send(provider, header, None, _REQUEST_FLAGS)

    def _hold(self, batch: Batch) -> None:
        self._held.append(batch)
        self._held_bytes += batch.length
        if self._held_bytes > self.config.max_held_bytes:
            self._fail("too much else arrived meanwhile (max_held_bytes)")

    def _is_awaited(self, src: Address, digest: Digest | None) -> bool:
        number = _number_for(self.local_address, digest) if _is_ours(src) else 0
        asked = self._transfer is not None and self._transfer.candidates[0] == src
        if asked and number in (0, self._asked):
            return True
        self.answers_late += 1
        self.trace("late answer", provider=src, number=number)
        return False

    def _received(
        self, src: Address, digest: Digest | None, payload: bytes | memoryview | None
    ) -> None:
        transfer = self._transfer
        if not self._is_awaited(src, digest) or transfer is None:
            return
        if not (payload is None or isinstance(payload, (bytes, memoryview))):
            self.bad_messages += 1
            return
        state = None if payload is None else bytes(payload)
        digest = digest or Digest()
        self.states_received += 1
        self.state_bytes_received += len(state or b"")
        self.trace("state", provider=src, bytes=len(state or b""))
        transfer.answer = _Answer(src, digest, state, self.now + self.config.catch_up_timeout)
        self._look_soon()

    def _look_at_answer(self) -> None:
        """Hand out the state as soon as we have all messages in it."""
        transfer = self._transfer
        answer = None if transfer is None else transfer.answer
        if transfer is None or answer is None:
            return
        lacking, lost = self._lacking(answer.digest)
        if lost:
            transfer.answer = None
            self._next_provider("its state has multicasts that it took along")
        elif lacking and not self._can_rely_on(answer, lacking):
            self._answer_look.start(LOOK_SECONDS)
        else:
            self._hand_out(transfer, answer)

    def _can_rely_on(self, answer: _Answer, lacking: list[Address]) -> bool:
        """Return whether to go on without late multicasts of other members: the provider lives and has them."""
        lives = self.view is not None and answer.provider in self.view
        return lives and answer.provider not in lacking and answer.deadline <= self.now

    def _lacking(self, digest: Digest) -> tuple[list[Address], list[Address]]:
        """Return the senders of which a state has multicasts that will still come here, and those that never will."""
        view, mine = self.view, self._digest()
        assert view is not None
        fewer = [
            m for m in digest if m != self.local_address and mine.delivered(m) < digest.delivered(m)
        ]
        # A member of the provider's view only, which is ahead of ours, is unknown here.
        return [m for m in fewer if m in view], [m for m in fewer if m not in view and m in mine]

    def _hand_out(self, transfer: _Transfer, answer: _Answer) -> None:
        src, digest = answer.provider, answer.digest
        again = self._apply(transfer, digest)
        held = self._end()
        self.pass_event_up(StateReceived(src, answer.state))
        gone = {item.src for item in held if isinstance(item, Batch)}
        gone -= {*digest, *(() if self.view is None else self.view.members)}
        # For a member that has left both views: survivors delivered the same messages, and the state has them all.
        self._release(held, again, tuple(m for m in gone if m is not None))

    def _apply(self, transfer: _Transfer, digest: Digest) -> tuple[Address, ...]:
        """Set the covered numbers. Return the senders that are delivered again, because the state is older."""
        view = self.view
        assert view is not None
        self._covered = {m: digest.delivered(m) for m in digest}
        self._ahead = AHEAD_VIEWS
        back = {
            m: (seqno, seqno)
            for m, seqno in self._covered.items()
            if m != self.local_address and m in view and seqno < transfer.base.delivered(m)
        }
        if back:
            self.trace("older state", members=tuple(back))
            self.pass_event_down(SetDigest(Digest(back), replace=True))
        return tuple(back)

    def _release(
        self,
        held: list[Batch | Event],
        again: tuple[Address, ...] = (),
        gone: tuple[Address, ...] = (),
    ) -> None:
        """Hand up held messages."""
        for item in held:
            if not isinstance(item, Batch):
                self.pass_event_up(item)
            elif item.src in again and _NAKACK in item.headers:
                self.consume(item)
            elif item.src in gone and _NAKACK in item.headers:
                self._cover(item)
            elif (kept := self._uncovered(item)) is not None:
                self.pass_up(kept)
        delivered = self._digest()
        self._covered = {m: s for m, s in self._covered.items() if delivered.delivered(m) < s}
        if self._requests:
            self._look_soon()

    def _uncovered(self, batch: Batch) -> Batch | None:
        """Return the part of a batch that is not in the state."""
        src = batch.src
        limit = None if src is None else self._covered.get(src)
        header = batch.header(_NAKACK, NakAckHeader2)
        if limit is None or header is None or src is None:
            return batch
        covered = limit + 1 - header.seqno
        if covered <= 0:
            if not batch.flags & Flag.OOB:
                del self._covered[src]  # they come in order, so later ones are not covered
            return batch
        self.messages_covered += min(covered, len(batch))
        self._cover(batch.slice(0, min(covered, len(batch))))
        return None if covered >= len(batch) else batch.slice(covered, len(batch))

    def _cover(self, batch: Batch) -> None:
        """Do not hand a run to the reader, because the state contains it."""
        self.pass_event_up(Covered(batch))
        self.consume(batch)

    def _refused(
        self, src: Address, digest: Digest | None, payload: bytes | memoryview | None
    ) -> None:
        if not self._is_awaited(src, digest):
            return
        try:
            error = decode_whole(read_exception, payload or b"")
            problem = "unknown problem" if error is None else f"{error.message}"
        except RemoteProtocolError:
            problem = "a problem that cannot be read"
        self._next_provider(problem)

    def _on_answer_timeout(self) -> None:
        assert self._transfer is not None
        self._next_provider(f"no answer within {self._transfer.timeout:g} s")

    def _next_provider(self, problem: str) -> None:
        transfer, view = self._transfer, self.view
        assert transfer is not None and view is not None
        rest = [m for m in transfer.candidates[1:] if m in view]
        if not rest:
            self._fail(problem)
            return
        self.trace("next provider", problem=problem)
        transfer.candidates, transfer.answer = rest, None
        self._answer_look.cancel()
        self._ask(transfer)

    def _fail(self, problem: str) -> None:
        transfer = self._transfer
        assert transfer is not None
        provider = transfer.candidates[0]
        self.states_failed += 1
        self.trace("no state", provider=provider, problem=problem)
        held = self._end()
        self.pass_event_up(StateFailed(provider, problem, 0))
        self._release(held, ())

    def _end(self) -> list[Batch | Event]:
        held, self._held = self._held, []
        self._held_bytes = 0
        if self._transfer is not None:
            self._transfer = None
            self.pass_event_down(StateAwaited(False))
        self._answer_timer.cancel()
        self._answer_look.cancel()
        return held

    def check(self) -> None:
        assert self._answer_timer.armed == (self._transfer is not None)
        assert self._catch_up.armed == bool(self._requests)
        assert self._transfer is not None or not (self._held or self._answer_look.armed)
        assert len(self._requests) + len(self._given) <= self.config.max_requests


def _is_ours(member: Address) -> bool:
    return isinstance(member, UUID) and member.is_ours


def _numbered(digest: Digest, requester: Address, number: int) -> Digest:
    """Return ``digest`` with the number of a request in the requester's entry. It stays as it is for 0, and for a
    number that has no room there."""
    delivered = digest.delivered(requester)
    if not 0 < number <= _SEQNO_MAX - delivered:
        return digest
    return Digest({**digest.seqnos, requester: (delivered, delivered + number)})


def _number_for(requester: Address, digest: Digest | None) -> int:
    """Return the number of the request of ``digest``. 0: it has none."""
    if digest is None:
        return 0
    return digest.received(requester) - digest.delivered(requester)
