"""Reads a map as its file describes it, for programs that do not have its codecs: commands and pipelines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.maps.codecs import CODECS, JSON, decoded
from jgroups_py.maps.fields import Fields
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.rules import PerField, PnCounter
from jgroups_py.maps.shared import SharedFile

Form = Literal["text", "number", "bytes", "json"]
_FORMS: Final[dict[str, Form]] = {"str": "text", "int": "number", "json": "json"}


class DescribedMap:
    """``key_form`` and ``value_form``: the forms that ``key`` and ``value`` return. A Struct is "json": its fields by
    name, or a list. A codec of the program's own functions is "bytes". ``counter`` and ``fields`` read and write values
    of these rules; None: the map has another rule."""

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self.counter = file.rule if isinstance(file.rule, PnCounter) else None
        self.fields = Fields(JSON) if isinstance(file.rule, PerField) else None
        self.key_form: Form = _form_of(file.key_codec)
        self.value_form: Form = "number" if self.counter else _form_of(file.value_codec)

    def key(self, data: bytes) -> Any:
        """Decode a key. MapError: the codec cannot read it."""
        return _read(self.file.key_codec, data, "key")

    def value(self, data: bytes) -> Any:
        """Decode a value as users see it. MapError: the codec cannot read it."""
        if self.counter is not None:
            return self.counter.total(data)
        if self.fields is not None:
            return decoded(self.fields.codec, data, "value")
        return _read(self.file.value_codec, data, "value")


@contextmanager
def open_described(folder: str | os.PathLike[str]) -> Iterator[DescribedMap]:
    """Open the existing map of a folder for as long as the block lasts.

    Raises:
        ConfigError: there is no map. MapFileError: the map cannot be opened, or has a rule of its program's own.
    """
    if not (Path(folder) / "data.mdb").exists():
        raise ConfigError("there is no map in this folder", file=str(folder))
    file = SharedFile(Path(folder), FileSettings())
    try:
        yield DescribedMap(file)
    finally:
        file.close()


def _form_of(codec: str) -> Form:
    return "json" if codec.startswith("struct ") else _FORMS.get(codec, "bytes")


def _read(codec: str, data: bytes, what: str) -> Any:
    if codec.startswith("struct "):
        return msgspec.msgpack.decode(data)
    return decoded(CODECS[codec], data, what) if codec in CODECS else data
