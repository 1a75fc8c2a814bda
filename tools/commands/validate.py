"""``jgroups-py validate``: checks a stack file and prints its meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from jgroups_py.config.detection_time import WorstCase, detection, takeover
from jgroups_py.config.settings import (
    Ignored,
    StackConfig,
    build,
    field_types,
    load_stack,
    value_text,
)
from jgroups_py.config.write import to_xml, to_yaml
from jgroups_py.protocols.relay.config import bridge_stack
from jgroups_py.stack.exposure import Built, exposed
from jgroups_py.stack.services import build_whole, examine
from jgroups_py.tools.commands.validate_ports import exposure, firewall, ports_text
from jgroups_py.tools.commands.validate_require import Require, Requirement
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.stack_options import SETTING, NameValue, pairs


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py validate udp.xml",
        "jgroups-py validate my-stack.xml --set FD_ALL3.timeout=4s --goal 10s",
        "jgroups-py validate my-stack.xml --require 'detection<=10s' --require 'take-over<=30s'",
        "jgroups-py validate my-stack.xml --latency 2ms",
        "jgroups-py validate tcp.xml --firewall",
        "jgroups-py validate tcp.xml --json",
        "jgroups-py validate udp.xml --as yaml",
    ),
)
@click.argument("stacks", nargs=-1, required=True, metavar="STACK...")
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    metavar=SETTING.name,
    help="Override an attribute of the stack file.",
)
@click.option(
    "-D",
    "properties",
    type=NameValue(),
    multiple=True,
    metavar="name=value",
    help="A value for ${name}.",
)
@click.option("--goal", type=Time(), help="Exit 1 if worst-case detection takes longer (10s).")
@click.option(
    "--require",
    "requirements",
    type=Require(),
    multiple=True,
    metavar="WHAT<=TIME",
    help="Exit 1 if a time may be longer: detection or take-over, also .crash or .silent of them.",
)
@click.option(
    "--latency",
    type=Time(),
    default=0.0,
    show_default="0s",
    help="One way between the slowest two hosts. Times then include the network's.",
)
@click.option(
    "--firewall", "rules", is_flag=True, help="Print the ports as rules of nftables instead."
)
@click.option("--compat", type=click.Choice(["jgroups-5"]), help="Read kib as JGroups 5 does.")
@click.option(
    "--as",
    "language",
    type=click.Choice(["xml", "yaml"]),
    help="Print the stack in this language instead.",
)
@json_option
def validate(
    stacks: tuple[str, ...],
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    goal: float | None,
    requirements: tuple[Requirement, ...],
    latency: float,
    rules: bool,
    compat: str | None,
    language: str | None,
    json_out: str | None,
) -> int:
    """Check stack files and print their meaning.

    It prints protocols, attributes, ignored ones, ports, traffic in clear, and the time in which a lost member is
    noticed.

    Exit 1: detection takes longer than --goal, a --require does not hold, or messages would leave this machine in clear
    although no insecure="true" allows it; 2: a file cannot be loaded, or no channel
    can work with it. With --as a part of a stack may be given.
    """
    judged = goal is not None or bool(requirements)
    if language is not None and (judged or rules or json_out is not None):
        raise click.UsageError("--as goes without --goal, --require, --firewall and --json")
    if rules and json_out is not None:
        raise click.UsageError("--firewall goes without --json, which has the ports, too")
    loaded = [
        load_stack(name, pairs(properties), pairs(settings), compat=compat) for name in stacks
    ]
    if language is not None:
        for config in loaded:
            build(config)
            click.echo(to_xml(config) if language == "xml" else to_yaml(config), nl=False)
        return 0
    reports = [report(config, pairs(properties), latency) for config in loaded]
    broken = []
    for item in reports:
        for requirement in requirements:
            if problem := requirement.broken_by(item):
                broken.append(problem)
    show(
        json_out,
        lambda: json.dumps(reports if len(reports) > 1 else reports[0], indent=1),
        lambda: firewall(reports) if rules else "\n\n".join(text(item) for item in reports),
    )
    broken += [
        f"no channel opens with it: {error}" for item in reports for error in item["refused"]
    ]
    for problem in broken:
        click.echo(problem, err=True)
    return int(bool(broken) or any(not _holds(item["detection_s"], goal) for item in reports))


def report(
    config: StackConfig, properties: Mapping[str, str] | None = None, latency: float = 0.0
) -> dict[str, Any]:
    """Return everything that the command prints about one stack, as JSON values. ``latency`` is in seconds.

    Raises:
        ConfigError: the stack cannot be built, or cannot work.
    """
    ignored: list[Ignored] = []
    built = build_whole(config, ignored)
    bridge = _bridge(config, built, properties)
    refused = [exposed(config, built), None if bridge is None else exposed(*bridge)]
    return {
        "stack": config.source,
        "protocols": [
            {
                "name": cls.__name__,
                "attributes": {
                    name: value_text(getattr(settings, name), kind)
                    for name, kind in field_types(type(settings)).items()
                    if name != "elements"
                },
                "given": [attribute.key for attribute in protocol.attributes],
            }
            for (cls, settings), protocol in zip(built, config.protocols, strict=True)
        ],
        "ignored": [str(item) for item in ignored],
        "warnings": list(examine(config, built).warnings),
        "latency_s": latency,
        "detection_s": _times(detection(built, latency)),
        "takeover_s": None if bridge is None else _times(takeover(built, bridge[1], latency)),
        **exposure(built),
        "bridge": None if bridge is None else {"stack": bridge[0].source, **exposure(bridge[1])},
        "refused": [str(error) for error in refused if error is not None],
    }


def _bridge(
    config: StackConfig, built: Built, properties: Mapping[str, str] | None
) -> tuple[StackConfig, Built] | None:
    """Return the stack of the bridge and its protocols, as RELAY opens it; None without RELAY."""
    beside = Path(config.source).parent
    stack = bridge_stack(built, properties or {}, compat=config.compat, beside=beside)
    return None if stack is None else (stack, build_whole(stack))


def _times(found: WorstCase | None) -> dict[str, float | None] | None:
    return None if found is None else {"crash": found.crash, "silent": found.silent}


def text(item: dict[str, Any]) -> str:
    """Return the report as text for people."""
    lines = [f"{item['stack']} (top of the stack last)"]
    for protocol in item["protocols"]:
        given = {key.replace(".", "_") for key in protocol["given"]}
        values = [
            f"{name}={value}" for name, value in protocol["attributes"].items() if name in given
        ]
        lines.append(f"  {protocol['name']:20} {' '.join(values)}".rstrip())
    for heading in ("ignored", "warnings"):
        lines += (
            [f"{heading}:", *(f"  {entry}" for entry in item[heading])] if item[heading] else []
        )
    lines += ports_text(item)
    if item["bridge"]:
        lines += [f"bridge {item['bridge']['stack']}", *ports_text(item["bridge"])]
    for what, times in (("detection", item["detection_s"]), ("take-over", item["takeover_s"])):
        if times is not None:
            shown = ", ".join(f"{case} {_shown(seconds)}" for case, seconds in times.items())
            lines.append(f"worst-case {what}: {shown}")
    return "\n".join(lines)


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.3g} s"


def _holds(times: dict[str, float | None], limit: float | None) -> bool:
    return limit is None or all(
        time is not None and round(time, 6) <= limit for time in times.values()
    )
