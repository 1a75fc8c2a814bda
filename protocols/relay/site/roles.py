"""What a view of the site means for RELAY: who is relay, who holds, what the departed leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.wire import key_of
from jgroups_py.values.address import UUID
from jgroups_py.values.events import FlowOpened, ViewChange
from jgroups_py.values.view import MergeView, View

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Roles:
    """Changes ``relay.view``, ``view_key`` and ``line``; the other parts are told what follows."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay

    def on_view(self, event: ViewChange) -> None:
        relay, view = self.relay, event.view
        old, old_line = relay.view, relay.line
        was_relay, was_holder = relay.is_relay, relay.is_holder
        merged = isinstance(view, MergeView)
        me = relay.local_address
        relay.view = view
        relay.line = tuple(
            m for m in view.members if m == me or (isinstance(m, UUID) and m.is_ours)
        )
        relay.view_key = key_of(view)
        if old is None and relay.line[0] != me and not merged:
            relay.joining.joined_with = relay.view_key
        elif old is None:
            relay.joining.begin_anywhere()
        relay.home.note_lost(old_line, event.ended)
        self._forget(view)
        joined = [m for m in relay.line if m not in old_line and m != me]
        if not relay.joining.joined_with:
            relay.joining.remember_view(joined)
            if joined and relay.is_relay and not merged and old is not None:
                relay.home.trim_all = True
                relay.joining.tell_joiners(joined)
        elif relay.is_relay:
            relay.joining.begin_anywhere()
        relay.joining.see_again()
        self._change(was_relay, was_holder, merged)
        was_blocked = relay.keeping.view_changed()
        relay.trace("view", relay=relay.name_of(relay.line[0]), size=len(relay.line))
        relay.pass_event_up(event)
        if was_blocked:
            relay.pass_event_up(FlowOpened(relay.name, None))
        self._settle()

    def _forget(self, view: View) -> None:
        """What the departed leave behind. Copies above what survivors delivered go (the Cut)."""
        relay = self.relay
        present = view.members
        if not relay.joining.joined_with:
            relay.holding.cut()
        for member in [m for m in relay.holding.floors if m not in present]:
            del relay.holding.floors[member]
        for member in [m for m in relay.serials if m not in present]:
            del relay.serials[member]
        relay.home.note_departed()
        relay.reports.keep(relay.line)
        for key in [k for k in relay.joining.early if k[0] not in present]:
            del relay.joining.early[key]

    def _change(self, was_relay: bool, was_holder: bool, merged: bool) -> None:
        relay = self.relay
        relay.reporting.view_changed()
        relay.home.view_changed()
        if was_relay and not relay.is_relay:
            relay.bridge.close()
            relay.bridge.forwarded = {}
            relay.announced = relay.state.epoch
            relay.home.step_down()
            relay.leaving.abandon()
        if relay.is_relay and not was_relay:
            relay.takeovers += 1
            relay.announced = max(relay.announced, relay.state.epoch)
            relay.trace("takeover", phase="collect")
        if not relay.is_holder:
            relay.holding.complete = False
            relay.holding.round = None
        elif (
            merged
            or not was_holder
            or relay.holding.round is not None  # it asks members that may have gone
            or (relay.is_relay and not was_relay)
        ):
            relay.holding.complete = False
            relay.holding.merged = relay.holding.merged or merged
            relay.home.forget_all = relay.home.forget_all or (merged and relay.is_relay)
            relay.holding.new_round()

    def _settle(self) -> None:
        relay = self.relay
        relay.joining.early_records()
        if relay.holding.round is not None:
            relay.holding.ask_round()
        if relay.joining.joined_with:
            relay.arm_retry()
        elif relay.joining.queue:
            relay.joining.release()
        # What only the departed did not have may go out now.
        relay.bridge.pump_all()
        relay.reporting.send()
        relay.wake()
