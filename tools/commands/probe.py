"""``jgroups-py probe``: asks running members, of Python or of Java, for their settings and counters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import click
import trio

from jgroups_py.stack.exposure import is_multicast
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import write
from jgroups_py.tools.probing import (
    ANSWERS_MAX,
    PASSCODE_VARIABLE,
    Heard,
    ProbeQuestion,
    ProbeTarget,
    passcode_of,
    targets_of,
)
from jgroups_py.values.address import is_numeric_host
from jgroups_py.values.shown import shown
from jgroups_py.wire.probe import GROUP, GROUP_IPV6, PORT, decode_map

LINE_MAX: Final = 10_000
"""Characters of a line of an answer that are shown."""


def asking_options(command: Any) -> Any:
    """Add the options that name the asked members. ``asking_of`` reads them."""
    for option in reversed(
        (
            click.option(
                "--host",
                "hosts",
                type=ProbeTarget(),
                multiple=True,
                metavar="HOST[:PORT[-LAST]]",
                help="Ask over TCP, each of these ports. May be repeated.  [UDP multicast]",
            ),
            click.option(
                "--interface",
                default="127.0.0.1",
                show_default=True,
                metavar="ADDR",
                help="The own address through which the multicast is sent.",
            ),
            click.option(
                "--group", metavar="ADDR", help=f"The multicast address.  [{GROUP} or {GROUP_IPV6}]"
            ),
            click.option(
                "--port",
                type=click.IntRange(1, 65535),
                default=PORT,
                show_default=True,
                help="The port of the multicast.",
            ),
            click.option(
                "--timeout",
                type=Time(),
                default=0.5,
                show_default="500ms",
                help="The time to wait for answers.",
            ),
            click.option(
                "--count",
                type=click.IntRange(1, ANSWERS_MAX),
                default=ANSWERS_MAX,
                show_default=True,
                metavar="N",
                help="Do not wait for more than N answers to a multicast.",
            ),
            click.option(
                "--passcode-file",
                metavar="FILE",
                help=f"The passcode of the members is in FILE.  [environment {PASSCODE_VARIABLE}]",
            ),
        )
    ):
        command = option(command)
    return command


def asking_of(
    hosts: Sequence[str],
    interface: str,
    group: str | None,
    port: int,
    timeout: float,
    count: int,
    passcode_file: str | None,
) -> ProbeQuestion:
    """Return the question for the members that the options name.

    Raises:
        UsageError: the options make no sense.
    """
    if not is_numeric_host(interface):
        raise click.UsageError(f'--interface must be a numeric address, got "{interface}"')
    group = group or (GROUP_IPV6 if ":" in interface else GROUP)
    if not is_multicast(group) or (":" in group) != (":" in interface):
        raise click.UsageError(
            f'--group must be a multicast address of the kind of {interface}, got "{group}"'
        )
    try:
        targets = targets_of(hosts)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return ProbeQuestion(
        targets, (group, port), interface, timeout, passcode_of(passcode_file), count
    )


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py probe keys",
        "jgroups-py probe --of demo uuids jmx=NAKACK2.xmit",
        "jgroups-py probe --host 127.0.0.1:7500-7509 metrics",
        "JGROUPS_PROBE_PASSCODE=... jgroups-py probe FD_ALL3.timeout=10s",
    ),
)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@asking_options
@click.option(
    "--of",
    "cluster",
    metavar="NAME",
    help="Only members of this cluster answer; * stands for anything.",
)
@click.option("--match", metavar="TEXT", help="Show answers that contain TEXT.")
@json_option
def probe(
    words: tuple[str, ...],
    cluster: str | None,
    match: str | None,
    json_out: str | None,
    **options: Any,
) -> int:
    """Ask running members for their settings and counters.

    WORD is a word of JGroups' probe.sh: keys (lists them), jmx, jmx=PROTOCOL.attribute, member-addrs, props and others.
    Without a word, members answer with their view. Members answer if their transport has diag.enabled="true".

    Exit 0: a member answered; 1: none did.
    """
    if cluster is not None and (not cluster or any(c.isspace() for c in cluster)):
        raise click.UsageError(f'--of must be a name without blanks, got "{cluster}"')
    asking = asking_of(**options)
    text = " ".join([*([f"cluster={cluster}"] if cluster else []), *words])
    heard = trio.run(asking.ask, text)
    matched = [one for one in heard if match is None or match in _text(one)]
    if json_out is not None:
        write(json_out, json.dumps([_as_json(one) for one in matched], indent=1) + "\n")
    if json_out != "-":
        for number, one in enumerate(matched, 1):
            click.echo(f"#{number} ({one.size} bytes) from {one.host}:{one.port}:")
            click.echo("\n".join(shown(line, LINE_MAX) for line in _text(one).splitlines()) + "\n")
        total, fit = len(heard), len(matched)
        click.echo(f"{total} responses ({fit} matches, {total - fit} non matches)")
    return 0 if matched else 1


def _text(heard: Heard) -> str:
    answer = heard.answer
    return "\n".join([answer.head, *(f"{key}={value}" for key, value in answer.values.items())])


def _as_json(heard: Heard) -> dict[str, Any]:
    values = {key: decode_map(text) or text for key, text in heard.answer.values.items()}
    return {
        "host": heard.host,
        "port": heard.port,
        "head": heard.answer.head,
        "values": values,
    }
