"""Every error this library raises.

JGroupsError
  ConfigError               a stack, drill or cache file says something that cannot be
  LocalProtocolError        you asked for something the protocol forbids
  RemoteProtocolError       a peer did; stays inside the stack: counted, traced, dropped
  ChannelClosed             also trio.ClosedResourceError: you closed it
  Expelled                  also trio.BrokenResourceError: the group went on without you
  JoinError                 the group could not be joined
  CallError                 .definite tells whether the call certainly did not run
    Unreachable             definite
    Suspected, ReplyLost    not definite: it may have run
  StateTransferError        who was asked, how many bytes had arrived
  CacheError                .definite tells whether certainly nothing was changed
    CacheRefused            also ValueError: a path, name, value or option that cannot be; definite
    CacheClosed             also trio.ClosedResourceError: you closed it; definite
    BatchConflict           what the batch had read was changed by others; definite
    LockTimeout             another call held what this one touches; definite
    StoreError              the store failed; .definite says what that means for the call
    ReplicationError        the others did not confirm; it may have happened
"""

from __future__ import annotations

import trio


class JGroupsError(Exception):
    """Base of all errors of this library."""


class ConfigError(JGroupsError):
    """A configuration says something that cannot be. Nothing was started.

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
    """A peer sent something that cannot be. Never leaves the stack: counted, traced, dropped.

    ``offset`` is the index of the byte at which reading stopped, where known.
    """

    def __init__(self, problem: str, offset: int | None = None) -> None:
        self.problem = problem
        self.offset = offset
        super().__init__(problem if offset is None else f"{problem} (at offset {offset})")


class ChannelClosed(JGroupsError, trio.ClosedResourceError):
    """You closed the channel. Open a new one."""


class Expelled(JGroupsError, trio.BrokenResourceError):
    """The group went on without this member. Leave the block and open a new channel."""


class JoinError(JGroupsError):
    """The group could not be joined. Nothing is left behind: no socket, no task."""


class CallError(JGroupsError):
    """A remote call failed. ``definite``: it certainly did not run."""

    definite = False


class Unreachable(CallError):
    """The member was not in the view. The call certainly did not run."""

    definite = True


class Suspected(CallError):
    """The member left or crashed while the call was under way. It may have run."""


class ReplyLost(CallError):
    """The answer did not come. The call may have run."""


class StateTransferError(JGroupsError):
    """The state did not arrive. The channel still works, without the state.

    ``provider`` is the name of the member that was asked, ``received`` the bytes that had arrived.
    """

    def __init__(self, problem: str, provider: str, received: int = 0) -> None:
        self.provider = provider
        self.received = received
        super().__init__(f"{problem} (provider {provider}, {received} bytes received)")


class CacheError(JGroupsError):
    """A call on a tree cache failed. ``definite``: it certainly changed nothing."""

    definite = True


class CacheRefused(CacheError, ValueError):
    """A path, name, value or option that cannot be. Nothing was changed; the cache still works."""


class CacheClosed(CacheError, trio.ClosedResourceError):
    """The cache is closed. Nothing was changed; open a new one."""


class BatchConflict(CacheError):
    """What the batch had read was changed by others since. Nothing was changed; run it again."""


class LockTimeout(CacheError):
    """Another call held what this one touches for too long. Nothing was changed."""


class StoreError(CacheError):
    """The store of a cache failed. ``definite``: the call changed nothing. The cache goes on."""

    def __init__(self, problem: str, *, definite: bool = True) -> None:
        self.definite = definite
        super().__init__(problem)


class ReplicationError(CacheError):
    """The other members did not confirm a change in time. It may have happened, here or there."""

    definite = False
