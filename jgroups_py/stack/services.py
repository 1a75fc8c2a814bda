"""The needs of protocols of a stack, and whether a stack can work at all.

A protocol names the services that it provides, and those that it needs below and above it, as class attributes
(``provides``, ``needs_below``, ``needs_above``, ``wants_below``, ``wants_above`` of Protocol). A stack with an unmet need
cannot work: ``build_whole`` refuses it. An unmet want is a warning. ``open_channel`` and ``jgroups-py validate`` ask here; ``config.build``, ``Stack``,
``FakeStack`` and the simulator take any protocols.

A protocol of a user's own that takes the place of one of ours says so: ``provides = (VIEWS,)``.

Source:  JGroups Protocol.requiredUpServices, requiredDownServices, providedDownServices.
Differs: JGroups names event types; here they are services, each with the effect of its absence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.config.model import ProtocolConfig, StackConfig
from jgroups_py.config.settings import Ignored, build, verified
from jgroups_py.errors import ConfigError
from jgroups_py.stack.sizes import oversized

TRANSPORT: Final = "transport"
DISCOVERY: Final = "discovery"
MERGING: Final = "merging"
DETECTION: Final = "failure detection"
VERIFICATION: Final = "verification of suspicions"
MULTICAST: Final = "reliable multicast"
UNICAST: Final = "reliable unicast"
STABILITY: Final = "stability"
VIEWS: Final = "views"
FRAGMENTATION: Final = "fragmentation"


@dataclass(frozen=True, slots=True)
class Service:
    """``by``: the protocols of ours that provide it. ``without``: the effect on a stack that lacks the service."""

    by: str
    without: str


SERVICES: Final = {
    TRANSPORT: Service("UDP, TCP", "nothing is sent and nothing comes"),
    DISCOVERY: Service(
        "PING, MPING, TCPPING", "members do not find each other, each founds a group of its own"
    ),
    MERGING: Service("MERGE3", "a group that was split stays split"),
    DETECTION: Service("FD_ALL3, FD_SOCK2", "a member that crashed stays in the view"),
    VERIFICATION: Service("VERIFY_SUSPECT2", "a suspicion is final at once"),
    MULTICAST: Service("NAKACK2", "messages and views get lost or come in another order"),
    UNICAST: Service("UNICAST3", "requests to join and their answers get lost"),
    STABILITY: Service(
        "STABLE", "nothing frees delivered messages, and sending stops when max_unstable is full"
    ),
    FRAGMENTATION: Service(
        "FRAG2", "a message that does not fit into a packet never arrives, nor what follows it"
    ),
    VIEWS: Service("GMS", "there are no views, so no member can join"),
}
"""The services that protocols of this package provide."""

SHOWN_MAX: Final = 5
"""The most problems of a stack that one error lists; it counts the rest."""
OWN_ID_MIN: Final = 1024
"""The least ``protocol_id`` of a user's protocol."""
CHANNEL_NEEDS: Final = (TRANSPORT, VIEWS)
"""The services that a channel needs, whatever the protocols of its stack need."""


