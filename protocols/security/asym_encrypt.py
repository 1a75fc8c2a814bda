"""ASYM_ENCRYPT: encrypts payloads with a group key that the coordinator makes and gives to members under their public keys.

Place: below NAKACK2 and UNICAST3, above discovery and failure detection, whose messages stay in clear.

    JOIN_REQ                  the joiner adds its public key. The request goes in clear, since the joiner has no group key
    JOIN_RSP                  encrypted. Before it, in clear: all public keys, and the group key for the joiner
    PrepareView               the coordinator makes a new group key, if it has none, if the view is a merge, if a member
                              has gone (change_key_on_leave) or if the coordinator has changed
                              (change_key_on_coord_leave)
    VIEW                      encrypted under the new key. Before it: the joiners' public keys, and the group key for each
                              member if it is new. A member that gets the VIEW once more gets the group key again
    INSTALL_MERGE_VIEW        as JOIN_RSP. MERGE_RSP has brought the public keys of the other subgroup
    MERGE_REQ, MERGE_RSP,     in clear, as in JGroups: sender and receiver may have different group keys
      VIEW_ACK, GET_DIGEST_*
    LEAVE_RSP to one of ours  in clear: the leaver cannot read the new group key
    anything else             as SYM_ENCRYPT, under the group key (encrypt.py)

A member *adopts* a group key when it has decrypted a view under it, newer than its own. The earlier key still decrypts
for key_overlap, so messages under way are not lost. A replaced key is never adopted again, and a known view changes
nothing.

    message under an unknown  the sender is a member: keep the message until its key comes with a view. After ASK_AFTER ask the
      key                     sender (FETCH_SHARED_KEY). A given key decrypts, and the view behind it is adopted
    message under a replaced  the coordinator gives the sender the new key: it has missed the view
      key

A refused joiner (AUTH) gets the reason under a key that is used once.

ASYM_ENCRYPT keeps out listeners and former members. It cannot distinguish members from an attacker that sends packets
of its own, because any joiner gets the key. AUTH decides who may join.

Source:  JGroups ASYM_ENCRYPT.java; doc/design/ASYM_ENCRYPT.txt; WIRE.md 12.
Differs: a VIEW that is sent again carries the group key (in JGroups it does not, so its receiver cannot decrypt later
    messages); a
         refused joiner does not get the group key; no request replaces the public key of a member or of a waiting joiner; a
         request without a public key is refused; the name of a group key must fit it; replaced keys end after key_overlap;
         public keys of less than 1024 bits are refused (the example of JGroups has 512); a VIEW lists public keys of joiners
         only. use_external_key_exchange is not built.
Limits:  key_map_max_size earlier keys; max_joiners; AWAITING_MAX messages that wait for their key; those of encrypt.py and public_keys.py. A VIEW with a new key has about 290
         bytes a member with keys of 2048 bits, which fits a datagram for some 200 members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from jgroups_py.config.settings import Seconds
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind, is_refusal
from jgroups_py.protocols.security.ciphers import KEY_LENGTHS, Cipher
from jgroups_py.protocols.security.encrypt import Encrypt
from jgroups_py.protocols.security.key_list import MemberKeys, encode_keys, read_keys
from jgroups_py.protocols.security.public_keys import OtherKey, PublicKeys
from jgroups_py.protocols.security.rsa import (
    ACCEPTED,
    BITS_LEAST,
    BITS_MOST,
    PADDINGS,
    KeyPair,
    UnusableKey,
    encrypt,
)
from jgroups_py.stack.exposure import MESSAGES
from jgroups_py.stack.services import MULTICAST, UNICAST, VIEWS
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, PrepareView, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import DeltaView, MergeView, View
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    EncryptHeader,
    EncryptType,
    FragHeader,
    GmsHeader,
    GmsType,
)
from jgroups_py.wire.primitives import decode_whole
from jgroups_py.wire.values import read_join_rsp, read_view_digest

_GMS: Final = PROTOCOL_IDS["GMS"]
_JOINS: Final = (GmsType.JOIN_REQ, GmsType.JOIN_REQ_WITH_STATE_TRANSFER)
_CLEAR: Final = (
    GmsType.MERGE_REQ,
    GmsType.VIEW_ACK,
    GmsType.GET_DIGEST_REQ,
    GmsType.GET_DIGEST_RSP,
)
_BRINGS_KEYS: Final = (GmsType.VIEW, GmsType.JOIN_RSP, GmsType.INSTALL_MERGE_VIEW)
ASK_AFTER: Final = 0.2
"""Seconds from the first message under an unknown key to the question for that key. Its view is mostly on the way."""
REPAIR_PAUSE: Final = 0.5
"""Seconds between two gifts to one member, and from a new key to the first gift."""
AWAITING_MAX: Final = 1000
"""Messages of members that are kept until their key comes. Further ones are dropped, and sent again."""
EXPECTED_MAX: Final = 100
"""The most members outside the view that may hand over a key: those that were asked to let us in, or lead a merge."""


class _Kept(NamedTuple):
    """A key that only decrypts. ``replaced``: the time when another key replaced it. None: it was given to this member,
    and its view has not come."""

    cipher: Cipher
    replaced: float | None


class ASYM_ENCRYPT(Encrypt):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["ASYM_ENCRYPT"]
    needs_above = (MULTICAST, UNICAST, VIEWS)
    turns_away: ClassVar[Mapping[str, str]] = {
        **Encrypt.turns_away,
        "other_key": "would replace the public key of a member or joiner",
        "bad_key": "brings a key that cannot be used",
        "stray_keys": "brings keys, and its sender may not hand over any",
        "old_key": "was made with a key that was replaced too long ago, or after its sender had left",
    }

    @classmethod
    def protects(cls, config: Any) -> Mapping[str, str]:
        return {MESSAGES: str(config.sym_algorithm)}

    @dataclass(frozen=True, kw_only=True)
    class Config(Encrypt.Config):
        """Attributes of the protocol."""

        sym_keylength: int = 128
        """Bits of the group key: 128, 192 or 256."""
        asym_algorithm: str = "RSA"
        """The encryption of the group key for a member: RSA (which is RSA/ECB/PKCS1Padding), or
        RSA/ECB/OAEPWithSHA-256AndMGF1Padding. All members need the same."""
        asym_keylength: int = 2048
        """Bits of this member's public key."""
        key_map_max_size: int = 20
        """Earlier group keys that still decrypt."""
        key_overlap: Seconds = 60.0
        """The time for which an earlier group key still decrypts messages of members of the view."""
        change_key_on_leave: bool = False
        """Make a new group key for each view without a former member, so that it cannot read later messages."""
        change_key_on_coord_leave: bool = True
        """Make a new group key when another member becomes coordinator."""
        use_external_key_exchange: bool = False
        """True is refused: the group key is handed over by this protocol itself."""
        max_joiners: int = 1000
        """Joiners whose public keys are kept until they are members."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.asym_algorithm.upper() not in PADDINGS:
                raise ConfigError(
                    f'asym_algorithm must be one of {ACCEPTED}, got "{self.asym_algorithm}"'
                )
            if self.sym_keylength not in KEY_LENGTHS:
                raise ConfigError(
                    f"sym_keylength must be 128, 192 or 256, got {self.sym_keylength}"
                )
            self._within(BITS_LEAST, BITS_MOST, "asym_keylength")
            self._at_least(1, "key_map_max_size", "max_joiners")
            self._at_least(0, "key_overlap")
            if self.use_external_key_exchange:
                raise ConfigError(
                    "use_external_key_exchange must be false: SSL_KEY_EXCHANGE and DH_KEY_EXCHANGE are not built here"
                )

    config: Config

    def start(self) -> None:
        super().start()
        config = self.config
        self._digest = PADDINGS[config.asym_algorithm.upper()]
        self._pair = KeyPair(self.machine.key_pairs(config.asym_keylength), self._digest)
        self._public = PublicKeys(self.local_address, self._pair.public, config.max_joiners)
        self._view: View | None = None
        self._announced: View | None = None
        """The view that VIEW messages of this member are about."""
        self._joined: tuple[Address, ...] = ()
        self._key_is_new = False
        """The group key came with the announced view, so its members need it."""
        self._made_at = 0.0
        self._kept: dict[bytes, _Kept] = {}
        self._offered: Cipher | None = None
        """The key that came with the message that is being decrypted."""
        self._expected: dict[Address, None] = {}
        self._merging: dict[Address, None] = {}
        """Coordinators that were asked to merge: their answers bring public keys."""
        self._sealed: dict[Address, bytes] = {}
        """The group key, encrypted for each member."""
        self._awaiting: list[tuple[bytes, Batch]] = []
        """Messages of members before their key: the name of the key, and the message."""
        self._ask_timer = self.timer(self._on_ask)
        self._given_at: dict[Address, float] = {}
        self.keys_made = 0
        """Group keys that this member made as coordinator."""
        self.keys_adopted = 0
        """Group keys of other members that this member took over."""
        self.keys_forgotten = 0
        """Earlier keys that were forgotten because key_map_max_size others came."""
        self.keys_asked = 0
        """Requests for a key that this member lacked."""
        self.keys_given = 0
        """Keys that this member gave to members that lacked them."""
        self.came_before_key = 0
        """Messages of members that came before their key, and waited for it."""
        self.dropped_before_key = 0
        """Messages of members that came before their key and were dropped: there was no room, or the key did not
        come."""
        self.dropped_unasked = 0
        """Answers to joiners that were dropped because the joiner's public key was not known."""
        self.decrypted_earlier_key = 0
        """Messages under an earlier key, which the overlap saved."""

    def stop(self) -> None:
        super().stop()
        self._kept.clear()
        self._sealed.clear()
        self._awaiting.clear()
        self._ask_timer.cancel()

    def statistics(self) -> dict[str, int | float]:
        return {
            **super().statistics(),
            "public_keys": len(self._public),
            "joiners_forgotten": self._public.forgotten,
            "earlier_keys": len(self._kept),
        }

    # --- views

    def event_down(self, event: Event) -> None:
        match event:
            case PrepareView(view):
                self._prepare(view)
            case ViewChange(view):
                self._installed(view)
        self.pass_event_down(event)

    def _prepare(self, view: View) -> None:
        """Make a new key if ``view`` needs one. The messages that announce it follow."""
        if self._announced is not None and view.view_id == self._announced.view_id:
            return
        old, me, config = self._view, self.local_address, self.config
        merging = isinstance(view, MergeView)
        self._announced = view
        self._joined = view.members if old is None else view.joined_since(old)
        self._key_is_new = merging
        if view.coordinator == me:
            gone = old is not None and any(m not in view for m in old)
            new_server = old is None or old.coordinator != me
            if (
                self._current is None
                or merging
                or (gone and config.change_key_on_leave)
                or (new_server and config.change_key_on_coord_leave)
            ):
                self._make_key()
                self._key_is_new = True

    def _installed(self, view: View) -> None:
        self._view = view
        if self._announced is not None and self._announced.view_id != view.view_id:
            self._announced, self._joined, self._key_is_new = None, (), False
        self._joined = tuple(m for m in self._joined if m in view)
        self._public.view_installed(view.members, self.now)
        self._expected.clear()
        self._merging.clear()
        self._forget_awaiting(view)
        self._given_at = {m: at for m, at in self._given_at.items() if m in view}
        self._sealed = {m: key for m, key in self._sealed.items() if m in view}
        if self._current is None and view.coordinator == self.local_address:
            self._make_key()

    def _forget_awaiting(self, view: View) -> None:
        """Drop messages that waited for keys of former members."""
        kept = [(version, batch) for version, batch in self._awaiting if batch.src in view]
        self.dropped_before_key += len(self._awaiting) - len(kept)
        self._awaiting = kept
        if not kept:
            self._ask_timer.cancel()

    # --- group keys

    def _make_key(self) -> None:
        self.keys_made += 1
        self._made_at = self.now
        self._use(self.cipher(self.machine.secrets(self.config.sym_keylength // 8)))
        self.trace("new group key", version=self._version_text())

    def _version_text(self) -> str:
        assert self._current is not None
        return self._current.version.hex()

    def _use(self, cipher: Cipher) -> None:
        """Encrypt with ``cipher`` from now on. The previous key only decrypts."""
        former = self._current
        self._kept.pop(cipher.version, None)
        if former is not None:
            self._kept[former.version] = _Kept(former, self.now)
        self._current = cipher
        self._sealed.clear()
        self._limit_kept()
        if former is None:
            self.machine.soon(self.first_key)
        if self._awaiting:
            self.machine.soon(self._key_came)

    def _limit_kept(self) -> None:
        while len(self._kept) > self.config.key_map_max_size:
            del self._kept[next(iter(self._kept))]
            self.keys_forgotten += 1

    def _sealed_for(self, member: Address) -> bytes:
        """Return the group key for ``member``; empty without its public key."""
        assert self._current is not None
        sealed = self._sealed.get(member)
        if sealed is None:
            public = self._public.of(member)
            if public is None:
                return b""
            sealed = encrypt(public, self._current.key, self._digest, self.machine.secrets)
            self._sealed[member] = sealed
        return sealed

    def _opened(self, entries: Iterable[MemberKeys], version: bytes | None) -> Cipher | None:
        """Return the list's group key for this member. None: it has none.

        Raises:
            UnusableKey: the key is not for this member, or is not the one that ``version`` names.
        """
        for entry in entries:
            if entry.member == self.local_address and entry.group:
                key = self._pair.decrypt(entry.group)
                if 8 * len(key) not in KEY_LENGTHS:
                    raise UnusableKey("no key of AES")
                cipher = self.cipher(key)
                if cipher.version != version:
                    raise UnusableKey("a key with another name")
                return cipher
        return None

    def key_for(self, version: bytes | None, batch: Batch) -> Cipher | None:
        current, offered = self._current, self._offered
        if current is not None and version == current.version:
            return current
        if offered is not None and version == offered.version:
            return offered
        view, src = self._view, batch.src
        is_member = view is None or src in view
        kept = self._kept.get(version or b"")
        if kept is not None and kept.replaced is not None:
            if not is_member or self.now - kept.replaced > self.config.key_overlap:
                self.refuse("old_key", batch)
                return None
            self.decrypted_earlier_key += len(batch)
            self._help(src)
        elif kept is None:
            if current is None:
                self.dropped_no_key += len(batch)
            elif is_member and src is not None and version:
                self._await_key(version, batch)
            else:
                self.refuse("unknown_key", batch)
            return None
        return kept.cipher

    # --- a member lacks a key

    def _await_key(self, version: bytes, batch: Batch) -> None:
        """Keep a member's message until its key comes."""
        if len(self._awaiting) >= AWAITING_MAX:
            self.dropped_before_key += len(batch)
            return
        self.came_before_key += len(batch)
        self._awaiting.append((version, batch))
        if not self._ask_timer.armed:
            self._ask_timer.start(ASK_AFTER)

    def _on_ask(self) -> None:
        """Ask the user of a key that did not come. Java members do not know the question."""
        asked: dict[bytes, Address | None] = {}
        for version, batch in self._awaiting:
            if _is_ours(batch.src):
                asked.setdefault(version, batch.src)
        for version, member in asked.items():
            self.keys_asked += 1
            self.trace("key wanted", of=member)
            header = EncryptHeader(EncryptType.FETCH_SHARED_KEY, False, version)
            self.pass_down(Batch.of(member, self.protocol_id, header))
        if asked:
            self._ask_timer.start(ASK_AFTER)

    def _key_came(self) -> None:
        """Take the messages that waited for a new key. The other messages keep waiting."""
        awaiting, self._awaiting = self._awaiting, []
        self._ask_timer.cancel()
        for _, batch in awaiting:
            self.up(batch)

    def _asked(self, src: Address | None, version: bytes | None) -> None:
        view, current = self._view, self._current
        if view is None or src is None or src not in view:
            self.turn_away("stray_keys", src)
        elif current is not None and version == current.version:
            self._give(src)

    def _help(self, member: Address | None) -> None:
        """Help ``member``, which still uses an earlier key: the coordinator gives it the new one."""
        view = self._view
        leads = view is not None and view.coordinator == self.local_address
        if leads and member is not None and self.now >= self._made_at + REPAIR_PAUSE:
            self._give(member)

    def _give(self, member: Address) -> None:
        """Give the group key to a member. A Java member takes it from a VIEW without a view, which its GMS drops."""
        if self.now < self._given_at.get(member, -REPAIR_PAUSE) + REPAIR_PAUSE:
            return
        assert self._current is not None
        sealed = self._sealed_for(member)
        if not sealed:
            return
        self._given_at[member] = self.now
        self.keys_given += 1
        self.trace("key given", to=member)
        header = EncryptHeader(EncryptType.INSTALL_KEYS, False, self._current.version)
        keys = encode_keys([MemberKeys(member, b"", sealed)])
        batch = Batch.of(member, self.protocol_id, header, payload=keys)
        if not _is_ours(member):
            batch = batch.with_header(_GMS, GmsHeader(GmsType.VIEW))
        self.pass_down(batch)

    # --- sending

    def down(self, batch: Batch) -> None:
        kind = _kind_of(batch)
        if kind is None:
            self.encrypt_and_pass(batch)
            return
        dest = batch.dest
        if kind in _JOINS:
            self._expect(dest)
            self._in_clear(batch, self._public.listed((self.local_address,)))
        elif kind == GmsType.MERGE_RSP:
            self._expect(dest)
            self._in_clear(batch, self._public.listed(self._view or ()))
        elif kind == GmsType.MERGE_REQ:
            if dest is not None and len(self._merging) < EXPECTED_MAX:
                self._merging[dest] = None
            self.pass_down(batch)
        elif kind in _CLEAR or (kind == GmsType.LEAVE_RSP and _is_ours(dest)):
            self.pass_down(batch)
        elif kind == GmsType.JOIN_RSP:
            self._answer(batch)
        elif kind in _BRINGS_KEYS and self._current is not None:
            self._with_keys(batch, self._current, self._keys_for(dest))
        else:
            self.encrypt_and_pass(batch)

    def _expect(self, member: Address | None) -> None:
        """Note that ``member`` may hand over a group key."""
        if member is not None:
            self._expected.pop(member, None)
            self._expected[member] = None
            if len(self._expected) > EXPECTED_MAX:
                del self._expected[next(iter(self._expected))]

    def _in_clear(self, batch: Batch, entries: tuple[MemberKeys, ...]) -> None:
        """Pass down public keys and the payload, all in clear."""
        version = None if self._current is None else self._current.version
        header = EncryptHeader(EncryptType.INSTALL_KEYS, False, version)
        self._listed(batch, header, encode_keys(entries))

    def _listed(self, batch: Batch, header: EncryptHeader, keys: bytes) -> None:
        payloads = tuple(keys + bytes(payload or b"") for payload in batch.payloads)
        listed = replace(batch, type=MessageType.BYTES, payloads=payloads)
        self.pass_down(listed.with_header(self.protocol_id, header))

    def _with_keys(self, batch: Batch, cipher: Cipher, entries: tuple[MemberKeys, ...]) -> None:
        """Encrypt a batch and pass it down behind a list of keys."""
        if batch.src is None:
            batch.src = self.local_address
        self.messages_encrypted += len(batch)
        keys = encode_keys(entries)
        for _, encrypted in self._encrypted(batch, cipher):
            header = encrypted.headers[self.protocol_id]
            assert isinstance(header, EncryptHeader)
            self._listed(encrypted, replace(header, type=EncryptType.INSTALL_KEYS), keys)

    def _keys_for(self, dest: Address | None) -> tuple[MemberKeys, ...]:
        """Return the list before a VIEW or INSTALL_MERGE_VIEW."""
        view = self._announced or self._view
        if view is None:
            return ()
        if dest is not None:
            return self._all_keys(view, dest)
        me = self.local_address
        sealed = [m for m in view if m != me] if self._key_is_new else []
        public = {entry.member: entry.public for entry in self._public.listed(self._joined)}
        return tuple(
            MemberKeys(m, public.get(m, b""), self._sealed_for(m) if m in sealed else b"")
            for m in view
            if m in public or m in sealed
        )

    def _all_keys(self, view: View, dest: Address) -> tuple[MemberKeys, ...]:
        """Return all public keys, and the group key for ``dest`` if it is a member."""
        return tuple(
            entry._replace(group=self._sealed_for(dest)) if entry.member == dest else entry
            for entry in self._public.listed(view)
        )

    def _answer(self, batch: Batch) -> None:
        """Send JOIN_RSP, with the group key for the joiner unless it was refused."""
        joiner = batch.dest
        public = None if joiner is None else self._public.of(joiner)
        if joiner is None or public is None or self._current is None:
            self.dropped_unasked += len(batch)
            self.trace("no public key", joiner=joiner)
            return
        if is_refusal(batch.payloads[0]):
            once = self.cipher(self.machine.secrets(self.config.sym_keylength // 8))
            sealed = encrypt(public, once.key, self._digest, self.machine.secrets)
            self._public.forget_joiner(joiner)
            self._with_keys(batch, once, (MemberKeys(joiner, b"", sealed),))
            return
        view = self._announced or self._view
        assert view is not None
        self._with_keys(batch, self._current, self._all_keys(view, joiner))

    # --- receiving

    def up(self, batch: Batch) -> None:
        kind, header = _kind_of(batch), batch.headers.get(self.protocol_id)
        if header is None and (kind in _CLEAR or kind == GmsType.LEAVE_RSP):
            self.pass_up(batch)
        elif type(header) is not EncryptHeader or header.type == EncryptType.DATA:
            self.decrypt_and_pass(batch)
        elif header.type == EncryptType.FETCH_SHARED_KEY and kind is None:
            self._asked(batch.src, header.version)
        elif header.type == EncryptType.INSTALL_KEYS and batch.src is not None:
            for index in range(len(batch)):
                self._take_keys(batch.slice(index, index + 1), header, kind, batch.src)
        else:
            self.refuse("malformed", batch)

    def _take_keys(
        self, one: Batch, header: EncryptHeader, kind: GmsType | None, src: Address
    ) -> None:
        """Take the keys before one message."""
        payload = one.payloads[0]
        try:
            if not isinstance(payload, bytes | memoryview):
                raise RemoteProtocolError("no bytes")
            entries, rest = read_keys(payload)
        except RemoteProtocolError:
            self.refuse("malformed", one)
            return
        inner = replace(one, payloads=(rest or None,))
        try:
            if kind in _JOINS:
                self._joiner_asks(src, entries)
                self.pass_up(inner.without_header(self.protocol_id))
            elif kind == GmsType.MERGE_RSP:
                # An unrequested message is in clear, too. It must be acknowledged, or it is sent for ever.
                if src in self._merging:
                    self._take_listed(inner, entries)
                self.pass_up(inner.without_header(self.protocol_id))
            elif kind in _BRINGS_KEYS:
                self._decrypt_behind_keys(inner, header, kind, entries)
            elif kind is None and self._view is not None and src in self._view:
                self._was_given(self._opened(entries, header.version))
            else:
                self.refuse("stray_keys", one)
        except UnusableKey:
            self.refuse("bad_key", one)
        except OtherKey:
            self.refuse("other_key", one)

    def _joiner_asks(self, joiner: Address, entries: tuple[MemberKeys, ...]) -> None:
        own = next((entry for entry in entries if entry.member == joiner), None)
        if own is None:
            raise UnusableKey("a request without the joiner's own key")
        self._public.add_joiner(joiner, own.public, self.now)

    def _was_given(self, cipher: Cipher | None) -> None:
        """Keep a key from a member. It decrypts; its view is not adopted yet."""
        current = self._current
        if cipher is None or current is None or cipher.version == current.version:
            return
        if cipher.version not in self._kept:
            self._kept[cipher.version] = _Kept(cipher, None)
            self._limit_kept()
            self.machine.soon(self._key_came)

    def _decrypt_behind_keys(
        self,
        inner: Batch,
        header: EncryptHeader,
        kind: GmsType | None,
        entries: tuple[MemberKeys, ...],
    ) -> None:
        if self._may_hand_over(kind, inner.src):
            self._offered = self._opened(entries, header.version)
            self._take_listed(inner, entries)
        elif self._view is None:
            self.dropped_no_key += len(inner)  # the view is of a group that we have not asked yet
            return
        elif inner.src not in self._view:
            self.refuse("stray_keys", inner)
            return
        try:
            cipher = self.key_for(header.version, inner)
            if cipher is not None:
                self._decrypt(inner, header, cipher)
        finally:
            self._offered = None

    def _may_hand_over(self, kind: GmsType | None, src: Address | None) -> bool:
        """May this message hand over a key: a member's VIEW, or a requested answer?"""
        view = self._view
        if kind == GmsType.VIEW and view is not None:
            return src in view
        return src in self._expected and (view is None or kind == GmsType.INSTALL_MERGE_VIEW)

    def _take_listed(self, inner: Batch, entries: tuple[MemberKeys, ...]) -> None:
        try:
            self._public.add_listed(entries)
        except UnusableKey:
            self.turn_away("bad_key", inner.src)
        except OtherKey:
            self.turn_away("other_key", inner.src)

    def decrypted(self, batch: Batch, header: EncryptHeader, plain: list[bytes | None]) -> None:
        """Adopt the key of a view."""
        current = self._current
        if current is not None and header.version == current.version:
            return
        kept = self._kept.get(header.version or b"")
        cipher = self._offered if kept is None else kept.cipher
        if cipher is None or (kept is not None and kept.replaced is not None):
            return
        for payload in plain:
            if payload is not None and self._is_newer(_announced_by(batch, payload)):
                self.keys_adopted += 1
                self._made_at = self.now
                self._use(cipher)
                self.trace("key adopted", version=self._version_text(), of=batch.src)
                return

    def _is_newer(self, view: View | DeltaView | None) -> bool:
        """Return whether ``view`` is this member's view or a later one, and this member is in it."""
        if view is None or (self._view is not None and view.view_id.id < self._view.id):
            return False
        if isinstance(view, DeltaView):
            return self.local_address not in view.left
        return self.local_address in view

    def check(self) -> None:
        super().check()
        self._public.check()
        assert len(self._kept) <= self.config.key_map_max_size
        assert len(self._expected) <= EXPECTED_MAX
        assert len(self._awaiting) <= AWAITING_MAX
        assert self._awaiting or not self._ask_timer.armed
        assert self._current is None or self._current.version not in self._kept
        assert self._offered is None


def _is_ours(member: Address | None) -> bool:
    return isinstance(member, UUID) and member.is_ours


def _kind_of(batch: Batch) -> GmsType | None:
    """Return the type of a message for GMS. The round of survivors hands over a VIEW, too."""
    gms, agree = batch.headers.get(_GMS), batch.headers.get(AGREE_ID)
    if isinstance(agree, FragHeader) and agree.index == RoundKind.VIEW:
        return GmsType.VIEW
    return gms.type if isinstance(gms, GmsHeader) else None


def _announced_by(batch: Batch, payload: bytes) -> View | DeltaView | None:
    """Return the view in a message of GMS."""
    kind = _kind_of(batch)
    try:
        if kind == GmsType.JOIN_RSP:
            answer = decode_whole(read_join_rsp, payload)
            return None if answer is None else answer.view
        if kind in (GmsType.VIEW, GmsType.INSTALL_MERGE_VIEW):
            return decode_whole(read_view_digest, payload).view
    except RemoteProtocolError:
        pass
    return None
