"""Being a holder: COLLECT, seen from the member that asks and from those that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.holders.collect import Collect
from jgroups_py.protocols.relay.state import Numbers, minimum
from jgroups_py.protocols.relay.wire import (
    CollectAnswer,
    CollectAsk,
    Fetch,
    Fetched,
    Ranges,
)
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Holding:
    """``complete``: this member has collected since it is in line."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.round: Collect | None = None
        self.complete = False
        self.floors: dict[Address, Numbers] = {}
        """What others said in the last round to have delivered beyond what was here."""
        self.merged = False
        """There was a merge: others may have delivered what never comes here."""

    def known(self, origin: bytes) -> int:
        """The highest number of a home origin that a survivor is known to have delivered."""
        relay = self.relay
        own = relay.state.delivered.get(origin, 0)
        if not self.floors or (not self.merged and relay.is_member(origin)):
            return own
        view = () if relay.view is None else relay.view.members
        return max(own, *(n.get(origin, 0) if m in view else 0 for m, n in self.floors.items()))

    def cut(self) -> None:
        """Copies of the departed above what survivors delivered go."""
        relay = self.relay
        for origin in relay.buffer.origins():
            if not relay.is_member(origin):
                relay.buffer.cut(origin, relay.known(origin))

    def ask_silent_ones(self) -> bool:
        """Asks those again that have not answered; True while there are any."""
        if self.round is None or not self.round.silent:
            return False
        for member in self.round.silent:
            self.relay.out.tell(member, CollectAsk(self.round.view))
        return True

    def new_round(self) -> None:
        relay = self.relay
        relay.home.second_look = False
        self.round = Collect(relay.view_key, [m for m in relay.line if m != relay.local_address])

    def collect_again(self) -> None:
        """What a state contains has not come by here, so nothing of it was kept."""
        relay = self.relay
        if not relay.is_holder:
            return
        relaying = relay.is_relay and self.complete
        self.complete = False
        self.new_round()
        relay.home.second_look = relaying  # its sessions go on
        relay.report()
        self.ask_round()

    def ask_round(self) -> None:
        relay = self.relay
        if self.round is None or relay.joining.joined_with:
            return
        self.ask_silent_ones()
        relay.out.ask_again()
        self.go_on()

    def on_ask(self, src: Address, ask: CollectAsk) -> None:
        relay = self.relay
        if ask.view[1] < relay.view_key[1]:
            return
        if ask.view != relay.view_key or relay.joining.waits:
            relay.joining.keep_early(src, ask)
            return
        ranges = {origin: relay.buffer.ranges(origin) for origin in relay.buffer.origins()}
        relay.out.tell(src, CollectAnswer(relay.view_key, relay.known_here(), ranges))

    def on_answer(self, src: Address, answer: CollectAnswer) -> None:
        if self.round is not None and answer.view == self.round.view:
            self.round.answered(src, answer)
            self.relay.learn(answer.known, digest=False)
            self.go_on()

    def on_fetch(self, src: Address, fetch: Fetch) -> None:
        relay = self.relay
        room = relay.config.fetch_bytes
        rest: Ranges = {}
        for origin, spans in fetch.ranges.items():
            for first, last in spans:
                at: int | None = first
                while room > 0 and at is not None and at <= last:
                    found = relay.buffer.get(origin, at, last, room)
                    if found is None:
                        at = relay.buffer.next_above(origin, at)
                        continue
                    run, payloads = found
                    relay.out.send_copy(src, origin, at, payloads, run.flags, run.type)
                    room -= max(1, run.size * len(payloads) // run.count)
                    at += len(payloads)
                if at is not None and at <= last:
                    rest.setdefault(origin, []).append((at, last))
        relay.out.tell(src, Fetched(fetch.view, rest))

    def on_fetched(self, src: Address, fetched: Fetched) -> None:
        if self.round is not None and fetched.view == self.round.view:
            self.round.fetched(src, fetched.rest)
            self.go_on()

    def go_on(self) -> None:
        relay = self.relay
        collect = self.round
        if collect is None or relay.joining.joined_with:
            return
        relay.keeping.trim()
        fetch = collect.next_fetch(relay.buffer, relay.state.trimmed)
        if fetch is not None:
            relay.out.tell(fetch[0], Fetch(collect.view, fetch[1]))
        elif collect.complete:
            self.collected(collect)

    def collected(self, collect: Collect) -> None:
        relay = self.relay
        self.round = None
        self.complete = True
        here = relay.state.delivered
        said = {m: relay.state.remembered(numbers) for m, numbers in collect.delivered.items()}
        more = {m: {o: n for o, n in s.items() if n > here.get(o, 0)} for m, s in said.items()}
        self.floors = {m: numbers for m, numbers in more.items() if numbers}
        relay.home.note_departed()
        self.cut()
        relay.keeping.trim()
        relay.trace("collected", messages=relay.buffer.messages, relay=relay.is_relay)
        if relay.home.second_look:
            relay.home.second_look = False
            relay.home.looked_at = relay.now
            relay.bridge.pump_all()
        elif relay.is_relay:
            own = relay.state.site_digest
            relay.bridge.forwarded = minimum([own, *collect.site_digests])
            relay.announced = max(relay.announced, relay.state.epoch)
            relay.direction.repeat(collect.answers.values())
            relay.home.trim_all = True
            relay.home.forget_again()
            if relay.bridge.is_open:
                relay.bridge.restart()
            elif not relay.leaving.done:
                relay.trace("takeover", phase="join")
                relay.bridge.open()
        else:
            relay.report()
        relay.out.wake()
