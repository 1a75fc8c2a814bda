"""Events and queries between protocols of one stack.

Events are frozen dataclasses that go up or down until a protocol keeps them. Protocols below GMS learn of views from
``ViewChange`` going down, protocols above from ``ViewChange`` going up. Queries return an answer at once and change
nothing.

The senders and receivers:

    Connect             down  channel -> GMS -> transport      join `cluster`
    TransportReady      up    transport -> discovery, FD_SOCK2, GMS    sockets are open
    Failed              up    anybody -> channel               the stack cannot go on
    FindMembers         down  GMS, MERGE3 -> discovery
    MembersFound        up    discovery -> the protocol that asked
    PhysicalAddress     down  discovery, MERGE3 -> transport   where a member can be reached
    FindPhysical        up    transport -> discovery           where is this member?
    Unreachable         up    transport -> discovery           nobody listens at an address
    VersionHeard        up    transport -> discovery           the group speaks another version
    SetDigest           down  GMS, STATE_TRANSFER -> NAKACK2   first seqnos after a join, or a state
    MergeDigest         down  GMS -> NAKACK2                   seqnos after a merge
    PrepareView         down  GMS -> ASYM_ENCRYPT              the view that the next messages announce
    ViewChange          both  GMS -> everybody
    Suspect, Unsuspect  up    failure detectors -> VERIFY_SUSPECT2 -> GMS
    Unsuspect           down  GMS, VERIFY_SUSPECT2 -> failure detectors
    Silent              down  FD_ALL3 -> FD_SOCK2              do not watch these
    Freeze .. Fetched         the round in which survivors agree; see below
    Stable              both  STABLE -> NAKACK2 (purge), RELAY (acknowledgements)
    HoldStability       down  GMS -> STABLE                    during a merge nothing is purged
    MergeViews          up    MERGE3 -> GMS
    Consumed            down  channel, or a protocol that keeps a batch -> MFC, UFC
    IncompleteBytes     down  FRAG2 -> MFC, UFC                credits of messages that are not all there
    FlowBlocked, FlowOpened   up  MFC, UFC, RELAY -> channel
    GetState, StateReady      down  channel -> STATE_TRANSFER
    StateRequested, StateReceived, StateFailed   up  STATE_TRANSFER -> channel
    Covered             up    STATE_TRANSFER -> RELAY          a multicast that is in the state
    StateAwaited        down  STATE_TRANSFER -> NAKACK2
    Disconnect          down  channel -> RELAY -> GMS
    Disconnected        up    GMS -> channel                   the group knows, or need not
    WentOn              up    MERGE3 -> GMS                    a member's view is newer, and without us
    Withhold            down  GMS -> NAKACK2, MERGE3           number nothing more until the next view
    Exclude             up    GMS -> channel                   the group went on without us; a merge follows
    Expel               up    GMS -> channel                   the same, and this member ends
    Lag                 down  machine -> failure detectors     this process was late by so much

Survivors agree (RELAY.md). Before a view without `departed` goes out, its coordinator asks every survivor to freeze: GMS
sends ``Freeze`` down. NAKACK2 takes nothing more from the departed and hands out no more messages. ``GetDigest`` tells
how far NAKACK2 is. The coordinator answers with the goal of each sender and a member that has it: GMS sends ``Fetch``
down, NAKACK2 asks the holders and sends ``Fetched`` up when it has everything. ``ViewChange`` ends the round; ``Thaw``
and ``Release`` cancel the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.light import light
from jgroups_py.values.view import Digest, View


@light
@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class Connect(Event):
    """Join ``cluster``. With ``with_state`` fetch the state before any message is delivered."""

    cluster: str
    with_state: bool = False


@dataclass(frozen=True, slots=True)
class TransportReady(Event):
    """The sockets are open; ``physical`` is where this member can be reached."""

    physical: IpAddress


@dataclass(frozen=True, slots=True)
class CertificateExpires(Event):
    """The certificate of this member will expire. The event comes once a day. ``until``: its last moment, as text.
    ``left``: seconds until then."""

    names: tuple[str, ...]
    until: str
    left: float

    def __str__(self) -> str:
        days = max(0, int(self.left // 86400))
        named = ", ".join(self.names)
        return f"the certificate of {named} expires in {days} days, on {self.until}: renew it"


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The stack cannot go on (no socket, join refused). The owner closes it."""

    problem: str


