"""Kind: a class of entries, its methods and how its state is written. The classifier is the method that is called.

@dataclass
class Seat:
    passenger: str | None = None

    @modifies
    async def book(self, passenger: str) -> bool: ...

    async def holder(self) -> str | None: ...
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from jgroups_py.buckets.errors import BadPlugin

T = TypeVar("T")
T_ = TypeVar("T_", contravariant=True)
F = TypeVar("F", bound=Callable[..., Any])
KIND_MAX: Final = 100
"""The most characters of the name of a kind."""
_MARK: Final = "__bucket_modifies__"


def modifies(function: F) -> F:
    """Mark a method that may change its object. Other methods must not: their changes are not saved (``check_reads``
    finds them)."""
    setattr(function, _MARK, True)
    return function


class Codec(Protocol[T]):
    """Writes the state of an object as bytes, and reads it. ``version``: of the plug-in that will read the bytes, or
    that wrote them."""

    def encode(self, value: T, version: int) -> bytes: ...

    def decode(self, data: bytes, version: int) -> T: ...


def check_codec(cls: Any, what: str) -> None:
    """Check a type. BadPlugin: its values cannot be written as msgpack."""
    try:
        lacks = _custom(msgspec.inspect.type_info(cls), set())
    except TypeError as error:
        raise BadPlugin(f"{what} cannot be written: {error}") from None
    if lacks is not None:
        raise BadPlugin(
            f"{what} cannot be written: {lacks.__name__} is no plain type, dataclass or Struct"
        )


def _custom(info: Any, seen: set[int]) -> type | None:
    """Return a type in this description that msgspec does not know."""
    if isinstance(info, msgspec.inspect.CustomType):
        return info.cls
    if id(info) in seen or not isinstance(
        info, (tuple, msgspec.inspect.Type, msgspec.inspect.Field)
    ):
        return None
    seen.add(id(info))
    parts = info if isinstance(info, tuple) else msgspec.structs.astuple(info)
    return next((found for part in parts if (found := _custom(part, seen)) is not None), None)


@dataclass(frozen=True)
class Earlier(Generic[T]):
    """The state in an earlier version. ``state``: its class, perhaps a dataclass with the fields of that time. ``up``
    makes an object from this state; ``down`` makes this state from an object. Without ``down`` there is no way back."""

    state: type
    up: Callable[[Any], T]
    down: Callable[[T], Any] | None = None


class StateCodec(Generic[T]):
    """The fields of a class as msgpack, checked when they are read: dataclasses, attrs classes and msgspec Structs.

    A field that is not in the data gets its default. The data may have fields that the class lacks. So a version that
    only adds fields with defaults needs no ``earlier``."""

    def __init__(self, cls: type[T], earlier: Mapping[int, Earlier[T]] | None = None) -> None:
        self._earlier = dict(earlier or {})
        for state in (cls, *(old.state for old in self._earlier.values())):
            check_codec(state, f"{state.__name__}: its fields")
        self._decoder = msgspec.msgpack.Decoder(cls)
        self._old: dict[int, msgspec.msgpack.Decoder[Any]] = {
            version: msgspec.msgpack.Decoder(old.state) for version, old in self._earlier.items()
        }
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, value: T, version: int) -> bytes:
        old = self._earlier.get(version)
        if old is None:
            return self._encode(value)
        if old.down is None:
            raise ValueError(f"version {version} cannot be written")
        return self._encode(old.down(value))

    def decode(self, data: bytes, version: int) -> T:
        if version in self._old:
            return self._earlier[version].up(self._old[version].decode(data))
        return self._decoder.decode(data)


@dataclass(frozen=True)
class ObjectMethod:
    """A method that can be called from afar. ``arguments``: name -> type; ``result``: the type that it returns."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    modifies: bool
    arguments: Mapping[str, Any]
    result: Any


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A class whose instances are entries. Raises BadPlugin."""

    cls: type[T]
    """The class. Without arguments it makes a blank entry."""
    name: str = ""
    """The prefix of the keys of its entries. The default is the name of the class. It must stay the same in all
    versions."""
    codec: Codec[T] | None = None
    """The default is ``StateCodec(cls, earlier)``."""
    earlier: Mapping[int, Earlier[T]] = field(default_factory=dict)
    errors: tuple[type[Exception], ...] = ()
    """Errors that methods raise for callers. Callers get them with their ``args``, and nothing was changed. Other
    errors become EntryFailed."""
    methods: Mapping[str, ObjectMethod] = field(init=False)

    def __post_init__(self) -> None:
        name = self.name or self.cls.__name__
        if not name.isprintable() or "/" in name or len(name) > KIND_MAX:
            raise BadPlugin(f"kind {name!r}: at most {KIND_MAX} characters, and no /")
        try:
            self.cls()
        except TypeError as error:
            raise BadPlugin(
                f"{self.cls.__name__}: a blank entry is made without arguments: {error}"
            ) from None
        object.__setattr__(self, "name", name)
        if self.codec is None:
            object.__setattr__(self, "codec", StateCodec(self.cls, self.earlier))
        object.__setattr__(self, "methods", _methods(self.cls))

    @property
    def state(self) -> Codec[T]:
        assert self.codec is not None
        return self.codec


def _methods(cls: type) -> dict[str, ObjectMethod]:
    found = {}
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_"):
            continue
        where = f"{cls.__name__}.{name}"
        signature = inspect.signature(function)
        named = list(signature.parameters.values())[1:]
        for parameter in named:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise BadPlugin(f"{where}: *{parameter.name} cannot be called from afar")
        try:
            hints = typing.get_type_hints(function)
        except (NameError, TypeError) as error:
            raise BadPlugin(f"{where}: {error}") from None
        for argument, hint in hints.items():
            check_codec(hint, f"{where}: {argument}")
        arguments = {parameter.name: hints.get(parameter.name, Any) for parameter in named}
        marked = getattr(function, _MARK, False)
        result = hints.get("return", Any)
        found[name] = ObjectMethod(name, function, signature, marked, arguments, result)
    if not found:
        raise BadPlugin(f"{cls.__name__}: it has no public method")
    return found
