"""Messages of buddy replication in a channel's payloads: one byte names the kind, then comes the envelope.

Nodes are checked here, on the way in. A machine takes any value, but a cache has only attributes in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from jgroups_py.buddy.codec import decode, decode_site, encode
from jgroups_py.buddy.messages import Answer, Chunk, FromSite, Message, Op, OpAck, Part, ToSite
from jgroups_py.buddy.site_messages import AnySiteMessage, EventAck, Listing, SiteEvent
from jgroups_py.buddy.values import OwnedNode as Entry
from jgroups_py.buddy.values import Path, ViewKey
from jgroups_py.cache.fqn import BACKUP_ROOT, KEPT_PATHS, Fqn
from jgroups_py.cache.node import MAX_KEY_BYTES, checked_key
from jgroups_py.errors import CacheRefused, RemoteProtocolError

KIND: Final = b"\xb1"
"""First byte of each payload: buddy replication, form 1."""
_BYTES: Final = (bytes, memoryview)
_IN_LOG: Final = (Op, Part)
_OF_SITES: Final = (ToSite, FromSite)


def payload_of(tag: ViewKey, message: Message) -> bytes:
    """Return a message as it travels."""
    return KIND + encode(tag, message)


def message_of(payload: object) -> tuple[ViewKey, Message]:
    """Decode a payload. RemoteProtocolError: ``payload_of`` never writes such bytes."""
    if not isinstance(payload, _BYTES) or payload[:1] != KIND:
        raise RemoteProtocolError("not of buddy replication")
    tag, message = decode(bytes(payload[1:]))
    if type(message) is OpAck:
        return tag, message
    try:
        in_log = isinstance(message, _IN_LOG)
        for path, entry in _entries(message):
            _check(path, entry, in_log=in_log)
        if isinstance(message, _OF_SITES):
            _check_site(message.message)
    except CacheRefused as error:
        raise RemoteProtocolError(f"not a node of a cache: {error}") from None
    return tag, message


def site_message_of(payload: bytes) -> AnySiteMessage:
    """Decode a post. RemoteProtocolError: no relay of a cache posts such bytes."""
    message = decode_site(payload)
    try:
        _check_site(message)
    except CacheRefused as error:
        raise RemoteProtocolError(f"not a node of a cache: {error}") from None
    return message


def _check_site(message: AnySiteMessage) -> None:
    match message:
        case SiteEvent(_, _, changes):
            for sent in changes:
                _check_value(sent.path, sent.value, sent.removed)
        case EventAck(_, _, paths):
            for path in paths:
                _check_path(path)
        case Listing(_, _, nodes):
            for node in nodes:
                _check_path(node.path)


def _entries(message: Message) -> Iterable[tuple[Path, Entry | None]]:
    match message:
        case Chunk(nodes):
            return nodes
        case Op(_, changes) | Part(changes):
            return changes
        case Answer(_, grants):
            return [(path, entry) for path, entry, _ in grants]
    return ()


def _check(path: Path, entry: Entry | None, *, in_log: bool) -> None:
    if entry is None or (entry.passive and in_log and entry.value is None):
        _check_path(path)  # holders have the value
    elif entry.passive:
        raise CacheRefused("no value")
    else:
        _check_value(path, entry.value, entry.removed)


@lru_cache(KEPT_PATHS)
def _check_path(path: Path) -> None:
    fqn = Fqn(path)
    if not fqn or fqn[0] == BACKUP_ROOT[0]:
        raise CacheRefused(f"{fqn} cannot be owned")


def _check_value(path: Path, found: object, removed: bool) -> None:
    _check_path(path)
    if removed:
        if found is not None:
            raise CacheRefused("removed, with a value")
    elif not isinstance(found, dict):
        raise CacheRefused("no attributes")
    else:
        for key, value in found.items():
            # Most names need no more than this; a node may have thousands.
            if not (type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES):
                checked_key(key)
            if type(value) is not bytes:
                raise CacheRefused(f"the value of {key} is not bytes")
