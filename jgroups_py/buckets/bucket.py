"""Bucket: one copy of a bucket, its entries and their handling of requests. It knows no other member.

Source: 4.3.2, 4.5.2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jgroups_py.buckets.digest import checked_key
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import BadKey, BadPlugin
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.messages import EntryChange, Kept, Replies, RequestId
from jgroups_py.buckets.plugin import BODY_MAX, Entry, EntryBehaviourProvider, Reply, Request

PIECES_MAX = 1_000
"""The most named pieces of one entry."""
REPLIES_MAX = 10_000
"""The most replies of one request."""
ENTRY_BYTES_MAX = 2 * BODY_MAX
"""The most bytes of all pieces of one entry, and of all replies of one request. Either travels in one message."""
Find = Callable[[], Sequence[tuple[ProxyId, Mapping[str, str]]]]


Saved = tuple[bytes | dict[str, bytes], int]
"""The saved form of an entry, its bytes or named pieces, and its version. The garbage collector skips a pair of bytes
and a number, so millions of unused entries cost it nothing."""


class RequestWork:
    """The bucket as an entry sees it during one request; see ``EntryBucket``."""

    def __init__(
        self, bucket: Bucket, key: str, is_new: bool, modifies: bool, now: float, find: Find
    ) -> None:
        self._bucket, self._key, self._is_new, self._modifies = bucket, key, is_new, modifies
        self._now, self._find = now, find
        self._over = False
        self.replies: Replies = []
        self.pieces: dict[str, bytes] = {}
        self.whole = False
        self.deletes = False

    def _check(self, modifies: bool = False) -> None:
        if self._over:
            raise BadPlugin(f"entry {self._key!r} used its bucket after the request")
        if modifies and not self._modifies:
            raise BadPlugin(f"entry {self._key!r}: the request was classified as read-only")

    def end(self) -> None:
        self._over = True

    @property
    def key(self) -> str:
        self._check()
        return self._key

    @property
    def is_new(self) -> bool:
        self._check()
        return self._is_new

    @property
    def now(self) -> float:
        self._check()
        return self._now

    def save_serialised_entry(self, data: bytes, piece: str = "") -> None:
        self._check(modifies=True)
        _check_data(self._key, data)
        if piece == "":
            self.pieces, self.whole = {"": data}, True
            return
        try:
            checked_key(piece)
        except BadKey as error:
            raise BadPlugin(f"entry {self._key!r}: name of a piece: {error}") from None
        if self._is_new and not self.whole:
            raise BadPlugin(f"entry {self._key!r}: a new entry is saved whole before a piece of it")
        self.pieces[piece] = data

    def delete_entry(self) -> None:
        self._check(modifies=True)
        self.deletes = True

    def specify_replies(self, replies: Sequence[Reply]) -> None:
        self._check()
        if len(self.replies) + len(replies) > REPLIES_MAX:
            raise BadPlugin(f"entry {self._key!r}: at most {REPLIES_MAX} replies")
        # The slave would never acknowledge a reply that it cannot read, and the bucket would wait for ever.
        for reply in replies:
            if not isinstance(reply, Reply) or not _is_proxy(reply.to):
                raise BadPlugin(
                    f"entry {self._key!r}: {str(reply)[:80]!r} is no Reply to a ProxyId"
                )
            if not isinstance(reply.body, bytes) or len(reply.body) > BODY_MAX:
                raise BadPlugin(f"entry {self._key!r}: a reply is at most {BODY_MAX} bytes")
        self.replies += [(reply.to, reply.body) for reply in replies]
        if sum(len(body) for _, body in self.replies) > ENTRY_BYTES_MAX:
            raise BadPlugin(f"entry {self._key!r}: replies have at most {ENTRY_BYTES_MAX} bytes")

    def find_proxy(
        self, accept: Callable[[Mapping[str, str]], bool] | None = None, /, **attributes: str
    ) -> list[ProxyId]:
        self._check()
        wanted = attributes.items()
        return sorted(
            proxy
            for proxy, has in self._find()
            if wanted <= dict(has).items() and (accept is None or accept(has))
        )


def _check_data(key: str, data: bytes) -> bytes:
    """Return the bytes of an entry as they are saved. Raises BadPlugin."""
    if not isinstance(data, bytes) or len(data) > BODY_MAX:
        raise BadPlugin(f"entry {key!r}: at most {BODY_MAX} bytes can be saved")
    return data


def _whole_in(key: str, entry: Entry, version: int) -> EntryChange:
    """Return the whole entry in this version of its format. Raises BadPlugin and the plug-in's errors."""
    return EntryChange(key, {"": _check_data(key, entry.serialise(version))}, True, version)


