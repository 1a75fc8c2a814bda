"""Protocol classes by name, imported on demand.

``find`` knows the protocols of this package, names of JGroups that are not built here (for a clear error instead of
"unknown"), and any class by its import path, ``my_package.module.CLASS``.
"""

from __future__ import annotations

import importlib
from typing import Final

from jgroups_py.config.model import canonical, nearest
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Protocol

_ROOMS: Final = {
    "transport": ["UDP", "TCP", "SHARED_LOOPBACK"],
    "discovery": [
        "PING",
        "MPING",
        "TCPPING",
        "SHARED_LOOPBACK_PING",
        "LOCAL_PING",
        "FILE_PING",
        "TCPGOSSIP",
        "DNS_PING",
        "KUBE_PING",
        "JDBC_PING2",
    ],
    "failure": ["FD_SOCK2", "FD_ALL3", "VERIFY_SUSPECT2"],
    "reliable": ["STABLE", "BARRIER"],
    "reliable.nakack2": ["NAKACK2"],
    "reliable.unicast3": ["UNICAST3"],
    "membership": ["MERGE3"],
    "membership.gms": ["GMS"],
    "flow": ["MFC", "UFC"],
    "relay": ["RELAY"],
    "seal": ["SEAL"],
    "security": ["SYM_ENCRYPT", "ASYM_ENCRYPT", "AUTH"],
    "": ["RED", "FRAG2", "STATE_TRANSFER"],
}
"""Folder -> its protocols. A protocol that is a folder of its own is in that folder's protocol.py."""


def _place(room: str, name: str) -> str:
    last = room.rpartition(".")[2]
    module = "protocol" if last == name.lower() else name.lower()
    return ".".join(part for part in ("jgroups_py.protocols", room, module) if part) + f":{name}"


BUILT: Final = {name: _place(room, name) for room, names in _ROOMS.items() for name in names}
"""Names with the ``module:class`` that implements them."""

NOT_BUILT: Final = frozenset(
    [
        "TUNNEL",
        "JDBC_PING",
        "AWS_PING",
        "S3_PING",
        "NATIVE_S3_PING",
        "GOOGLE_PING",
        "GOOGLE_PING2",
        "AZURE_PING",
        "SWIFT_PING",
        "RACKSPACE_PING",
        "BPING",
        "PDC",
        "FD_HOST",
        "NAKACK3",
        "NAKACK4",
        "UNICAST4",
        "FRAG",
        "FRAG3",
        "FRAG4",
        "RSVP",
        "STATE",
        "STATE_SOCK",
        "SEQUENCER",
        "SEQUENCER2",
        "RELAY2",
        "RELAY3",
        "FORK",
        "COUNTER",
        "SERIALIZE",
        "SSL_KEY_EXCHANGE",
        "DH_KEY_EXCHANGE",
        "COMPRESS",
        "STATS",
        "SIZE",
        "SIZE2",
        "TIME",
        "PERF",
        "SNIFF",
        "HDRS",
        "THREAD_COUNT",
        "TRACE",
        "SOS",
        "DISCARD",
        "DROP",
        "DELAY",
        "DUPL",
        "SHUFFLE",
        "REVERSE",
        "DISCARD_PAYLOAD",
        "RATE_LIMITER",
        "RATE_LIMITER2",
        "DAISYCHAIN",
        "INJECT_VIEW",
        "STOMP",
        "BATCH",
        "BATCH2",
        "UNBATCH",
        "CLEAR_FLAGS",
        "NON_BLOCKING_SENDS",
    ]
)
"""Names of JGroups that this package does not have yet."""


def find(name: str) -> type[Protocol]:
    """Return the class of that name; prefixes and aliases as in a stack file.

    Raises:
        ConfigError: the name is unknown, not built yet, or cannot be imported.
    """
    name = canonical(name)
    if name in BUILT:
        return _load(name, BUILT[name])
    if name in NOT_BUILT:
        raise ConfigError("a JGroups protocol that jgroups_py does not have yet")
    module, _, cls = name.rpartition(".")
    if module and all(part.isidentifier() for part in name.split(".")):
        return _load(name, f"{module}:{cls}")
    hint = nearest(name, [*BUILT, *sorted(NOT_BUILT)])
    raise ConfigError(f"unknown protocol{hint or ' (your own is named by its import path)'}")


def is_built(name: str) -> bool:
    """Return whether ``find`` has a class for a JGroups name, without importing it."""
    return canonical(name) in BUILT


def _load(name: str, place: str) -> type[Protocol]:
    module_name, _, class_name = place.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but not a module that it imports
        if module_name.startswith("jgroups_py."):
            raise ConfigError(f"is not built: there is no {module_name}") from None
        raise ConfigError(f'cannot import "{module_name}": no module "{error.name}"') from None
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Protocol)):
        what = "has no such class" if found is None else "is not a Protocol"
        raise ConfigError(f'"{class_name}" of module {module_name} {what}')
    return found
