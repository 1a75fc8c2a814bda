"""``jgroups-py doctor``: tests whether a member can run here, and finds why it meets nobody."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

import click

from jgroups_py.channel.open import configure
from jgroups_py.stack.services import build_whole, examine
from jgroups_py.tools.commands.doctor_checks import DoctorFinding, examine_machine
from jgroups_py.tools.commands.doctor_join import try_to_join
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import show
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import override_options, pairs

WAIT: Final = 15.0
"""Seconds for which the doctor is a member. Members of udp.xml are heard within 8 s, by their heartbeats."""


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py doctor udp.xml",
        "jgroups-py doctor tcp.xml --bind-addr 127.0.0.1",
        "jgroups-py doctor my-stack.xml --cluster shop",
        "jgroups-py doctor tcp.xml --json",
    ),
)
@click.argument("stack", default="udp.xml", metavar="[STACK]")
@click.option("--cluster", help="Join this cluster for a moment, and explain why it meets nobody.")
@click.option("--name", default="doctor", show_default=True, help="The name to join with.")
@click.option(
    "--for",
    "wait",
    type=Time(),
    default=WAIT,
    show_default="15s",
    help="The time to wait for others in the cluster.",
)
@override_options
@json_option
def doctor(
    stack: str,
    cluster: str | None,
    name: str,
    wait: float,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
    json_out: str | None,
) -> int:
    """Test whether a member can run on this machine.

    It binds the ports, sends multicasts and receives them, asks for socket buffers, connects to the hosts that the stack
    names, and watches the clock. With --cluster it joins, and explains why it meets nobody: another version, another
    cluster name, another key. The default of STACK is udp.xml.

    Exit 0: nothing failed, though there may be warnings; 1: something failed; 2: the stack cannot be loaded, or no
    channel can work with it.
    """
    attributes, values = pairs(settings), pairs(properties)
    config, host = configure(stack, bind_addr, attributes, values)
    built = build_whole(config)
    warnings = examine(config, built).warnings
    found = [DoctorFinding("stack", "warning", warning, {}) for warning in warnings] or [
        DoctorFinding("stack", "ok", f"{config.source} has what a channel needs", {})
    ]

    async def command() -> None:
        found.extend(await examine_machine(built, host))
        if cluster is not None:
            found.append(
                await try_to_join(
                    stack,
                    built,
                    cluster,
                    name,
                    wait,
                    bind_addr=bind_addr,
                    attributes=attributes,
                    properties=values,
                    listening=[
                        str(f.facts["at"]) for f in found if f.check == "hosts" and f.state == "ok"
                    ],
                )
            )

    code = run_command(command)
    if code:
        return code
    failed = any(finding.state == "failed" for finding in found)
    show(
        json_out,
        lambda: json.dumps(
            {"stack": config.source, "ok": not failed, "checks": [asdict(f) for f in found]},
            indent=1,
        ),
        lambda: "\n".join(f"{f.state:8} {f.check:10} {f.text}" for f in found),
    )
    return int(failed)
