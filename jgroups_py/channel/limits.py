"""How much a member may hold at most, by the attributes that say so.

    limits = memory_limits(stack, channel_limits)
    sum(limit.bytes for limit in limits)

Counted is what messages under flow control can fill, for the members of the present view, child stacks
included. Not counted are limits that such traffic never reaches, however large they are set (a stream's
unsent bytes, messages without flow control, incomplete large messages): counting them would allow more.

Sizes are payload plus what a message costs beside it, as each protocol counts it; see
``Protocol.memory_limits``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jgroups_py.stack.stack import Stack
from jgroups_py.values.events import GetView

if TYPE_CHECKING:
    from jgroups_py.channel.values import ChannelLimits


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """``bytes`` that ``attribute`` of ``owner`` (a protocol, or the channel) lets a member hold.

    ``cluster``: of which of the member's stacks.
    """

    cluster: str
    owner: str
    attribute: str
    bytes: int


def memory_limits(stack: Stack, channel: ChannelLimits | None = None) -> list[MemoryLimit]:
    """The limits of a connected stack, of the stacks its protocols opened, and of its channel."""
    limits = []
    if channel is not None:
        limits.append(
            MemoryLimit(stack.cluster, "channel", "send_buffer_max", channel.send_buffer_max)
        )
    for one in (stack, *stack.children):
        limits += _of(one)
    return limits


def _of(stack: Stack) -> Iterable[MemoryLimit]:
    view = stack.ask(GetView())
    members = 1 if view is None else len(view)
    for protocol in stack.protocols:
        for attribute, size in protocol.memory_limits(members).items():
            yield MemoryLimit(stack.cluster, protocol.name, attribute, size)
