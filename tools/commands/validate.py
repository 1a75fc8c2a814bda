"""``jgroups-py validate``: checks a stack file and prints what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from jgroups_py.config.detection_time import Built, WorstCase, detection, takeover
from jgroups_py.config.settings import (
    Ignored,
    StackConfig,
    build,
    field_types,
    load_stack,
    value_text,
)
from jgroups_py.config.write import to_xml, to_yaml
from jgroups_py.stack.services import build_whole, examine
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.stack_options import pairs


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py validate udp.xml",
        "jgroups-py validate my-stack.xml --set FD_ALL3.timeout=4s --goal 10s",
        "jgroups-py validate tcp.xml --json",
        "jgroups-py validate udp.xml --as yaml",
    ),
)
@click.argument("stacks", nargs=-1, required=True, metavar="STACK...")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PROTOCOL.attribute=value",
    help="Override an attribute of the stack file.",
)
@click.option("-D", "properties", multiple=True, metavar="name=value", help="A value for ${name}.")
@click.option("--goal", type=Time(), help="Exit 1 if worst-case detection takes longer (10s).")
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
    compat: str | None,
    language: str | None,
    json_out: str | None,
) -> int:
    """Check stack files and print what they mean.

    It prints protocols, attributes, what is ignored, and how soon a lost member is noticed.

    Exit 1: detection takes longer than --goal; 2: a file cannot be loaded, or no channel can work with it. With --as a
    part of a stack is enough.
    """
    if language is not None and (goal is not None or json_out is not None):
        raise click.UsageError("--as goes without --goal and --json")
    loaded = [
        load_stack(name, pairs(properties), pairs(settings), compat=compat) for name in stacks
    ]
    if language is not None:
        for config in loaded:
            build(config)
            click.echo(to_xml(config) if language == "xml" else to_yaml(config), nl=False)
        return 0
    reports = [report(config) for config in loaded]
    show(
        json_out,
        lambda: json.dumps(reports if len(reports) > 1 else reports[0], indent=1),
        lambda: "\n\n".join(text(item) for item in reports),
    )
    return int(any(not _holds(item["detection_s"], goal) for item in reports))


def report(config: StackConfig) -> dict[str, Any]:
    """Return everything that the command prints about one stack, as JSON values.

    Raises:
        ConfigError: the stack cannot be built, or cannot work.
    """
    ignored: list[Ignored] = []
    built = build_whole(config, ignored)
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
        "detection_s": _times(detection(built)),
        "takeover_s": _times(_takeover(config, built)),
    }


def _takeover(config: StackConfig, built: Built) -> WorstCase | None:
    """Return the take-over time, or None without RELAY or when its bridge's stack file cannot be read from here."""
    relay = next((settings for cls, settings in built if cls.__name__ == "RELAY"), None)
    bridge = getattr(relay, "bridge", None)
    if not bridge:
        return None
    beside = Path(config.source).parent
    stack = load_stack(bridge, compat=config.compat, beside=beside)
    return takeover(built, build_whole(stack))


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
    for what, times in (("detection", item["detection_s"]), ("take-over", item["takeover_s"])):
        if times is not None:
            shown = ", ".join(f"{case} {_shown(seconds)}" for case, seconds in times.items())
            lines.append(f"worst-case {what}: {shown}")
    return "\n".join(lines)


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.3g} s"


def _holds(times: dict[str, float | None], limit: float | None) -> bool:
    return limit is None or all(time is not None and time <= limit for time in times.values())
