"""What a relay does at intervals: acknowledge, trim, forget, and give up what no buffer has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.state import Numbers, SiteNumbers, minimum
from jgroups_py.protocols.relay.wire import SEQNO_MAX, Begun, Forget, Lack, Trim, ViewKey
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Home:
    """The relay's part; other members keep the times of departures only."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.begun_said: ViewKey | None = None
        """The view in which Begun was multicast last."""
        self.trim_all = False
        """The next trim repeats everything (for joiners, after a take-over)."""
        self.forget_all = False
        """The next COLLECT is followed by all that is forgotten (after a merge)."""
        self.trim_serials: dict[bytes, int] = {}
        """Which of our multicasts told the newest trim of an origin."""
        self.forgetting: dict[bytes, int] = {}
        """Origins for which FORGET is on its way, and its serial number."""
        self.gone_at: dict[bytes, float] = {}
        """Departed origins that are not forgotten yet."""
        self.shrunk_at = -1e9
        self.lost_at: dict[Address, float] = {}
        """Members that went from the view, nobody knows why, for ``cut_off_wait``."""
        self.lost_timer = relay.timer(self.forget_lost, "_on_lost_long_ago")
        self.looked_at = -1e9
        """When other members' buffers were last searched for what is missing."""
        self.second_look = False
        self.stuck: dict[tuple[str, bytes], tuple[int, float]] = {}
        self.lack_until: dict[tuple[str, bytes], tuple[int, float]] = {}

    def view_changed(self) -> None:
        self.lack_until = {}

    def step_down(self) -> None:
        """Another member is relay now."""
        self.forget_all = False
        self.forgetting = {}
        self.trim_serials = {}

    def note_lost(self, old_line: Sequence[Address], ended: Sequence[Address]) -> None:
        """At a view; ``old_line`` is that of the one before, and ``ended`` do not live."""
        relay = self.relay
        assert relay.view is not None
        present = relay.view.members
        for member in old_line:
            if member not in present:
                self.shrunk_at = self.lost_at[member] = relay.now
                self.gone_at.setdefault(bytes(member), relay.now)
        for member in [m for m in self.lost_at if m in present or m in ended]:
            del self.lost_at[member]
        self.forget_lost()
        if relay.is_relay and self.may_be_cut_off:
            relay.counters.cut_off += 1
            relay.trace("cut_off", missing=[relay.name_of(m) for m in self.lost_at])

    def forget_lost(self) -> None:
        """Those who have been missing for so long will not come back."""
        relay = self.relay
        wait = relay.config.cut_off_wait
        cut_off, missing = self.may_be_cut_off, len(self.lost_at)
        self.lost_at = {m: at for m, at in self.lost_at.items() if at + wait > relay.now}
        if self.lost_at:
            self.lost_timer.start_at(min(self.lost_at.values()) + wait)
        else:
            self.lost_timer.cancel()
        if relay.is_relay and cut_off and not self.may_be_cut_off and missing > len(self.lost_at):
            relay.log.warning("acknowledging again what %d missing members may lack", missing)
        relay.out.wake()

    @property
    def may_be_cut_off(self) -> bool:
        """Are as many missing as are here, or more? If they live, theirs is the site: what they lack
        must stay where it came from until they are back."""
        return len(self.lost_at) >= len(self.relay.line)

    def note_departed(self) -> None:
        relay = self.relay
        assert relay.view is not None
        present = relay.view.members
        for origin in relay.origins():
            if origin not in present:
                self.gone_at.setdefault(origin, relay.now)
        for member in relay.line:
            relay.state.is_back(bytes(member))
        for origin in [o for o in self.gone_at if o in present]:
            del self.gone_at[origin]

    def tick(self) -> bool:
        """The relay's part; True: there is more to wait for."""
        relay = self.relay
        others = [m for m in relay.line if m != relay.local_address]
        waiting = False
        digests = relay.reports.digests(relay.view_key, others)
        if digests is not None and not relay.joining.waits:
            lowest = minimum([relay.state.site_digest, *digests])
            relay.bridge.acknowledge(lowest, tell=not self.may_be_cut_off)
            self.say_begun()
            waiting = self.look_for_stuck(lowest)
        self.trim()
        self.forget(others)
        waiting |= bool(self.forgetting) or bool(self.gone_at)
        waiting |= self.give_up_missing()
        if len(relay.state.delivered) > relay.config.max_origins:
            relay.log.warning("%d origins are known", len(relay.state.delivered))
        return waiting

    def say_begun(self) -> None:
        """All members have reported in this view, so all know where they begin."""
        relay = self.relay
        if relay.joining.fresh and self.begun_said != relay.view_key:
            self.begun_said = relay.view_key
            members = [bytes(m) for m in relay.line]
            relay.out.multicast(lambda serial: Begun(serial, members))

    def look_for_stuck(self, lowest: SiteNumbers) -> bool:
        """A member that stays behind what was multicast here, without having noticed, gets it
        again. True: some are behind."""
        relay = self.relay
        stuck = {}
        for site, numbers in relay.bridge.forwarded.items():
            for origin, number in numbers.items():
                have = lowest.get(site, {}).get(origin, 0)
                if have >= number:
                    continue
                seen = self.stuck.get((site, origin))
                if seen is None or seen[0] != have:
                    seen = (have, relay.now + 3 * relay.config.retry_interval)
                if relay.now >= seen[1] and not relay.bridge.local_blocked:
                    numbers[origin] = have
                    relay.bridge.ask_back(site, origin)
                else:
                    stuck[site, origin] = seen
        self.stuck = stuck
        return bool(stuck)

    def trim(self) -> None:
        relay = self.relay
        news: Numbers = {}
        trimmed = relay.state.trimmed
        sites = list(relay.state.sites)
        if sites and relay.is_relaying:
            for origin, have in trimmed.items() if self.trim_all else ():
                if origin not in self.forgetting:
                    news[origin] = have
            for origin in relay.origins():
                if origin in self.forgetting:
                    continue
                number = relay.bridge.acknowledged(sites, origin)
                if number > trimmed.get(origin, 0):
                    trimmed[origin] = news[origin] = number
                    relay.buffer.trim(origin, number)
        if not news and not self.trim_all:
            return
        self.trim_all = False
        serial = relay.out.multicast(lambda serial: Trim(serial, news, sites))
        for origin in news:
            self.trim_serials[origin] = serial
        relay.keeping.check_block()

    def is_stable(self, serial: int, others: list[Address]) -> bool:
        """Have all members delivered our multicast ``serial``?"""
        relay = self.relay
        if relay.control.serial_of(relay.local_address) < serial:
            return False
        lowest = relay.reports.serial(relay.view_key, others)
        return lowest is None or lowest >= serial

    def forget(self, others: list[Address]) -> None:
        """Departed origins, in three steps: see RELAY.md, "Joiners, restarts, forgetting"."""
        relay = self.relay
        told = [o for o, serial in self.forgetting.items() if self.is_stable(serial, others)]
        if told:
            self.end_forgetting(told)
            relay.bridge.tell_known()
        self.forget_silent()
        if not relay.is_relaying:
            self.forget_without_asking()
            return
        holders = [
            m for m in relay.line[: relay.config.buffering_members] if m != relay.local_address
        ]
        if relay.reports.complete(relay.view_key, holders) < len(holders) or not relay.state.sites:
            return
        due = [o for o, at in self.gone_at.items() if self.may_forget(o, at, others)]
        if due:
            for origin in due:
                del self.gone_at[origin]
            serial = relay.out.multicast(lambda serial: Forget(serial, "", due))
            for origin in due:
                self.forgetting[origin] = serial

    def end_forgetting(self, origins: list[bytes]) -> None:
        """All at home have forgotten them: so do sessions with other sites."""
        for origin in origins:
            self.forgetting.pop(origin, None)
            self.trim_serials.pop(origin, None)
            for session in self.relay.bridge.sessions.values():
                session.forget(origin)

    def forget_again(self) -> None:
        """Members that come back by a merge have missed what was forgotten meanwhile."""
        relay = self.relay
        if self.forget_all:
            self.forget_all = False
            gone = relay.state.forgotten()
            if gone:
                serial = relay.out.multicast(lambda serial: Forget(serial, "", gone))
                # Sessions of before the merge, and the other sites, may know them from here.
                self.forgetting.update(dict.fromkeys(gone, serial))

    def forget_silent(self) -> bool:
        """Departed members of which nothing is remembered, after a while; True: some are left."""
        relay = self.relay
        silent = [o for o in self.gone_at if self.was_silent(o)]
        due = [o for o in silent if relay.now >= self.gone_at[o] + relay.config.gap_wait]
        for origin in due:
            relay.state.is_over(origin)
        relay.drop(due)
        if due:
            # Other sites may have heard of it from a relay of another half of ours.
            self.end_forgetting(due)
            relay.bridge.tell_known()
        return len(due) < len(silent)

    def was_silent(self, origin: bytes) -> bool:
        relay = self.relay
        return not (
            relay.known(origin) or origin in relay.state.trimmed or relay.buffer.last(origin)
        )

    def may_forget(self, origin: bytes, gone_at: float, others: list[Address]) -> bool:
        relay = self.relay
        if relay.now < gone_at + relay.config.gap_wait or origin in self.forgetting:
            return False
        if relay.state.is_forgotten(origin):
            return True  # by others, who had no time to tell us so: no site acknowledges it again
        acked = relay.bridge.acknowledged(list(relay.state.sites), origin)
        # What is from before the site was primary is never relayed.
        acked = max(acked, relay.state.base.get(origin, 0))
        if acked < relay.known(origin) or acked < relay.buffer.last(origin):
            return False
        serial = self.trim_serials.get(origin)
        if serial is None:
            self.trim_all = True
            return False
        return self.is_stable(serial, others)

    def forget_without_asking(self) -> None:
        """Departed members of a site that does not relay: nobody else knows them."""
        if self.gone_at:
            gone = list(self.gone_at)
            self.relay.forget(gone)
            self.end_forgetting(gone)

    def give_up_missing(self) -> bool:
        """GAPs for what no buffer has; True while something is missing."""
        relay = self.relay
        stalled = [s for s in relay.bridge.sessions.values() if s.stalled]
        if not stalled or relay.holding.round is not None:
            return bool(stalled)
        wait = relay.config.gap_wait
        if relay.now < self.shrunk_at + wait or not relay.bridge.is_sole(relay.config.site):
            return True
        since = min(at for s in stalled for at in s.stalled.values())
        if relay.now >= since + wait:
            if self.looked_at < since and relay.buffer.fill < 0.5:
                relay.holding.new_round()
                self.second_look = True
                relay.holding.ask_round()
            else:
                relay.bridge.send_gaps(wait)
        return True

    def on_lack(self, src: Address, lack: Lack) -> None:
        relay = self.relay
        if not relay.is_relay:
            return
        forwarded = relay.bridge.forwarded.setdefault(lack.site, {})
        for origin, number in lack.numbers.items():
            relay.reports.lower(src, lack.site, origin, number)
            at, until = self.lack_until.get((lack.site, origin), (SEQNO_MAX, 0.0))
            if number < forwarded.get(origin, 0) and (number < at or relay.now >= until):
                self.lack_until[lack.site, origin] = (
                    number,
                    relay.now + relay.config.retry_interval,
                )
                forwarded[origin] = number
                relay.bridge.ask_back(lack.site, origin)
