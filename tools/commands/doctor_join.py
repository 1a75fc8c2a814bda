"""``jgroups-py doctor --cluster NAME``: joins as a member does, and explains why it meets nobody.

``Witness`` takes the events of the stack's trace. ``reasons`` makes sentences of them, and opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from jgroups_py import Channel, View, open_channel
from jgroups_py.driver import Transport
from jgroups_py.errors import JoinError
from jgroups_py.stack.exposure import Built
from jgroups_py.tools.commands.doctor_checks import DoctorFinding
from jgroups_py.units import seconds_text
from jgroups_py.values.address import Address
from jgroups_py.values.events import Around, Surroundings
from jgroups_py.values.shown import shown
from jgroups_py.values.turned_away import TurnedAway
from jgroups_py.wire.primitives import DEFAULT_VERSION, format_version

SHOWN_MAX: Final = 5
"""The most names of other clusters in one sentence."""


@dataclass
class Witness:
    """A member's observations of others during its join.

    ``asked``: coordinator -> requests to join that were sent to it. ``refused``: (protocol, cause) -> count.
    ``versions`` and ``clusters``: those of others, up to a limit.
    """

    asked: dict[Address, int] = field(default_factory=dict)
    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    versions: dict[str, None] = field(default_factory=dict)
    clusters: dict[str, None] = field(default_factory=dict)

    def traced(
        self, time: float, member: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        """Take one event of the trace."""
        match what:
            case "join":
                coordinator = details["coordinator"]
                self.asked[coordinator] = self.asked.get(coordinator, 0) + 1
            case "other version":
                _note(self.versions, details["version"])
            case "other cluster":
                _note(self.clusters, f'"{shown(details["theirs"])}"')

    def turned_away(self, event: TurnedAway) -> None:
        """Take refusals."""
        self.refused[event.by, event.cause] = event.total


def reasons(
    witness: Witness,
    built: Built,
    cluster: str,
    name_of: Callable[[Address], str] = str,
    listening: Sequence[str] = (),
) -> list[str]:
    """Return sentences about the reasons why the member met nobody, the surest one first. ``listening``: those of the
    stack's hosts and ports that accept TCP connections."""
    sentences = {cls.__name__: cls.turns_away for cls, _ in built}
    doors = " and ".join(cls.__name__ for cls, config in built if cls.protects(config))
    found = [
        f"{shown(name_of(coordinator))} was asked {_times(count)} to let this member in, and did not answer"
        for coordinator, count in witness.asked.items()
    ]
    for (by, cause), count in witness.refused.items():
        why = sentences.get(by, {}).get(cause, cause)
        found.append(f"{by} refused messages of others {_times(count)}, because it {why}")
    if found and doors:
        found.append(f"do the key and the settings of {doors} agree at all members?")
    elif found:
        found.append("this stack encrypts nothing: do the others demand a key?")
    if witness.clusters:
        heard = ", ".join(witness.clusters)
        found.append(f'members of cluster {heard} are heard here: is "{cluster}" the right name?')
    if witness.versions:
        heard = ", ".join(witness.versions)
        spoken = format_version(DEFAULT_VERSION)
        found.append(f"packets of version {heard} come here, and this member speaks {spoken}")
    if not found and listening:
        found.append(
            f'somebody listens at {", ".join(listening)}, and no member of "{cluster}" answered there: do '
            "the cluster's name, the release and the key agree?"
        )
    return found


async def try_to_join(
    stack: str,
    built: Built,
    cluster: str,
    name: str,
    limit: float,
    *,
    bind_addr: str | None = None,
    attributes: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    listening: Sequence[str] = (),
) -> DoctorFinding:
    """Be a member for ``limit`` seconds at most, and leave. The channel is closed afterwards. ``listening``: as for
    ``reasons``.

    Raises:
        ConfigError: as open_channel.
    """
    witness = Witness()
    facts: dict[str, Any] = {"cluster": cluster, "members": [], "seconds": None, "reasons": []}
    begun = trio.current_time()
    hints: list[str] = []
    name_of: Callable[[Address], str] = str
    try:
        async with open_channel(
            stack,
            cluster=cluster,
            name=name,
            bind_addr=bind_addr,
            attributes=attributes,
            properties=properties,
            transport=transport,
            join_timeout=limit,
            trace=witness.traced,
            turned_away=witness.turned_away,
        ) as channel:
            with trio.move_on_at(begun + limit):
                async for item in channel:
                    if isinstance(item, View) and len(item) > 1:
                        break
            names = [shown(channel.name_of(member)) for member in channel.view]
            if len(names) > 1:
                took = trio.current_time() - begun
                facts |= {"members": names, "seconds": took}
                others = [each for each in names if each != channel.name]
                text = f'joined "{cluster}" within {took:.1f} s: met {_named(others)}'
                return DoctorFinding("join", "ok", text, facts)
            hints = _hints(channel)
            name_of = {each: channel.name_of(each) for each in witness.asked}.__getitem__
    except JoinError as error:
        hints = [str(error)]
    why = reasons(witness, built, cluster, name_of, listening)
    facts["reasons"] = [*why, *hints]
    text = "; ".join([*(why or ["nobody was heard"]), *hints])
    after = f'nobody else is in "{cluster}" after {seconds_text(round(limit, 1))}'
    return DoctorFinding("join", "failed" if why else "warning", f"{after}: {text}", facts)


def _hints(channel: Channel) -> list[str]:
    """Return hints about others on this machine, as a member that stays alone logs them."""
    groups: dict[tuple[str, int], None] = {}
    for protocol in channel.stack.protocols:
        around = protocol.answer(Surroundings())
        if isinstance(around, Around):
            groups.update(dict.fromkeys(around.groups))
    return channel.driver.neighbours(tuple(groups))


def _note(seen: dict[str, None], text: str) -> None:
    if len(seen) < SHOWN_MAX:
        seen[text] = None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more
