"""ProbeAnswers: a member's answers to the words of a probe, in the form of JGroups.

    keys                    the words that are understood
    member-addrs, uuids     where members are
    print-protocols, pp     the names of the protocols, bottom first
    props                   settings of all protocols
    jmx, jmx=P, jmx=P.a,b   settings and counters: of all protocols, of one, those whose names begin with a or b
    P, P.a                  the same for one protocol
    jmx=P.a=1, P.a=1        change a setting; only with a passcode
    metrics                 all counters, one a line

Source:  JGroups JChannelProbeHandler.java, ProtocolStack.java, TP.handleProbe, TPConfig.defaultHeaders.
Differs: there are no operations and no threads. ``jmx=P.a=1`` answers with the new value, or with the reason
         for a refusal; Java answers nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.errors import ConfigError
from jgroups_py.stack.inspection import (
    attributes_of,
    counters_of,
    protocol_of,
    selected,
    settings_of,
    write_attribute,
)
from jgroups_py.stack.sides import StackSide
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.shown import shown
from jgroups_py.values.view import View
from jgroups_py.wire.primitives import format_version

KEYS: Final = "keys member-addrs uuids print-protocols props jmx metrics"
MEMBERS_MAX: Final = 1000
"""The most members whose names and addresses an answer has."""


class ProbeAnswers:
    """Answers for one stack.

    Args:
        view: the newest view, if there is one.
        physical_of: where a member can be reached.
        version: the version of the wire.
    """

    def __init__(
        self,
        stack: StackSide,
        view: Callable[[], View | None],
        physical_of: Callable[[Address], IpAddress | None],
        version: Callable[[], int],
    ) -> None:
        self._stack = stack
        self._view = view
        self._physical_of = physical_of
        self._version = version

    def head(self, *, detailed: bool) -> str:
        """Return the line that names this member. ``detailed``: with the view."""
        stack, view = self._stack, self._view()
        name, cluster = shown(stack.name), shown(stack.cluster)
        place = self._physical_of(stack.address)
        version = f"jgroups_py (wire {format_version(self._version())})"
        if not detailed:
            size = len(view) if view is not None else 0
            return f"{name} [ip={place}, {size} mbr(s), cluster={cluster}, version={version}]\n"
        return f"{name} (ip={place})\nview={self._view_text(view)}\ncluster={cluster}\nversion={version}\n"

    def values(self, words: tuple[str, ...], *, may_write: bool) -> dict[str, str]:
        """Return key and value for each word that is understood. Raises PermissionError for a change without
        ``may_write``; then nothing was changed."""
        if not may_write and any(_is_write(word) for word in words):
            raise PermissionError("a change needs a passcode")
        found: dict[str, str] = {}
        for word in words:
            for key, value in self._answer(word).items():
                found.setdefault(key, value)
        return found

    def _answer(self, word: str) -> dict[str, str]:
        match word:
            case "keys":
                return {word: KEYS}
            case "member-addrs":
                return {word: ", ".join(str(place) for _, place in self._places())}
            case "uuids":
                lines = [f"{self._name(m)}: {m}: {place}\n" for m, place in self._places()]
                return {"local_addr": shown(self._stack.name), word: "".join(lines)}
            case "pp" | "print-protocols":
                return {"protocols": "".join(f"{p.name}\n" for p in self._stack.protocols)}
            case "props":
                return {word: self._props()}
            case "metrics":
                return {word: self._metrics()}
            case "jmx":
                return {p.name: _as_map(attributes_of(p)) for p in self._stack.protocols}
        return self._of_protocol(word.removeprefix("jmx="))

    def _of_protocol(self, text: str) -> dict[str, str]:
        named, _, _ = text.partition("=")
        protocol = protocol_of(self._stack, named)
        wanted: list[str] = []
        if protocol is None:
            name, _, rest = text.partition(".")
            protocol = protocol_of(self._stack, name)
            if protocol is None:
                return {}
            wanted = [part.strip() for part in rest.split(",") if part.strip()]
        found: dict[str, str] = {}
        asked = [part for part in wanted if "=" not in part]
        for part in wanted:
            name, equals, value = part.partition("=")
            if equals:
                try:
                    write_attribute(protocol, name, value)
                    found[name] = settings_of(protocol)[name.replace(".", "_")]
                except ConfigError as error:
                    found[name] = f"refused: {error.problem}"
        if asked or not wanted:
            found.update(selected(attributes_of(protocol), [a.replace(".", "_") for a in asked]))
        return {protocol.name: _as_map(found)}

    def _places(self) -> list[tuple[Address, IpAddress]]:
        """Return the members of the view with their addresses, including this member."""
        view = self._view()
        members: tuple[Address, ...] = view.members if view is not None else (self._stack.address,)
        found = ((member, self._physical_of(member)) for member in members[:MEMBERS_MAX])
        return [(member, place) for member, place in found if place is not None]

    def _props(self) -> str:
        lines = []
        for protocol in self._stack.protocols:
            settings = ";".join(f"{k}={_line(v)}" for k, v in settings_of(protocol).items())
            lines.append(f"{protocol.name}({settings})\n")
        return ":".join(lines)

    def _metrics(self) -> str:
        return "".join(
            f"{p.name}:\n" + "".join(f"   {name}: {n:g}\n" for name, n in counters_of(p).items())
            for p in self._stack.protocols
        )

    def _name(self, member: Address) -> str:
        return shown(self._stack.name_of(member))

    def _view_text(self, view: View | None) -> str:
        if view is None:
            return "none"
        names = ", ".join(self._name(member) for member in view.members[:MEMBERS_MAX])
        more = ", ..." if len(view) > MEMBERS_MAX else ""
        return f"[{self._name(view.view_id.creator)}|{view.id}] ({len(view)}) [{names}{more}]"


def _is_write(word: str) -> bool:
    """Is the word like ``P.a=1``, with ``=`` behind its first dot?"""
    return "." in word and "=" in word.removeprefix("jmx=").partition(".")[2]


def _as_map(attributes: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={_line(value)}" for name, value in attributes.items()) + "}"


def _line(text: str) -> str:
    return " ".join(text.split())