@dataclass(frozen=True, slots=True)
class FoundMember:
    """One answer of discovery (JGroups PingData)."""

    address: Address
    name: str | None
    physical: IpAddress | None
    is_server: bool
    is_coordinator: bool


@dataclass(frozen=True, slots=True)
class FindMembers(Event):
    """Search for members. MembersFound for the same ``requester`` answers it within ``timeout``. It answers at once when a
    coordinator answered and ``stop_at_coordinator`` is set, or when no other member can be there."""

    requester: str
    timeout: float
    initial: bool = True
    stop_at_coordinator: bool = True


@dataclass(frozen=True, slots=True)
class MembersFound(Event):
    """The end of one search. With ``alone`` the transport is sure that no other member is there."""

    requester: str
    members: tuple[FoundMember, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalAddress(Event):
    """The network address at which ``member`` can be reached, and its logical name. ``told_from``: the host that
    reported this, if the transport has not received it itself."""

    member: Address
    physical: IpAddress
    name: str | None = None
    told_from: str = ""


@dataclass(frozen=True, slots=True)
class FindPhysical(Event):
    """The transport must send to ``member`` and does not know its network address."""

    member: Address


@dataclass(frozen=True, slots=True)
class ProveReach(Event):
    """Ask ``member`` for a sign of life in the name of ``nonce``, an address that no other member has. Discovery sends the request;
    until ``until`` the transport takes the answer to ``nonce`` for its own. ``Reached`` goes up when the answer
    comes."""

    member: Address
    nonce: Address
    until: float


@dataclass(frozen=True, slots=True)
class Reached(Event):
    """``member`` has answered to ``nonce``, so it has heard the request at its reported address."""

    member: Address
    nonce: Address


@dataclass(frozen=True, slots=True)
class Unreachable(Event):
    """A packet was sent to ``physical``, and no process listens there. Discovery keeps the event."""

    physical: IpAddress


@dataclass(frozen=True, slots=True)
class LookAround(Event):
    """Find out whether another process can receive our multicasts. NobodyListens answers it if a transport is certain that no other process can. A
    transport that cannot be sure does not answer."""


@dataclass(frozen=True, slots=True)
class NobodyListens(Event):
    """At this moment no other process can receive our multicasts. A member that starts later receives all our later multicasts."""


@dataclass(frozen=True, slots=True)
class VersionHeard(Event):
    """Before joining, the transport heard that the group uses another version of the wire, and uses it from now on. Earlier
    requests were not understood. Discovery keeps the event."""

    version: int


@dataclass(frozen=True, slots=True)
class SetDigest(Event):
    """Start receiving after these seqnos. With ``replace`` do so also for known senders, but never for this member's own: a state was received that
    contains all messages up to them."""

    digest: Digest
    replace: bool = False


@dataclass(frozen=True, slots=True)
class MergeDigest(Event):
    """After a merge: add unknown senders, move known ones forward where the digest is ahead."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class PrepareView(Event):
    """This member made ``view`` or hands it on. It is about to send it to its members, if there are others, and installs it
    after that. The event may come twice for one view."""

    view: View


@dataclass(frozen=True, slots=True)
class ViewChange(Event):
    """A view was installed. ``old`` is the view before, None for the first. ``ended`` has the former members that left or are
    proved dead, as far as this member knows; other former members may be alive."""

    view: View
    old: View | None
    ended: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect(Event):
    """These members may be dead. With ``gone`` it is proved: their ports refuse."""

    members: tuple[Address, ...]
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Unsuspect(Event):
    """These members are alive after all."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Silent(Event):
    """All members that are not heard at present; they cannot notice a neighbour's end."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class StateAwaited(Event):
    """A state was asked for, or has come or failed. Meanwhile keep stable messages, too: the state may be older, and messages
    that it does not contain are delivered again."""

    awaited: bool


@dataclass(frozen=True, slots=True)
class Freeze(Event):
    """Take nothing more from ``departed`` (the whole set; a later event adds to it). Take multicasts of the others and hand
    them out after the view."""

    departed: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Thaw(Event):
    """The round was given up: take messages of ``members`` again."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Release(Event):
    """The round was given up, or lasts too long: hand out the held messages."""


@dataclass(frozen=True, slots=True)
class Fetch(Event):
    """Fetch all messages up to ``goals[sender] = (seqno, holder)``, and deliver them."""

    goals: Mapping[Address, tuple[int, Address]]


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """The messages that Fetch asked for have been delivered."""


@dataclass(frozen=True, slots=True)
class Stable(Event):
    """All members of the view have delivered up to ``digest``'s delivered seqnos."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class HoldStability(Event):
    """With ``held`` a merge has begun here: declare nothing stable until it is over."""

    held: bool


@dataclass(frozen=True, slots=True)
class MergeViews(Event):
    """Members announce different views: ``views[member]`` is the view of that member. ``silent`` members have announced
    another view than ours for long, and have not named it although they were asked."""

    views: Mapping[Address, View]
    silent: tuple[Address, ...] = ()


@light
@dataclass(frozen=True, slots=True)
class Consumed(Event):
    """The application has taken the messages of these credits."""

    credits: tuple[Credit, ...]


@light
@dataclass(frozen=True, slots=True)
class IncompleteBytes(Event):
    """So many credits of ``sender`` belong to messages of which the rest is still to come. Bytes, all such messages together."""

    sender: Address
    multicast: bool
    amount: int


@dataclass(frozen=True, slots=True)
class FlowBlocked(Event):
    """Sending to ``dest`` (None is the group) waits. ``waiting_for`` names the members."""

    source: str
    dest: Address | None
    waiting_for: tuple[Address, ...]
    why: str = "credits"


@dataclass(frozen=True, slots=True)
class FlowOpened(Event):
    """Sending to ``dest`` continues."""

    source: str
    dest: Address | None


@dataclass(frozen=True, slots=True)
class GetState(Event):
    """Fetch the state from ``provider``; None means the coordinator, or the member after it."""

    provider: Address | None
    timeout: float


@dataclass(frozen=True, slots=True)
class StateRequested(Event):
    """``requester`` wants the state. It is an item of the stream: the digest was taken at this place. When the reader reaches
    the item, it answers with StateReady of the same ``token``."""

    requester: Address
    token: int


@dataclass(frozen=True, slots=True)
class StateReady(Event):
    """The state for a StateRequested, or the ``problem`` for which it was not made."""

    token: int
    state: bytes | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class StateReceived(Event):
    """The state has come; it stands before every later message in the stream."""

    provider: Address
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Covered(Event):
    """A run of multicasts does not come up, because the state contains it. Protocols that keep copies need it."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class StateFailed(Event):
    """The state did not come."""

    provider: Address | None
    problem: str
    received: int


@dataclass(frozen=True, slots=True)
class Disconnect(Event):
    """Leave the group."""


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The group knows of the leave, or the time for that is over. The owner closes the stack."""


@dataclass(frozen=True, slots=True)
class WentOn(Event):
    """``member`` of our view has ``view``, which is newer and does not have us."""

    member: Address
    view: View


@dataclass(frozen=True, slots=True)
class Withhold(Event):
    """Others went on without us and would drop our multicasts. Keep the application's messages until the next
    ViewChange, then send them."""


@dataclass(frozen=True, slots=True)
class Exclude(Event):
    """The member ``by`` reports that the group went on with ``view``, without this member. ``lost`` has runs of messages, the
    application's and others, that were not delivered everywhere. If ``certain`` is false, some may have been delivered."""

    view: View
    by: Address
    lost: tuple[Batch, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class Expel(Event):
    """The group went on without this member, which ends. ``lost`` is that of Exclude, not certain."""

    view: View | None
    problem: str
    lost: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Lag(Event):
    """This process was stopped or busy for ``seconds`` beyond its deadline. Timers have been put off. The event is for deadlines
    that are kept elsewhere, and for protocols that must send at once."""

    seconds: float


# --- queries: ask_up and ask_down ask them; a protocol answers by returning a value other than None


@dataclass(frozen=True, slots=True)
class Query:
    """Base of all queries. The docstring has the type of the answer."""


@dataclass(frozen=True, slots=True)
class GetDigest(Query):
    """-> Digest of ``members`` (None: of all senders known). NAKACK2."""

    members: tuple[Address, ...] | None = None


@dataclass(frozen=True, slots=True)
class TransportPorts(Query):
    """-> (bind_port, port_range), as set: the ports on which members of one stack file listen. Transport."""


@dataclass(frozen=True, slots=True)
class GetPhysical(Query):
    """-> IpAddress of ``member`` (None as member: own), None if unknown. Transport."""

    member: Address | None = None


@dataclass(frozen=True, slots=True)
class IsBelieved(Query):
    """-> bool: True if it is known by more than hearsay that ``member`` is at ``physical``. Transport."""

    member: Address
    physical: IpAddress


@dataclass(frozen=True, slots=True)
class GetView(Query):
    """-> View installed now. GMS."""


@dataclass(frozen=True, slots=True)
class CanProveReach(Query):
    """-> bool: True if a protocol understands ``ProveReach``. Discovery."""


@dataclass(frozen=True, slots=True)
class HasMulticast(Query):
    """-> bool: True if the transport can reach members it does not know. Transport."""


@dataclass(frozen=True, slots=True)
class ReceiveBuffer(Query):
    """-> int: the bytes of multicasts (or unicasts) that may wait unread at this member before more are lost, None if none are lost
    or the number is not known. UDP."""

    multicast: bool


@dataclass(frozen=True, slots=True)
class IsCoordinator(Query):
    """-> bool. GMS."""


@dataclass(frozen=True, slots=True)
class GetSeqno(Query):
    """-> int: the seqno of the own last multicast. NAKACK2."""


@dataclass(frozen=True, slots=True)
class GetDelivered(Query):
    """-> int: the seqno up to which ``member``'s multicasts were delivered here, as far as that is remembered. NAKACK2."""

    member: Address


@dataclass(frozen=True, slots=True)
class GetSentAfter(Query):
    """-> tuple of runs: own multicasts with higher seqnos than ``seqno`` that some member may not have. NAKACK2."""

    seqno: int


@dataclass(frozen=True, slots=True)
class GetUnacknowledged(Query):
    """-> tuple of runs: unicasts to ``members`` that they have not acknowledged. UNICAST3."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class GetDeparted(Query):
    """-> tuple: those of ``members`` that were members and have gone, as far as that is remembered. NAKACK2."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class HeldSenders(Query):
    """-> dict: members that have requested credit in vain, because our application takes none of their messages, and the time since which
    they wait (the machine's time). Our own address may be among them. MFC and UFC answer; ask each."""


@dataclass(frozen=True, slots=True)
class Around:
    """Multicast ``groups`` that a protocol listens to. ``strangers`` describes in words the traffic of other groups
    that it heard there."""

    groups: tuple[tuple[str, int], ...] = ()
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings(Query):
    """-> Around. Transports and MPING answer; ask each."""


@dataclass(frozen=True, slots=True)
class LacksCredit(Query):
    """-> tuple: the members whose missing credit holds up messages to ``dest`` now, or None if none waits. MFC and UFC answer;
    ask the one that sent FlowBlocked."""

    dest: Address | None


@dataclass(frozen=True, slots=True)
class SharedAttribute(Query):
    """-> Any: a value that a protocol of the user offers to others under ``name``."""

    name: str
    argument: Any = None
