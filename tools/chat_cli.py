"""``jgroups-py chat``: lines typed here appear at every member of the group."""

from __future__ import annotations

import sys

import click
import trio

from jgroups_py import Channel, Message, View, open_channel
from jgroups_py.tools.running import run_command
from jgroups_py.tools.stack_options import pairs, stack_options

HELP = "/view shows who is here, /quit leaves"


@click.command()
@click.option("--stack", default="udp.xml", show_default=True, help="Stack file.")
@click.option("--cluster", default="chat", show_default=True)
@click.option("--name", help="Default: made from the host's name.")
@stack_options
def chat(
    stack: str,
    cluster: str,
    name: str | None,
    settings: tuple[str, ...],
    properties: tuple[str, ...],
    bind_addr: str | None,
) -> int:
    """Chat with the members of a cluster, a line a message.

    /view shows who is here, /quit or the end of the input leaves. Works in pipes too: then own
    lines are printed as well, as everybody sees them.
    """

    async def command() -> None:
        async with open_channel(
            stack,
            cluster=cluster,
            name=name,
            bind_addr=bind_addr,
            attributes=pairs(settings),
            properties=pairs(properties),
        ) as channel:
            await _chat(channel)

    return run_command(command)


async def _chat(channel: Channel) -> None:
    interactive = sys.stdin.isatty()
    if interactive:
        print(f"you are {channel.name} in {channel.cluster}; {HELP}", flush=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show, channel, not interactive)
        await _speak(channel)
        if not interactive:
            await _hear_ourselves(channel)
        nursery.cancel_scope.cancel()


async def _show(channel: Channel, own_too: bool) -> None:
    async for item in channel:
        match item:
            case View():
                print(_view_text(channel, item), flush=True)
            case Message(sender, payload) if own_too or sender != channel.address:
                text = payload.decode("utf-8", "replace")
                print(f"{channel.name_of(sender)}: {_printable(text)}", flush=True)


async def _speak(channel: Channel) -> None:
    while True:
        # A thread, because standard input may be a terminal, a pipe or a file.
        line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        text = line.rstrip("\r\n")
        if not line or text == "/quit":
            return
        if text == "/view":
            print(_view_text(channel, channel.view), flush=True)
        elif text.startswith("/"):
            print(f"unknown command {text.split()[0]}; {HELP}", file=sys.stderr, flush=True)
        elif text:
            await channel.send(text.encode())


async def _hear_ourselves(channel: Channel) -> None:
    """Gives what was typed last the time to come back, so that it is printed."""
    with trio.move_on_after(1.0):
        while (now := channel.statistics()).buffered_bytes or now.waiting:  # noqa: ASYNC110
            await trio.sleep(0.01)
        await trio.sleep(0.1)


def _view_text(channel: Channel, view: View) -> str:
    names = ", ".join(channel.name_of(member) for member in view.members)
    return f"** view {view.id}: {names}"


def _printable(text: str) -> str:
    """Nothing a peer sends may move our cursor."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)
