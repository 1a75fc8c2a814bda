"""RELAY with one rule switched off each: the explorer must find what that breaks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from jgroups_py.protocols.relay.bridge.session import Session
from jgroups_py.protocols.relay.holders.collect import Collect
from jgroups_py.protocols.relay.home.buffer import Buffer
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.relay.site.reports import Reports
from jgroups_py.protocols.relay.wire import Known, ViewKey
from jgroups_py.values.batch import Batch


class NoCollect(RELAY):
    """A new holder asks nobody."""

    def start(self) -> None:
        super().start()
        holding = self.holding

        def new_round() -> None:
            holding.round = Collect(self.view_key, [])

        holding.new_round = new_round  # type: ignore[method-assign]


class NoOwnCopies(RELAY):
    """Origins keep nothing of their own."""

    def start(self) -> None:
        super().start()
        keep = self.keeping.keep

        def keep_others(origin: bytes, first: int, batch: Batch) -> None:
            if origin != self._me or self.is_holder:
                keep(origin, first, batch)

        self.keeping.keep = keep_others  # type: ignore[method-assign]


class ForwardedFromOwn(RELAY):
    """A new relay goes by its own digest, not by the lowest at its site."""

    def start(self) -> None:
        super().start()
        holding = self.holding

        def collected(collect: Collect) -> None:
            type(holding).collected(holding, collect)
            if self.is_relay:
                self.bridge.forwarded = {s: dict(n) for s, n in self.state.site_digest.items()}

        holding.collected = collected  # type: ignore[method-assign]
        self.home.look_for_stuck = lambda lowest: False  # type: ignore[method-assign]


class NotOnlyNext(RELAY):
    """Members deliver what comes, over gaps too."""

    def start(self) -> None:
        super().start()
        incoming = self.incoming

        def deliver(batch: Batch, sender: Any, site: str, first: int, last: int) -> None:
            have = self.state.has(site, bytes(sender))
            if first > have + 1:
                self.state.advance(site, bytes(sender), first - 1)
            type(incoming)._deliver(incoming, batch, sender, site, first, last)

        incoming._deliver = deliver  # type: ignore[method-assign]


class TrimToldOnce(RELAY):
    """An acknowledgement is not repeated on a new session."""

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
    """A joiner is not told where it begins."""

    def start(self) -> None:
        super().start()
        joining = self.joining

        def begin_with(known: Known) -> None:
            type(joining).begin_with(joining, replace(known, site_digest={}))

        joining.begin_with = begin_with  # type: ignore[method-assign]


class NoCut(RELAY):
    """Copies of what nobody delivered stay."""

    def start(self) -> None:
        super().start()
        self.buffer = _Uncut(self.buffer.max_messages, self.buffer.max_bytes, 0.0)

    def known(self, origin: bytes) -> int:
        return max(super().known(origin), self.buffer.last(origin))


class _Uncut(Buffer):
    def cut(self, origin: bytes, above: int) -> int:
        return 0 if above > 0 else super().cut(origin, above)


class AnyReportCounts(RELAY):
    """Reports of older views are as good as new ones, and members without one are left out."""

    def start(self) -> None:
        super().start()
        self.reports = _AnyReports()


class _AnyReports(Reports):
    def digests(self, view: ViewKey, members: Any) -> Any:
        return [m.digest for a, m in self._members.items() if a in members]


class ForgetAtOnce(RELAY):
    """Departed origins are forgotten without waiting for anything."""

    def start(self) -> None:
        super().start()
        home = self.home
        home.may_forget = lambda o, at, others: o not in home.forgetting  # type: ignore


class SendsBeforeAsking(RELAY):
    """A session begins without the answer; the cursor is what this relay itself has."""

    def start(self) -> None:
        super().start()
        bridge = self.bridge
        ask = type(bridge).ask

        def ask_and_go(session: Session, again: bool = False) -> None:
            ask(bridge, session, again)
            session.answered(dict(self.state.delivered), {})

        bridge.ask = ask_and_go  # type: ignore[method-assign]


class LowerNumbers(RELAY):
    """The seed's text taken at its word: what the other side has is replayed, the rest dropped."""

    def start(self) -> None:
        super().start()
        self.home.looked_at = 1e9  # and does not look for it elsewhere
        bridge = self.bridge

        def on_have(session: Session, have: Any) -> None:
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
