"""RELAY with one rule switched off at a time: the explorer must find the fault."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from jgroups_py.protocols.relay.bridge.session import RelaySession
from jgroups_py.protocols.relay.holders.collect import Collect
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.relay.site.reports import Reports
from jgroups_py.protocols.relay.wire import Known, ViewKey
from jgroups_py.values.batch import Batch


class NoCollect(RELAY):
    """A new holder asks no member."""

    def start(self) -> None:
        super().start()
        holding = self.holding

        def new_round(*, complete: bool = False, second_look: bool = False) -> None:
            type(holding).new_round(holding, complete=complete, second_look=second_look)
            holding.round = Collect(self.roles.key, [])

        holding.new_round = new_round  # type: ignore[method-assign]


class NoOwnCopies(RELAY):
    """Origins keep no copies of their own messages."""

    def start(self) -> None:
        super().start()
        keep = self.keeping.keep

        def keep_others(origin: bytes, first: int, batch: Batch) -> None:
            if origin != self.roles.me or self.is_holder:
                keep(origin, first, batch)

        self.keeping.keep = keep_others  # type: ignore[method-assign]


class ForwardedFromOwn(RELAY):
    """A new relay uses its own digest instead of the lowest at its site."""

    def start(self) -> None:
        super().start()
        forwarded = self.bridge.forwarded

        def restart(lowest: Any) -> None:
            forwarded.sites = {s: dict(n) for s, n in self.state.site_digest.items()}

        forwarded.restart = restart  # type: ignore[method-assign]
        self.bridge.look_for_stuck = lambda lowest: False  # type: ignore[method-assign]


class NotOnlyNext(RELAY):
    """Members deliver arriving messages, even beyond gaps."""

    def start(self) -> None:
        super().start()
        incoming = self.incoming

        def take(site: str, origin: bytes, first: int, last: int) -> int | None:
            if first > self.state.has(site, origin) + 1:
                self.state.advance(site, origin, first - 1)
            return type(incoming).take(incoming, site, origin, first, last)

        incoming.take = take  # type: ignore[method-assign]


class TrimToldOnce(RELAY):
    """An acknowledgement is not repeated in a new session."""

    def start(self) -> None:
        super().start()
        told: dict[str, dict[bytes, int]] = {}
        bridge = self.bridge

        def acknowledge(lowest: Any, *, tell: bool) -> None:
            for session in bridge.sessions.values():
                session.told = told.setdefault(session.site, {})
            type(bridge).acknowledge(bridge, lowest, tell=tell)

        bridge.acknowledge = acknowledge  # type: ignore[method-assign]


class JoinersBeginAnywhere(RELAY):
    """A joiner does not get the numbers at which it begins."""

    def _begin_with(self, known: Known) -> None:
        super()._begin_with(replace(known, site_digest={}))


class NoCut(RELAY):
    """Copies of messages that no member delivered stay."""

    def start(self) -> None:
        super().start()
        buffer, origins = self.buffer, self.origins
        buffer.max_age = 0.0

        def cut(origin: bytes, above: int) -> int:
            return 0 if above > 0 else type(buffer).cut(buffer, origin, above)

        def known(origin: bytes) -> int:
            return max(type(origins).known(origins, origin), buffer.last(origin))

        buffer.cut = cut  # type: ignore[method-assign]
        origins.known = known  # type: ignore[method-assign]


class AnyReportCounts(RELAY):
    """Reports of older views count as new ones, and members without a report are left out."""

    def start(self) -> None:
        super().start()
        self.duty.reports = _AnyReports()


class _AnyReports(Reports):
    def digests(self, view: ViewKey, members: Any) -> Any:
        return [m.digest for a, m in self._members.items() if a in members]


class ForgetAtOnce(RELAY):
    """Departed origins are forgotten at once."""

    def start(self) -> None:
        super().start()

        def may_forget(origin: bytes, acknowledged: Any, is_stable: Any) -> bool:
            return origin not in self.trimming.forgetting

        self.forgetting._may_forget = may_forget  # type: ignore[method-assign]


class SendsBeforeAsking(RELAY):
    """A session begins before the answer; this relay's own numbers are the cursor."""

    def start(self) -> None:
        super().start()
        bridge = self.bridge
        ask = type(bridge).ask

        def ask_and_go(session: RelaySession, again: bool = False) -> None:
            ask(bridge, session, again)
            session.answered(dict(self.state.delivered), {})

        bridge.ask = ask_and_go  # type: ignore[method-assign]


class LowerNumbers(RELAY):
    """The seed's text taken literally: messages that the other side has are replayed, the others are dropped."""

    def start(self) -> None:
        super().start()
        self.holding.looked_at = 1e9  # and does not search it elsewhere
        bridge = self.bridge

        def on_have(session: RelaySession, have: Any) -> None:
            if have.token:
                for origin, number in have.numbers.items():
                    self.buffer.cut(origin, number)
            type(bridge)._on_have(bridge, session, have)

        bridge._on_have = on_have  # type: ignore[method-assign]


RULES = {
    "collect": NoCollect,
    "own copies": NoOwnCopies,
    "forwarded from the minimum": ForwardedFromOwn,
    "next only": NotOnlyNext,
    "repeated trim": TrimToldOnce,
    "joiner's digest": JoinersBeginAnywhere,
    "cut": NoCut,
    "reports by view": AnyReportCounts,
    "forget by stability": ForgetAtOnce,
    "session before sending": SendsBeforeAsking,
}
