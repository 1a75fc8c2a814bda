"""GMS, the round: survivors agree on all messages of a view before a view without a departed member goes out.

A crash can leave a message at some members only, and a member that lacks a message of a living member can
fall before it is repeated. So the acting coordinator runs a round with those survivors that are members of
ours (a Java member would not understand it):

    FREEZE    ->   Every survivor takes no more messages of senders that are not in the new view, and hands out none of
                   the others. It reports the delivered number of each sender.
    REPORT    <-   The goal for a sender is the highest number that any member has delivered. When all members have reached
                   all goals, the view is sent at once.
    FETCH     ->   A survivor that lacks messages gets the goals, and the members that have the messages.
    DECIDED   ->   All others get the goals.
    DONE      <-   The survivor has delivered up to the goals. When all have, the view goes out.
    VIEW      ->   The view itself for the survivors that hold: its multicast would wait for it. It also says that no
                   other goals come, so messages that could not be fetched are not needed.
    THAW      ->   No member departs after all. A message that THAW overtakes is ignored. It also goes to members that were asked
                   in a round which this round replaced.

Agreement needs five rules:

Freeze         After its report a survivor hands out only what the round agreed on, until it has the view.
All departed   The round covers every sender that is not in the new view, because a survivor may not have
               installed the view before.
Restart        A new round begins when one more member departs, since that member may be the one that had
               the missing message. A new round also begins when a round of another coordinator has taken the
               coordinator beyond its goals.
Decided first  A view without a departed member can overtake the goals. It waits until the goals have come, are final,
               and are reached.
Ahead          A survivor that has delivered more of a departed sender than the goals never installs the view.
               A survivor that has delivered more of a staying sender may install it if its own report came too
               late, but not if a later round has taken it further.

A round belongs to its coordinator's address and counter. A survivor follows the latest round and answers only
members of its view. A round of its own counts as well. When that round is given up, the survivor goes back to the
earlier round: it has reported to that one, too, and hands out no messages until all rounds have ended. A round
goes on when another view is installed meanwhile and its own view comes after that one: the survivor reports
anew. A survivor whose view is as new as the proposed one does not freeze. It reports its view, and the
coordinator begins again with a higher number. So a view that a crashed coordinator sent to some members only is
overtaken.

A living leaver of ours reports as well, because it certainly has its own messages.

The round is bounded by agree_timeout, twice. A member that has not reported by then is silent: the round goes on
without it, and it gets the goals all the same. But if a view without us came and a silent member is in it, that member
may have gone on with that view. Then the round is given up and begun again after agree_timeout. The round does not wait
for a member that has not fetched in time. If that member is the coordinator itself, the goals become its own delivered
numbers. Counters count both. So a member that merely stood still loses nothing. A survivor that waits in vain, or is
beyond the goals, stays in its old view and comes back with a merge; a counter counts that, too. Only a merge view waits
for no longer than agree_timeout. A survivor that holds and gets no view, because its coordinator is gone or cut off,
goes on after ``_HOLDS`` times agree_timeout.

Views that only add members need no round: a member that lacks messages gets them from their sender.

The coordinator's table of reports is round.py, and wire.py has the messages. This part returns steps for others
(``Then``): the protocol makes views, and knows the departing members.

Source: RELAY.md of the design, "Survivors agree"; virtual synchrony (Birman and Joseph 1987; JGroups
FLUSH stops senders, here receivers hold). JGroups without FLUSH has nothing like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.protocols.membership.gms.round import CoordinatorRound
from jgroups_py.protocols.membership.gms.wire import (
    Goals,
    RoundKind,
    encode_freeze,
    encode_goals,
    encode_report,
    read_fetch,
    read_freeze,
    read_report,
)
from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.events import Fetch, Freeze, Release, Thaw
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import FragHeader
from jgroups_py.wire.primitives import decode_whole
from jgroups_py.wire.values import read_view_digest

_FLAGS = int(Flag.NO_FC)
_HOLDS: Final = 3
"""A survivor that waits for the view delivers no message for this multiple of agree_timeout. A round may last
twice agree_timeout."""


class Then(Enum):
    """The next thing for the protocol after a step of the agreement."""

    FINISH = auto()
    """All have the agreed messages: make the view."""
    RESTART = auto()
    """Begin the round again."""
    LET_GO = auto()
    """A round was given up: go back to the previous one, or hand out held messages."""
    TAKE_PUT_OFF = auto()
    """Take the view that was put off: it has to wait no longer."""
    RETRY = auto()
    """Give the round up, and begin again after agree_timeout."""


class ViewReceived(NamedTuple):
    """A view was handed over: take it."""

    src: Address
    content: ViewDigest


class PutOff(NamedTuple):
    """A view that came, and has to wait."""

    src: Address
    view: View
    digest: Digest | None


class _Promise:
    """A round of another coordinator. We have reported to it, and it has not ended."""

    def __init__(
        self, number: int, proposed: int, staying: tuple[Address, ...], report: Digest
    ) -> None:
        self.number = number
        self.proposed = proposed
        """The lowest id that the view of this round can have."""
        self.staying = staying
        self.report = report
        """Our delivered numbers of all senders."""
        self.decision: tuple[Goals, bool] | None = None
        """The decision of the round: goals, and whether an answer is wanted."""


class AgreementTimers(NamedTuple):
    """The protocol's timers that the agreement starts and cancels."""

    round: Timer
    """The coordinator's limit for reports, and then for fetching members."""
    patience: Timer
    """The limit for a view that is put off."""
    hold: Timer
    """It runs while this member delivers no messages."""
    again: Timer
    """The time when a given-up round begins again."""


