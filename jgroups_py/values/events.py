"""Events and queries: how protocols of one stack speak to each other.

Events are frozen dataclasses that travel up or down until somebody keeps them. Protocols below GMS
learn of views from ``ViewChange`` going down, those above from the same going up. Queries return
an answer at once and change nothing.

Who says what:

    Connect             down  channel -> GMS -> transport      join `cluster`
    TransportReady      up    transport -> discovery, FD_SOCK2, GMS    sockets are open
    Failed              up    anybody -> channel               the stack cannot go on
    FindMembers         down  GMS, MERGE3 -> discovery
    MembersFound        up    discovery -> who asked
    PhysicalAddress     down  discovery, MERGE3 -> transport   where a member can be reached
    FindPhysical        up    transport -> discovery           where is this member?
    Unreachable         up    transport -> discovery           nobody listens at an address
    VersionHeard        up    transport -> discovery           the group speaks another version
    SetDigest           down  GMS, STATE_TRANSFER -> NAKACK2   first seqnos after a join, or a state
    MergeDigest         down  GMS -> NAKACK2                   seqnos after a merge
    ViewChange          both  GMS -> everybody
    Suspect, Unsuspect  up    failure detectors -> VERIFY_SUSPECT2 -> GMS
    Unsuspect           down  GMS, VERIFY_SUSPECT2 -> failure detectors
    Silent              down  FD_ALL3 -> FD_SOCK2              do not watch these
    Freeze .. Fetched         the round in which survivors agree; see below
    Stable              both  STABLE -> NAKACK2 (purge), RELAY (acknowledgements)
    HoldStability       down  GMS -> STABLE                    during a merge nothing is purged
    MergeViews          up    MERGE3 -> GMS
    Consumed            down  channel, or who swallows a batch -> MFC, UFC
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

Survivors agree (RELAY.md): before a view without `departed` goes out, its coordinator asks every
survivor to freeze: GMS sends ``Freeze`` down, NAKACK2 takes nothing more from the departed, hands
out nothing more of anybody, and ``GetDigest`` tells how far it is. The coordinator answers with the
goal per sender and who has it: ``Fetch`` down; NAKACK2 asks the holders and says ``Fetched`` up when
it is there. ``ViewChange`` ends it; ``Thaw`` and ``Release`` take it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.view import Digest, View


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class Connect(Event):
    """Join ``cluster``; ``with_state``: fetch the state before anything else is delivered."""

    cluster: str
    with_state: bool = False


@dataclass(frozen=True, slots=True)
class TransportReady(Event):
    """The sockets are open; ``physical`` is where this member can be reached."""

    physical: IpAddress


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
    """Who is there? Answered by MembersFound for the same ``requester`` within ``timeout``, at
    once when a coordinator answered and ``stop_at_coordinator``, or when nobody can be there."""

    requester: str
    timeout: float
    initial: bool = True
    stop_at_coordinator: bool = True


@dataclass(frozen=True, slots=True)
class MembersFound(Event):
    """The end of one discovery. ``alone``: the transport is sure that nobody else is there."""

    requester: str
    members: tuple[FoundMember, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalAddress(Event):
    """Where ``member`` can be reached, and what it calls itself."""

    member: Address
    physical: IpAddress
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FindPhysical(Event):
    """The transport must send to ``member`` and does not know where it is."""

    member: Address


@dataclass(frozen=True, slots=True)
class Unreachable(Event):
    """Something was sent to ``physical``, and nobody listens there. Kept by discovery."""

    physical: IpAddress


@dataclass(frozen=True, slots=True)
class VersionHeard(Event):
    """Before joining, the transport heard the group speak another version of the wire and speaks
    it too from now on: what was asked before was not understood. Kept by discovery."""

    version: int


@dataclass(frozen=True, slots=True)
class SetDigest(Event):
    """Start receiving after these seqnos. ``replace``: also for senders already known (a state
    was received whose contents include everything up to them); never for the own ones."""

    digest: Digest
    replace: bool = False


@dataclass(frozen=True, slots=True)
class MergeDigest(Event):
    """After a merge: add unknown senders, move known ones forward where the digest is ahead."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class ViewChange(Event):
    """A view was installed. ``old`` is the one before, None for the first. ``ended``: of those that are
    in it no more, who left or is proved dead, as far as this member knows; others may be alive."""

    view: View
    old: View | None
    ended: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect(Event):
    """These members may be dead. ``gone``: proved, their ports refuse (not merely silent)."""

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
    """A state was asked for, or has come or failed: meanwhile keep what is stable, too. The state may
    be older, and what it does not contain is delivered again."""

    awaited: bool


@dataclass(frozen=True, slots=True)
class Freeze(Event):
    """Take nothing more from ``departed`` (the whole set; later ones add to it), and hold what the
    others multicast: it is taken, and handed out after the view."""

    departed: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Thaw(Event):
    """The round was given up: take messages of ``members`` again."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Release(Event):
    """The round was given up, or lasts too long: hand out what is held."""


@dataclass(frozen=True, slots=True)
class Fetch(Event):
    """Have everything up to ``goals[sender] = (seqno, holder)``, and hand it out."""

    goals: Mapping[Address, tuple[int, Address]]


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """What Fetch asked for has been delivered."""


@dataclass(frozen=True, slots=True)
class Stable(Event):
    """All members of the view have delivered up to ``digest``'s delivered seqnos."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class HoldStability(Event):
    """``held``: a merge has begun here, declare nothing stable until it is over."""

    held: bool


