"""The application plug-in (A34): an Entry Behaviour Provider in bucket managers, a Request Classifier in routers.

    class Set(Entry):
        def __init__(self) -> None:
            self.members: set[str] = set()

        def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
            self.members.add(request.body.decode())
            bucket.save_serialised_entry(self.serialise(1))
            if proxy_id is not None:
                bucket.specify_replies([Reply(proxy_id, b"done")])

        def serialise(self, version: int) -> bytes: ...
        def unserialise(self, data: bytes, version: int) -> None: ...

Source: Amadeus Cache Server, 4.3.1, 4.3.2, 4.5.2.5.2, 4.5.2.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from jgroups_py.buckets.digest import digest_of
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import BadPlugin

__all__ = [
    "BODY_MAX",
    "Cep",
    "Classification",
    "Entry",
    "EntryBehaviourProvider",
    "EntryBucket",
    "Plugin",
    "ProxyId",
    "Reply",
    "Request",
    "RequestClassifier",
]

BODY_MAX: Final = 16 * 1024 * 1024
"""The most bytes of a request, of a reply and of a serialised entry."""
FORMAT_MAX: Final = 2**31 - 1

Backup = Literal["before_reply", "after_reply"]
ReadAt = Literal["master", "slave"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request (A8). ``body``: the application's bytes, which only the plug-in understands. ``key``: the entry's key,
    if the client or its proxy manager knows it; the classifier decides. ``read_at``: "slave" lets the slave answer a
    request that only reads; None leaves it to the plug-in."""

    body: bytes
    key: str | None = None
    read_at: ReadAt | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A message to a client. ``to``: any proxy, the requestor's or another one (A13)."""

    to: ProxyId
    body: bytes


@dataclass(frozen=True, slots=True)
class Classification:
    """The classifier's answer (A11). ``sensible``: False ends the processing. ``key``: None asks the framework to
    invent one (A12).
    ``modifies``: the request may change, create or delete the entry."""

    sensible: bool = True
    key: str | None = None
    modifies: bool = True


NOT_SENSIBLE: Final = Classification(sensible=False, modifies=False)


class EntryBucket(Protocol):
    """The bucket as an entry sees it while it works on one request. Afterwards every method raises BadPlugin."""

    @property
    def key(self) -> str:
        """Return the entry's key. It may have been invented."""
        ...

    @property
    def is_new(self) -> bool:
        """Is the entry blank: was nothing saved under its key?"""
        ...

    @property
    def now(self) -> float:
        """Return seconds since 1970 by the clock of the bucket manager."""
        ...

    def save_serialised_entry(self, data: bytes, piece: str = "") -> None:
        """Keep the entry, whole or a named piece of it (SaveSerialisedEntry). The data are in the provider's own ``version``. A whole
        replaces all pieces. Without a save no entry is kept and the slave is not told (A14).

        Raises BadPlugin: the request was classified as read-only, or the data are too long."""
        ...

    def delete_entry(self) -> None:
        """Delete the entry after this request (DeleteEntry, A13). Raises BadPlugin in a read-only request."""
        ...

    def specify_replies(self, replies: Sequence[Reply]) -> None:
        """Send these when the request is done (SpecifyReplies). Further calls add to the list. Without a call no reply is sent."""
        ...

    def find_proxy(
        self, accept: Callable[[Mapping[str, str]], bool] | None = None, /, **attributes: str
    ) -> list[ProxyId]:
        """Find proxies with these attributes that ``accept`` takes (FindProxy), in the order of their ids. Only proxies
        that were made with attributes can be found."""
        ...


class Entry(ABC):
    """An application object (A40). It belongs to one key and knows no other entry (A5).

    Methods run in the bucket manager's loop, one at a time for an entry. They do not wait and do no I/O.
    """

    @abstractmethod
    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        """Work on a request (Manipulate). The same request may come again after the loss of a node (A6): repeating it must do no harm.

        ``proxy_id``: the requestor; None: no client waits for a reply. An error becomes EntryFailed at the requestor, and
        the entry returns to its last saved state."""

    @abstractmethod
    def serialise(self, version: int) -> bytes:
        """Return the entry in the provider's version or in an earlier one of its ``writes`` (Serialise, A65)."""

    @abstractmethod
    def unserialise(self, data: bytes, version: int) -> None:
        """Adopt the state in ``data`` (Unserialise): written by the provider's version or by an earlier one of its ``reads``.

        An error refuses the data: a migration is rolled back."""

    def unserialise_piece(self, piece: str, data: bytes, version: int) -> None:
        """Adopt a piece that was saved by name after the whole."""
        raise BadPlugin(f"{type(self).__name__} saves pieces and has no unserialise_piece")


class EntryBehaviourProvider(ABC):
    """Makes entries; plugs in to bucket managers."""

    application: str
    """Name of the application, the same in all versions."""
    version: int
    """The version of the serialisation format that its entries save in. Software 7.3 may be 73."""
    reads: tuple[int, ...] = ()
    """Earlier versions that ``unserialise`` takes (an upgrade)."""
    writes: tuple[int, ...] = ()
    """Earlier versions that ``serialise`` gives (a fallback)."""
    backup: Backup = "before_reply"
    """"after_reply": the reply may be sent before the slave has the change (A15). Then the loss of a node can lose an
    answered modification."""
    read_at: ReadAt = "master"
    """The copy that answers reads, unless the request names one. Under "before_reply" both copies have all answered
    changes."""

    @abstractmethod
    def create_entry(self, key: str) -> Entry:
        """Create a blank entry (CreateEntry)."""

    def name_of(self, request: Request) -> str:
        """Return a name for the effect of this request, for a warning that it took too long."""
        return f"a request of {self.application}"


class RequestClassifier(ABC):
    """Classifies requests; plugs in to routers."""

    @abstractmethod
    def classify(self, request: Request) -> Classification:
        """Classify a request with any bytes of a client. An error counts as not sensible."""

    def digest(self, key: str) -> int:
        """Return the digest that selects the bucket: at least 0, less than 2**64, the same everywhere and always
        (A29)."""
        return digest_of(key)


@dataclass(frozen=True)
class Plugin:
    """The provider and the classifier of an application, checked. Raises BadPlugin."""

    provider: EntryBehaviourProvider
    classifier: RequestClassifier = field()

    def __post_init__(self) -> None:
        provider = self.provider
        if not getattr(provider, "application", ""):
            raise BadPlugin(f"{type(provider).__name__}.application: a name is needed")
        version = getattr(provider, "version", None)
        if not isinstance(version, int) or not 1 <= version <= FORMAT_MAX:
            raise BadPlugin(
                f"{type(provider).__name__}.version: a whole number from 1 to {FORMAT_MAX}, not {version!r}"
            )
        for name in ("reads", "writes"):
            for other in getattr(provider, name):
                if not isinstance(other, int) or not 1 <= other < version:
                    raise BadPlugin(
                        f"{type(provider).__name__}.{name}: earlier versions than {version}, not {other!r}"
                    )
        if provider.backup not in ("before_reply", "after_reply"):
            raise BadPlugin(
                f"{type(provider).__name__}.backup: before_reply or after_reply, not {provider.backup!r}"
            )
        if provider.read_at not in ("master", "slave"):
            raise BadPlugin(
                f"{type(provider).__name__}.read_at: master or slave, not {provider.read_at!r}"
            )
