"""Errors of maps."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError


class MapError(JGroupsError):
    """A map refused a call. Nothing was changed."""


class MapFull(MapError):
    """The map is full: the file has ``max_bytes``, or the full inbox of this process is not merged."""


class InboxFull(MapFull):
    """A record of ``need`` bytes does not fit before something is merged. The first ``done`` of several records were
    written."""

    def __init__(self, need: int) -> None:
        self.need = need
        self.done = 0
        super().__init__("the inbox of this process is full")


class MapClosed(MapError):
    """The map was closed."""


class MapFileError(MapError):
    """The file is damaged, of another version, or was made with other settings."""


class MapBusy(MapError):
    """Another call held the lock of this key for too long."""


class MapTypeError(MapError, TypeError):
    """A key or value is of a type that the map's codec does not take, or an option is of a wrong type. Nothing was changed."""