@dataclass(frozen=True, slots=True)
class MergeViews(Event):
    """Members announce different views: ``views[member]`` is the view that member has. ``silent`` have
    announced another one than ours for long and did not say which, each time they were asked."""

    views: Mapping[Address, View]
    silent: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumed(Event):
    """The application has taken what these credits stood for."""

    credits: tuple[Credit, ...]


@dataclass(frozen=True, slots=True)
class FlowBlocked(Event):
    """Sending to ``dest`` (None: the group) waits; ``waiting_for`` names the members."""

    source: str
    dest: Address | None
    waiting_for: tuple[Address, ...]
    why: str = "credits"


@dataclass(frozen=True, slots=True)
class FlowOpened(Event):
    """Sending to ``dest`` goes on."""

    source: str
    dest: Address | None


@dataclass(frozen=True, slots=True)
class GetState(Event):
    """Fetch the state from ``provider`` (None: the coordinator, or the next after it)."""

    provider: Address | None
    timeout: float


@dataclass(frozen=True, slots=True)
class StateRequested(Event):
    """``requester`` wants the state. An item of the stream: the digest was taken here; when the
    reader reaches the item it answers with StateReady of the same ``token``."""

    requester: Address
    token: int


@dataclass(frozen=True, slots=True)
class StateReady(Event):
    """The state for a StateRequested, or the ``problem`` that kept it from being made."""

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
    """A run of multicasts does not come up, since the state contains it; for who keeps copies."""

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
    """The group was told, or the time for that is over. The owner closes the stack."""


@dataclass(frozen=True, slots=True)
class WentOn(Event):
    """``member`` of our view has ``view``, which is newer and without us."""

    member: Address
    view: View


@dataclass(frozen=True, slots=True)
class Withhold(Event):
    """Others went on without us and would drop what we multicast: keep what the application sends
    until the next ViewChange, then send it."""


@dataclass(frozen=True, slots=True)
class Exclude(Event):
    """The group went on without this member, as ``by`` says, with ``view``, and did not deliver ``lost``
    (runs of the application's messages, and others) everywhere. ``certain``: all of it is lost; else some
    of it may have been delivered."""

    view: View
    by: Address
    lost: tuple[Batch, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class Expel(Event):
    """The group went on without this member, which ends. ``lost``: as in Exclude, not certain."""

    view: View | None
    problem: str
    lost: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Lag(Event):
    """This process was stopped or busy for ``seconds`` beyond its deadline. Timers have been put off;
    this is for deadlines kept elsewhere, and for those who want to be heard at once."""

    seconds: float


# --- queries: asked with ask_up / ask_down, answered by returning something other than None


@dataclass(frozen=True, slots=True)
class Query:
    """Base of all queries. The answer's type stands in the docstring."""


@dataclass(frozen=True, slots=True)
class GetDigest(Query):
    """-> Digest of ``members`` (None: of all senders known). NAKACK2."""

    members: tuple[Address, ...] | None = None


@dataclass(frozen=True, slots=True)
class TransportPorts(Query):
    """-> (bind_port, port_range), as set: on which ports members of one stack file listen. Transport."""


@dataclass(frozen=True, slots=True)
class GetPhysical(Query):
    """-> IpAddress of ``member`` (None as member: own), None if unknown. Transport."""

    member: Address | None = None


@dataclass(frozen=True, slots=True)
class GetView(Query):
    """-> View installed now. GMS."""


@dataclass(frozen=True, slots=True)
class HasMulticast(Query):
    """-> bool: can the transport reach members it does not know? Transport."""


@dataclass(frozen=True, slots=True)
class IsCoordinator(Query):
    """-> bool. GMS."""


@dataclass(frozen=True, slots=True)
class GetSeqno(Query):
    """-> int: the seqno of the own last multicast. NAKACK2."""


@dataclass(frozen=True, slots=True)
class GetDelivered(Query):
    """-> int: up to which seqno ``member``'s multicasts were delivered, here, as far as that is
    remembered. NAKACK2."""

    member: Address


@dataclass(frozen=True, slots=True)
class GetSentAfter(Query):
    """-> tuple of runs: own multicasts with higher seqnos than ``seqno`` that not everybody is known to
    have. NAKACK2."""

    seqno: int


@dataclass(frozen=True, slots=True)
class GetUnacknowledged(Query):
    """-> tuple of runs: unicasts to ``members`` that they have not acknowledged. UNICAST3."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class GetDeparted(Query):
    """-> tuple of those of ``members`` that were members and have gone, as far as that is remembered.
    NAKACK2."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class HeldSenders(Query):
    """-> dict: members that have asked in vain for credit because our application takes nothing of
    theirs, and since when (the machine's time); our own address among them. MFC and UFC: ask each."""


@dataclass(frozen=True, slots=True)
class Around:
    """Multicast ``groups`` a protocol listens to; ``strangers``: what it heard there that is not of our
    group, in words."""

    groups: tuple[tuple[str, int], ...] = ()
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings(Query):
    """-> Around. Transports and MPING: ask each."""


@dataclass(frozen=True, slots=True)
class LacksCredit(Query):
    """-> tuple of the members whose missing credit holds up what waits for ``dest`` now, None: nothing
    waits. MFC and UFC: ask the one that said FlowBlocked."""

    dest: Address | None


@dataclass(frozen=True, slots=True)
class Attribute(Query):
    """-> Any: what a protocol of the user's wants to tell others under ``name``."""

    name: str
    argument: Any = None
