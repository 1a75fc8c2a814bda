"""Errors of maps."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError


class MapError(JGroupsError):
    """A map cannot do what was asked. Nothing was changed."""


class MapFull(MapError):
    """No more fits: the file has ``max_bytes``, or the inbox of this process is full because nobody merges it."""


class MapClosed(MapError):
    """The map was closed."""


class MapFileError(MapError):
    """The file is damaged, of another version, or was made with other settings."""


class MapBusy(MapError):
    """Somebody changes this key and did not end in time."""


class MapTypeError(MapError, TypeError):
    """A key or value is of a type that the map's codec does not take. Nothing was changed."""
