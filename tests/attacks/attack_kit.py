"""Attack: one attempt of a stranger who has a plain socket, knows all addresses, and has no key.

The stranger sends the bytes of a member from another place. An attempt has failed when three things hold: no member
is harmed (``Scene.harm``, and ``judge`` for more), members still work with each other, and the member has counted
the attempt under ``cause``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attack_scene import Scene

BOTH = ("UDP", "TCP")


@dataclass(frozen=True, slots=True)
class Attack:
    """``name``: the unique name of the attempt. ``sends``: the stranger's packets. ``harm``: the result that must not
    be.

    ``cause``: the counter of ``statistics().turned_away`` that shows it, or a statistic ``PROTOCOL.counter``.
    ``strike``: makes the attempt. ``judge``: more harm than that of ``Scene.harm``, in words, or "".
    ``on``: the transports against which it is tried. ``silent``: members must not answer.
    """

    name: str
    sends: str
    harm: str
    cause: str
    strike: Callable[[Scene], Awaitable[None]]
    judge: Callable[[Scene], str] = lambda scene: ""
    on: tuple[str, ...] = BOTH
    silent: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Attacks that one group suffers in a row. ``title``: a sentence for the table."""

    name: str
    title: str
    attacks: tuple[Attack, ...]
