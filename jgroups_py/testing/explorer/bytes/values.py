"""Values of every class that goes over the wire, drawn from a generator.

Headers are made from their classes' annotations: a new header class is drawn without a line here.
"""

from __future__ import annotations

import functools
import random
import types
import typing
from enum import IntEnum
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import (
    UUID,
    Address,
    ExtendedUUID,
    FlagsUUID,
    IpAddress,
    MillisAddress,
    SiteMaster,
    SiteUUID,
)
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import (
    JoinRsp,
    MergeId,
    PingData,
    SeqnoList,
    Streamable,
    Typed,
    ViewDigest,
)
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire import objects as o
from jgroups_py.wire.header_codec import HEADER_CLASSES, encode_header
from jgroups_py.wire.headers import PROTOCOL_IDS, TpHeader
from jgroups_py.wire.message import BatchPayload, NioPayload, WireMessage

_NUMBERS: Final = (0, 1, 2, 5, 127, 128, 255, 256, 32767)
_LONGS: Final = (*_NUMBERS, 2**31 - 1, 2**40, 2**62)
_TEXTS: Final = ("", "a", "NYC", "demo", "é", "\u0000", "\U0001f600", "x" * 40)
_DEEP: Final = 3


class FuzzValues:
    """Draws values. The same random generator leads to the same values."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._members = tuple(UUID.make(rng) for _ in range(5))

    def number(self) -> int:
        return self.rng.choice(_NUMBERS)

    def long(self) -> int:
        return self.rng.choice(_LONGS)

    def text(self) -> str:
        return self.rng.choice(_TEXTS)

    def opt_text(self) -> str | None:
        return self.rng.choice((None, self.text()))

    def blob(self) -> bytes:
        return self.rng.randbytes(self.rng.choice((0, 1, 5, 40)))

    def uuid(self) -> UUID:
        return self.rng.choice(self._members)

    def ip(self) -> IpAddress:
        host = self.rng.choice(("10.0.0.1", "127.0.0.1", "fe80::1", None))
        return IpAddress(host, self.rng.choice((0, 7800, 65535)), 1 if host == "fe80::1" else 0)

    def address(self) -> Address:
        rng = self.rng
        raw = rng.randbytes(16)
        pairs = [(b"k", rng.choice((None, b"v")))] * rng.randrange(3)
        makers = (
            lambda: FlagsUUID(raw, 1),
            lambda: ExtendedUUID(raw, 2, pairs),
            lambda: SiteUUID(raw, "NYC", self.opt_text(), 1, pairs),
            lambda: SiteMaster(raw, "SFO", None),
            lambda: MillisAddress(self.long()),
            self.ip,
        )
        return self.uuid() if rng.random() < 0.6 else rng.choice(makers)()

    def opt_address(self) -> Address | None:
        return self.rng.choice((None, self.address()))

    def members(self) -> tuple[UUID, ...]:
        return tuple(self.rng.sample(self._members, self.rng.randrange(1, 5)))

    def addresses(self) -> tuple[Address | None, ...]:
        return tuple(self.opt_address() for _ in range(self.rng.randrange(4)))

    def view_id(self) -> ViewId:
        return ViewId(self.uuid(), self.long())

    def view(self) -> View:
        members = self.members()
        return View(ViewId(members[0], self.long()), members)

    def merge_view(self) -> MergeView:
        view = self.view()
        groups = tuple(View(ViewId(m, self.long()), (m, self.uuid())) for m in view.members[:2])
        return MergeView(view.view_id, view.members, groups)

    def any_view(self) -> View:
        return self.rng.choice((self.view, self.merge_view))()

    def delta_view(self) -> DeltaView:
        return DeltaView(self.view_id(), self.view_id(), self.members(), self.members())

    def seqnos(self) -> tuple[int, int]:
        low, high = sorted((self.long(), self.long()))
        return low, high

    def digest(self, members: tuple[UUID, ...] | None = None) -> Digest:
        return Digest({m: self.seqnos() for m in members or self.members()})

    def merge_id(self) -> MergeId:
        return MergeId(self.opt_address(), self.number())

    def join_rsp(self) -> JoinRsp:
        view = self.view()
        digest = self.rng.choice((None, Digest({m: self.seqnos() for m in view.members})))
        return self.rng.choice((JoinRsp(view, digest), JoinRsp(None, None, self.text())))

    def view_digest(self) -> ViewDigest:
        view: View | DeltaView | None = self.rng.choice(
            (None, self.view(), self.merge_view(), self.delta_view())
        )
        return ViewDigest(view, self.rng.choice((None, self.digest())))

    def ping_data(self) -> PingData:
        members = self.rng.choice((None, self.addresses()))
        return PingData(self.address(), 3, self.opt_text(), self.ip(), members)

    def seqno_list(self) -> SeqnoList:
        size = self.rng.choice((1, 7, 64, 65, 300))
        return SeqnoList(self.long(), size, self.rng.getrandbits(size))

    def typed(self, deep: int = 0) -> Typed:
        rng = self.rng
        code, value = rng.choice(
            (
                (o.NULL, None),
                (o.BOOL, True),
                (o.BYTE, -1),
                (o.CHAR, 65),
                (o.DOUBLE, 1.5),
                (o.FLOAT, 0.5),
                (o.INT, self.number()),
                (o.INT - 1, self.number()),
                (o.LONG, self.long()),
                (o.SHORT, 7),
                (o.STRING, self.text()),
                (o.BYTES, self.blob()),
                (o.STREAMABLE, None if deep > _DEEP else self.streamable(deep + 1)),
            )
        )
        return Typed(code, value)

    def method_call(self, deep: int = 0) -> o.MethodCall:
        args = tuple(self.typed(deep + 1) for _ in range(self.rng.randrange(3)))
        if self.rng.random() < 0.5:
            return o.MethodCall(None, None, args, self.number())
        return o.MethodCall(self.opt_text(), (Typed(o.CLASS, 5),), args)

    def exception(self, deep: int = 0) -> o.RemoteException:
        stack = (o.StackElement("a.B", "f", None, 7),) * self.rng.randrange(3)
        cause = self.exception(deep + 1) if deep < _DEEP and self.rng.random() < 0.5 else None
        return o.RemoteException("java.lang.Error", self.opt_text(), stack, cause)

    def streamable(self, deep: int = 0) -> Streamable:
        rng = self.rng
        if rng.random() < 0.2:
            return Streamable(16, self.opt_text())
        if rng.random() < 0.2:
            return Streamable(o.PRIMITIVE_WRAPPER, Typed(o.INT, 5))
        if rng.random() < 0.2:
            return Streamable(o.SERIALIZABLE_WRAPPER, self.typed(deep + 1))
        make: Any = rng.choice(
            (
                self.view,
                self.view_id,
                self.merge_view,
                self.digest,
                self.ping_data,
                self.join_rsp,
                self.seqno_list,
                self.merge_id,
                self.address,
                lambda: self.method_call(deep + 1),
            )
        )
        return o.streamable(make())

    # --- headers and messages

    def header(self) -> tuple[int, Header]:
        """Return a protocol id and a header of any class that has an encoding."""
        while True:
            cls = self.rng.choice(list(HEADER_CLASSES.values()))
            hints = _hints(cls)  # type: ignore[arg-type]  # classes can be hashed
            try:
                header = cls(**{name: self._of(hint) for name, hint in hints.items()})
                encode_header(1, header)
            except LocalProtocolError:
                continue
            return self.rng.choice(list(PROTOCOL_IDS.values())), header

    def _of(self, hint: Any) -> Any:
        """Return a value of an annotation."""
        if hint in self._makers:
            return self._makers[hint](self)
        if isinstance(hint, type) and issubclass(hint, IntEnum):
            return self.rng.choice(list(hint))
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return self._of(self.rng.choice(args))
        if origin is tuple and args[-1] is Ellipsis:
            return tuple(self._of(args[0]) for _ in range(self.rng.randrange(3)))
        if origin is tuple:
            return tuple(self._of(arg) for arg in args)
        raise LocalProtocolError(f"nothing is drawn for {hint}")

    _makers: Final[dict[Any, Any]] = {
        int: lambda self: self.rng.choice((0, 1, 5, 2**31 - 1)),
        bool: lambda self: self.rng.random() < 0.5,
        str: text,
        bytes: blob,
        type(None): lambda self: None,
        Address: address,
        IpAddress: ip,
        ViewId: view_id,
        Digest: digest,
        MergeId: merge_id,
        Streamable: streamable,
        Header: lambda self: self.header()[1],
    }

    def message(self, deep: int = 0, type: int | None = None) -> WireMessage:
        rng = self.rng
        kind = rng.randrange(8) if type is None else type
        if deep > _DEEP and kind in (MessageType.COMPOSITE, MessageType.BATCH):
            kind = MessageType.BYTES
        parts: tuple[WireMessage, ...] = ()
        if kind in (MessageType.COMPOSITE, MessageType.BATCH):
            parts = tuple(self.message(deep + 2) for _ in range(rng.randrange(3)))
        payload: Any = {
            MessageType.BYTES: rng.choice((None, self.blob())),
            MessageType.NIO: NioPayload(True, self.blob()),
            MessageType.EMPTY: None,
            MessageType.OBJECT: rng.choice((None, self.streamable())),
            MessageType.LONG: self.long(),
            MessageType.COMPOSITE: parts,
            MessageType.FRAGMENT: self.blob(),
            MessageType.BATCH: BatchPayload(self.opt_address(), parts),
        }[kind]
        headers = dict(self.header() for _ in range(rng.randrange(3)))
        if rng.random() < 0.5:
            headers[PROTOCOL_IDS["TP"]] = TpHeader("demo")
        flags, dest = rng.choice((0, 1, 64)), self.opt_address()
        return WireMessage(kind, flags, dest, self.uuid(), (*headers.items(),), payload)


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a header class' fields."""
    hints = typing.get_type_hints(cls)
    return {name: hint for name, hint in hints.items() if name in cls.__match_args__}
