"""Values of the rule per-field as stored: JSON with ``[time, host, value]`` for each field, or ``[time, host]`` for a
removed one.

The time is that of this host's clock when the field was changed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jgroups_py.maps.codecs import JSON, Codec, decoded, has_no_number
from jgroups_py.maps.errors import MapError, MapTypeError
from jgroups_py.maps.stamp import MapStamp

_STORED: Final = Codec[Any](
    "per-field",
    msgspec.json.Encoder(order="deterministic").encode,
    msgspec.json.Decoder(dict[str, list[Any]]).decode,
)


def latest_field(data: bytes) -> int:
    """Return the latest time of any stored field; 0 if there is none, or these bytes are no fields."""
    try:
        fields = _STORED.decode(data)
    except msgspec.MsgspecError:
        return 0
    return max((one[0] for one in fields.values() if one and type(one[0]) is int), default=0)


class Fields:
    """``codec``: that of users' values. MapError: these values have no fields."""

    def __init__(self, codec: Codec[Any]) -> None:
        if codec.kind is None and codec != JSON:
            raise MapError(
                f'the rule per-field is for values of "json" or of a msgspec Struct, got {codec.name}'
            )
        if codec.kind is not None and codec.kind.__struct_config__.array_like:
            raise MapError(
                f"the rule per-field needs names of fields, and {codec.kind.__name__} is array_like"
            )
        self._codec = codec
        self.codec = Codec[Any](codec.name, codec.encode, self.value)
        """Encodes users' values, and decodes stored ones."""

    def value(self, data: bytes) -> Any:
        """Return the user's value of a stored one."""
        fields = {name: one[2] for name, one in _STORED.decode(data).items() if len(one) == 3}
        kind = self._codec.kind
        return fields if kind is None else msgspec.convert(fields, kind, str_keys=True)

    def changed(self, before: bytes | None, data: bytes, stamp: MapStamp) -> bytes:
        """Return the stored form of a user's encoded value ``data`` that replaces the stored ``before``.

        Equal fields keep their writer; changed and removed ones get ``stamp``. MapTypeError: a value without fields, or
        one that JSON cannot hold.
        """
        given = self._codec.decode(data)
        fields = msgspec.to_builtins(given, str_keys=True)
        if not isinstance(fields, dict):
            raise MapTypeError(
                f"a map with the rule per-field takes objects with fields, got {type(given).__name__}"
            )
        wrong = [name for name, value in fields.items() if has_no_number(value)]
        if wrong:
            raise MapTypeError(
                f"a value of type {type(given).__name__} cannot be stored by fields, in JSON: {', '.join(wrong)} has NaN or Infinity"
            )
        result = {} if before is None else decoded(_STORED, before, "value")
        kind = self._codec.kind
        for name in result.keys() - fields.keys():
            # A field that is unknown to the Struct was added by a newer program.
            known = kind is None or name in kind.__struct_encode_fields__
            if known and len(result[name]) == 3:
                result[name] = [stamp.time, stamp.node]
        for name, value in fields.items():
            have = result.get(name)
            # As bytes: 1, 1.0 and True are equal in Python, and not in JSON.
            if have is None or _STORED.encode(have[2:]) != _STORED.encode([value]):
                result[name] = [stamp.time, stamp.node, value]
        stored = _STORED.encode(result)
        try:
            self.value(stored)
        except msgspec.ValidationError as error:
            raise MapTypeError(
                f"a value of type {type(given).__name__} cannot be stored by fields, in JSON: {error}"
            ) from None
        return stored
