"""Errors of maps."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError


class MapError(JGroupsError):
    """A map cannot do what was asked. Nothing was changed."""


class MapFull(MapError):
    """No more fits: the file has ``max_bytes``, or the inbox of this process is full because nobody merges it."""


class InboxFull(MapFull):
    """A record of ``need`` bytes does not fit before something is merged. Who writes several has written the first ``done`` of them."""

    def __init__(self, need: int) -> None:
        self.need = need
        self.done = 0
        super().__init__("the inbox of this process is full")


class MapClosed(MapError):
    """The map was closed."""


class MapFileError(MapError):
    """The file is damaged, of another version, or was made with other settings."""


class MapBusy(MapError):
    """Somebody changes this key and did not end in time."""


class MapTypeError(MapError, TypeError):
    """A key or value is of a type that the map's codec does not take. Nothing was changed."""
