"""Discovery: finds other members. Base of all discovery protocols.

Place: above the transport, below failure detection and GMS.

    FindMembers from above    GET_MBRS_REQ with our name and physical address to everybody
    GET_MBRS_RSP              remember name and address; MembersFound up when a coordinator answered,
                              the time is over, or no member can exist
    GET_MBRS_REQ              remember name and address; answer GET_MBRS_RSP: server? coordinator?
      for certain members     only those members answer
    FindPhysical from below   GET_MBRS_REQ for that member
    ProveReach from above     GET_MBRS_REQ to that member alone, whose sender is the nonce; Reached up when the member
                              answers to the nonce
    VersionHeard from below   ask again: no member understood the first request
    place that the transport  not asked in later searches (IsBelieved)
      does not believe
    view, as coordinator      tell new and old members about each other (send_cache_on_join)

With several discoveries in a stack the topmost one asks all others and merges their results.

Source:  JGroups Discovery.java; WIRE.md section 9.1.
Differs: an unanswered request is sent once more at half the time-out, since it may
         have been lost. The cache is the transport's table of addresses.
Limits:  max_found answers of one search; max_searches at the same time; requests and responses name
         at most max_members_in_discovery_request members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.stack.machine import Timer
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DISCOVERY
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    CanProveReach,
    Event,
    FindMembers,
    FindPhysical,
    FoundMember,
    GetPhysical,
    IsBelieved,
    IsCoordinator,
    MembersFound,
    PhysicalAddress,
    ProveReach,
    Query,
    Reached,
    TransportReady,
    Unreachable,
    VersionHeard,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.payloads import PingData
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PingHeader, PingType
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import read_ping_data_list, write_ping_data_list

FLAGS = int(Flag.OOB | Flag.DONT_BUNDLE)


@dataclass(slots=True)
class _DiscoverySearch:
    """One FindMembers that is under way."""

    request: FindMembers
    ends_at: float
    ask_at: list[float]
    found: dict[Address, FoundMember] = field(default_factory=dict)
    complete: bool = False
    """True if no further member can answer."""
    below: MembersFound | None = None
    """Members that the discoveries below have found."""


class Discovery(Protocol):
    """Base of discovery protocols. A subclass defines how a request reaches all members."""

    provides = (DISCOVERY,)

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        num_discovery_runs: int = 1
        """Number of times that a request is sent within the time-out."""
        break_on_coord_rsp: bool = True
        """A search ends as soon as a coordinator answered."""
        return_entire_cache: bool = False
        """Answer with all known members, not only with ourselves."""
        send_cache_on_join: bool = False
        """As coordinator, tell joiners and other members about each other."""
        max_members_in_discovery_request: int = 500
        """Members named in one message."""
        max_found: int = 1000
        """Answers kept in one search."""
        max_searches: int = 10
        """Searches at the same time."""
        ignored: ClassVar[frozenset[str]] = frozenset(
            {
                "async_discovery",
                "async_discovery_use_separate_thread_per_request",
                "discovery_rsp_expiry_time",
                "use_disk_cache",
                "use_ip_addrs",
                "stagger_timeout",
                "force_sending_discovery_rsps",
                "always_send_physical_addr_with_discovery_request",
                "max_rank_to_reply",
                "num_initial_members",
                "timeout",
            }
        )

        def __post_init__(self) -> None:
            self._at_least(1, "num_discovery_runs", "max_members_in_discovery_request")
            self._at_least(1, "max_found", "max_searches")

    config: Config

    def start(self) -> None:
        self.physical: IpAddress | None = None
        self.view: View | None = None
        self._searches: dict[str, _DiscoverySearch] = {}
        self._timer: Timer = self.timer(self._on_search)
        self.requests_sent = 0
        self.requests_received = 0
        self.responses_sent = 0
        self.responses_received = 0
        self.dropped_garbage = 0
        self.dropped_found = 0
        self.dropped_searches = 0

    # --- events

    def event_down(self, event: Event) -> None:
        match event:
            case FindMembers():
                self._search(event)
                return
            case ProveReach(member, nonce):
                self._ask_to_prove(member, nonce)
            case ViewChange(view, old):
                self.view = view
                if old is not None and self.config.send_cache_on_join:
                    self._disseminate(view, old)
        self.pass_event_down(event)

    def answer(self, query: Query) -> Any:
        return True if isinstance(query, CanProveReach) else None

    def event_up(self, event: Event) -> None:
        match event:
            case TransportReady(physical):
                self.physical = physical
            case FindPhysical(member):
                self.ask((member,), initial=False)
                if not self._is_there(above=True):
                    return
            case VersionHeard():
                for search in list(self._searches.values()):
                    self.ask(None, initial=search.request.initial)
                if not self._is_there(above=True):
                    return
            case Unreachable() if not self._is_there(above=True):
                return
            case MembersFound(requester) if requester.startswith(f"{self.name}/"):
                self._found_below(requester.partition("/")[2], event)
                return
        self.pass_event_up(event)

    def _is_there(self, *, above: bool) -> bool:
        """Return whether there is another discovery above (below) in the stack."""
        protocols = self.stack.protocols
        index = protocols.index(self)
        others = protocols[index + 1 :] if above else protocols[:index]
        return any(isinstance(other, Discovery) for other in others)

    # --- searching

    def _search(self, request: FindMembers) -> None:
        config = self.config
        if request.requester not in self._searches and len(self._searches) >= config.max_searches:
            self.dropped_searches += 1
            self.pass_event_up(MembersFound(request.requester, ()))
            return
        timeout = self.timeout_of(request)
        runs = config.num_discovery_runs
        ask_at = [self.now + timeout * run / runs for run in range(1, runs)]
        if not ask_at:
            ask_at = [self.now + timeout / 2]
        search = _DiscoverySearch(request, self.now + timeout, ask_at)
        self._searches[request.requester] = search
        if self._is_there(above=False):
            name = f"{self.name}/{request.requester}"
            self.pass_event_down(
                FindMembers(name, request.timeout, request.initial, request.stop_at_coordinator)
            )
        else:
            search.below = MembersFound("", (), alone=True)
        self._rearm()
        self.ask(None, initial=request.initial)
        self.searching(search.request)

    def timeout_of(self, request: FindMembers) -> float:
        """Return the seconds to wait for answers."""
        return request.timeout

    def searching(self, request: FindMembers) -> None:
        """Note a sent request. A subclass calls ``complete`` if it knows that no member can answer."""

    def complete(self) -> None:
        """End the searches, because no further member can answer. For subclasses."""
        for search in list(self._searches.values()):
            search.complete = True
            self._end_if_complete(search)

    def _end_if_complete(self, search: _DiscoverySearch) -> None:
        if search.complete and search.below is not None:
            self._end(search)

    def answered(self) -> set[IpAddress]:
        """Return the physical addresses from which the running searches have answers."""
        return {
            member.physical
            for search in self._searches.values()
            for member in search.found.values()
            if member.physical is not None
        }

    def _found_below(self, requester: str, event: MembersFound) -> None:
        search = self._searches.get(requester)
        if search is None:
            return
        search.below = event
        for member in event.members:
            self._add(search, member)
        if self._has_coordinator(search):
            self._end(search)
        else:
            self._end_if_complete(search)

    def _add(self, search: _DiscoverySearch, member: FoundMember) -> None:
        known = search.found.get(member.address)
        if known is None and len(search.found) >= self.config.max_found:
            self.dropped_found += 1
            return
        # An answer about another member (is_server only) must not hide that this member is coordinator.
        if known is None or member.is_coordinator or not known.is_coordinator:
            search.found[member.address] = member

    def _has_coordinator(self, search: _DiscoverySearch) -> bool:
        if not (search.request.stop_at_coordinator and self.config.break_on_coord_rsp):
            return False
        return any(member.is_coordinator for member in search.found.values())

    def _end(self, search: _DiscoverySearch) -> None:
        if self._searches.get(search.request.requester) is not search:
            return
        del self._searches[search.request.requester]
        self._rearm()
        below = search.below
        alone = not search.found and search.complete and below is not None and below.alone
        self.trace("found", members=len(search.found), alone=alone)
        self.pass_event_up(
            MembersFound(search.request.requester, tuple(search.found.values()), alone)
        )

    def _rearm(self) -> None:
        due = [min([s.ends_at, *s.ask_at]) for s in self._searches.values()]
        if due:
            self._timer.start_at(min(due))
        else:
            self._timer.cancel()

    def _on_search(self) -> None:
        ended, again = [], []
        for search in self._searches.values():
            if search.ends_at <= self.now:
                if self.silence_is_certain and search.ask_at and not search.found:
                    # This process was late, and so were the others in it. They get the time after the second request.
                    search.ends_at = self.now + search.ends_at - search.ask_at.pop()
                    search.ask_at.clear()
                    again.append(search)
                else:
                    ended.append(search)
            elif search.ask_at and search.ask_at[0] <= self.now:
                search.ask_at.pop(0)
                if self.config.num_discovery_runs > 1 or not search.found:
                    again.append(search)
        self._rearm()
        for search in again:
            self.ask(None, initial=search.request.initial)
        for search in ended:
            search.complete = search.complete or self.silence_is_certain
            self._end(search)

    silence_is_certain: ClassVar[bool] = False
    """True if silence within the time-out proves that there is no other member."""

    # --- messages

    def ask(self, members: Sequence[Address] | None, *, initial: bool) -> None:
        """Send a request, for certain members or (None) for all."""
        if members is not None:
            members = members[: self.config.max_members_in_discovery_request]
        data = PingData(
            self.local_address,
            0,
            self.stack.name,
            self.physical,
            None if members is None else tuple(members),
        )
        header = PingHeader(PingType.GET_MBRS_REQ, self.cluster, initial)
        batch = self._message(None, header, [data])
        batch.transient = int(Transient.DONT_LOOPBACK)
        self.requests_sent += 1
        self.trace("ask", members=members and [self.name_of(m) for m in members])
        self.send_request(batch)

    def _ask_to_prove(self, member: Address, nonce: Address) -> None:
        """Send a request in the name of ``nonce``. Java members answer to the sender of a request, which they locate by the
        request's data."""
        data = PingData(nonce, 0, self.stack.name, self.physical, (member,))
        batch = self._message(
            member, PingHeader(PingType.GET_MBRS_REQ, self.cluster, False), [data]
        )
        batch.src = nonce
        self.requests_sent += 1
        self.pass_down(batch)

    def send_request(self, batch: Batch) -> None:
        """Send a request to all members. ``batch`` is a multicast."""
        raise NotImplementedError

    def _message(
        self, dest: Address | None, header: PingHeader, members: Sequence[PingData]
    ) -> Batch:
        payload = encode_whole(write_ping_data_list, members)
        return Batch(
            dest,
            (payload,),
            {self.protocol_id: header},
            self.local_address,
            FLAGS,
            0,
            MessageType.BYTES,
        )

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(self.protocol_id)
        if type(header) is not PingHeader:
            self.pass_up(batch)
            return
        for payload in batch.payloads:
            self.received(batch.src, header, payload)
        src, dest = batch.src, batch.dest
        if header.type == PingType.GET_MBRS_RSP and type(dest) is UUID and src is not None:
            if dest != self.local_address:
                self.pass_event_up(Reached(src, dest))

    def received(
        self,
        src: Address | None,
        header: PingHeader,
        payload: bytes | memoryview | None,
        told_from: str = "",
    ) -> None:
        """Take one discovery message. ``told_from``: its host, if it came through a socket of this protocol."""
        if src is None or src == self.local_address:
            return
        try:
            members = decode_whole(read_ping_data_list, payload) if payload else []
        except RemoteProtocolError as error:
            self.dropped_garbage += 1
            self.trace("garbage", problem=str(error))
            return
        if header.type == PingType.GET_MBRS_REQ:
            self._on_request(src, header, members, told_from)
        else:
            self._on_response(members)

    def _on_request(
        self, src: Address, header: PingHeader, members: list[PingData], told_from: str
    ) -> None:
        if header.cluster is not None and header.cluster != self.cluster:
            self.other_cluster(header.cluster)
            return
        self.requests_received += 1
        self._remember(members, told_from)
        sought = members[0].members if members else None
        if sought is not None and self.local_address not in sought:
            return
        answers = [self._own_data()]
        if self.config.return_entire_cache:
            answers += self._data_of(self.view.members if self.view else (), src)
        self.respond(src, answers[: self.config.max_members_in_discovery_request])

    def other_cluster(self, cluster: str) -> None:
        """Note that a process searches for another cluster here."""

    def _on_response(self, members: list[PingData]) -> None:
        self.responses_received += 1
        self._remember(members)
        for data in members:
            if data.address is None or data.address == self.local_address:
                continue
            physical = data.physical if isinstance(data.physical, IpAddress) else None
            found = FoundMember(
                data.address, data.name, physical, data.is_server, data.is_coordinator
            )
            for search in self._searches.values():
                self._add(search, found)
        for search in list(self._searches.values()):
            if self._has_coordinator(search):
                self._end(search)
        if self._searches:
            self.answer_came()

    def answer_came(self) -> None:
        """Called after an answer while searches go on; see ``answered``."""

    def _remember(self, members: Iterable[PingData], told_from: str = "") -> None:
        for data in members:
            if data.address is None or data.address == self.local_address:
                continue
            physical = data.physical
            if isinstance(physical, IpAddress) and physical.host is not None:
                self.pass_event_down(PhysicalAddress(data.address, physical, data.name, told_from))
                if self.ask_down(IsBelieved(data.address, physical)) is not False:
                    self.learned(physical)

    def learned(self, physical: IpAddress) -> None:
        """Note a newly learned physical address of another member."""

    def respond(self, dest: Address, members: Sequence[PingData]) -> None:
        self.responses_sent += 1
        self.pass_down(self._message(dest, PingHeader(PingType.GET_MBRS_RSP), members))

    def _own_data(self) -> PingData:
        flags = 0
        if self.view is not None:
            flags |= PingData.SERVER
            if self.ask_up(IsCoordinator()):
                flags |= PingData.COORDINATOR
        return PingData(self.local_address, flags, self.stack.name, self.physical)

    def _data_of(self, members: Iterable[Address], but: Address) -> list[PingData]:
        """Return the known entries of other members."""
        known = []
        for member in members:
            if member == self.local_address or member == but:
                continue
            physical = self.ask_down(GetPhysical(member))
            if physical is not None:
                flags = PingData.SERVER
                if self.view is not None and member == self.view.coordinator:
                    flags |= PingData.COORDINATOR
                known.append(PingData(member, flags, self.stack.names.get(member), physical))
        return known

    def _disseminate(self, view: View, old: View) -> None:
        joined = view.joined_since(old)
        if not joined or view.coordinator != self.local_address:
            return
        stayed = [member for member in view.members if member not in joined]
        for member in joined:
            others = self._data_of(view.members, member)
            for data in others:
                self.respond(member, [data])
            for data in self._data_of([member], self.local_address):
                for other in stayed:
                    if other != self.local_address:
                        self.respond(other, [data])

    def check(self) -> None:
        assert len(self._searches) <= self.config.max_searches
        assert self._timer.armed == bool(self._searches)
