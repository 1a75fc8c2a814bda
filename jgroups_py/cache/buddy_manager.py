"""BuddyManager: the buddy machine of this member on its channel. It exists only if buddies are configured.

    views, payloads --> queue --> machine --> entries touched --> changed()
    calls, time ----------------> machine --> Completed --------> told()
                                     |
                                     +------> Send: unicasts with NO_RELAY

The manager is attached to the channel before the channel joins (``Tap``), because the machine must see every view. A
message to all members goes to each of them as a unicast: the machine needs one order for each pair, and a sender's
multicasts and unicasts are two streams. NO_RELAY: messages of buddies stay in this group. Other sites get events.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.claims import Keeping
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.locator import BuddyLocator
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Message, OpAck
from jgroups_py.buddy.outputs import (
    BuddyEvent,
    Completed,
    DroppedValue,
    Output,
    SendMessage,
    SendSite,
)
from jgroups_py.buddy.values import BuddyGroup, Path, ViewKey
from jgroups_py.buddy.values import OwnedNode as Entry
from jgroups_py.cache.buddy_sites import CacheSites, FromRelay, config_with_sites
from jgroups_py.cache.buddy_wire import message_of, payload_of
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.owned_tree import Touched
from jgroups_py.cache.sizes import JoinedPieces, is_piece, pieces_of
from jgroups_py.cache.sparing import Sparing
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.given import check_size
from jgroups_py.channel.watch import WAIT_SECONDS, Watch
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import (
    CacheRefused,
    ConfigError,
    JGroupsError,
    LocalProtocolError,
    RemoteProtocolError,
)
from jgroups_py.stack.raised import said
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View

_log = logging.getLogger("jgroups_py.cache")
_NO_RELAY: Final = int(Flag.NO_RELAY)
_EACH_WRITE: Final = ("unprotected", "protected")
"""Events that come with each write and are not logged."""
_DISCARDED = "values discarded (TreeCache.discarded)"
TICK = 1.0
"""Seconds between two calls of the machine's ``advance``."""