def _is_proxy(value: object) -> bool:
    return (
        isinstance(value, ProxyId)
        and isinstance(value.manager, Cep)
        and isinstance(value.number, int)
    )


class Done:
    """The result of a request. ``error``: the entry's error, or "". ``change``: in the version of the other copy; None:
    the request neither saved nor deleted the entry."""

    __slots__ = ("change", "error", "replies")

    def __init__(self, replies: Replies, change: EntryChange | None, error: str = "") -> None:
        self.replies, self.change, self.error = replies, change, error


class Bucket:
    """Entries by key, and the last answers."""

    def __init__(self, number: int, provider: EntryBehaviourProvider, remembered_max: int) -> None:
        self.id = number
        self.provider = provider
        self._saved: dict[str, Saved] = {}
        self._live: dict[str, Entry] = {}
        """Entries that exist as objects, because a request used them here."""
        self._remembered: dict[RequestId, Kept] = {}
        self._remembered_max = remembered_max

    def __len__(self) -> int:
        return len(self._saved)

    @property
    def live(self) -> int:
        """Count the entries that exist as objects beside their saved bytes, because they were used here."""
        return len(self._live)

    def all_keys(self) -> list[str]:
        return list(self._saved)

    def entry(self, key: str) -> Entry:
        """Return the entry of this key. Raises KeyError."""
        return self._entry(key, self._saved[key])

    # --- requests

    def create_entry(self, key: str) -> Entry:
        """Create a blank entry (CreateEntry). It is kept only if the request saves it."""
        return self.provider.create_entry(key)

    def forward_to_entry(
        self,
        key: str,
        request: Request,
        proxy_id: ProxyId | None,
        *,
        modifies: bool,
        now: float,
        find: Find = tuple,
        version: int = 0,
    ) -> Done:
        """Let the entry work on a request (ForwardToEntry, Manipulate). ``version``: the format of the other copy. An
        error changes nothing, even one that is raised while the change is encoded for the other copy."""
        had = self._saved.get(key)
        work = RequestWork(self, key, had is None, modifies, now, find)
        try:
            entry = self.create_entry(key) if had is None else self._entry(key, had)
            entry.manipulate(work, request, proxy_id)
            change = self._change(key, had, entry, work)
            saved = change
            if change is not None and not change.deletes and 0 < version < change.version:
                saved = _whole_in(key, entry, version)
        except PLUGIN_ERRORS as error:
            self._live.pop(key, None)
            return Done([], None, text_of(error))
        finally:
            work.end()
        if change is not None:
            self.adopt(change)
            if not change.deletes:
                self._live[key] = entry
        return Done(work.replies, saved)

    def _change(
        self, key: str, had: Saved | None, entry: Entry, work: RequestWork
    ) -> EntryChange | None:
        version = self.provider.version
        if work.deletes:
            return None if had is None else EntryChange(key, {}, True, version)
        if not work.pieces:
            return None
        if not work.whole and had is not None and had[1] != version:
            # Pieces in this version do not fit a whole in an earlier version.
            return _whole_in(key, entry, version)
        self._check_size(key, None if work.whole else had, work.pieces)
        return EntryChange(key, work.pieces, work.whole, version)

    def _check_size(self, key: str, had: Saved | None, pieces: dict[str, bytes]) -> None:
        """Raises BadPlugin: the entry would become too large to be moved."""
        together = pieces if had is None else {**_pieces(had[0]), **pieces}
        if len(together) - ("" in together) > PIECES_MAX:
            raise BadPlugin(f"entry {key!r}: at most {PIECES_MAX} pieces")
        if sum(map(len, together.values())) > ENTRY_BYTES_MAX:
            raise BadPlugin(f"entry {key!r}: its pieces have at most {ENTRY_BYTES_MAX} bytes")

    def _entry(self, key: str, had: Saved) -> Entry:
        entry = self._live.get(key)
        if entry is None:
            entry = self._live[key] = self._made(key, had)
        return entry

    def _made(self, key: str, had: Saved) -> Entry:
        entry = self.create_entry(key)
        saved, version = had
        for piece, data in _pieces(saved).items():
            if piece == "":
                entry.unserialise(data, version)
            else:
                entry.unserialise_piece(piece, data, version)
        return entry

    # --- copies

    def adopt(self, change: EntryChange) -> None:
        """Apply a change of another copy."""
        key = change.key
        self._live.pop(key, None)
        if change.deletes:
            self._saved.pop(key, None)
            return
        had = self._saved.get(key)
        if had is None or change.whole:
            self._saved[key] = _whole(change.pieces), change.version
        elif isinstance(had[0], dict):
            had[0].update(change.pieces)
        else:
            self._saved[key] = {"": had[0], **change.pieces}, had[1]

    def check_version(self, change: EntryChange) -> None:
        """Raises ValueError if the plug-in does not read this version of the format."""
        readable = (self.provider.version, *self.provider.reads)
        if not change.deletes and change.version not in readable:
            raise ValueError(f"this plug-in does not read version {change.version}")

    def unserialise_entry(self, change: EntryChange) -> None:
        """Take an entry from another manager, and check at once that the plug-in can make it (UnserialiseEntry). It
        replaces an entry of that key. Only its bytes are kept until its first use, to save memory. Raises the plug-in's
        errors."""
        self.adopt(change)
        had = self._saved.get(change.key)
        if had is not None:
            self._made(change.key, had)

    def serialise(self, version: int, keys: Iterator[str]) -> Iterator[EntryChange]:
        """Yield the saved form of these entries, in this version of the format (Serialise). Raises the plug-in's
        errors."""
        for key in keys:
            had = self._saved.get(key)
            if had is not None:
                yield self.as_version(EntryChange(key, _pieces(had[0]), True, had[1]), version)

    def as_version(self, change: EntryChange, version: int) -> EntryChange:
        """Return the change for a manager with this version: as it is, or encoded in the earlier format."""
        if change.deletes or change.version <= version or not version:
            return change
        key = change.key
        entry = self._live.get(key) or self._made(key, self._saved[key])
        return _whole_in(key, entry, version)

    # --- repeated requests

    def remember(self, kept: Kept) -> None:
        self._remembered[kept.id] = kept
        if len(self._remembered) > self._remembered_max:
            del self._remembered[next(iter(self._remembered))]

    def remember_older(self, older: Sequence[Kept]) -> None:
        """Remember answers that are older than all that are remembered already. If there is not enough room for them,
        the oldest are left out."""
        before = {kept.id: kept for kept in older if kept.id not in self._remembered}
        room = self._remembered_max - len(self._remembered)
        for surplus in list(before)[: max(len(before) - room, 0)]:
            del before[surplus]
        self._remembered = before | self._remembered

    def remembered(self, request_id: RequestId) -> Kept | None:
        return self._remembered.get(request_id)

    def all_remembered(self) -> list[Kept]:
        return list(self._remembered.values())

    def state(self) -> dict[str, Any]:
        """Return, for tests, pieces and version by key."""
        return {key: (_pieces(had), version) for key, (had, version) in sorted(self._saved.items())}


def _whole(pieces: Mapping[str, bytes]) -> bytes | dict[str, bytes]:
    return pieces[""] if len(pieces) == 1 and "" in pieces else dict(pieces)


def _pieces(saved: bytes | dict[str, bytes]) -> dict[str, bytes]:
    return {"": saved} if isinstance(saved, bytes) else dict(saved)
