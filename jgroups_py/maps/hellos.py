"""The first message on a link: makes it, and decides whether its sender may be linked. Words hosts
and refusals for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from jgroups_py.maps.admission import MapAdmission
from jgroups_py.maps.entry import node_of
from jgroups_py.maps.messages import VERSION, Hello
from jgroups_py.maps.replica_settings import ReplicaSettings

OTHER_CODECS: Final = "other codecs"
REFUSALS: Final = {"given twice": "same identifier", OTHER_CODECS: OTHER_CODECS}
"""Words in the reason for a refusal -> the kind of its news, logged as an error. Other reasons are warnings."""


def hello_of(settings: ReplicaSettings) -> Hello:
    """Return the first message of this host."""
    return Hello(
        VERSION,
        settings.map,
        settings.node,
        settings.origin,
        settings.file,
        settings.rule,
        settings.key,
        settings.value,
        settings.name,
    )


def objection_to(
    hello: Hello,
    mine: ReplicaSettings,
    admission: MapAdmission,
    linked: Iterable[Hello],
    counters: Counter[str],
) -> str:
    """Return why a host is not linked; empty: it is. ``linked``: the hosts that are."""
    problem = ""
    if hello.version != VERSION:
        problem = f"version {hello.version} of the protocol, here it is {VERSION}"
    elif hello.map != mine.map:
        problem = f'the map is "{hello.map[:100]}" there and "{mine.map}" here'
    elif hello.rule != mine.rule:
        problem = f'the conflict rule is "{hello.rule[:100]}" there and "{mine.rule}" here'
    elif (hello.key, hello.value) != (mine.key, mine.value):
        problem = (
            f"{OTHER_CODECS}: keys and values are {hello.key[:100]} and {hello.value[:100]} there, {mine.key} and {mine.value} here. Give the same "
            "key= and value= at all hosts; a file keeps those with which it was made, so remove the folder of the host that is wrong"
        )
    elif not admission.is_identifier(hello.node):
        problem = (
            f"identifier {hello.node} is not from 1 to {mine.identifier_max}, which are configured here: "
            "give wide_identifiers at all hosts or at none"
        )
    elif hello.node == mine.node or node_of(hello.origin) != hello.node:
        problem = (
            f"identifier {hello.node} is given twice: {shown_host(hello)} and this host have it"
        )
    elif any(other.node == hello.node and other.file != hello.file for other in linked):
        problem = f"identifier {hello.node} is given twice: two connected hosts have it"
    elif refusal := admission.refusal(hello.origin):
        counters[refusal] += 1
        problem = (
            f"changes of {mine.origins_max} files of hosts are known here already (origins_max), and the one of "
            f"{shown_host(hello)} is new: keep the folders of maps, or give a larger origins_max at all hosts"
        )
    return problem


def takes_turns(hello: Hello) -> str:
    """Return the reason for which a host gets no link, if it displaces another host again and again."""
    return (
        f"identifier {hello.node} seems to be given twice: {shown_host(hello)} connects again and again while it is connected, as two hosts do that "
        "have copies of one folder. The one that is connected stays. Remove one of the folders while nothing has it open; what was written there "
        "may be lost"
    )


def kind_of_refusal(reason: str) -> str:
    """Return the kind of the news that a link ends for this reason."""
    return next((kind for text, kind in REFUSALS.items() if text in reason), "refused")


def shown_host(hello: Hello) -> str:
    name = "".join(char if char.isprintable() else "?" for char in hello.name[:60])
    return f"host {hello.node}" + (f" ({name})" if name else "")
