"""The duties of a relay at intervals: acknowledge the numbers that all its members have, trim, forget, give up missing
numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.holders.collect import CopyHolding
from jgroups_py.protocols.relay.home.departures import Departures
from jgroups_py.protocols.relay.home.keep import CopyKeeping
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.control import ControlRecords
from jgroups_py.protocols.relay.site.forgetting import Forgetting
from jgroups_py.protocols.relay.site.joining import Joining
from jgroups_py.protocols.relay.site.reports import Reports
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState, minimum
from jgroups_py.protocols.relay.wire import Begun, Lack, Report, Trim
from jgroups_py.values.address import Address


class RelayDuty:
    """Owns the reports of the members. ``ask_round`` begins a round of COLLECT that was prepared."""

    def __init__(
        self,
        config: RelayConfig,
        out: RelayOut,
        roles: Roles,
        state: RelayState,
        control: ControlRecords,
        keeping: CopyKeeping,
        departures: Departures,
        trimming: Trimming,
        origins: Origins,
        holding: CopyHolding,
        joining: Joining,
        direction: Direction,
        bridge: RelayBridge,
        forgetting: Forgetting,
        ask_round: Callable[[], None],
    ) -> None:
        self.reports = Reports()
        self._config = config
        self._out = out
        self._roles = roles
        self._state = state
        self._control = control
        self._keeping = keeping
        self._departures = departures
        self._trimming = trimming
        self._origins = origins
        self._holding = holding
        self._joining = joining
        self._direction = direction
        self._bridge = bridge
        self._forgetting = forgetting
        self._ask_round = ask_round

    # --- reports of members

    def on_report(self, src: Address, report: Report) -> None:
        roles = self._roles
        if src in roles.line or report.view[1] > roles.key[1]:
            self.reports.take(src, report)
            self._out.wake()

    def on_lack(self, src: Address, lack: Lack) -> None:
        """Make the relays of ``lack.site`` go back, because a member has less than it had reported."""
        if self._roles.is_relay:
            for origin, number in lack.numbers.items():
                self.reports.lower(src, lack.site, origin, number)
            self._bridge.go_back(lack.site, lack.numbers)

    def complete_holders(self) -> int:
        """Count the other members that report to be complete holders."""
        return self.reports.complete(self._roles.key, self._roles.other_holders)

    # --- at intervals

    def tend(self) -> bool:
        """Carry out due duties. True: some duties still wait."""
        roles, state, bridge = self._roles, self._state, self._bridge
        # Before departed members are dropped: only members that are not blind tell other sites of them.
        waiting = self._joining.see_again(self._config.gap_wait)
        digests = self.reports.digests(roles.key, roles.others)
        if digests is not None and not self._joining.waits:
            lowest = minimum([state.site_digest, *digests])
            bridge.acknowledge(lowest, tell=not self._departures.may_be_cut_off)
            self._say_begun()
            waiting |= bridge.look_for_stuck(lowest)
        self._trim()
        self._forget_departed()
        waiting |= bool(self._trimming.forgetting) or bool(self._departures.gone_at)
        waiting |= self.give_up_missing()
        if len(state.delivered) > self._config.max_origins:
            self._out.log.warning("%d origins are known", len(state.delivered))
        return waiting

    def _say_begun(self) -> None:
        """When all members have reported in this view, announce that all know where they begin."""
        if self._joining.all_have_begun():
            members = [bytes(m) for m in self._roles.line]
            self._out.multicast(lambda serial: Begun(serial, members))

    def _trim(self) -> None:
        """Tell the site which numbers all other sites have acknowledged."""
        trimming, trimmed = self._trimming, self._state.trimmed
        sites = list(self._state.sites)
        news: dict[bytes, int] = {}
        if sites and self._direction.is_relaying:
            acknowledged = partial(self._bridge.sessions.acknowledged, sites)
            news = trimming.due(self._origins.origins(), trimmed, acknowledged)
            for origin in [o for o, number in news.items() if number > trimmed.get(o, 0)]:
                self._state.trim_to(origin, news[origin])
                self._keeping.trim_to(origin, news[origin])
        if not news and not trimming.trim_all:
            return
        serial = self._out.multicast(lambda serial: Trim(serial, news, sites))
        trimming.told(news, serial)
        self._keeping.check_block()

    def _forget_departed(self) -> None:
        """Forget departed origins, in three steps: see design/relay.md, "Forgetting"."""
        forgetting = self._forgetting
        forgetting.end_told(self._is_stable)
        forgetting.drop_silent()
        if not self._direction.is_relaying:
            forgetting.forget_gone()
        elif self._state.sites and self.complete_holders() >= len(self._roles.other_holders):
            forgetting.tell(self._is_stable)

    def _is_stable(self, serial: int) -> bool:
        """Have all members delivered our multicast ``serial``?"""
        roles = self._roles
        if self._control.serial_of(roles.me) < serial:
            return False
        lowest = self.reports.serial(roles.key, roles.others)
        return lowest is None or lowest >= serial

    def give_up_missing(self) -> bool:
        """Send GAPs for numbers that no buffer has. True while some are missing."""
        holding, bridge, wait = self._holding, self._bridge, self._config.gap_wait
        now = self._out.now
        since = bridge.sessions.stalled_since()
        if since is None:
            return False
        if holding.round is not None or now < self._departures.shrunk_at + wait:
            return True
        if not bridge.is_sole(self._config.site):
            return True
        if now >= since + wait:
            if holding.looked_at < since and self._keeping.buffer.fill < 0.5:
                holding.new_round(complete=holding.complete, second_look=True)
                self._ask_round()
            else:
                bridge.send_gaps(wait)
        return True