class Agreement:
    """See the module's docstring. One member may be coordinator and survivor."""

    def __init__(self, out: GmsOut, group: Group, timers: AgreementTimers, timeout: float) -> None:
        self._out = out
        self._group = group
        self._timers = timers
        self.timeout = timeout
        """agree_timeout"""
        self._number = 0
        self._round: CoordinatorRound | None = None
        self._follows: tuple[Address, int] | None = None
        """Coordinator and counter of our present round, which may be our own."""
        self._promises: dict[Address, _Promise] = {}
        """Coordinator -> our promise, the latest last. Coordinators are members of the view."""
        self._ended: dict[Address, int] = {}
        """Coordinator -> its last round that was given up."""
        self._decided: tuple[int, tuple[Address, ...]] | None = None
        """For the round that we follow: the lowest id that its view can have, and the members that stay.
        None: there are no goals yet."""
        self._ahead = False
        """True if we have delivered more than was decided."""
        self._fetching = False
        self._owes_done = False
        self._frozen: dict[Address, None] = {}
        self._put_off: PutOff | None = None
        self._handed: ViewId | None = None
        """The view that was handed over last. Its coordinator makes no other decision in that round."""

    def stop(self) -> None:
        """End our own round."""
        self._round = None
        self._timers.round.cancel()
        self._timers.again.cancel()

    # --- a view comes

    def puts_off(self, src: Address, view: View, digest: Digest | None) -> bool:
        """Return whether an arrived view has to wait for a decision, or until we have fetched. Then TAKE_PUT_OFF tells
        when to take it."""
        if not self._waits(src, view):
            return False
        if self._put_off is None:
            self._timers.patience.start(self._out.patience(self.timeout))
        elif view.id < self._put_off.view.id:
            return True
        self._put_off = PutOff(src, view, digest)
        self._out.trace("agree", step="put off", view=view)
        return True

    def _waits(self, src: Address, view: View) -> bool:
        follows = self._follows
        current, creator = self._group.view, view.view_id.creator
        assert current is not None
        if isinstance(view, MergeView):
            return self._fetching and follows is not None and src == follows[0]
        if self.timeout == 0 or not (isinstance(creator, UUID) and creator.is_ours):
            return False
        if all(m in view for m in current):
            return False
        if follows is None or creator != follows[0] or self._decided is None:
            return self._known(view.members) is not None
        lowest_id, staying = self._decided
        other = view.id < lowest_id or any(m not in view for m in staying)
        return other or self._fetching or self._ahead or view.view_id != self._handed

    def patience_ended(self) -> Then | None:
        """Go on when a view that was put off has waited for agree_timeout."""
        assert self._put_off is not None
        if isinstance(self._put_off.view, MergeView):
            self._fetching = False
            return Then.TAKE_PUT_OFF
        self._out.trace("agree", step="left behind", view=self._put_off.view)
        return None

    def take_put_off(self) -> PutOff | None:
        """Remove and return the view that was put off, to take it now."""
        self._timers.patience.cancel()
        put_off, self._put_off = self._put_off, None
        return put_off

    def view_installed(self) -> None:
        """End every round that is not for a later view: NAKACK2 forgets the departed. A member that we ask in
        our round may have had this view before us."""
        view = self._group.view
        assert view is not None
        self.abandon()
        self._follow(None)
        self._ended = {m: number for m, number in self._ended.items() if m in view}
        self._promises = {
            m: promise
            for m, promise in self._promises.items()
            if m in view and promise.proposed > view.id
        }
        self._put_off = None
        self._handed = None
        self._timers.patience.cancel()
        self._timers.hold.cancel()
        self._frozen.clear()

    def go_on(self) -> Then | None:
        """Go on after the protocols below and above have the view. Rounds for a later view have an older report of
        ours, so they get a new one."""
        for src, promise in self._promises.items():
            if promise.decision is None:
                promise.report = self._out.delivered() or Digest()
                self._report(src, promise.number, promise.report)
        return self.resume() if self._promises else None

    def _follow(self, round: tuple[Address, int] | None) -> None:
        self._follows = round
        self._decided = None
        self._ahead = False
        self._fetching = False
        self._owes_done = False

    # --- coordinator

    @property
    def round(self) -> CoordinatorRound | None:
        """Return our own round while it runs."""
        return self._round

    def abandon(self) -> None:
        """Drop our round; another member decides."""
        round = self._round
        if round is not None:
            self.stop()
            for member in round.held:
                self._send(member, RoundKind.THAW, round.number, b"")

    def give_up(self) -> bool:
        """Take back the freeze of our round everywhere, because no member departs. Return whether there was a round;
        then LET_GO follows."""
        if self._round is None:
            return False
        self._out.trace("agree", step="given up")
        self.abandon()
        self._follow(None)
        return True

    def retry_later(self) -> None:
        """Begin again after agree_timeout."""
        self._timers.again.start(self._out.patience(self.timeout))

    def begin(self, departing: tuple[Address, ...], leavers: tuple[Address, ...]) -> bool:
        """Begin a round about a view without ``departing``. ``leavers``: those of them that are alive. Return whether
        survivors are asked; otherwise the view may go out."""
        out, group = self._out, self._group
        view, me = group.view, group.me
        assert view is not None
        self._number += 1
        staying = tuple(m for m in view if m not in departing)
        asked = [m for m in (*staying, *leavers) if m != me and _is_ours(m)]
        replaced = () if self._round is None else self._round.held
        round = self._round = CoordinatorRound(
            self._number,
            departing,
            staying,
            group.next_id,
            asked,
            [m for m in replaced if m in view],
        )
        self._follow((me, self._number))
        report = self._freeze(staying)
        if report is None or self.timeout == 0:
            if report is not None:
                self._decide(round, {})  # other members may wait for the decision
            return False
        round.reports[me] = report
        out.trace("agree", step="freeze", departing=departing, asked=tuple(round.asked))
        self._timers.round.start(out.patience(self.timeout))
        payload = encode_freeze(round.proposed, staying)
        for member in round.asked:
            self._send(member, RoundKind.FREEZE, round.number, payload)
        return True

    def _reported(
        self, round: CoordinatorRound, member: Address, view_id: int, digest: Digest
    ) -> Then | None:
        if not round.awaits(member):
            return None
        if view_id >= round.proposed:
            self._group.saw(view_id)
            return Then.RESTART
        round.reports[member] = digest
        return self.evaluate()

    def evaluate(self) -> Then | None:
        """Decide when all have reported."""
        round = self._round
        if round is None or round.unreported:
            return None
        me = self._group.me
        goals = round.decide(me, self._out.delivered() or Digest())
        if round.fetching:
            self._out.trace("agree", step="fetch", goals={s: g[0] for s, g in goals.items()})
        self._decide(round, goals)
        if round.fetching and me in round.fetching:
            self._out.down(Fetch(goals))
        return Then.FINISH if round.is_done else None

    def _decide(self, round: CoordinatorRound, goals: Goals) -> None:
        """Send the goals to all members that stay. Those that lack messages answer when they have them."""
        payload = encode_goals(round.proposed, round.staying, goals)
        for member, lacks in round.to_tell():
            self._send(
                member, RoundKind.FETCH if lacks else RoundKind.DECIDED, round.number, payload
            )

    def _done(self, round: CoordinatorRound, member: Address) -> Then | None:
        return Then.FINISH if round.fetched(member) and round.is_done else None

    def timed_out(self) -> Then | None:
        """Go on without missing reports or fetches after agree_timeout."""
        round, group = self._round, self._group
        assert round is not None
        waiting = round.unreported if round.fetching is None else tuple(round.fetching)
        self._out.trace("agree", step="timed out", waiting=waiting)
        self._out.log.warning(
            "survivors did not agree in time, the view goes out without an answer of %s",
            ", ".join(self._out.name_of(m) for m in waiting),
        )
        if round.fetching is not None:
            if group.me in round.fetching:
                self._decide(round, round.settle(group.me, self._known(round.staying) or Digest()))
            return Then.FINISH
        excluding = group.excluding
        if excluding is not None and any(m in excluding for m in waiting):
            return Then.RETRY  # that member may have gone on without this member
        round.silence()
        self._timers.round.start(self._out.patience(self.timeout))
        return self.evaluate()

    def is_at_goals(self) -> bool:
        """Return whether our delivered numbers of the view's members are those that our round agreed on. Messages of
        members that departed before cannot be fetched. A round of another coordinator may have taken us elsewhere."""
        view, known, round = self._group.view, self._out.delivered() or Digest(), self._round
        assert view is not None and round is not None
        return all(
            m not in known or m not in view or known.delivered(m) == goal[0]
            for m, goal in round.goals.items()
        )

    def hand_over(self, view: View, payload: bytes) -> None:
        """Send the view to holding members: the multicast comes too late for them."""
        current, me = self._group.view, self._group.me
        assert current is not None
        if self._out.delivered() is not None:
            for member in current:
                if _is_ours(member) and member in view and member != me:
                    self._send(member, RoundKind.VIEW, 0, payload)

    # --- survivor

    def take(self, src: Address, header: FragHeader, payload: Any) -> Then | ViewReceived | None:
        """Take a round's message from a member of the view. RemoteProtocolError: it is impossible."""
        round = self._round
        mine = round is not None and round.number == header.id
        match header.index:
            case RoundKind.FREEZE:
                proposed, staying = decode_whole(read_freeze, payload)
                self._group.believe(proposed)
                self._freeze_wanted(src, header.id, proposed, staying)
            case RoundKind.REPORT:
                view_id, digest = decode_whole(read_report, payload)
                self._group.believe(view_id)
                if mine and round is not None:
                    return self._reported(round, src, view_id, digest)
            case RoundKind.FETCH | RoundKind.DECIDED:
                proposed, staying, goals = decode_whole(read_fetch, payload)
                self._group.believe(proposed)
                answer = header.index == RoundKind.FETCH
                promise = self._promises.get(src)
                if promise is not None and promise.number == header.id:
                    promise.decision = goals, answer
                if self._is_for_us((src, header.id), proposed, staying):
                    return self._goals_set(goals, answer)
            case RoundKind.DONE:
                if mine and round is not None:
                    return self._done(round, src)
            case RoundKind.THAW:
                return self._thaw_wanted(src, header.id)
            case RoundKind.VIEW:
                content = decode_whole(read_view_digest, payload)
                self._handed = None if content.view is None else content.view.view_id
                # Otherwise the multicast comes in its right place.
                if self._timers.hold.armed or self._put_off is not None:
                    return ViewReceived(src, content)
            case _:
                raise RemoteProtocolError(f"no kind of message in a round: {header.index}")
        return None

    def _freeze_wanted(
        self, src: Address, number: int, proposed: int, staying: tuple[Address, ...]
    ) -> None:
        view = self._group.view
        assert view is not None
        follows = self._follows
        if follows is not None and follows[0] == src and number < follows[1]:
            return  # overtaken by a later one
        if number <= self._ended.get(src, 0):
            return  # overtaken by its end
        if view.id >= proposed:
            self._report(src, number, Digest())
            return
        self._follow((src, number))
        leaving = self._group.me not in staying
        if leaving and not self._group.leaving:
            return  # we are wrongly suspected, so we neither help nor freeze
        if leaving:
            report = self._own_and_known(staying)
        else:
            report = self._freeze(staying)
            self._promises.pop(src, None)
            self._promises[src] = _Promise(number, proposed, staying, report or Digest())
        self._report(src, number, report or Digest())

    def _thaw_wanted(self, src: Address, number: int) -> Then | None:
        """Thaw after a round and all earlier ones were given up. Messages of these rounds may still come."""
        if number <= self._ended.get(src, 0):
            return None
        self._ended[src] = number
        promise = self._promises.get(src)
        if promise is not None and promise.number <= number:
            del self._promises[src]
        if self._follows is None or self._follows[0] != src or self._follows[1] > number:
            return None
        self._follow(None)
        return Then.LET_GO

    @property
    def has_promised(self) -> bool:
        """Return whether a round is open to which we have reported."""
        return bool(self._promises)

    def resume(self) -> Then | None:
        """Go back to the latest round to which we have reported, and hold for it."""
        src, promise = next(reversed(self._promises.items()))
        self._freeze(promise.staying)
        if self._follows != (src, promise.number):
            self._follow((src, promise.number))
            if promise.decision is not None:
                self._decided = promise.proposed, promise.staying
                return self._goals_set(*promise.decision)
        return None

    def hand_out(self) -> None:
        """Take all messages again and hand out held ones, because no round is left."""
        self._thaw(tuple(self._frozen))
        if self._timers.hold.armed:
            self._timers.hold.cancel()
            self._out.down(Release())

    def _is_for_us(
        self, round: tuple[Address, int], proposed: int, staying: tuple[Address, ...]
    ) -> bool:
        """Judge a decision. Return whether we follow its round from now on."""
        group, follows = self._group, self._follows
        assert group.view is not None
        if group.view.id >= proposed or group.me not in staying:
            return False
        if follows != round:
            if follows is not None and (follows[0] != round[0] or round[1] < follows[1]):
                return False  # overtaken by a later one
            if round[1] <= self._ended.get(round[0], 0):
                return False  # overtaken by its end
            self._follow(round)  # its FREEZE is lost or late
            self._freeze(staying)
        self._decided = proposed, staying
        return True

    def _goals_set(self, goals: Goals, answer: bool) -> Then | None:
        assert self._decided is not None
        known, staying = self._out.delivered() or Digest(), self._decided[1]
        more = {m: known.delivered(m) - goal[0] for m, goal in goals.items() if m in known}
        behind = any(n < 0 for n in more.values())
        strict = self._counted(goals)
        self._ahead = any(n > 0 and (strict or m not in staying) for m, n in more.items())
        self._owes_done = answer
        self._fetching = answer or behind
        if self._ahead:
            self._out.trace("agree", step="ahead", goals={s: g[0] for s, g in goals.items()})
        if not self._fetching:
            return Then.TAKE_PUT_OFF
        self._out.down(Fetch(goals))
        return None

    def _counted(self, goals: Mapping[Address, tuple[int, Address]]) -> bool:
        """Return whether our report to the followed round came in time."""
        src, number = self._follows or (None, 0)
        promise = None if src is None else self._promises.get(src)
        if promise is None or promise.number != number:
            return False
        report = promise.report
        return all(m in goals and n <= goals[m][0] for m, (n, _) in report.seqnos.items())

    def _report(self, to: Address, number: int, digest: Digest) -> None:
        assert self._group.view is not None
        self._send(to, RoundKind.REPORT, number, encode_report(self._group.view.id, digest))

    def fetched(self) -> Then | None:
        """Go on after NAKACK2 has delivered the fetched messages."""
        round = self._round
        if round is not None and round.fetching is not None:
            return self._done(round, self._group.me)
        if not self._fetching or self._follows is None:
            return None
        self._fetching = False
        if self._owes_done:
            self._owes_done = False
            self._send(self._follows[0], RoundKind.DONE, self._follows[1], b"")
        return Then.TAKE_PUT_OFF

    def hold_expired(self) -> None:
        """Go on without the view of a coordinator that is gone or cut off."""
        self._promises.clear()
        self._out.trace("agree", step="held for too long")
        self._out.down(Release())

    # --- both

    def _known(self, staying: tuple[Address, ...]) -> Digest | None:
        """Return the delivered numbers of senders not in ``staying``; None without NAKACK2."""
        digest = self._out.delivered()
        if digest is None:
            return None
        return Digest({m: seqnos for m, seqnos in digest.seqnos.items() if m not in staying})

    def _own_and_known(self, staying: tuple[Address, ...]) -> Digest | None:
        """Return a leaver's report. A leaver has all its own messages, even undelivered ones."""
        known = self._known(staying)
        me = self._group.me
        if known is None or me not in known:
            return known
        sent = known.received(me)
        return Digest({**known.seqnos, me: (sent, sent)})

    def _freeze(self, staying: tuple[Address, ...]) -> Digest | None:
        """Take messages of ``staying`` only, and hold them until the view. Return the delivered numbers of all
        senders."""
        view = self._group.view
        assert view is not None
        known = self._known(staying)
        departed = dict.fromkeys(known or ())
        departed.update((m, None) for m in view if m not in staying)
        self._thaw(tuple(m for m in self._frozen if m not in departed))
        self._frozen.update(departed)
        report = self._out.delivered()
        if report is None:
            return None
        self._out.down(Freeze(tuple(departed)))
        if not self._timers.hold.armed:
            self._timers.hold.start(self._out.patience(_HOLDS * self.timeout))
        return report

    def _thaw(self, members: tuple[Address, ...]) -> None:
        for member in members:
            self._frozen.pop(member, None)
        if members:
            self._out.down(Thaw(members))

    def _send(self, dest: Address, kind: RoundKind, number: int, payload: bytes) -> None:
        self._out.send_round(dest, kind, number, payload, _FLAGS)

    def check(self) -> None:
        round, view = self._round, self._group.view
        assert self._timers.round.armed == (round is not None)
        assert not self._timers.patience.armed or self._put_off is not None
        if round is not None:
            assert view is not None
            assert all(m in view for m in round.departing)
        assert self._group.me not in self._frozen
        assert not self._promises or (view is not None and self._timers.hold.armed)


def _is_ours(member: Address) -> bool:
    return isinstance(member, UUID) and member.is_ours
