"""A stack of protocols, sans-IO: one member's machine. It exports all names that a protocol of your own needs.

May import: config, wire, values, errors.
Imported by: protocols, driver, channel and everything above.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.stack.protocol import (
        Batch,
        Bytes,
        Event,
        Fraction,
        Header,
        HostPorts,
        Protocol,
        Query,
        Seconds,
        Suspect,
        Timer,
        Unsuspect,
        ViewChange,
        register_header,
    )

__all__ = [
    "Batch",
    "Bytes",
    "Event",
    "Fraction",
    "Header",
    "HostPorts",
    "Protocol",
    "Query",
    "Seconds",
    "Suspect",
    "Timer",
    "Unsuspect",
    "ViewChange",
    "register_header",
]

_PLACES = {
    "protocol": "Batch Bytes Event Fraction Header HostPorts Protocol Query Seconds Suspect Timer Unsuspect ViewChange register_header",
}
"""Names that are imported on first use, by module. Rooms without a stack use small modules of this one."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
