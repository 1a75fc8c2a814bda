"""An oracle of sites of RELAY machines. It is outside the protocol and sees all members.

I1: each message is delivered once, in order, without a gap that was not announced. I2: no number beyond the sent
    ones, and no trim of a message that a member lacks. I4: members with one view delivered the same messages of
    members that are not in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from relay_member import Member, Violation

from jgroups_py.values.events import StateReceived


class SitesOracle:
    """``everybody``: all incarnations, also dead ones; ``by_raw``: the same by their addresses. The net fills both."""

    def __init__(self, everybody: Sequence[Member], by_raw: Mapping[bytes, Member]) -> None:
        self._everybody = everybody
        self._by_raw = by_raw
        self.home_in_order = True
        """False for schedules with out-of-band messages, which may arrive at home in any order."""
        self._home_delivered: dict[str, dict[int, list[Member]]] = {}

    def _alive(self, site: str | None = None) -> list[Member]:
        return [m for m in self._everybody if m.alive and site in (None, m.site)]

    def delivered(self, member: Member, origin: str, number: int, before: list[int]) -> None:
        """I1: once, in order, without a gap that was not announced."""
        sender = next(m for m in self._everybody if m.name == origin)
        if sender.site == member.site:
            self._home_delivered.setdefault(origin, {}).setdefault(number, []).append(member)
            if before and number <= before[-1] and self.home_in_order:
                raise Violation(f"{member} delivers {origin}#{number} after {before[-1]}")
            return
        if not before:
            return
        last = before[-1]
        if number <= last:
            raise Violation(f"I1: {member} delivers {origin}#{number} after {last}")
        if number > last + 1 and not self._announced(member, sender, number - 1):
            raise Violation(f"I1: {member} delivers {origin}#{number} over a gap after {last}")

    def _announced(self, member: Member, sender: Member, upto: int) -> bool:
        return any(
            what == "gap" and more["how"] == "skipped" and more["seqno"] + more["count"] - 1 >= upto
            for what, more in member.traces
            if what == "gap" and str(more["origin"]).startswith(bytes(sender.id).hex()[:8])
        ) or self._moved(member, sender)

    def _skipped(self, member: Member, sender: Member, number: int) -> bool:
        """Return whether the member was told that this number does not come."""
        return any(
            what == "gap"
            and more["how"] == "skipped"
            and str(more["origin"]).startswith(bytes(sender.id).hex()[:8])
            and more["seqno"] <= number < more["seqno"] + more["count"]
            for what, more in member.traces
        )

    def _moved(self, member: Member, sender: Member) -> bool:
        """Return whether a state has replaced the digests."""
        return any(isinstance(e, StateReceived) for e in member.events)

    def stepped(self, touched: Collection[Member], *, split: bool) -> None:
        """Check I2 after every step, and the machines' own checks.

        Args: touched: members that acted in this step. split: a site is or was split. The parts of a split site
            do not learn each other's numbers.
        """
        for member in touched:
            if member.alive:
                member.machine.check()
                self._check_sent(member)
        if touched and not split:
            self._check_trimmed()

    def _check_sent(self, member: Member) -> None:
        """I2: no number exceeds the origin's last one."""
        relay = member.relay
        tables = [relay.state.trimmed, relay.state.delivered]
        tables += list(relay.state.site_digest.values())
        tables += list(relay.bridge.forwarded.sites.values())
        tables += [s.cursor for s in relay.bridge.sessions.values()]
        for table in tables:
            for origin, number in table.items():
                sender = self._by_raw.get(origin)
                if sender is not None and number > sender.sent:
                    raise Violation(f"I2: {member} has {number} of {sender}, sent {sender.sent}")

    def _check_trimmed(self) -> None:
        """I2: trimmed <= what every member of every other site has, joiners included."""
        for member in self._everybody:
            relay = member.relay
            if not member.alive or not relay.is_relay or not relay.is_relaying:
                continue
            for other in self._everybody:
                theirs = other.relay
                if (
                    not other.alive
                    or other.site not in relay.state.sites
                    or other.view is None
                    or theirs.joining.waits
                    or theirs.joining.blind
                ):
                    continue
                for origin, number in relay.state.trimmed.items():
                    sender = self._by_raw[origin]
                    have = theirs.state.has(member.site, origin)
                    if number > have and number > relay.state.base.get(origin, 0):
                        raise Violation(
                            f"I2: {member} trimmed {sender}#{number}, {other} has {have}"
                        )

    def agreed(self) -> None:
        """I4: members with the same view delivered the same messages of members that are not in it."""
        for site in dict.fromkeys(m.site for m in self._everybody):
            members = [m for m in self._alive(site) if m.view is not None and m.pending is None]
            for one in members:
                for other in members:
                    if one.view != other.view or one.born != other.born:
                        continue
                    for origin, number in one.relay.state.delivered.items():
                        if self._by_raw[origin].alive:
                            continue
                        theirs = other.relay.state.delivered.get(origin, 0)
                        if theirs != number:
                            raise Violation(f"I4: {one} has {number}, {other} {theirs}")

    def lost(self, *, primary: str | None = None, announced_too: bool = False) -> list[str]:
        """Return messages that a survivor at home delivered and a member elsewhere did not get. ``announced_too``:
        leave out messages that this member was told to be lost."""
        missing = []
        for origin, numbers in self._home_delivered.items():
            sender = next(m for m in self._everybody if m.name == origin)
            if primary is not None and sender.site != primary:
                continue
            for number, holders in sorted(numbers.items()):
                if not any(m.alive for m in holders):
                    continue
                for other in self._alive():
                    if other.site == sender.site or other.view is None:
                        continue
                    got = other.got.get(origin, [])
                    start = 0
                    if other.born:
                        start = other.obliged_from.get(origin, 0)
                        start = min(start, got[0] - 1) if got else start
                    if (
                        number > start
                        and number not in got
                        and (not announced_too or not self._skipped(other, sender, number))
                    ):
                        missing.append(f"{origin}#{number} at {other}")
        return missing

    def at_rest(self, *, primary: str | None, lost: bool, gaps: bool) -> None:
        """Check at rest: empty buffers, one ready relay a site, no loss, no gap (unless allowed)."""
        problems = []
        missing = self.lost(primary=primary, announced_too=gaps)
        if not lost and missing:
            problems.append(f"lost: {missing[:10]}")
        for site in dict.fromkeys(m.site for m in self._everybody):
            relays = [m for m in self._alive(site) if m.relay.is_relay]
            if self._alive(site) and len(relays) != 1:
                problems.append(f"{site} has the relays {relays}")
            for relay in relays:
                sessions = relay.relay.bridge.sessions.values()
                if not all(s.ready for s in sessions):
                    problems.append(f"{relay} has open sessions")
        for member in self._alive():
            if member.owed:
                problems.append(f"{member} keeps the credits of {[*member.owed.values()][:3]}")
            if len(member.relay.buffer):
                held = {
                    self._by_raw[o].name: member.relay.buffer.ranges(o)
                    for o in member.relay.buffer.origins()
                }
                problems.append(f"{member} still holds {held}")
            if member.relay.out_of_sync.ranges() and not gaps:
                problems.append(f"{member} is out of sync: {member.relay.out_of_sync.ranges()}")
        if problems:
            raise Violation("; ".join(problems))
