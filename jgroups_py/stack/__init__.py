"""A stack of protocols, sans-IO: one member's machine. Everything that a protocol of your own is written with is exported here.

May import: config, wire, values, errors.
Imported by: protocols, driver, channel and everything above.
"""

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
)
from jgroups_py.wire import packet as packet  # values.batch measures payloads with it
from jgroups_py.wire.own_headers import register_header

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