class BuddyManager:
    """See the module. ``source``: the cache file. ``changed()``: the machine has made a step. ``told(completed)``: a
    call has ended. ``ended_by(error)``: the channel has ended. ``discarded(value)``: a merge has dropped a value.
    ``needed(paths)``: the machine needs the values of passive nodes; ``activate`` answers. ``keeping(path)``: does a
    call here still need the node?"""

    def __init__(
        self,
        config: BuddyConfig,
        locator: BuddyLocator,
        *,
        source: str,
        changed: Callable[[], None],
        told: Callable[[Completed], None],
        ended_by: Callable[[Exception], None],
        discarded: Callable[[DroppedValue], None],
        needed: Callable[[Sequence[Path]], None],
        keeping: Keeping,
    ) -> None:
        self._config = config
        self._locator = locator
        self._source = source
        self._changed = changed
        self._told = told
        self._ended_by = ended_by
        self._discarded = discarded
        self._needed = needed
        self._keeping = keeping
        self._channel: Channel
        self.machine: BuddyMachine
        self.entries: Mapping[Path, Entry]
        """The nodes of this member as the machine has them."""
        self.touched = Touched()
        self.ready = trio.Event()
        """Set when this member has a view."""
        self._sites: CacheSites | None = None
        self._incoming: deque[View | Batch | FromRelay] = deque()
        self._wake = trio.Event()
        self._receiving = self._draining = False
        self._unsaid: list[SendMessage] | None = None
        self._acknowledged = 0
        """Acknowledgements that were sent."""
        self._pushing = trio.Event()
        self._waiting: dict[Address, deque[bytes]] = {}
        self._joined = JoinedPieces()
        self._nursery: trio.Nursery | None = None
        self._may_go = trio.Event()
        self._steps = Watch()
        self._ended = False
        self._garbage = 0
        self._sparing = Sparing(self._warn)
        self.view: View
        """The newest view that the machine has."""
        self.on_view: Callable[[View], None] = lambda view: None
        """Called with each view that the machine has installed."""

    # --- reading

    @property
    def members(self) -> tuple[Address, ...]:
        """Return the members of the view in which the buddies were chosen."""
        return self.machine.members

    @property
    def channel(self) -> Channel:
        """Return the channel that it works on."""
        return self._channel

    @property
    def size_max(self) -> int | None:
        """Return the most bytes of one message. None: any size, because the stack cuts large ones."""
        return self._channel.outbox.size_max

    @property
    def group(self) -> BuddyGroup:
        """Return the group that this member owns."""
        return self.machine.buddies.group

    @property
    def groups(self) -> tuple[BuddyGroup, ...]:
        """Return the groups in which this member is a buddy, those of departed members included."""
        return tuple(backup.group for backup in self.machine.backups.of.values())

    @property
    def sites(self) -> CacheSites:
        """Return the other sites. CacheRefused: the stack has no RELAY."""
        if self._sites is None:
            raise CacheRefused("there are no other sites: the stack has no RELAY")
        return self._sites

    @property
    def protected(self) -> bool:
        """Return whether every node of this member has all its copies. The cluster is protected when this is true at all
        members: then any ``numBuddies`` of them may crash."""
        return self.machine.protected

    async def wait_protected(
        self, size: int | None = None, *, timeout: float | None = WAIT_SECONDS
    ) -> None:
        """Wait as ``TreeCache.wait_protected`` does. Raises ChannelClosed and Expelled."""
        if size is not None:
            check_size("size", size)

        def is_so() -> bool:
            if (error := self._channel.error) is not None:
                raise error
            machine = self.machine
            return machine.protected and (size is None or len(machine.members) == size)

        await self._steps.until(is_so, timeout, lambda: self._unprotected(size))

    def _unprotected(self, size: int | None) -> str:
        """Describe the condition that ``wait_protected`` waits for."""
        machine = self.machine
        parts = []
        if size is not None and len(machine.members) != size:
            parts.append(f"there are {len(machine.members)} members, not {size}")
        if not machine.settled:
            parts.append("the members have not agreed since the last view")
        if unsaid := machine.log.seq - machine.log.acked:
            parts.append(f"buddies have not acknowledged {unsaid} changes")
        if not machine.buddies.complete:
            parts.append("a buddy does not have everything yet")
        if machine.ownership.moving:
            parts.append(f"{machine.ownership.moving} nodes are moving to another owner")
        if not parts:
            parts.append("nodes of a member that is gone have no owner yet")
        return f"the nodes of {self._channel.name} are not protected: {', '.join(parts)}"

    def backups(self) -> Mapping[str, Mapping[Path, Entry]]:
        """Return the backups kept for other members, by the name of their group."""
        return {b.group.name: b.nodes for b in self.machine.backups.of.values()}

    def statistics(self) -> Mapping[str, int]:
        """Counters by name."""
        machine = self.machine
        return {
            **{f"buddy_{name}": count for name, count in machine.statistics.items()},
            "buddy_garbage": self._garbage,
            "buddy_hints_broken": getattr(self._locator, "hints_broken", 0),
            "buddies": len(machine.buddies.wanted),
            "buddies_missing": self._config.num_buddies - len(machine.buddies.wanted),
            "buddy_groups": len(machine.backups.of),
            "nodes_adopted": len(machine.ownership.adopted_from),
            "protected": int(machine.protected),
            "minority": int(machine.minority),
            "settled": int(machine.settled),
        }

    # --- the channel (Tap)

    def attach(self, channel: Channel) -> BuddyManager:
        """Make the machine with the channel's address. ConfigError: the locator refused its properties."""
        self._channel = channel
        relay = channel.relay
        if relay is not None:
            self._config = config_with_sites(self._config, relay, self._source)
            self._sites = CacheSites(relay, self._heard, self._after)
        try:
            self.machine = BuddyMachine(
                channel.address,
                self._config,
                name=channel.name,
                locator=self._locator,
                watch=self.touched.note,
                keeping=self._keeping,
            )
        except ConfigError as error:
            if error.file is not None:
                raise
            where = error.where or "buddyLocatorProperties"
            raise ConfigError(error.problem, file=self._source, where=where) from error
        except Exception as error:  # a user's locator may raise anything
            raise ConfigError(
                f"init() raised {said(error)} (it is given buddyLocatorProperties, texts by name)",
                file=self._source,
                where="buddyLocatorClass",
            ) from error
        self.entries = self.machine.own
        if self._sites is not None:
            self._sites.machine = self.machine
        return self

    def deliver(self, batch: Batch) -> bool:
        self._incoming.append(batch)
        self._drain_soon()
        return True

    def view_changed(self, view: View) -> None:
        self._incoming.append(view)
        self._drain_soon()

    def excluded(self, gone: tuple[Address, ...]) -> None:
        """Ignore it: the following merge view tells the machine which members were apart."""

    def state_replaced(self, unread: list[Batch]) -> None:
        """Ignore it: buddy replication transfers no state (B39)."""

    def reading(self) -> tuple[object, int]:
        """Report no unread items, because the cache takes all items at once."""
        return None, 0

    def ended(self, error: Exception) -> None:
        self._ended = True
        self._may_go.set()
        self._steps.changed()
        self._ended_by(error)

    # --- calls

    def submit(self, call: BuddyCall, *, alone: bool = False) -> None:
        """Begin a call. ``told`` reports its end, perhaps before this returns. ``alone``: no other call is under way,
        so its messages leave at once and are not bundled."""
        self.machine.submit(call, self._channel.driver.clock())
        self._after(alone=alone)

    def cancel(self, call: int) -> None:
        """Cancel a call whose caller does not wait any more. ``told`` reports its end before this returns."""
        self.machine.cancel(call, trio.current_time())
        self._after()

    def activate(self, values: Mapping[Path, dict[str, bytes]]) -> None:
        """Give the machine values that are in memory again. Calls that waited for them go on at once."""
        self.machine.activate(values, trio.current_time())
        self._after()
        if not self._waiting and self.machine.push(trio.current_time()):
            self._after()

    def look(self) -> None:
        """Release nodes that calls here have kept."""
        self.machine.look(trio.current_time())
        self._after()

    async def leave(self) -> None:
        """Hand over all nodes. Return when it is safe to go or ``leave_timeout`` is over."""
        self.machine.leave(trio.current_time())
        self._after()
        await self._may_go.wait()

    # --- running

    async def run(self) -> None:
        """Run until cancelled. Raises the channel's errors."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._receive)
                nursery.start_soon(self._tick)
                nursery.start_soon(self._push)
                while True:  # the stream holds views only: ``deliver`` took the rest
                    await self._channel.next_held(self)
        except BaseExceptionGroup as group:
            reraise(group)

    async def _receive(self) -> None:
        self._receiving = True
        try:
            while True:
                self._drain()
                await self._wake.wait()
                self._wake = trio.Event()
        finally:
            self._receiving = False

    def _drain_soon(self) -> None:
        """Handle new items in the driver's turn that brought them, so that answers leave in the same turn. Before
        ``run`` they wait."""
        if self._receiving and not self._draining:
            self._drain()

    def _drain(self) -> None:
        self._draining, incoming = True, self._incoming
        try:
            while incoming:
                item = incoming.popleft()
                if isinstance(item, View):
                    self._install(item)
                elif isinstance(item, Batch):
                    self._take(item)
                else:
                    self._from_relay(item)
        finally:
            self._draining = False

    def _install(self, view: View) -> None:
        self.machine.install(view, trio.current_time())
        self.view = view
        self.on_view(view)
        for member in [m for m in self._waiting if m not in view.members]:
            self._waiting[member].clear()
        self._joined.view_installed(view.members)
        self._after()
        self.ready.set()

    def _take(self, batch: Batch) -> None:
        """Handle all messages of a batch, then send the answers. An owner that writes again and again sends the next change soon after
        the acknowledgement, so the driver may look for it (request_watch.py)."""
        acknowledged = self._acknowledged
        self._answer(batch)
        if self._acknowledged != acknowledged:
            self._channel.driver.answered += len(batch.payloads)

    def _answer(self, batch: Batch) -> None:
        """Handle all messages of a batch. Send only the last of several acknowledgements in a row: it covers the others."""
        if len(batch.payloads) == 1:
            self._receive_all(batch, alone=True)
            return
        self._unsaid = []
        try:
            self._receive_all(batch)
        finally:
            unsaid, self._unsaid = self._unsaid, None
            for n, send in enumerate(unsaid, 1):
                following = unsaid[n] if n < len(unsaid) else None
                if not (
                    following is not None
                    and type(send.message) is type(following.message) is OpAck
                    and send.to == following.to
                ):
                    self._say(send)

    def _receive_all(self, batch: Batch, *, alone: bool = False) -> None:
        now = self._channel.driver.clock()
        for payload in batch.payloads:
            try:
                tag, message = message_of(payload)
            except RemoteProtocolError as error:
                found = self._of_pieces(batch.src, payload, error)
                if found is None:
                    continue
                tag, message = found
            assert batch.src is not None
            self.machine.receive(batch.src, tag, message, now)
            self._after(alone=alone)

    def _of_pieces(
        self, src: Address | None, payload: object, error: RemoteProtocolError
    ) -> tuple[ViewKey, Message] | None:
        """Return the message that a piece completes. ``error``: why ``payload`` itself is no message."""
        try:
            if src is None or not is_piece(payload):
                raise error
            whole = self._joined.add(src, payload)
            return None if whole is None else message_of(whole)
        except RemoteProtocolError as problem:
            self._garbage += 1
            self._spare("messages dropped", "a message of %s is dropped: %s", src, problem)
            return None

    def _heard(self, item: FromRelay) -> None:
        self._incoming.append(item)
        self._wake.set()

    def _from_relay(self, item: FromRelay) -> None:
        try:
            self.sites.take(item)
        except RemoteProtocolError as error:
            self._spare("messages dropped", "a message of another site is dropped: %s", error)
        self._after()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(TICK)
            self.machine.advance(trio.current_time())
            self._sparing.look(trio.current_time())
            if self._sites is not None:
                self._sites.look()
            self._after()

    async def _push(self) -> None:
        """Send state to new buddies, piece by piece, while there is room."""
        while True:
            await self._pushing.wait()
            self._pushing = trio.Event()
            while not self._waiting and self.machine.push(trio.current_time()):
                self._after()
                await trio.lowlevel.checkpoint()

    def _after(self, *, alone: bool = False) -> None:
        """Act on the outputs of a step of the machine. Messages come first: this member's own tree changes while they travel.
        ``alone``: there are no others to bundle with them."""
        machine = self.machine
        outputs = machine.out.take()
        if alone and outputs:
            self._channel.driver.at_once(partial(self._say_all, outputs, alone))
        else:
            self._say_all(outputs)
        self._changed()
        if self._steps:
            self._steps.changed()
        for output in outputs:
            if type(output) is Completed:
                self._told(output)
            elif type(output) is SendSite:
                self.sites.post(output.site, output.message)
            elif type(output) is BuddyEvent and output.kind not in _EACH_WRITE:
                self._happened(output.kind, output.detail)
        if machine.buddies.pushing:
            self._pushing.set()

    def _say_all(self, outputs: Sequence[Output], alone: bool = False) -> None:
        for output in outputs:
            if type(output) is SendMessage:
                if self._unsaid is None:
                    self._say(output, alone)
                else:
                    self._unsaid.append(output)

    def _say(self, send: SendMessage, alone: bool = False) -> None:
        payload, machine = payload_of(send.tag, send.message), self.machine
        if type(send.message) is OpAck:
            self._acknowledged += 1
        if send.to is not None:
            self._send(send.to, payload, alone)
            return
        for member in machine.members:
            if member != machine.me:
                self._send(member, payload, alone)

    def _happened(self, kind: str, detail: object) -> None:
        match kind:
            case "may_leave":
                self._may_go.set()
            case "leave_timed_out":
                self._warn("not everything was handed over in time: this leave is a crash")
                self._may_go.set()
            case "suspect" if isinstance(detail, Address):
                name = self._channel.name_of(detail)
                self._warn("%s has not reported what it holds: nothing can be claimed yet", name)
            case "discarded" if isinstance(detail, DroppedValue):
                path, name = Fqn(detail.path), self._channel.name_of(detail.member)
                text = "the merge discarded a value: %s of %s, %s"
                self._spare(_DISCARDED, text, path, name, detail.stamp)
                self._discarded(detail)
            case "activate" if isinstance(detail, tuple):
                self._needed(detail)
            case "site_discarded" if isinstance(detail, DroppedValue):
                path = Fqn(detail.path)
                text = "a value of site %s is discarded: %s %s"
                self._spare(_DISCARDED, text, detail.side, path, detail.stamp)
                self._discarded(detail)
            case "out_of_sync":
                self._warn("site %s: out of sync", detail)
            case "in_sync" | "bootstrap_complete" | "reconcile_complete" | "repair_complete":
                self._tell("site %s: %s", detail, kind.replace("_", " "))
            case "promoted":
                self._tell("this site is the first one, epoch %s", detail)
            case "complaint":
                self._spare("complaints", "%s", detail)

    # --- sending

    def _send(self, to: Address, payload: bytes, alone: bool) -> None:
        queue = self._waiting.get(to)
        if queue is None:
            try:
                if not (alone and self._is_past_outbox(payload, to)):
                    self._channel.send_nowait(payload, to, flags=_NO_RELAY)
            except trio.WouldBlock:
                self._waiting[to] = deque([payload])
                if self._nursery is not None:
                    self._nursery.start_soon(self._send_waiting, to)
            except LocalProtocolError:
                self._send_in_pieces(to, payload)
            except JGroupsError:
                pass  # the channel has ended; ``ended_by`` reports it
        elif (most := self.size_max) is not None and len(payload) > most:
            self._send_in_pieces(to, payload)
        else:
            queue.append(payload)

    def _send_in_pieces(self, to: Address, payload: bytes) -> None:
        """Send a message that no packet takes (sizes.py)."""
        most = self.size_max
        assert most is not None and len(payload) > most, "the channel refused it for another reason"
        for piece in pieces_of(payload, most):
            self._send(to, piece, alone=False)

    def _is_past_outbox(self, payload: bytes, to: Address) -> bool:
        """Give a message to the stack, if nothing stands before it. It leaves with the present turn. Return whether that was done."""
        stack, outbox = self._channel.stack, self._channel.outbox
        batch = None if stack.closed else outbox.alone(payload, len(payload), to, {}, _NO_RELAY)
        if batch is None:
            return False
        try:
            stack.send(batch)
        except Exception as error:  # a protocol's: it ends the channel and not this call alone
            self._channel.driver.fail(error)
        return True

    async def _send_waiting(self, to: Address) -> None:
        """Send the messages that waited for credit, in order. The log bounds them, and no node is pushed meanwhile."""
        queue = self._waiting[to]
        try:
            while queue:
                payload = queue[0]
                await self._channel.send(payload, to, flags=_NO_RELAY)
                if queue and queue[0] is payload:  # otherwise the receiver has left meanwhile
                    queue.popleft()
        except JGroupsError:
            pass
        finally:
            del self._waiting[to]
            self._pushing.set()

    def _spare(self, kind: str, text: str, *values: object) -> None:
        self._sparing.warn(kind, trio.current_time(), text, *values)

    def _warn(self, text: str, *values: object) -> None:
        self._tell(text, *values, level=logging.WARNING)

    def _tell(self, text: str, *values: object, level: int = logging.INFO) -> None:
        channel = self._channel
        extra = {"member": channel.name, "cluster": channel.cluster}
        _log.log(level, f"%s/%s: {text}", channel.name, channel.cluster, *values, extra=extra)
