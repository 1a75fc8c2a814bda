"""Computes how much memory a member may hold, with the attributes that limit it.

    limits = memory_limits(stack, channel_limits)
    sum(limit.bytes for limit in limits)

The sum is the memory that messages under flow control can fill, for the members of the present view, child stacks
included. It leaves out limits that such traffic never reaches (a stream's unsent bytes, messages without flow control,
incomplete large messages), because they would make the allowed memory too large.

A size is that of the payload and of a message's other memory, as each protocol counts it; see
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
    """``attribute`` of ``owner`` (a protocol, or the channel) lets a member hold ``bytes``.

    ``cluster`` names the stack, because a member may have several.
    """

    cluster: str
    owner: str
    attribute: str
    bytes: int


def memory_limits(stack: Stack, channel: ChannelLimits | None = None) -> list[MemoryLimit]:
    """Return the limits of a connected stack, of the stacks that its protocols opened, and of its channel."""
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
