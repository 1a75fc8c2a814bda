"""GMS, survivors agree on all messages of a view before one without somebody goes out.

A crash can leave a message at some members only, and a member that lacks a message of one who lives can
fall before it is repeated. So the acting coordinator runs a round with those survivors that are
members of ours (a Java member would not understand it):

    FREEZE    ->   every survivor takes nothing more from any sender that is not in the new view, hands
                   out nothing more of those that are, and reports how far it has delivered each
    REPORT    <-   the goal per sender is the highest number anybody has delivered; when all have that,
                   the view goes out at once
    FETCH     ->   who lacks something is told the goals, and who has them
    DECIDED   ->   everybody else is told the goals
    DONE      <-   it has delivered up to the goals; when all have, the view goes out
    VIEW      ->   the view itself for those who hold: its multicast would wait for it. And that no
                   other goals come: what could not be fetched nobody needs to have
    THAW      ->   nobody departs after all; what it overtakes is not heeded any more. Also to whom a
                   round had asked that this one replaced

Five rules without which it does not hold. *Freeze*: who has reported hands out nothing more except
what the round agreed, until it has the view. *All departed*: the round covers every sender not in the
new view, because a survivor may not have installed the one before. *Restart*: when one more departs,
a new round begins, since it may be the one who had the missing message; and when a round of somebody
else has taken the coordinator beyond the goals. *Decided first*: a view without somebody, which can
overtake the goals, is put off until they are there, final and reached. *Ahead*: who has delivered
more of a departed sender than the goals never installs it; of one who stays it may if its own report
came too late, not if a later round has taken it further.

A round belongs to its coordinator's address and counter; a survivor follows the latest one and
answers only members of its view; one of its own counts as well. When that one is given up it goes back
to the one before it: it has reported to that, too, and hands out nothing until all of them have ended.
A round whose view comes after the one that is installed meanwhile goes on: the survivor reports anew.
A survivor whose view is as new as the proposed one does not freeze: it reports its view, and the
coordinator begins again with a higher number. That is how a view that a crashed coordinator sent to
some members only is overtaken.

A leaver of ours that is still there reports as well: it has its own messages for certain.

Bounded by agree_timeout, twice. Who has not reported by then is silent: the round goes on without
it, and it is told the goals all the same; unless a view without us came that it is in, and it may have
gone on with: then the round is given up and begun again after agree_timeout. Who has not fetched by
then is not waited for; if that is the coordinator itself, what it has is the goal. Both are counted. So
one that merely stood still loses nothing. Who waits in vain or is beyond the goals stays in its old
view, which is counted, too, and comes back with a merge; only a merge view waits for no longer than
agree_timeout. Who holds and gets no view, since its coordinator is gone or cut off, goes on after
``_HOLDS`` times agree_timeout.

Views that only add members need no round: who lacks something gets it from its sender.

On the wire: gms_agree_wire.py.

Source: RELAY.md of the design, "Survivors agree"; virtual synchrony (Birman and Joseph 1987; JGroups
FLUSH stops senders, here receivers hold). Not in JGroups without FLUSH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.wire import (
    AGREE_ID,
    Goals,
    Kind,
    encode_freeze,
    encode_goals,
    encode_report,
    read_fetch,
    read_freeze,
    read_report,
)
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Fetch, Freeze, GetDigest, Release, Thaw
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import FragHeader
from jgroups_py.wire.primitives import decode_whole
from jgroups_py.wire.values import read_view_digest

if TYPE_CHECKING:
    from jgroups_py.protocols.membership.gms.protocol import GMS

_FLAGS = int(Flag.NO_FC)
_HOLDS: Final = 3
"""Times agree_timeout: for so long a survivor hands out nothing while it waits for the view. A round
may last twice agree_timeout."""


class _Round:
    """A round of ours, as its coordinator sees it."""

    def __init__(
        self,
        number: int,
        departing: tuple[Address, ...],
        staying: tuple[Address, ...],
        proposed: int,
    ) -> None:
        self.number = number
        self.departing = departing
        self.staying = staying
        self.proposed = proposed
        self.asked: dict[Address, None] = {}
        """Who was asked to report."""
        self.reports: dict[Address, Digest] = {}
        self.silent: dict[Address, None] = {}
        """Who was asked and did not report in time."""
        self.fetching: dict[Address, None] | None = None
        """Who still fetches; None: not all have reported."""
        self.goals: Goals = {}
        """What was decided."""
        self.before: dict[Address, None] = {}
        """Who was asked in rounds of ours that this one replaced, and is in none of ours now."""


class _Promise:
    """A round of another coordinator that we have reported to and that has not ended."""

    def __init__(
        self, number: int, proposed: int, staying: tuple[Address, ...], report: Digest
    ) -> None:
        self.number = number
        self.proposed = proposed
        """No view before this one is that of the round."""
        self.staying = staying
        self.report = report
        """How far we had delivered everybody."""
        self.decision: tuple[Goals, bool] | None = None
        """What it decided: goals, is an answer wanted."""


class Agreement:
    """See the module's docstring. Coordinator and survivor in one; a member may be both."""

    def __init__(self, gms: GMS) -> None:
        self.gms = gms
        self._number = 0
        self._round: _Round | None = None
        self._timer = gms.timer(self._on_timeout, "_on_agree_timeout")
        self._follows: tuple[Address, int] | None = None
        """Coordinator and counter of the round we are in; as survivor, unless it is our own."""
        self._promises: dict[Address, _Promise] = {}
        """By coordinator, the latest last; members of the view."""
        self._ended: dict[Address, int] = {}
        """By coordinator: its last round that was given up."""
        self._decided: tuple[int, tuple[Address, ...]] | None = None
        """Of the round we follow: the lowest id its view can have, and who stays. None: no goals
        yet."""
        self._ahead = False
        """We have delivered more than was decided."""
        self._fetching = False
        self._owes_done = False
        self._frozen: dict[Address, None] = {}
        self._put_off: tuple[Address, View, Digest | None] | None = None
        self._handed: ViewId | None = None
        """The view that was handed over last: its coordinator decides nothing else in that round."""
        self._patience = gms.timer(self._on_patience, "_on_agree_patience")
        self._hold = gms.timer(self._on_hold, "_on_agree_hold")
        """Runs while nothing is handed out here."""
        self._again = gms.timer(gms.changes.wake, "_on_agree_again")

    def stop(self) -> None:
        self._round = None
        self._timer.cancel()
        self._again.cancel()

    def puts_off(self, src: Address, view: View, digest: Digest | None) -> bool:
        """A view came: does it have to wait for a decision, or until we have fetched? Then it is
        handed in again."""
        if not self._waits(src, view):
            return False
        if self._put_off is None:
            self._patience.start(self.gms.patience(self.gms.config.agree_timeout))
        elif view.id < self._put_off[1].id:
            return True
        self._put_off = (src, view, digest)
        self.gms.trace("agree", step="put off", view=view)
        return True

    def _waits(self, src: Address, view: View) -> bool:
        gms, follows = self.gms, self._follows
        current, creator = gms.view, view.view_id.creator
        assert current is not None
        if isinstance(view, MergeView):
            return self._fetching and follows is not None and src == follows[0]
        if gms.config.agree_timeout == 0 or not (isinstance(creator, UUID) and creator.is_ours):
            return False
        if all(m in view for m in current):
            return False
        if follows is None or creator != follows[0] or self._decided is None:
            return self._known(view.members) is not None
        lowest_id, staying = self._decided
        other = view.id < lowest_id or any(m not in view for m in staying)
        return other or self._fetching or self._ahead or view.view_id != self._handed

    def _on_patience(self) -> None:
        assert self._put_off is not None
        gms = self.gms
        gms.agreements_timed_out += 1
        if isinstance(self._put_off[1], MergeView):
            self._fetching = False
            self._take_put_off()
        else:
            gms.trace("agree", step="left behind", view=self._put_off[1])

    def _take_put_off(self) -> None:
        self._patience.cancel()
        if self._put_off is not None:
            (src, view, digest), self._put_off = self._put_off, None
            self.gms.view_received(src, ViewDigest(view, digest))

    def view_installed(self) -> None:
        """Ends every round that is not for a later view: NAKACK2 forgets the departed. Who is asked in
        a round of ours may have had this view before us."""
        view = self.gms.view
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
        self._patience.cancel()
        self._hold.cancel()
        self._frozen.clear()

    def go_on(self) -> None:
        """The view is known below and above: rounds for a later one were told what we had before it."""
        for src, promise in self._promises.items():
            if promise.decision is None:
                promise.report = self._all_known() or Digest()
                self._report(src, promise.number, promise.report)
        if self._promises:
            self._resume()

    def _follow(self, round: tuple[Address, int] | None) -> None:
        self._follows = round
        self._decided = None
        self._ahead = False
        self._fetching = False
        self._owes_done = False

    # --- coordinator

    def reach(self, departing: tuple[Address, ...]) -> None:
        """Agree on ``departing``; then the new view is made. Again with others: starts anew."""
        if self._round is not None:
            if self._round.departing == departing and not self._waits_for_the_dead():
                return
            self.gms.agreements_restarted += 1
        self._start(departing)

    def _waits_for_the_dead(self) -> bool:
        """A leaver that was asked has died meanwhile."""
        round = self._round
        assert round is not None
        return any(
            m in round.departing and m not in round.reports and not self.gms.changes.is_leaving(m)
            for m in round.asked
        )

    def abandon(self) -> None:
        """Drop the round; somebody else decides."""
        round = self._round
        if round is not None:
            self.stop()
            for member in (*round.asked, *round.silent, *round.before):
                self._send(member, Kind.THAW, round.number, b"")

    def give_up(self) -> None:
        """Nobody departs: take the freeze back everywhere."""
        if self._round is not None:
            self.gms.trace("agree", step="given up")
            self.abandon()
            self._follow(None)
            self._let_go()

    def _start(self, departing: tuple[Address, ...]) -> None:
        gms = self.gms
        view, me = gms.view, gms.local_address
        assert view is not None
        self._number += 1
        staying = tuple(m for m in view if m not in departing)
        replaced = self._round
        round = self._round = _Round(self._number, departing, staying, gms.next_id())
        self._follow((me, self._number))
        report = self._freeze(staying)
        timeout = gms.config.agree_timeout
        leavers = tuple(m for m in departing if gms.changes.is_leaving(m))
        for member in (*staying, *leavers):
            if member != me and isinstance(member, UUID) and member.is_ours:
                round.asked[member] = None
        if replaced is not None:
            held = (*replaced.asked, *replaced.silent, *replaced.before)
            round.before = {m: None for m in held if m not in round.asked and m in view}
        if report is None or timeout == 0:
            if report is not None:
                self._decide(round, {})  # others may wait for it
            self._finish(round)
            return
        gms.agreements += 1
        round.reports[me] = report
        gms.trace("agree", step="freeze", departing=departing, asked=tuple(round.asked))
        self._timer.start(gms.patience(timeout))
        payload = encode_freeze(round.proposed, staying)
        for member in round.asked:
            self._send(member, Kind.FREEZE, round.number, payload)
        self._evaluate(round)

    def _reported(self, round: _Round, member: Address, view_id: int, digest: Digest) -> None:
        gms = self.gms
        if member not in round.asked or round.fetching is not None:
            return
        if view_id >= round.proposed:
            gms.highest_id = max(gms.highest_id, view_id)
            gms.agreements_restarted += 1
            self._start(round.departing)
            return
        round.reports[member] = digest
        self._evaluate(round)

    def _evaluate(self, round: _Round) -> None:
        if round is not self._round or any(m not in round.reports for m in round.asked):
            return
        goals = round.goals
        goals.clear()
        round.reports[self.gms.local_address] = self._all_known() or Digest()
        for member, report in round.reports.items():
            for sender, (delivered, _) in report.seqnos.items():
                if sender not in goals or delivered > goals[sender][0]:
                    goals[sender] = (delivered, member)
        lacking = [
            member
            for member, report in round.reports.items()
            if member not in round.departing
            and any(m in report and report.delivered(m) < goal[0] for m, goal in goals.items())
        ]
        round.fetching = dict.fromkeys(lacking)
        if lacking:
            self.gms.trace("agree", step="fetch", goals={s: g[0] for s, g in goals.items()})
        self._decide(round, goals)
        if self.gms.local_address in round.fetching:
            self.gms.pass_event_down(Fetch(goals))
        self._finish_if_done(round)

    def _decide(self, round: _Round, goals: Goals) -> None:
        """Tells everybody that stays; who lacks something answers when it has it."""
        payload = encode_goals(round.proposed, round.staying, goals)
        fetching = round.fetching or {}
        for member in (*round.asked, *round.silent):
            if member in round.staying:
                kind = Kind.FETCH if member in fetching else Kind.DECIDED
                self._send(member, kind, round.number, payload)

    def _done(self, round: _Round, member: Address) -> None:
        if round.fetching is not None and member in round.fetching:
            del round.fetching[member]
            self._finish_if_done(round)

    def _finish_if_done(self, round: _Round) -> None:
        if round is self._round and not round.fetching and round.fetching is not None:
            self._finish(round)

    def _on_timeout(self) -> None:
        round = self._round
        assert round is not None
        waiting = round.fetching
        if waiting is None:
            waiting = {m: None for m in round.asked if m not in round.reports}
        self.gms.agreements_timed_out += 1
        self.gms.trace("agree", step="timed out", waiting=tuple(waiting))
        self.gms.log.warning(
            "survivors did not agree in time, the view goes out without word from %s",
            ", ".join(self.gms.name_of(m) for m in waiting),
        )
        if round.fetching is not None:
            self._settle(round)
            return
        excluding = self.gms.excluding
        if excluding is not None and any(m in excluding for m in waiting):
            self.give_up()  # it may have gone on without us
            self._again.start(self.gms.patience(self.gms.config.agree_timeout))
            return
        for member in waiting:
            del round.asked[member]
            round.silent[member] = None
        self._timer.start(self.gms.patience(self.gms.config.agree_timeout))
        self._evaluate(round)

    def _settle(self, round: _Round) -> None:
        """Not all have fetched, and nobody waits any longer."""
        assert round.fetching is not None
        if self.gms.local_address in round.fetching:
            known = self._known(round.staying) or Digest()
            me = self.gms.local_address
            round.fetching = {}
            round.goals = {m: (seqnos[0], me) for m, seqnos in known.seqnos.items()}
            self._decide(round, round.goals)
        self._finish(round)

    def _finish(self, round: _Round) -> None:
        if self.gms.changes.departing != round.departing or not self.gms.changes.acting:
            self.gms.changes.wake()  # somebody else departs by now, or nobody: it looks again
            return
        if not self.gms.changes.acting:
            self.give_up()
            return
        if not self._is_at(round.goals):  # a round of another coordinator has taken us elsewhere
            self.gms.agreements_restarted += 1
            self._start(round.departing)
            return
        self.stop()
        self.gms.trace("agree", step="done", departing=round.departing)
        self.gms.changes.make_view(round.departing)

    def _is_at(self, goals: Goals) -> bool:
        """Have we delivered just that? Of members of the view; who departed before cannot be fetched."""
        view, known = self.gms.view, self._all_known() or Digest()
        assert view is not None
        return all(
            m not in known or m not in view or known.delivered(m) == goal[0]
            for m, goal in goals.items()
        )

    def hand_over(self, view: View, payload: bytes) -> None:
        """To those who hold, the multicast comes too late."""
        gms = self.gms
        assert gms.view is not None
        if self._all_known() is not None:
            for member in gms.view:
                ours = isinstance(member, UUID) and member.is_ours
                if ours and member in view and member != gms.local_address:
                    self._send(member, Kind.VIEW, 0, payload)

    # --- survivor

    def take(self, batch: Batch) -> None:
        """Messages of a round."""
        gms, src = self.gms, batch.src
        header = batch.header(AGREE_ID, FragHeader)
        if header is not None and src is not None and header.index in (Kind.ASK, Kind.HAS):
            gms.exclusion.take(batch, header)  # between members that have different views
            return
        if header is None or src is None or gms.view is None or src not in gms.view:
            gms.bad_messages += 1
            gms.trace("bad message", src=src)
            return
        for index, payload in enumerate(batch.payloads):
            try:
                self._handle(src, header.at(index), payload or b"")
            except RemoteProtocolError as error:
                gms.bad_messages += 1
                gms.trace("bad message", src=src, problem=str(error))

    def _handle(self, src: Address, header: FragHeader, payload: Any) -> None:
        round = self._round
        mine = round is not None and round.number == header.id
        match header.index:
            case Kind.FREEZE:
                proposed, staying = decode_whole(read_freeze, payload)
                self.gms.believe(proposed)
                self._freeze_wanted(src, header.id, proposed, staying)
            case Kind.REPORT:
                view_id, digest = decode_whole(read_report, payload)
                self.gms.believe(view_id)
                if mine and round is not None:
                    self._reported(round, src, view_id, digest)
            case Kind.FETCH | Kind.DECIDED:
                proposed, staying, goals = decode_whole(read_fetch, payload)
                self.gms.believe(proposed)
                answer = header.index == Kind.FETCH
                promise = self._promises.get(src)
                if promise is not None and promise.number == header.id:
                    promise.decision = goals, answer
                if self._is_for_us((src, header.id), proposed, staying):
                    self._goals_set(goals, answer)
            case Kind.DONE:
                if mine and round is not None:
                    self._done(round, src)
            case Kind.THAW:
                self._thaw_wanted(src, header.id)
            case Kind.VIEW:
                content = decode_whole(read_view_digest, payload)
                self._handed = None if content.view is None else content.view.view_id
                # Else the multicast is in its right place.
                if self._hold.armed or self._put_off is not None:
                    self.gms.view_received(src, content)
            case _:
                raise RemoteProtocolError(f"no kind of message in a round: {header.index}")

    def _freeze_wanted(
        self, src: Address, number: int, proposed: int, staying: tuple[Address, ...]
    ) -> None:
        gms = self.gms
        view = gms.view
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
        leaving = gms.local_address not in staying
        if leaving and not gms.leaver.leaving:
            return  # wrongly suspected: we neither help nor freeze
        if leaving:
            report = self._own_and_known(staying)
        else:
            report = self._freeze(staying)
            self._promises.pop(src, None)
            self._promises[src] = _Promise(number, proposed, staying, report or Digest())
        self._report(src, number, report or Digest())

    def _thaw_wanted(self, src: Address, number: int) -> None:
        """A round was given up, and all before it; what belongs to them may still come."""
        if number <= self._ended.get(src, 0):
            return
        self._ended[src] = number
        promise = self._promises.get(src)
        if promise is not None and promise.number <= number:
            del self._promises[src]
        if self._follows is not None and self._follows[0] == src and self._follows[1] <= number:
            self._follow(None)
            self._let_go()

    def _let_go(self) -> None:
        """A round was given up: back to the one before it that we have reported to, or on."""
        if not self._promises:
            self._take_put_off()
            self._thaw(tuple(self._frozen))
            self._release()
            return
        self._resume()
        self._take_put_off()

    def _resume(self) -> None:
        """We hold for the latest round that we have reported to."""
        src, promise = next(reversed(self._promises.items()))
        self._freeze(promise.staying)
        if self._follows != (src, promise.number):
            self._follow((src, promise.number))
            if promise.decision is not None:
                self._decided = promise.proposed, promise.staying
                self._goals_set(*promise.decision)

    def _is_for_us(
        self, round: tuple[Address, int], proposed: int, staying: tuple[Address, ...]
    ) -> bool:
        """A decision came; afterwards we follow its round."""
        gms, follows = self.gms, self._follows
        assert gms.view is not None
        if gms.view.id >= proposed or gms.local_address not in staying:
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

    def _goals_set(self, goals: Goals, answer: bool) -> None:
        assert self._decided is not None
        known, staying = self._all_known() or Digest(), self._decided[1]
        more = {m: known.delivered(m) - goal[0] for m, goal in goals.items() if m in known}
        behind = any(n < 0 for n in more.values())
        strict = self._counted(goals)
        self._ahead = any(n > 0 and (strict or m not in staying) for m, n in more.items())
        self._owes_done = answer
        self._fetching = answer or behind
        if self._ahead:
            self.gms.trace("agree", step="ahead", goals={s: g[0] for s, g in goals.items()})
        if self._fetching:
            self.gms.pass_event_down(Fetch(goals))
        else:
            self._take_put_off()

    def _counted(self, goals: Goals) -> bool:
        """Did our report to the round we follow come in time?"""
        src, number = self._follows or (None, 0)
        promise = None if src is None else self._promises.get(src)
        if promise is None or promise.number != number:
            return False
        report = promise.report
        return all(m in goals and n <= goals[m][0] for m, (n, _) in report.seqnos.items())

    def _report(self, to: Address, number: int, digest: Digest) -> None:
        assert self.gms.view is not None
        self._send(to, Kind.REPORT, number, encode_report(self.gms.view.id, digest))

    def fetched(self) -> None:
        """NAKACK2 has delivered what it was told to fetch."""
        round = self._round
        if round is not None and round.fetching is not None:
            self._done(round, self.gms.local_address)
        elif self._fetching and self._follows is not None:
            self._fetching = False
            if self._owes_done:
                self._owes_done = False
                self._send(self._follows[0], Kind.DONE, self._follows[1], b"")
            self._take_put_off()

    # --- both

    def _known(self, staying: tuple[Address, ...]) -> Digest | None:
        """How far senders not in ``staying`` have been delivered; None without NAKACK2."""
        digest = self._all_known()
        if digest is None:
            return None
        return Digest({m: seqnos for m, seqnos in digest.seqnos.items() if m not in staying})

    def _all_known(self) -> Digest | None:
        """How far every sender has been delivered; None without NAKACK2."""
        digest: Digest | None = self.gms.ask_down(GetDigest(None))
        return digest

    def _own_and_known(self, staying: tuple[Address, ...]) -> Digest | None:
        """A leaver's report: it has all that it ever sent, delivered here yet or not."""
        known = self._known(staying)
        me = self.gms.local_address
        if known is None or me not in known:
            return known
        sent = known.received(me)
        return Digest({**known.seqnos, me: (sent, sent)})

    def _freeze(self, staying: tuple[Address, ...]) -> Digest | None:
        """Nothing more from anybody but ``staying``, and theirs waits for the view; how far everybody
        has been delivered."""
        view = self.gms.view
        assert view is not None
        known = self._known(staying)
        departed = dict.fromkeys(known or ())
        departed.update((m, None) for m in view if m not in staying)
        self._thaw(tuple(m for m in self._frozen if m not in departed))
        self._frozen.update(departed)
        report = self._all_known()
        if report is None:
            return None
        self.gms.pass_event_down(Freeze(tuple(departed)))
        if not self._hold.armed:
            self._hold.start(self.gms.patience(_HOLDS * self.gms.config.agree_timeout))
        return report

    def _thaw(self, members: tuple[Address, ...]) -> None:
        for member in members:
            self._frozen.pop(member, None)
        if members:
            self.gms.pass_event_down(Thaw(members))

    def _release(self) -> None:
        if self._hold.armed:
            self._hold.cancel()
            self.gms.pass_event_down(Release())

    def _on_hold(self) -> None:
        """The coordinator is gone or cut off: better go on."""
        self.gms.holds_expired += 1
        self._promises.clear()
        self.gms.trace("agree", step="held for too long")
        self.gms.pass_event_down(Release())

    def _send(self, dest: Address, kind: Kind, number: int, payload: bytes) -> None:
        header = FragHeader(number, kind, 0)
        self.gms.pass_down(Batch.of(dest, AGREE_ID, header, payload=payload, flags=_FLAGS))

    def check(self) -> None:
        gms = self.gms
        round = self._round
        assert self._timer.armed == (round is not None)
        assert not self._patience.armed or self._put_off is not None
        if round is not None:
            assert gms.view is not None and gms.changes.acting
            assert all(m in gms.view for m in round.departing)
        assert gms.local_address not in self._frozen
        assert not self._promises or (gms.view is not None and self._hold.armed)