@dataclass(frozen=True, slots=True)
class Findings:
    """``problems``: reasons why the stack cannot work. ``warnings``: abilities that the stack lacks."""

    problems: tuple[ConfigError, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Layer:
    written: ProtocolConfig
    cls: type[Any]

    @property
    def name(self) -> str:
        return self.cls.__name__


def examine(stack: StackConfig, built: Sequence[tuple[type[Any], Any]]) -> Findings:
    """Find missing and misplaced protocols. ``built`` is ``config.build(stack)``."""
    layers = [_Layer(p, cls) for p, (cls, _) in zip(stack.protocols, built, strict=True)]
    missing = {service: ["the channel"] for service in CHANNEL_NEEDS if not _who(layers, service)}
    problems = [
        *_transports(layers),
        *_shared_ids(layers),
        *(ConfigError(_missing(service, ()), file=stack.source) for service in missing),
        *_unmet(layers, "needs", missing),
        *_unusable(stack, built),
    ]
    wishes = _unmet(layers, "wants", missing)
    warnings = [f"{wish.where}: {wish.problem}" for wish in wishes]
    return Findings(tuple(problems), tuple(warnings))


def build_whole(
    stack: StackConfig, ignored: list[Ignored] | None = None
) -> list[tuple[type[Any], Any]]:
    """Do as ``config.build`` for a stack that a channel will use.

    Raises:
        ConfigError: as ``build``; or protocols are missing or in the wrong place (the text has the place of the first).
    """
    unset = _unset(stack)
    built = [] if unset else build(stack, ignored=ignored)
    problems = unset or list(examine(stack, built).problems)
    if not problems:
        return built
    first, *others = problems
    told = [first.problem, *map(str, others[: SHOWN_MAX - 1])]
    if len(problems) > SHOWN_MAX:
        told.append(f"and {len(problems) - SHOWN_MAX} more")
    raise ConfigError(
        "; ".join(told), file=first.file, line=first.line, column=first.column, where=first.where
    )


def _who(layers: Sequence[_Layer], service: str) -> list[_Layer]:
    """Return the layers that provide it."""
    return [layer for layer in layers if service in layer.cls.provides]


def _unmet(layers: Sequence[_Layer], kind: str, missing: dict[str, list[str]]) -> list[ConfigError]:
    """Find the services that the layers' ``kind`` (needs, wants) names and that are missing or on the wrong side.

    A service is reported once, for all protocols that ask for it. ``missing`` has those that were reported before, and
    gets the others."""
    found = []
    turned: dict[tuple[str, bool], list[_Layer]] = {}
    for index, layer in enumerate(layers):
        for above in (False, True):
            side = layers[index + 1 :] if above else layers[:index]
            for service in getattr(layer.cls, f"{kind}_{'above' if above else 'below'}"):
                if _who(side, service) or service in missing:
                    continue
                others = [other for other in _who(layers, service) if other is not layer]
                if others:
                    turned.setdefault((service, above), []).append(layer)
                else:
                    missing[service] = _askers(layers, kind, service)
                    found.append(_at(layer.written, _missing(service, missing[service])))
    for (service, above), askers in turned.items():
        other = next(other for other in _who(layers, service) if other is not askers[0])
        found.append(_at(askers[0].written, _misplaced(service, other, above, askers[1:])))
    return found


def _askers(layers: Sequence[_Layer], kind: str, service: str) -> list[str]:
    return [
        layer.name
        for layer in layers
        if service in getattr(layer.cls, f"{kind}_below")
        or service in getattr(layer.cls, f"{kind}_above")
    ]


def _misplaced(service: str, other: _Layer, above: bool, more: Sequence[_Layer]) -> str:
    wanted, there = ("above", "below") if above else ("below", "above")
    line = f" (line {other.written.line})" if other.written.line is not None else ""
    also = f" ({', '.join(layer.name for layer in more)} too)" if more else ""
    return f"needs {service} {wanted} it{also}, and {other.name}{line} stands {there} it"


def _missing(service: str, askers: Sequence[str]) -> str:
    known = SERVICES.get(service)
    names = f" ({known.by})" if known else ""
    needed = f", asked for by {', '.join(askers)}" if askers else ""
    effect = f": {known.without}" if known else ""
    return f"no {service} in the stack{names}{needed}{effect}"


def _transports(layers: Sequence[_Layer]) -> list[ConfigError]:
    """Check that a stack has one transport, at the bottom."""
    found = _who(layers, TRANSPORT)
    if len(found) > 1:
        names = " and ".join(layer.name for layer in found)
        return [_at(found[1].written, f"two transports in one stack: {names}")]
    if found and found[0] is not layers[0]:
        below = ", ".join(layer.name for layer in layers[: layers.index(found[0])])
        return [_at(found[0].written, f"a transport stands at the bottom; below it: {below}")]
    return []


def _shared_ids(layers: Sequence[_Layer]) -> Iterator[ConfigError]:
    """Yield protocols of users whose headers would be those of another protocol."""
    owners: dict[int, _Layer] = {}
    for layer in layers:
        number = layer.cls.protocol_id
        if number >= OWN_ID_MIN and owners.setdefault(number, layer) is not layer:
            yield _at(
                layer.written,
                f"{owners[number].name} has the protocol_id {number}, too: change one",
            )


def _unusable(stack: StackConfig, built: Sequence[tuple[type[Any], Any]]) -> Iterator[ConfigError]:
    """Yield unusable things that attributes name outside the stack file, and sizes that do not fit together."""
    for protocol, (_, config) in zip(stack.protocols, built, strict=True):
        if (error := verified(protocol, config)) is not None:
            yield error
    yield from oversized(stack, built)


def _unset(stack: StackConfig) -> list[ConfigError]:
    """Find variables with neither a value nor a default."""
    return [
        ConfigError(
            f'"{attribute.text}" has a variable that is not set and has no default '
            "(give it as property -D NAME=VALUE or environment variable, or write ${NAME:default})",
            file=attribute.file or protocol.file,
            line=attribute.line,
            column=attribute.column,
            where=f"{protocol.short_name}.{attribute.key}",
        )
        for protocol in stack.protocols
        for attribute in protocol.unset
    ]


def _at(protocol: ProtocolConfig, problem: str) -> ConfigError:
    return ConfigError(
        problem,
        file=protocol.file,
        line=protocol.line,
        column=protocol.column,
        where=protocol.written or protocol.name,
    )
