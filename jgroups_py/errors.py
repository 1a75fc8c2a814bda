"""Every error this library raises.

JGroupsError
  ConfigError               a stack, drill or cache file has a wrong entry
  LocalProtocolError        you asked for something the protocol forbids
  RemoteProtocolError       a peer sent what the protocol forbids; it never leaves the stack
  ChannelClosed             also trio.ClosedResourceError: you closed it
  Expelled                  also trio.BrokenResourceError: the group went on without you
  JoinError                 the group could not be joined
  ProtocolFailed            a protocol of this member's stack raised; .protocol is its name
  CallError                 a remote call failed; .definite: it certainly did not run; .member: where
    Unreachable, Refused    definite
    Suspected, ReplyLost    not definite: the call may have run
    RemoteError             the method ran and raised
    NoAnswer                no member answered with a value; definite if it certainly ran nowhere
  WaitTimeout               also TimeoutError: the condition of a wait_ function was not met in time
  StateTransferError        the state did not arrive; .provider was asked, .received bytes had come
  CacheError                a call on a tree cache failed; .definite: it certainly changed nothing
    CacheRefused            also ValueError: a path, name, value or option is wrong; definite
    CacheClosed             also trio.ClosedResourceError: you closed it; definite
    BatchConflict           another call changed what the batch had read; definite
    LockTimeout             another call held a lock that this one needs; definite
    StoreError              the store failed; .definite: the call changed nothing
    NotOwner                another member owns the node, and the call may not take it; definite
    ReplicationError        the others did not confirm; .definite: the call changed nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from jgroups_py.values.address import Address
    from jgroups_py.values.lost import Lost


class JGroupsError(Exception):
    """Base of all errors of this library."""


class ConfigError(JGroupsError):
    """A configuration is wrong. Nothing was started.

    The text reads ``file:line:column: PROTOCOL.attribute: what is wrong (what would be accepted)``.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        where: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.line = line
        self.column = column
        self.where = where
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(": ".join(part for part in (place, where, problem) if part))


class LocalProtocolError(JGroupsError):
    """You asked for something the protocol forbids. Nothing was sent; the channel still works."""


class RemoteProtocolError(JGroupsError):
    """A peer sent something that the protocol forbids. The stack counts, traces and drops it; users never see this
    error.

    ``offset`` is the index of the byte at which reading stopped, where known.
    """

    def __init__(self, problem: str, offset: int | None = None) -> None:
        self.problem = problem
        self.offset = offset
        super().__init__(problem if offset is None else f"{problem} (at offset {offset})")


class ChannelClosed(JGroupsError, trio.ClosedResourceError):
    """You closed the channel. Open a new one."""


class Expelled(JGroupsError, trio.BrokenResourceError):
    """The group went on without this member, or its own reader made it leave. The call that raises this error
    sent nothing. Leave the block and open a new channel.

    ``lost`` has the messages sent before that may not have been delivered, by destination (``Lost``)."""

    def __init__(self, problem: str, lost: tuple[Lost, ...] = ()) -> None:
        self.lost = lost
        super().__init__(problem)


class JoinError(JGroupsError):
    """The group could not be joined. Nothing is left behind: no socket, no task."""


class ProtocolFailed(JGroupsError):
    """A protocol of this member's stack raised an error, which is the cause (``__cause__``). The member has ended without a goodbye,
    and the others regard it as crashed. No task and no socket is left behind.

    ``protocol`` is the protocol's name, as in the stack file.
    """

    def __init__(self, problem: str, protocol: str) -> None:
        self.protocol = protocol
        super().__init__(problem)


class CallError(JGroupsError):
    """A remote call failed. ``definite``: it certainly did not run at ``member``."""

    __match_args__ = ("member",)
    definite = False

    def __init__(self, problem: str, member: Address | None = None) -> None:
        self.member = member
        super().__init__(problem)


class Unreachable(CallError):
    """The member was not in the view. The call certainly did not run there."""

    definite = True


class Refused(CallError):
    """The member did not run the call: it has no such method, could not read the arguments, or
    dropped the call unread. It certainly did not run there."""

    definite = True


class Suspected(CallError):
    """The member left or crashed while the call was under way. It may have run."""


class ReplyLost(CallError):
    """The answer did not come or could not be kept. The call may have run."""


class RemoteError(CallError):
    """The method raised at the member. ``type`` is the name of the error's class, ``text`` the error's text."""

    def __init__(self, type: str, text: str, member: Address | None = None) -> None:
        self.type = type
        self.text = text
        super().__init__(f"{type}: {text}" if text else type, member)


class NoAnswer(CallError):
    """No member answered with a value. ``replies`` has the other outcomes, one reply for each member."""

    def __init__(self, problem: str, replies: tuple[Any, ...] = (), *, definite: bool) -> None:
        self.replies = replies
        self.definite = definite
        super().__init__(problem)


class StateTransferError(JGroupsError):
    """The state did not arrive. The channel still works, without the state.

    ``provider`` is the name of the member that was asked, ``received`` the bytes that had arrived.
    """

    def __init__(self, problem: str, provider: str, received: int = 0) -> None:
        self.provider = provider
        self.received = received
        super().__init__(f"{problem} (provider {provider}, {received} bytes received)")


class WaitTimeout(JGroupsError, TimeoutError):
    """The condition that a ``wait_`` function waits for was not met in time. The text names the missing part. Nothing
    was changed; the channel or cache still works."""


class CacheError(JGroupsError):
    """A call on a tree cache failed. ``definite``: it certainly changed nothing."""

    definite = True


class CacheRefused(CacheError, ValueError):
    """A path, name, value or option is wrong. Nothing was changed; the cache still works."""


class CacheClosed(CacheError, trio.ClosedResourceError):
    """The cache is closed. Nothing was changed; open a new one."""


class BatchConflict(CacheError):
    """Another call has changed what the batch had read. The batch changed nothing; run it again."""


class LockTimeout(CacheError):
    """A lock that this call needs was held by another call for too long. Nothing was changed."""


class StoreError(CacheError):
    """The store of a cache failed. ``definite``: the call changed nothing. The cache continues."""

    def __init__(self, problem: str, *, definite: bool = True) -> None:
        self.definite = definite
        super().__init__(problem)


class NotOwner(CacheError):
    """Another member owns the node, and the call may not take it (gravitation). Nothing was changed."""


class ReplicationError(CacheError):
    """The other members did not confirm in time. ``definite``: the call changed nothing."""

    def __init__(self, problem: str, *, definite: bool = False) -> None:
        self.definite = definite
        super().__init__(problem)
